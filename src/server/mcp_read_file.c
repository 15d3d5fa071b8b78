/* SPDX-License-Identifier: Apache-2.0
 *
 * read_file: a text, a picture, or any bytes, of a workspace; or what a run has printed. */
#include "server/mcp_target.h"

#include "base/base64.h"
#include "base/fd.h"
#include "server/mcp_piece.h"
#include "server/server.h"

#include <errno.h>
#include <string.h>

#define PICTURE_BYTES_MAX (MCP_PICTURES_BYTES_MAX / 4 * 3)
#define TEXT_MAX (16 * MIB) /* of what we make ourselves */

struct reading {
        struct resource_uri target;
        uint64_t offset;
        size_t limit;
        bool whole; /* nobody has asked for a piece */
        const char *note;
        struct mcp_piece piece;
        const char *type;
        bool picture;
};

static void reading_done(struct reading *g)
{
        mcp_piece_done(&g->piece);
}

static int reading_parse(const json_t *arguments, struct reading *g, gb_error *err)
{
        const json_t *offset = json_object_get(arguments, "offset"), *limit = json_object_get(arguments, "limit");
        json_int_t from = offset ? (json_int_t)json_number_value(offset) : 0, most = limit ? (json_int_t)json_number_value(limit) : (json_int_t)MCP_TEXT_BYTES_MAX;

        if (from < 0 || most < 1 || most > (json_int_t)MCP_READ_BYTES_MAX)
                return error_set(err, GB_E_USAGE, EINVAL, "offset: from 0 on; limit: from 1 to %llu bytes", (unsigned long long)MCP_READ_BYTES_MAX);
        g->offset = (uint64_t)from;
        g->limit = (size_t)most;
        g->whole = from == 0 && !limit;
        return mcp_target_parse(arguments, NULL, &g->target, err);
}

/* ---- pictures ---- */

/* All of the file, when its name and its first bytes say the same kind of picture. 1: it is one; 0: it is not. */
static int read_picture(struct mcp_call *c, struct reading *g, int fd, uint64_t size, gb_error *err)
{
        _cleanup_mcp_piece_ struct mcp_piece p = {0};
        const char *type = media_type_of(g->target.path);

        if (!g->whole || !media_is_picture(type) || size == 0 || size > PICTURE_BYTES_MAX)
                return 0;
        int r = size > RESULT_SMALL_MAX ? request_reserve(c->request, RESULT_GROWTH * size, err) : 0;
        if (r == 0)
                r = mcp_piece_of_file(fd, 0, PICTURE_BYTES_MAX, &p, err);
        if (r < 0)
                return r;
        const char *found = media_picture_of(p.bytes, p.size);
        if (!found || strcmp(found, type) != 0 || mcp_piece_has_more(&p))
                return 0;
        g->piece = p;
        p = (struct mcp_piece){0};
        g->type = type;
        g->picture = true;
        return 1;
}

/* ---- the result ---- */

static int set_text(json_t *o, const struct reading *g)
{
        const struct mcp_piece *p = &g->piece;
        _cleanup_free_ char *encoded = NULL;
        size_t size;

        if (g->picture)
                return json_object_set_new(o, "encoding", json_string("picture")) | json_object_set_new(o, "text", json_string(""));
        if (p->text || g->target.kind != RESOURCE_FILE)
                return json_object_set_new(o, "encoding", json_string("utf-8")) | json_object_set_new(o, "text", mcp_piece_to_text(p));
        if (base64_encode(p->bytes, p->size, &encoded, &size) < 0)
                return -1;
        return json_object_set_new(o, "encoding", json_string("base64")) | json_object_set_new(o, "text", json_stringn(encoded, size));
}

/* names: an object with session, path and uri; taken. */
static json_t *reading_to_json(const struct reading *g, json_t *names)
{
        _cleanup_json_ json_t *o = names;
        const struct mcp_piece *p = &g->piece;
        int r = o ? 0 : -1;

        r |= json_object_set_new(o, "type", json_string(g->type));
        r |= json_object_set_new(o, "size", json_integer((json_int_t)MIN(p->total, (uint64_t)INT64_MAX)));
        r |= json_object_set_new(o, "offset", json_integer((json_int_t)p->offset));
        r |= json_object_set_new(o, "length", json_integer((json_int_t)p->size));
        r |= json_object_set_new(o, "more", json_boolean(mcp_piece_has_more(p)));
        r |= set_text(o, g);
        return r == 0 ? TAKE_PTR(o) : NULL;
}

static int add_head(struct buffer *text, const struct reading *g, const json_t *o)
{
        const struct mcp_piece *p = &g->piece;
        int r = g->note ? buffer_printf(text, "%s\n", g->note) : 0;

        if (r == 0)
                r = mcp_add_quoted(text, json_string_value(json_object_get(o, "path")));
        if (r == 0)
                r = buffer_printf(text, ": %s, %llu bytes", g->type, (unsigned long long)p->total);
        if (r == 0 && p->size == 0 && p->total > 0)
                r = buffer_printf(text, "; there is nothing from byte %llu on", (unsigned long long)p->offset);
        else if (r == 0 && p->size > 0 && (p->offset > 0 || mcp_piece_has_more(p)))
                r = buffer_printf(text, "; these are %zu of them, from byte %llu on", p->size, (unsigned long long)p->offset);
        return r;
}

