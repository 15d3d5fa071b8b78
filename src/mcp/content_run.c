/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation. What a program has given is rendered first, into `blocks` between marks and into the structured content; what that brings to light (a
 * text that was cut, a picture that did not fit) is noted. Then the text is put together: our own words, the blocks, and how to go on.
 *
 * A whole result stays below MCP_MESSAGE_BYTES_MAX, whatever is in it: the worst byte of a text becomes six in JSON. There are at most five texts of
 * MCP_TEXT_BYTES_MAX in blocks and six in the structured content (2.2 MB), pictures of MCP_PICTURES_BYTES_MAX (4.2 MB), MCP_FILES_MAX files with their names and
 * URIs (1 MB), and notes. */
#include "mcp/content.h"

#include "base/base64.h"
#include "base/limits.h"
#include "base/quote.h"
#include "mcp/content_words.h"
#include "mcp/resource_uri.h"

#include <errno.h>
#include <string.h>

#define MARKS_BYTES 64   /* of a value that was displayed: marks count, too, so that their number is bounded */
#define PIECE_BYTES 256  /* less of a value is not worth showing */
#define SIGNAL_MAX 32

#define PRINT_LESS "to see more of it, show a part or write it to a file"

struct making {
        const json_t *result;
        const struct content_run *o;
        const char *run; /* "": not known */
        char nonce[CONTENT_NONCE_MAX];
        json_t *items, *structured; /* pictures and links; structuredContent */
        struct content_notes notes;
        struct buffer blocks;
        bool cut;
        bool something; /* there is something of the program to see, or to know of */
        size_t pictures, pictures_bytes, pictures_over, pictures_bad, drawings; /* drawings: SVG */
        size_t values_left_out, values_of_other_kind, display_bytes;
};

static void making_done(struct making *m)
{
        json_decref(m->items);
        json_decref(m->structured);
        json_decref(m->notes.list);
        buffer_done(&m->blocks);
}

static int set(struct making *m, const char *key, json_t *value)
{
        return json_object_set_new(m->structured, key, value) < 0 ? -ENOMEM : 0;
}

static json_t *string_or_null(const char *text)
{
        return text ? json_string(text) : json_null();
}

struct text {
        const char *bytes;
        size_t size;
};

/* Empty for what is no string. */
static struct text text_of(const json_t *value)
{
        const char *bytes = json_string_value(value);

        return (struct text){bytes ? bytes : "", bytes ? json_string_length(value) : 0};
}

/* A text as the structured content has it. */
static json_t *cut_string(struct making *m, struct text t, const char *rest)
{
        _cleanup_buffer_ struct buffer out = {0};
        uint64_t left_out;

        buffer_init(&out, MCP_MESSAGE_BYTES_MAX);
        if (content_add_cut(&out, t.bytes, t.size, MCP_TEXT_BYTES_MAX, rest, &left_out) < 0)
                return NULL;
        m->cut |= left_out > 0;
        return json_stringn_nocheck(out.size > 0 ? out.data : "", out.size);
}

static int add_block(struct making *m, const char *label, struct text t, size_t max, const char *rest)
{
        m->something = true;
        return content_add_marked(&m->blocks, m->nonce, label, t.bytes, t.size, max, rest);
}

/* ---- what was printed ---- */

/* All of it can be read: the place is told, and linked to. */
static int link_output(struct making *m, const char *key, const char *uri, struct text t)
{
        int r = content_note(&m->notes, "%s has %zu bytes, and its middle is left out here; all of it: read_file with path \"%s\".", key, t.size, uri);

        if (r == 0 && json_array_append_new(m->items, content_link(uri, key, "text/plain", -1)) < 0)
                r = -ENOMEM;
        return r;
}

static int add_output(struct making *m, const char *key, const char *key_bytes, enum resource_kind kind)
{
        struct text t = text_of(json_object_get(m->result, key));
        _cleanup_free_ char *uri = m->run[0] ? resource_uri_output(m->run, kind) : NULL;
        _cleanup_buffer_ struct buffer rest = {0};
        int r = 0;

        if (m->run[0]) {
                if (!uri)
                        return -ENOMEM;
                buffer_init(&rest, HOST_PATH_MAX);
                r = buffer_printf(&rest, "all of it: read_file with path \"%s\"", uri);
        }
        if (r == 0)
                r = set(m, key, cut_string(m, t, rest.data));
        if (r == 0)
                r = set(m, key_bytes, json_integer((json_int_t)t.size));
        if (r == 0 && t.size > MCP_TEXT_BYTES_MAX && uri)
                r = link_output(m, key, uri, t);
        return r == 0 && t.size > 0 ? add_block(m, key, t, MCP_TEXT_BYTES_MAX, rest.data) : r;
}

