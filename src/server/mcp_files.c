/* SPDX-License-Identifier: Apache-2.0
 *
 * write_file and list_files; read_file is in mcp_read_file.c. What is in a file is the caller's own, and is not scrubbed; its name is. */
#include "server/mcp_target.h"

#include "base/base64.h"
#include "base/utf8.h"
#include "server/file_names.h"
#include "server/mcp_walk.h"
#include "server/scrubbing.h"

#include <errno.h>
#include <string.h>

#define FILE_MODE 0644
#define LIST_DEFAULT 200
#define LIST_MAX 1000
#define TEXT_MAX (16 * MIB) /* of what we make ourselves; what a model reads of it is cut before */

/* ---- write_file ---- */

struct content {
        const char *bytes;
        size_t size;
        void *memory; /* NULL: they are the argument's own */
};

static void content_done(struct content *c)
{
        free(TAKE_PTR(c->memory));
}

static int content_parse(const json_t *arguments, struct content *ret, gb_error *err)
{
        const json_t *text = json_object_get(arguments, "content"), *coded = json_object_get(arguments, "content_base64");

        if (!json_is_string(text) == !json_is_string(coded))
                return error_set(err, GB_E_USAGE, EINVAL, "give exactly one of content (text) and content_base64 (any bytes)");
        if (text) {
                ret->bytes = json_string_value(text);
                ret->size = json_string_length(text);
                return 0;
        }
        int r = base64_decode(json_string_value(coded), json_string_length(coded), &ret->memory, &ret->size);
        if (r == -ENOMEM)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r < 0)
                return error_set(err, GB_E_USAGE, EINVAL, "content_base64 is not base64 (the standard alphabet, with padding, without line ends)");
        ret->bytes = ret->memory;
        return 0;
}

static int put(struct live_session *s, const struct files *files, const char *path, const struct content *content, gb_error *err)
{
        struct file_source source = {.bytes = content->bytes, .fd = -1, .size = content->size};

        int r = session_room(s->session, content->size, 1, files_depth(path), err);
        return r < 0 ? r : files_put(files, path, &source, FILE_MODE, true, err);
}

/* Takes structured. */
static int finish(json_t *structured, struct buffer *text, json_t **ret, struct rpc_error *err)
{
        *ret = content_of_object(structured, text);
        return *ret ? 0 : mcp_out_of_memory(err);
}

static int written(const struct live_session *s, const char *path, size_t size, const char *note, json_t **ret, struct rpc_error *err)
{
        _cleanup_json_ json_t *o = json_object();
        _cleanup_buffer_ struct buffer text;
        const char *type = media_type_of(path);

        buffer_init(&text, TEXT_MAX);
        int r = mcp_target_set_names(o, s, path);
        r |= json_object_set_new(o, "size", json_integer((json_int_t)size));
        r |= json_object_set_new(o, "type", json_string(type));
        if (r == 0 && note)
                r = buffer_printf(&text, "%s\n", note);
        if (r == 0)
                r = buffer_printf(&text, "Wrote %zu bytes (%s) to ", size, type);
        if (r == 0)
                r = mcp_add_quoted(&text, json_string_value(json_object_get(o, "path")));
        if (r == 0)
                r = buffer_printf(&text, " in the session %s: %s", s->id, json_string_value(json_object_get(o, "uri")));
        return r == 0 ? finish(TAKE_PTR(o), &text, ret, err) : mcp_out_of_memory(err);
}

int mcp_tool_write_file(struct mcp_call *c, const json_t *arguments, json_t **ret, struct rpc_error *err)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        _cleanup_(content_done) struct content content = {0};
        struct resource_uri target = {0};
        const char *note = NULL;
        struct files files;
        gb_error error = {0};

        int r = mcp_target_parse(arguments, NULL, &target, &error);
        if (r == 0 && target.kind != RESOURCE_FILE)
                r = error_set(&error, GB_E_USAGE, EINVAL, "the output of a run cannot be written");
        if (r == 0)
                r = content_parse(arguments, &content, &error);
        if (r == 0)
                r = mcp_target_session(c, &target, arguments, true, &s, &files, &note, &error);
        if (r == 0)
                r = put(s, &files, target.path, &content, &error);
        if (r < 0)
                return mcp_target_failed(c, s, &target, arguments, &error, ret, err);
        mcp_session_touched(c, s);
        return written(s, target.path, content.size, note, ret, err);
}

/* ---- list_files ---- */

/* shown: the same entry as the API has it. */
static json_t *entry_to_json(const struct live_session *s, const char *dir, const struct file_entry *e, const json_t *shown)
{
        _cleanup_free_ char *path = mcp_join_path(dir, e->name), *uri = NULL;
        bool found = false;

        if (!path)
                return NULL;
        _cleanup_json_ json_t *path_shown = scrubbed_text(session_scrub(s->session), path, strlen(path), &found);
        if (S_ISREG(e->mode) && !found && utf8_is_valid(path, strlen(path)) && strlen(path) < HOST_PATH_MAX) {
                uri = resource_uri_file(s->id, path);
                if (!uri)
                        return NULL;
        }
        return json_pack("{s:O, s:O, s:s?, s:O, s:O, s:O}", "name", json_object_get(shown, "name"), "path", path_shown, "uri", uri, "type",
                         json_object_get(shown, "type"), "size", json_object_get(shown, "size"), "modified_at", json_object_get(shown, "modified_at"));
}

