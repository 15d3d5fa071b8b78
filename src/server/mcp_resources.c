/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of sessions and outputs of runs as resources. The list has those of the client's own session; any of the tenant's can be read by its URI. Who wants to
 * hear of changes: mcp_watch.c. */
#include "server/mcp_client.h"

#include "base/base64.h"
#include "base/fd.h"
#include "base/utf8.h"
#include "server/file_names.h"
#include "server/mcp_piece.h"
#include "server/mcp_resources.h"
#include "server/mcp_walk.h"
#include "server/scrubbing.h"
#include "server/server.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define CURSOR_MARK "after:" /* what is in a cursor, before the path */
#define AROUND_BYTES (64 * KIB) /* of a message around what it carries */

static const char *base_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* ---- errors ---- */

/* Takes uri. */
static int unknown(struct mcp_call *c, json_t *uri, const char *why, struct rpc_error *err)
{
        int r = rpc_fail(err, c->era == MCP_HANDSHAKE ? RPC_RESOURCE : RPC_PARAMS, "Resource not found: %s", why);

        err->data = json_pack("{s:o}", "uri", uri);
        return err->data ? r : mcp_out_of_memory(err);
}

/* As it was asked for; but of a path with a secret in it one that leads nowhere. */
static json_t *uri_to_json(const struct live_session *s, const char *uri, const struct resource_uri *u)
{
        bool found = false;

        if (!s || u->kind != RESOURCE_FILE)
                return json_string(uri);
        _cleanup_json_ json_t *shown = scrubbed_text(session_scrub(s->session), u->path, strlen(u->path), &found);
        if (!shown || !found)
                return shown ? json_string(uri) : NULL;
        _cleanup_free_ char *other = resource_uri_file(u->id, json_string_value(shown));
        return other ? json_string(other) : NULL;
}

int mcp_resource_failed(struct mcp_call *c, const struct live_session *s, const char *uri, const struct resource_uri *u, gb_error *error, struct rpc_error *err)
{
        const struct scrub *scrub = s ? session_scrub(s->session) : NULL;

        file_error_scrub(scrub, u->path, error);
        scrubbing_error(c->server->scrubbing, scrub, error);
        switch (error->code) {
        case GB_E_INTERNAL:
        case GB_E_UNAVAILABLE:
        case GB_E_LOST:
                return rpc_fail(err, RPC_INTERNAL, "%s", error->message);
        default:
                return unknown(c, uri_to_json(s, uri, u), error->message, err);
        }
}

int mcp_resource_param(struct mcp_call *c, const char **ret, struct resource_uri *ret_uri, struct rpc_error *err)
{
        const json_t *value = json_object_get(c->message.params, "uri");
        const char *text = json_string_value(value);

        if (!text)
                return rpc_fail(err, RPC_PARAMS, "uri must be a text");
        int r = strlen(text) == json_string_length(value) ? resource_uri_parse(text, ret_uri) : -EINVAL;
        if (r == -ENOMEM)
                return mcp_out_of_memory(err);
        if (r < 0)
                return unknown(c, json_string(text), "it is no address as glovebox://sessions/ID/files/PATH or glovebox://runs/ID/stdout", err);
        *ret = text;
        return 0;
}

/* ---- resources/list ---- */

static json_t *cursor_to_json(const char *path)
{
        _cleanup_free_ char *text = NULL, *encoded = NULL;
        size_t size;

        if (asprintf(&text, CURSOR_MARK "%s", path) < 0) {
                text = NULL;
                return NULL;
        }
        return base64_encode(text, strlen(text), &encoded, &size) < 0 ? NULL : json_stringn(encoded, size);
}

/* *ret: the path that the page before has ended with, the caller's to free; NULL: this is the first. */
static int cursor_parse(const json_t *params, char **ret, struct rpc_error *err)
{
        const json_t *cursor = json_object_get(params, "cursor");
        _cleanup_free_ void *bytes = NULL;
        size_t size = 0, mark = strlen(CURSOR_MARK);

        *ret = NULL;
        if (!cursor)
                return 0;
        int r = json_is_string(cursor) ? base64_decode(json_string_value(cursor), json_string_length(cursor), &bytes, &size) : -EINVAL;
        if (r == -ENOMEM)
                return mcp_out_of_memory(err);
        if (r < 0 || size <= mark || memcmp(bytes, CURSOR_MARK, mark) != 0)
                return rpc_fail(err, RPC_PARAMS, "cursor: it is not the nextCursor of a page");
        *ret = strndup((const char *)bytes + mark, size - mark);
        return *ret ? 0 : mcp_out_of_memory(err);
}