/* ---- pictures ---- */

/* 0: it is there. -EFBIG: no room for it. -EINVAL: it is no picture. */
static int add_picture(struct making *m, const char *type, const json_t *form)
{
        struct text t = text_of(json_object_get(form, "base64"));
        _cleanup_free_ void *bytes = NULL;
        size_t size;

        if (m->pictures == MCP_PICTURES_MAX || t.size > MCP_PICTURES_BYTES_MAX - m->pictures_bytes)
                return -EFBIG;
        int r = base64_decode(t.bytes, t.size, &bytes, &size);
        if (r < 0)
                return r;
        const char *found = media_picture_of(bytes, size);
        if (!found || strcmp(found, type) != 0)
                return -EINVAL;
        if (json_array_append_new(m->items, content_picture(type, t.bytes, t.size)) < 0)
                return -ENOMEM;
        m->pictures++;
        m->pictures_bytes += t.size;
        return 0;
}

/* The forms of a value are the same thing: one of them is shown. *ret: whether it has one, shown or not. */
static int add_picture_of(struct making *m, const json_t *data, bool *ret)
{
        static const char *const types[] = {"image/png", "image/jpeg", "image/webp", "image/gif"};
        int outcome = -ENOENT;

        for (size_t i = 0; i < ARRAY_SIZE(types) && outcome != 0; i++) {
                const json_t *form = json_object_get(data, types[i]);
                int r = form ? add_picture(m, types[i], form) : -ENOENT;
                if (r == -ENOMEM)
                        return r;
                if (r == 0 || (r != -ENOENT && outcome != -EFBIG))
                        outcome = r;
        }
        m->pictures_over += outcome == -EFBIG;
        m->pictures_bad += outcome == -EINVAL;
        bool drawing = outcome != 0 && json_object_get(data, "image/svg+xml");
        m->drawings += drawing;
        *ret = outcome != -ENOENT || drawing;
        return 0;
}

static int note_pictures(struct making *m)
{
        int r = 0;

        if (m->pictures_over > 0)
                r = content_note(&m->notes, "%zu picture%s left out: at most %d are shown, of %llu MB together. Make fewer or smaller ones, or save them as files.",
                                 m->pictures_over, m->pictures_over == 1 ? " was" : "s were", MCP_PICTURES_MAX, (unsigned long long)(MCP_PICTURES_BYTES_MAX / MIB));
        if (r == 0 && m->pictures_bad > 0)
                r = content_note(&m->notes, "%zu value%s said to be a picture and %s left out: the data is not of the type that it says.", m->pictures_bad,
                                 m->pictures_bad == 1 ? " was" : "s were each", m->pictures_bad == 1 ? "was" : "were");
        if (r == 0 && m->drawings > 0)
                r = content_note(&m->notes, "%zu value%s an SVG picture, which is not shown: a PNG is. Give the value as PNG, or save one with savefig(\"plot.png\").",
                                 m->drawings, m->drawings == 1 ? " is" : "s are each");
        return r;
}

/* ---- values ---- */

/* The text of a value: *ret with size 0 and false when it has none. Data may be JSON itself; *owned is the caller's then. */
static int find_text(const json_t *data, struct text *ret, char **owned, bool *ret_found)
{
        static const char *const types[] = {"text/plain", "text/markdown", "text/latex", "text/html", "application/json"};

        *ret = (struct text){"", 0};
        *ret_found = false;
        for (size_t i = 0; i < ARRAY_SIZE(types) && !*ret_found; i++) {
                const json_t *form = json_object_get(data, types[i]);
                *ret_found = json_is_string(form);
                if (*ret_found)
                        *ret = text_of(form);
        }
        const json_t *tree = json_object_get(data, "application/json");
        if (*ret_found || !tree)
                return 0;
        *owned = json_print(tree, 0);
        if (!*owned)
                return -ENOMEM;
        *ret = (struct text){*owned, strlen(*owned)};
        *ret_found = true;
        return 0;
}

static int add_value_text(struct making *m, struct text t, bool main)
{
        if (main) {
                int r = set(m, "value", cut_string(m, t, PRINT_LESS));
                return r == 0 && t.size > 0 ? add_block(m, "value", t, MCP_TEXT_BYTES_MAX, PRINT_LESS) : r;
        }
        /* Those that were displayed share one text's room. */
        size_t left = MCP_TEXT_BYTES_MAX - m->display_bytes;
        if (left < MARKS_BYTES + MIN(t.size, (size_t)PIECE_BYTES)) {
                m->values_left_out++;
                m->cut = true;
                return 0;
        }
        size_t max = MIN(t.size, left - MARKS_BYTES);
        m->display_bytes += MARKS_BYTES + max;
        m->cut |= max < t.size;
        return t.size > 0 ? add_block(m, "value", t, max, PRINT_LESS) : 0;
}

