/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp.h"

#include "base/limits.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES (64 * KIB)
#define META_VERSION "io.modelcontextprotocol/protocolVersion"

/* ---- messages ---- */

void message_done(struct message *m)
{
        if (m->text)
                explicit_bzero(m->text, m->size);
        free(m->text);
        free(m->method);
        free(m->version);
        free(m->name);
        json_decref(m->id);
        json_decref(m->cancels);
        *m = (struct message){0};
}

bool message_is(const struct message *m, const char *method)
{
        return m->method && strcmp(m->method, method) == 0;
}

/* NULL for what is no text; and where memory lacks, as *ok says. */
static char *copy_text(const json_t *value, bool *ok)
{
        char *copy = json_is_string(value) ? strdup(json_string_value(value)) : NULL;

        if (json_is_string(value) && !copy)
                *ok = false;
        return copy;
}

static int take_params(struct message *m, const json_t *params)
{
        const json_t *version = json_object_get(json_object_get(params, "_meta"), META_VERSION);
        bool ok = true;

        m->version = copy_text(version, &ok);
        if (m->version)
                m->name = copy_text(json_object_get(params, strncmp(m->method, "resources/", strlen("resources/")) == 0 ? "uri" : "name"), &ok);
        if (!m->id && strcmp(m->method, "notifications/cancelled") == 0)
                m->cancels = json_incref(json_object_get(params, "requestId"));
        return ok ? 0 : -ENOMEM;
}

int message_read(struct message *ret, char *text, size_t size, const char **ret_why)
{
        json_error_t where;
        bool ok = true;

        *ret = (struct message){.text = text, .size = size};
        _cleanup_json_ json_t *value = json_loadb(text, size, JSON_ALLOW_NUL | JSON_DECODE_ANY, &where);
        if (!value) {
                bool memory = json_error_code(&where) == json_error_out_of_memory;
                *ret_why = memory ? "out of memory" : "the line is not JSON in UTF-8";
                return memory ? MCP_INTERNAL : MCP_PARSE;
        }
        const json_t *id = json_object_get(value, "id"), *method = json_object_get(value, "method");
        bool is_good = json_is_string(id) || json_is_integer(id);
        /* What is neither a request nor an answer the server would refuse, too; it could not say whose it was. */
        if (!json_is_object(value) || (method && !json_is_string(method)) || (id && method && !is_good) || (!id && !method)) {
                *ret_why = json_is_array(value) ? "a line is one message: batches are not understood" : "this is no message of JSON-RPC";
                ret->id = is_good ? json_incref((json_t *)(uintptr_t)id) : NULL;
                return MCP_INVALID;
        }
        ret->method = copy_text(method, &ok);
        if (ret->method && id)
                ret->id = json_incref((json_t *)(uintptr_t)id);
        if (ok && ret->method)
                ok = take_params(ret, json_object_get(value, "params")) == 0;
        *ret_why = "out of memory";
        return ok ? 0 : MCP_INTERNAL;
}

/* ---- lines ---- */

void input_init(struct input *in)
{
        *in = (struct input){0};
        buffer_init(&in->bytes, MCP_LINE_BYTES_MAX + PIECE_BYTES);
        in->bytes.secret = true;
}

void input_done(struct input *in)
{
        buffer_done(&in->bytes);
}

/* What was taken makes room. */
static void compact(struct input *in)
{
        if (in->begin == 0)
                return;
        in->bytes.size -= in->begin;
        memmove(in->bytes.data, in->bytes.data + in->begin, in->bytes.size);
        in->looked -= in->begin;
        in->begin = 0;
}

int input_read(struct input *in, int fd)
{
        char piece[PIECE_BYTES];

        ssize_t n = read(fd, piece, sizeof(piece));
        if (n < 0)
                return errno == EINTR || errno == EAGAIN ? 0 : -errno;
        if (n == 0) {
                in->ended = true;
                return 0;
        }
        compact(in);
        return buffer_add(&in->bytes, piece, (size_t)n);
}

static bool is_blank(const char *line, size_t size)
{
        for (size_t i = 0; i < size; i++)
                if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
                        return false;
        return true;
}

/* The end of the line that begins there; false: it has not come yet. */
static bool find_end(struct input *in, size_t *ret_size, bool *ret_too_long)
{
        const char *end = in->bytes.size > in->looked ? memchr(in->bytes.data + in->looked, '\n', in->bytes.size - in->looked) : NULL;

        *ret_size = (end ? (size_t)(end - in->bytes.data) : in->bytes.size) - in->begin;
        *ret_too_long = in->too_long || *ret_size > MCP_LINE_BYTES_MAX;
        if (!end && in->ended && *ret_size > 0)
                return true; /* the last one needs no end */
        in->looked = in->begin + *ret_size;
        if (end)
                return true;
        if (*ret_too_long) {
                in->too_long = true;
                in->bytes.size = in->begin = in->looked = 0;
        }
        return false;
}

enum input_line input_next(struct input *in, char **ret, size_t *ret_size)
{
        size_t size;
        bool too_long;

        while (find_end(in, &size, &too_long)) {
                const char *line = in->bytes.data + in->begin;
                bool blank = !too_long && is_blank(line, size);
                char *copy = too_long || blank ? NULL : malloc(size + 1);

                if (copy) {
                        memcpy(copy, line, size);
                        copy[size] = '\0';
                }
                in->begin = MIN(in->begin + size + 1, in->bytes.size);
                in->looked = in->begin;
                in->too_long = false;
                if (blank)
                        continue;
                *ret = copy;
                *ret_size = size;
                return copy ? INPUT_LINE : INPUT_TOO_LONG;
        }
        if (in->ended && in->too_long) {
                in->too_long = false;
                return INPUT_TOO_LONG;
        }
        return INPUT_NONE;
}