static json_t *file_to_json(const char *session, const struct walked_file *f)
{
        _cleanup_free_ char *uri = resource_uri_file(session, f->path);
        _cleanup_json_ json_t *o = json_object();
        int r = uri ? 0 : -1;

        r |= json_object_set_new(o, "uri", json_string(uri));
        r |= json_object_set_new(o, "name", json_string(base_name(f->path)));
        r |= json_object_set_new(o, "title", json_string(f->path));
        r |= json_object_set_new(o, "mimeType", json_string(media_type_of(f->path)));
        r |= json_object_set_new(o, "size", json_integer((json_int_t)MIN(f->size, (uint64_t)INT64_MAX)));
        r |= json_object_set_new(o, "annotations", json_pack("{s:o}", "lastModified", mcp_time_to_json(f->modified_usec)));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

/* At most, in a message: the path is in it twice, and once encoded. */
static size_t file_bytes(const struct walked_file *f)
{
        return 15 * strlen(f->path) + 512;
}

/* A page behind the path; NULL: the first one. */
static json_t *page_to_json(const char *session, const struct walked *w, const char *after)
{
        _cleanup_json_ json_t *o = json_object(), *list = json_array();
        size_t i = 0, n = 0, bytes = 0;
        int r = 0;

        while (after && i < w->n && strcmp(w->files[i].path, after) <= 0)
                i++;
        for (; i < w->n && n < MCP_PAGE && bytes < MCP_MESSAGE_BYTES_MAX / 2 && r == 0; i++, n++) {
                bytes += file_bytes(&w->files[i]);
                r = json_array_append_new(list, file_to_json(session, &w->files[i]));
        }
        r |= json_object_set_new(o, "resources", TAKE_PTR(list));
        if (r == 0 && i < w->n)
                r = json_object_set_new(o, "nextCursor", cursor_to_json(w->files[i - 1].path));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

int mcp_resources_list(struct mcp_call *c, json_t **ret, struct rpc_error *err)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        _cleanup_walked_ struct walked w = {0};
        _cleanup_free_ char *after = NULL;
        gb_error error = {0};

        if (cursor_parse(c->message.params, &after, err) < 0)
                return -EINVAL;
        s = mcp_session_own(c);
        if (s && mcp_walk(s, &w, &error) < 0) {
                scrubbing_error(c->server->scrubbing, session_scrub(s->session), &error);
                return rpc_fail(err, RPC_INTERNAL, "%s", error.message);
        }
        *ret = page_to_json(s ? s->id : "", &w, after);
        return *ret ? 0 : mcp_out_of_memory(err);
}

/* ---- resources/templates/list ---- */

int mcp_resources_templates(struct mcp_call *c, json_t **ret, struct rpc_error *err)
{
        (void)c;
        *ret = json_pack("{s:[{s:s, s:s, s:s, s:s}, {s:s, s:s, s:s, s:s, s:s}]}", "resourceTemplates",
                         "uriTemplate", RESOURCE_SCHEME "sessions/{session}/files/{+path}", "name", "file", "title", "A file of a session",
                         "description", "Any file of a session's workspace. session: its handle, as results of tools have it. path: relative to the workspace.",
                         "uriTemplate", RESOURCE_SCHEME "runs/{run}/{stream}", "name", "output", "title", "The output of a run",
                         "description", "All that a run has printed. run: its id, as results of tools have it. stream: stdout or stderr.", "mimeType", "text/plain");
        return *ret ? 0 : mcp_out_of_memory(err);
}

/* ---- resources/read ---- */

static int too_large(uint64_t size, struct rpc_error *err)
{
        return rpc_fail(err, RPC_PARAMS, "the resource has %llu bytes, and at most %llu are given at once: the tool read_file reads it in pieces, by offset and limit",
                        (unsigned long long)size, (unsigned long long)MCP_RESOURCE_BYTES_MAX);
}

/* Bytes of the text in a message: control characters are six there. */
static size_t encoded_size(const char *text, size_t size)
{
        size_t n = 0;

        for (size_t i = 0; i < size; i++) {
                unsigned char byte = (unsigned char)text[i];
                bool short_form = byte == '"' || byte == '\\' || (byte >= '\b' && byte <= '\r' && byte != '\v');
                n += short_form ? 2 : byte < 0x20 ? 6 : 1;
        }
        return n;
}

static int set_blob(json_t *o, const struct mcp_piece *p)
{
        _cleanup_free_ char *encoded = NULL;
        size_t size;

        if (base64_encode(p->bytes, p->size, &encoded, &size) < 0)
                return -1;
        return json_object_set_new(o, "blob", json_stringn_nocheck(encoded, size));
}

/* as_text: also when it is none. */
static json_t *contents_to_json(const char *uri, const char *type, const struct mcp_piece *p, bool as_text)
{
        _cleanup_json_ json_t *o = json_pack("{s:s, s:s}", "uri", uri, "mimeType", type), *text = NULL;

        if (p->text || as_text) {
                text = mcp_piece_to_text(p);
                if (!o || !text)
                        return NULL;
        }
        bool fits = text && encoded_size(json_string_value(text), json_string_length(text)) <= MCP_MESSAGE_BYTES_MAX - AROUND_BYTES;
        int r = fits ? json_object_set(o, "text", text) : set_blob(o, p);
        return r == 0 ? json_pack("{s:[O]}", "contents", o) : NULL;
}

static int finish(const char *uri, const char *type, const struct mcp_piece *p, bool as_text, json_t **ret, struct rpc_error *err)
{
        *ret = contents_to_json(uri, type, p, as_text);
        return *ret ? 0 : mcp_out_of_memory(err);
}

/* Those that become many in JSON are counted. */
static int reserve(struct mcp_call *c, uint64_t size, gb_error *err)
{
        return size > RESULT_SMALL_MAX ? request_reserve(c->request, RESULT_GROWTH * size, err) : 0;
}

static int read_output(struct mcp_call *c, const char *text, const struct resource_uri *uri, json_t **ret, struct rpc_error *err)
{
        _cleanup_journal_run_ struct journal_run run = {0}, again = {0};
        _cleanup_mcp_piece_ struct mcp_piece p = {0};
        gb_error error = {0};

        int r = journal_run_get(c->server->journal, c->caller->tenant, uri->id, &run, &error);
        uint64_t size = uri->kind == RESOURCE_STDOUT ? run.out_bytes : run.err_bytes;
        if (r == 0 && size > MCP_RESOURCE_BYTES_MAX)
                return too_large(size, err);
        if (r == 0)
                r = reserve(c, size, &error);
        if (r == 0)
                r = mcp_piece_of_output(c->server->journal, c->caller->tenant, uri, 0, MCP_RESOURCE_BYTES_MAX, &p, &again, &error);
        if (r < 0)
                return mcp_resource_failed(c, NULL, text, uri, &error, err);
        return finish(text, "text/plain", &p, true, ret, err);
}

static int read_file(struct mcp_call *c, const char *text, const struct resource_uri *uri, json_t **ret, struct rpc_error *err)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        _cleanup_mcp_piece_ struct mcp_piece p = {0};
        _cleanup_close_ int fd = -1;
        struct files files;
        uint64_t size = 0;
        gb_error error = {0};

        int r = live_session_get(c->server->live, c->caller, uri->id, true, &s, &error);
        if (r == 0)
                r = session_files(s->session, &files, &error);
        if (r == 0)
                r = fd = files_open(&files, uri->path, &size, &error);
        if (r >= 0 && size > MCP_RESOURCE_BYTES_MAX)
                return too_large(size, err);
        if (r >= 0)
                r = reserve(c, size, &error);
        if (r >= 0)
                r = mcp_piece_of_file(fd, 0, MCP_RESOURCE_BYTES_MAX, &p, &error);
        if (r < 0)
                return mcp_resource_failed(c, s, text, uri, &error, err);
        if (mcp_piece_has_more(&p)) /* it has grown meanwhile */
                return too_large(p.total, err);
        return finish(text, mcp_piece_type(&p, uri->path), &p, false, ret, err);
}