static int add_value(struct making *m, const json_t *value, bool main)
{
        const json_t *data = json_object_get(value, "data");
        _cleanup_free_ char *owned = NULL;
        struct text t;
        bool has_text, has_picture;

        int r = find_text(data, &t, &owned, &has_text);
        if (r == 0 && has_text)
                r = add_value_text(m, t, main);
        if (r == 0)
                r = add_picture_of(m, data, &has_picture);
        if (r == 0 && !has_text && !has_picture)
                m->values_of_other_kind++;
        m->something = true;
        return r;
}

static int add_values(struct making *m)
{
        const json_t *value;
        size_t i;
        bool main_seen = false;
        int r = set(m, "value", json_null());

        json_array_foreach(json_object_get(m->result, "results"), i, value) {
                bool main = !main_seen && json_is_true(json_object_get(value, "main"));
                main_seen |= main;
                if (r == 0)
                        r = add_value(m, value, main);
        }
        if (r == 0 && m->values_left_out > 0)
                r = content_note(&m->notes, "%zu value%s displayed and not shown here: there were too many, or they are too long.", m->values_left_out,
                                 m->values_left_out == 1 ? " was" : "s were");
        if (r == 0 && m->values_of_other_kind > 0)
                r = content_note(&m->notes, "%zu value%s no form that can be shown here.", m->values_of_other_kind, m->values_of_other_kind == 1 ? " has" : "s have");
        return r == 0 ? note_pictures(m) : r;
}

/* ---- the exception ---- */

/* What the program has printed of it already is not said again; what of that was cut away does not count. */
static bool is_in_stderr(struct making *m, struct text t)
{
        struct text printed = text_of(json_object_get(m->structured, "stderr"));

        while (t.size > 0 && strchr("\r\n ", t.bytes[t.size - 1]))
                t.size--;
        return t.size > 0 && printed.size > 0 && memmem(printed.bytes, printed.size, t.bytes, t.size);
}

static int add_error_block(struct making *m, const json_t *error)
{
        struct text trace = text_of(json_object_get(error, "traceback"));
        struct text name = text_of(json_object_get(error, "name")), value = text_of(json_object_get(error, "value"));
        _cleanup_buffer_ struct buffer short_form = {0};

        if (trace.size == 0) {
                buffer_init(&short_form, SIZE_MAX);
                int r = buffer_add(&short_form, name.bytes, name.size);
                if (r == 0 && value.size > 0)
                        r = buffer_add_string(&short_form, name.size > 0 ? ": " : "");
                if (r == 0)
                        r = buffer_add(&short_form, value.bytes, value.size);
                if (r < 0)
                        return r;
                trace = (struct text){short_form.data, short_form.size};
        }
        if (trace.size == 0 || is_in_stderr(m, trace))
                return 0;
        return add_block(m, "error", trace, MCP_TEXT_BYTES_MAX, NULL);
}

static int add_error(struct making *m)
{
        static const char *const keys[] = {"name", "value", "traceback"};
        const json_t *error = json_object_get(m->result, "error");
        int r = 0;

        if (!json_is_object(error) || content_exit_status(m->result) >= 0)
                return set(m, "error", json_null());
        _cleanup_json_ json_t *o = json_object();
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                r |= json_object_set_new(o, keys[i], cut_string(m, text_of(json_object_get(error, keys[i])), NULL));
        r = r == 0 ? set(m, "error", TAKE_PTR(o)) : -ENOMEM;
        return r == 0 ? add_error_block(m, error) : r;
}

/* ---- files ---- */

struct file {
        const char *path, *uri, *type;
        int64_t size; /* -1: not known */
};

static bool read_file(const json_t *object, struct file *ret)
{
        const json_t *path = json_object_get(object, "path"), *uri = json_object_get(object, "uri"), *size = json_object_get(object, "size");
        const char *type = json_string_value(json_object_get(object, "type"));

        if (!json_is_string(path) || !json_is_string(uri))
                return false;
        *ret = (struct file){
                .path = json_string_value(path),
                .uri = json_string_value(uri),
                .type = type ? type : "application/octet-stream",
                .size = json_is_integer(size) ? json_integer_value(size) : -1,
        };
        size_t n = strlen(ret->path);
        return n == json_string_length(path) && n < HOST_PATH_MAX && strlen(ret->uri) < 4 * HOST_PATH_MAX && strlen(ret->type) < QUOTED_MAX;
}