static int add_text(struct buffer *text, const struct reading *g, const json_t *o)
{
        const struct mcp_piece *p = &g->piece;
        const json_t *given = json_object_get(o, "text");
        uint64_t next = p->offset + p->size;
        char nonce[CONTENT_NONCE_MAX];
        int r = add_head(text, g, o);

        if (r < 0 || g->picture)
                return r;
        if (strcmp(json_string_value(json_object_get(o, "encoding")), "base64") == 0) {
                r = buffer_printf(text, ". It is not text%s. Look into it with run_python; the bytes are in the structured content, too, in base64",
                                  media_is_picture(g->type) ? ", and no picture that can be shown: too large, another kind than its name says, or a piece" : "");
        } else if (p->size > 0) {
                content_nonce(nonce);
                r = buffer_add_string(text, "\n");
                if (r == 0)
                        r = content_add_marked(text, nonce, "file", json_string_value(given), json_string_length(given), json_string_length(given), NULL);
        }
        if (r == 0 && mcp_piece_has_more(p))
                r = buffer_printf(text, "\nThere is more: go on with offset %llu", (unsigned long long)next);
        return r;
}

static int add_picture(json_t *result, const struct reading *g)
{
        _cleanup_free_ char *encoded = NULL;
        size_t size;

        if (base64_encode(g->piece.bytes, g->piece.size, &encoded, &size) < 0)
                return -1;
        return json_array_append_new(json_object_get(result, "content"), content_picture(g->type, encoded, size));
}

/* Takes names. */
static int finish(const struct reading *g, json_t *names, json_t **ret, struct rpc_error *err)
{
        _cleanup_json_ json_t *o = reading_to_json(g, names), *result = NULL;
        _cleanup_buffer_ struct buffer text;

        buffer_init(&text, TEXT_MAX);
        if (!o || add_text(&text, g, o) < 0)
                return mcp_out_of_memory(err);
        result = content_of_object(TAKE_PTR(o), &text);
        if (!result || (g->picture && add_picture(result, g) < 0))
                return mcp_out_of_memory(err);
        *ret = TAKE_PTR(result);
        return 0;
}

/* ---- where from ---- */

static int read_bytes(struct mcp_call *c, struct reading *g, const struct files *files, gb_error *err)
{
        uint64_t size = 0;

        _cleanup_close_ int fd = files_open(files, g->target.path, &size, err);
        if (fd < 0)
                return fd;
        int r = read_picture(c, g, fd, size, err);
        if (r != 0)
                return MIN(r, 0);
        r = mcp_piece_of_file(fd, g->offset, g->limit, &g->piece, err);
        if (r == 0)
                g->type = mcp_piece_type(&g->piece, g->target.path);
        return r;
}

static int read_file(struct mcp_call *c, struct reading *g, const json_t *arguments, json_t **ret, struct rpc_error *err)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        struct files files;
        gb_error error = {0};

        int r = mcp_target_session(c, &g->target, arguments, false, &s, &files, &g->note, &error);
        if (r == 0)
                r = read_bytes(c, g, &files, &error);
        if (r < 0)
                return mcp_target_failed(c, s, &g->target, arguments, &error, ret, err);
        _cleanup_json_ json_t *names = json_object();
        if (!names || mcp_target_set_names(names, s, g->target.path) < 0)
                return mcp_out_of_memory(err);
        return finish(g, TAKE_PTR(names), ret, err);
}

static int read_output(struct mcp_call *c, struct reading *g, json_t **ret, struct rpc_error *err)
{
        _cleanup_journal_run_ struct journal_run run = {0};
        gb_error error = {0};

        int r = mcp_piece_of_output(c->server->journal, c->caller->tenant, &g->target, g->offset, g->limit, &g->piece, &run, &error);
        if (r < 0)
                return mcp_tool_failed(c, NULL, &error, ret, err);
        _cleanup_free_ char *uri = resource_uri_output(g->target.id, g->target.kind);
        g->type = "text/plain";
        if (!uri)
                return mcp_out_of_memory(err);
        json_t *names = json_pack("{s:s?, s:s, s:s}", "session", run.session[0] ? run.session : NULL, "path",
                                  g->target.kind == RESOURCE_STDOUT ? "stdout" : "stderr", "uri", uri);
        return finish(g, names, ret, err);
}

int mcp_tool_read_file(struct mcp_call *c, const json_t *arguments, json_t **ret, struct rpc_error *err)
{
        _cleanup_(reading_done) struct reading g = {0};
        gb_error error = {0};

        if (reading_parse(arguments, &g, &error) < 0)
                return mcp_target_failed(c, NULL, &g.target, arguments, &error, ret, err);
        return g.target.kind == RESOURCE_FILE ? read_file(c, &g, arguments, ret, err) : read_output(c, &g, ret, err);
}