int mcp_resources_read(struct mcp_call *c, json_t **ret, struct rpc_error *err)
{
        struct resource_uri uri;
        const char *text;

        int r = mcp_resource_param(c, &text, &uri, err);
        if (r < 0)
                return r;
        return uri.kind == RESOURCE_FILE ? read_file(c, text, &uri, ret, err) : read_output(c, text, &uri, ret, err);
}

/* ---- what a run has changed ---- */

static int by_age(const void *a, const void *b)
{
        const struct walked_file *x = a, *y = b;

        if (x->modified_usec != y->modified_usec)
                return x->modified_usec > y->modified_usec ? -1 : 1;
        return strcmp(x->path, y->path);
}

static json_t *changed_to_json(const char *session, const struct walked_file *f)
{
        _cleanup_free_ char *uri = resource_uri_file(session, f->path);

        if (!uri)
                return NULL;
        return json_pack("{s:s, s:s, s:s, s:I}", "path", f->path, "uri", uri, "type", media_type_of(f->path), "size", (json_int_t)MIN(f->size, (uint64_t)INT64_MAX));
}

/* Files get the time of a kernel's last tick, which need not be ours: one that was written right after `since` may seem
 * to be a little older. */
static int64_t ticks_before(uint64_t since_usec)
{
        struct timespec tick = {0};

        (void)clock_getres(CLOCK_REALTIME_COARSE, &tick);
        return (int64_t)since_usec - (int64_t)tick.tv_sec * 1000000 - tick.tv_nsec / 1000 - 1;
}

json_t *mcp_changed_files(struct live_session *s, uint64_t since_usec, size_t max, uint64_t *ret_more, bool *ret_cut)
{
        _cleanup_walked_ struct walked w = {0};
        _cleanup_json_ json_t *list = json_array();
        int64_t since = ticks_before(since_usec);
        size_t n = 0;
        int r = 0;

        if (!list || mcp_walk(s, &w, NULL) < 0)
                return NULL;
        if (w.n > 0)
                qsort(w.files, w.n, sizeof(w.files[0]), by_age);
        while (n < w.n && w.files[n].modified_usec >= since)
                n++;
        for (size_t i = 0; i < n && i < max && r == 0; i++)
                r = json_array_append_new(list, changed_to_json(s->id, &w.files[i]));
        if (r < 0)
                return NULL;
        *ret_more = n > max ? n - max : 0;
        *ret_cut = w.cut;
        return TAKE_PTR(list);
}