/* As a line of text, as a link, and as structured content. */
static int add_file(struct making *m, const struct file *f, json_t *list, struct buffer *lines)
{
        json_t *row = json_pack("{s:s, s:s, s:s, s:o}", "path", f->path, "uri", f->uri, "type", f->type, "size",
                                f->size >= 0 ? json_integer(f->size) : json_null());

        if (json_array_append_new(list, row) < 0 || json_array_append_new(m->items, content_link(f->uri, quote_path(f->path).text, f->type, f->size)) < 0)
                return -ENOMEM;
        int r = buffer_printf(lines, "- %s (%s", quote(f->path).text, f->type);
        if (r == 0 && f->size >= 0)
                r = buffer_printf(lines, ", %lld bytes", (long long)f->size);
        return r == 0 ? buffer_add_string(lines, ")\n") : r;
}

/* lines: what the text says of them. */
static int add_files(struct making *m, struct buffer *lines)
{
        _cleanup_json_ json_t *list = json_array();
        uint64_t more = m->o->more_files;
        const json_t *object;
        size_t i, n = 0;
        int r = list ? 0 : -ENOMEM;

        json_array_foreach(m->o->files, i, object) {
                struct file f;
                if (r < 0 || !read_file(object, &f))
                        continue;
                if (n == MCP_FILES_MAX) {
                        more++;
                        continue;
                }
                n++;
                r = add_file(m, &f, list, lines);
        }
        if (r == 0 && more > 0)
                r = buffer_printf(lines, "%s%s%llu%s\n", n > 0 ? "- and " : "", m->o->files_cut ? "at least " : "", (unsigned long long)more, n > 0 ? " more" : "");
        if (r == 0 && m->o->files_cut)
                r = content_note(&m->notes, "Not all files of the workspace were looked at, they are too many or too deep: some that have changed may be missing here. "
                                             "list_files shows what is in a directory.");
        if (r == 0 && m->o->files_unknown)
                r = content_note(&m->notes,
                                 "Which files have changed is not known: the workspace could not be looked at.");
        return r == 0 ? set(m, "files", TAKE_PTR(list)) : r;
}

/* ---- all of it ---- */

static json_t *signal_of(const json_t *result)
{
        const char *name = json_string_value(json_object_get(result, "signal"));

        return string_or_null(name && strlen(name) < SIGNAL_MAX ? name : NULL);
}

/* Of the program; or of a command, in a shell that lives on. */
static json_t *exit_code_of(const json_t *result)
{
        const json_t *own = json_object_get(result, "exit_code");
        int status = content_exit_status(result);

        if (json_is_integer(own))
                return json_integer(json_integer_value(own));
        return status >= 0 ? json_integer(status) : json_null();
}

static int add_verdict(struct making *m, const struct buffer *message)
{
        const char *kind = content_kind(m->result);
        int r = 0;

        r |= set(m, "verdict", json_string(kind));
        r |= set(m, "ok", json_boolean(strcmp(kind, "ok") == 0));
        r |= set(m, "message", json_stringn_nocheck(message->data, message->size));
        r |= set(m, "exit_code", exit_code_of(m->result));
        r |= set(m, "signal", signal_of(m->result));
        return r == 0 ? 0 : -ENOMEM;
}

/* What is known when all was rendered. */
static int add_facts(struct making *m)
{
        const json_t *kept = json_object_get(json_object_get(m->result, "state"), "kept");
        double ms;
        int r = 0;

        const json_t *truncated = json_object_get(m->result, "truncated");
        r |= set(m, "truncated", m->cut                       ? json_true()
                                 : json_is_boolean(truncated) ? json_boolean(json_is_true(truncated))
                                                              : json_null());
        r |= set(m, "duration_ms", content_duration_ms(m->result, &ms) ? json_real(ms) : json_null());
        r |= set(m, "session", string_or_null(m->o->session));
        r |= set(m, "run", json_string(m->run));
        r |= set(m, "state_kept", json_is_boolean(kept) ? json_boolean(json_is_true(kept)) : json_null());
        r |= set(m, "pictures", json_integer((json_int_t)m->pictures));
        r |= json_object_set(m->structured, "notes", m->notes.list);
        return r == 0 ? 0 : -ENOMEM;
}

static int add_lines(struct buffer *text, const json_t *notes)
{
        const json_t *note;
        size_t i;
        int r = 0;

        json_array_foreach(notes, i, note)
                if (r == 0)
                        r = buffer_printf(text, "%s\n", json_string_value(note));
        return r;
}