static json_t *list_to_json(const struct live_session *s, const char *dir, const struct file_list *l)
{
        _cleanup_json_ json_t *page = file_list_to_json(session_scrub(s->session), dir, l), *entries = json_array();

        if (!page)
                return NULL;
        for (size_t i = 0; i < l->n; i++) {
                json_t *entry = entry_to_json(s, dir, &l->entries[i], json_array_get(json_object_get(page, "entries"), i));
                if (json_array_append_new(entries, entry) < 0)
                        return NULL;
        }
        return json_pack("{s:s, s:O, s:O, s:O}", "session", s->id, "path", json_object_get(page, "path"), "entries", entries, "next", json_object_get(page, "next"));
}

static int add_row(struct buffer *out, const json_t *entry)
{
        const char *type = json_string_value(json_object_get(entry, "type")), *at = json_string_value(json_object_get(entry, "modified_at"));
        bool directory = strcmp(type, "directory") == 0;
        int r;

        if (strcmp(type, "file") == 0)
                r = buffer_printf(out, "%12lld  %.19sZ  ", (long long)json_integer_value(json_object_get(entry, "size")), at);
        else
                r = buffer_printf(out, "%12s  %.19sZ  ", type, at);
        if (r == 0)
                r = mcp_add_name(out, json_string_value(json_object_get(entry, "name")));
        return r < 0 ? r : buffer_add_string(out, directory ? "/\n" : "\n");
}

/* Names are what a stranger has chosen: they stand between marks. */
static int add_table(struct buffer *text, const json_t *list)
{
        _cleanup_buffer_ struct buffer table;
        const json_t *entries = json_object_get(list, "entries");
        const char *next = json_string_value(json_object_get(list, "next"));
        char nonce[CONTENT_NONCE_MAX];
        json_t *entry;
        size_t i;
        int r = 0;

        buffer_init(&table, TEXT_MAX);
        json_array_foreach((json_t *)(uintptr_t)entries, i, entry) {
                if (r == 0)
                        r = add_row(&table, entry);
        }
        content_nonce(nonce);
        if (r == 0 && table.size > 0)
                r = content_add_marked(text, nonce, "files", table.data, table.size, MCP_TEXT_BYTES_MAX, "Call it with a smaller limit.");
        if (r == 0 && next)
                r = buffer_printf(text, "\nThere are more: the next ones are listed with the cursor %s", next);
        return r;
}

static int add_head(struct buffer *text, const json_t *list, const char *note)
{
        size_t n = json_array_size(json_object_get(list, "entries"));
        int r = note ? buffer_printf(text, "%s\n", note) : 0;

        if (r == 0)
                r = buffer_printf(text, "%zu %s in ", n, n == 1 ? "entry" : "entries");
        if (r == 0)
                r = mcp_add_quoted(text, json_string_value(json_object_get(list, "path")));
        return r < 0 ? r : buffer_printf(text, " of the session %s%s", json_string_value(json_object_get(list, "session")), n > 0 ? ":\n" : ".");
}

static int listed(const struct live_session *s, const char *dir, const struct file_list *l, const char *note, json_t **ret, struct rpc_error *err)
{
        _cleanup_json_ json_t *list = list_to_json(s, dir, l);
        _cleanup_buffer_ struct buffer text;

        buffer_init(&text, TEXT_MAX);
        if (!list || add_head(&text, list, note) < 0 || add_table(&text, list) < 0)
                return mcp_out_of_memory(err);
        return finish(TAKE_PTR(list), &text, ret, err);
}

static int cursor_of(const json_t *arguments, char after[static NAME_MAX + 1], const char **ret, gb_error *err)
{
        const json_t *cursor = json_object_get(arguments, "cursor");

        *ret = NULL;
        if (!json_is_string(cursor))
                return 0;
        if (strlen(json_string_value(cursor)) != json_string_length(cursor))
                return error_set(err, GB_E_USAGE, EINVAL, "cursor: it is not the \"next\" of a page");
        int r = file_cursor_parse(json_string_value(cursor), after, err);
        if (r == 0)
                *ret = after;
        return r;
}

/* So few that they fit into a message, however long their names are and whatever is in them: a name is there twice and the directory once, each byte of them at most
 * six, and both once more as a URI. */
static size_t fitting(const char *dir, size_t limit)
{
        size_t entry = 15 * NAME_MAX + 9 * strlen(dir) + 300;

        return MIN(limit, (size_t)MCP_MESSAGE_BYTES_MAX / 2 / entry);
}

int mcp_tool_list_files(struct mcp_call *c, const json_t *arguments, json_t **ret, struct rpc_error *err)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        _cleanup_file_list_ struct file_list *l = NULL;
        const json_t *limit_value = json_object_get(arguments, "limit");
        json_int_t limit = limit_value ? (json_int_t)json_number_value(limit_value) : LIST_DEFAULT;
        struct resource_uri target = {0};
        const char *note = NULL, *after = NULL;
        char after_name[NAME_MAX + 1];
        struct files files;
        gb_error error = {0};

        int r = mcp_target_parse(arguments, ".", &target, &error);
        if (r == 0 && target.kind != RESOURCE_FILE)
                r = error_set(&error, GB_E_USAGE, EINVAL, "the output of a run is no directory: read it with read_file");
        if (r == 0 && (limit < 1 || limit > LIST_MAX))
                r = error_set(&error, GB_E_USAGE, EINVAL, "limit: a number from 1 to %d", LIST_MAX);
        if (r == 0)
                r = cursor_of(arguments, after_name, &after, &error);
        if (r == 0)
                r = mcp_target_session(c, &target, arguments, false, &s, &files, &note, &error);
        if (r == 0)
                r = files_list_page(&files, target.path, after, fitting(target.path, (size_t)limit), &l, &error);
        if (r < 0)
                return mcp_target_failed(c, s, &target, arguments, &error, ret, err);
        return listed(s, target.path, l, note, ret, err);
}