/* Our words, theirs, and how to go on. */
static json_t *text_item(struct making *m, const struct buffer *message, const struct buffer *files)
{
        _cleanup_buffer_ struct buffer text = {0};
        const char *kind = content_kind(m->result);
        /* What was lost may have printed something that nobody saw. */
        bool seen = strcmp(kind, "blocked") != 0 && strcmp(kind, "lost") != 0;
        int r = 0;

        buffer_init(&text, MCP_MESSAGE_BYTES_MAX);
        if (m->o->note)
                r = buffer_printf(&text, "%s\n", m->o->note);
        if (r == 0)
                r = buffer_printf(&text, "%s\n", message->data);
        if (r == 0)
                r = add_lines(&text, m->notes.list);
        if (r == 0 && !m->something && seen)
                r = buffer_add_string(&text, "It printed nothing.\n");
        if (r == 0)
                r = buffer_add(&text, m->blocks.data, m->blocks.size);
        if (r == 0 && m->o->session)
                r = buffer_printf(&text, "session: %s\n", m->o->session);
        /* Names of files are chosen by the program, too. */
        if (r == 0 && files->size > 0)
                r = buffer_add_string(&text, "changed files:\n");
        if (r == 0 && files->size > 0)
                r = content_add_marked(&text, m->nonce, "files", files->data, files->size, MCP_TEXT_BYTES_MAX, NULL);
        return r == 0 ? content_text(text.data, text.size) : NULL;
}

/* The note that stands first in the text is the first in the structured content, too; the text has it already. */
static int note_first(struct making *m)
{
        json_t *notes = json_object_get(m->structured, "notes");

        if (!m->o->note)
                return 0;
        return json_array_insert_new(notes, 0, json_string(m->o->note)) < 0 ? -ENOMEM : 0;
}

static int add_refused(struct making *m)
{
        _cleanup_buffer_ struct buffer hosts = {0};

        buffer_init(&hosts, MCP_TEXT_BYTES_MAX);
        int r = content_add_refused(&hosts, m->result);
        return r == 0 && hosts.size > 0 ? content_add_marked(&m->blocks, m->nonce, "refused", hosts.data, hosts.size, MCP_TEXT_BYTES_MAX, NULL) : r;
}

static int collect(struct making *m, struct buffer *message, struct buffer *files)
{
        int r = content_add_message(message, m->result);

        if (r == 0)
                r = add_verdict(m, message);
        if (r == 0)
                r = content_note_result(&m->notes, m->result);
        if (r == 0 && !m->o->session && json_is_string(json_object_get(m->result, "session")))
                r = content_note(&m->notes, "The session has ended, and its files are gone.");
        if (r == 0)
                r = add_output(m, "stdout", "stdout_bytes", RESOURCE_STDOUT);
        if (r == 0)
                r = add_output(m, "stderr", "stderr_bytes", RESOURCE_STDERR);
        if (r == 0)
                r = add_values(m);
        if (r == 0)
                r = add_error(m);
        if (r == 0)
                r = add_refused(m);
        if (r == 0)
                r = add_files(m, files);
        return r == 0 ? add_facts(m) : r;
}

json_t *content_of_run(const json_t *result, const struct content_run *o)
{
        const char *id = json_string_value(json_object_get(result, "id"));
        _cleanup_(making_done) struct making m = {
                .result = result, .o = o, .run = o->run ? o->run : id && strlen(id) < RESOURCE_ID_MAX ? id : "",
                .items = json_array(), .structured = json_object(), .notes.list = json_array(),
        };
        _cleanup_buffer_ struct buffer message = {0}, files = {0};

        content_nonce(m.nonce);
        buffer_init(&m.blocks, MCP_MESSAGE_BYTES_MAX);
        buffer_init(&message, MCP_TEXT_BYTES_MAX);
        buffer_init(&files, MCP_TEXT_BYTES_MAX);
        if (!m.items || !m.structured || !m.notes.list || collect(&m, &message, &files) < 0)
                return NULL;
        json_t *text = text_item(&m, &message, &files);
        if (!text || json_array_insert_new(m.items, 0, text) < 0 || note_first(&m) < 0)
                return NULL;

        _cleanup_json_ json_t *out = json_object();
        int r = 0;
        r |= json_object_set(out, "content", m.items);
        r |= json_object_set(out, "structuredContent", m.structured);
        r |= json_object_set_new(out, "isError", json_boolean(strcmp(content_kind(result), "ok") != 0));
        return r == 0 ? TAKE_PTR(out) : NULL;
}
