/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers that come bit by bit: the progress of a build, the bytes of an image. They may take as long as they like, but not be silent. */
#include "backend/docker/exchange.h"
#include "backend/docker/values.h"
#include "base/fd.h"
#include "base/json.h"

#include <errno.h>
#include <string.h>

/* What is done with the bytes that have come; whole: these are the last. */
struct sink {
        int (*take)(struct exchange *x, bool whole, void *data, gb_error *err);
        void *data;
        uint64_t silence_usec;
        int cancel_fd;
};

static int converse(struct exchange *x, const struct engine *e, const struct client_request *request, const struct sink *sink, int *ret_status, gb_error *err)
{
        const struct client *c = &x->client;
        int r = exchange_start(x, e, *request, monotonic_usec() + MIN(sink->silence_usec, ENGINE_ANSWER_USEC), sink->cancel_fd, err);

        while (r == 0) {
                if (client_has_head(c) && c->response.status >= 400) {
                        *ret_status = c->response.status;
                        return exchange_refusal(x, monotonic_usec() + ENGINE_ANSWER_USEC, sink->cancel_fd, err);
                }
                bool whole = client_is_done(c);
                if (client_has_head(c)) {
                        *ret_status = c->response.status;
                        r = sink->take(x, whole, sink->data, err);
                }
                if (r < 0 || whole)
                        return r;
                r = exchange_advance(x, monotonic_usec() + sink->silence_usec, sink->cancel_fd, err);
        }
        /* What it said before the connection was lost may tell why. */
        if (r < 0 && r != -ECANCELED && c->response.status >= 200 && c->response.status < 400) {
                *ret_status = c->response.status;
                sink->take(x, false, sink->data, NULL);
        }
        return r;
}

/* ---- values ---- */

struct values {
        struct value_scan scan;
        int (*line)(void *data, const json_t *value);
        void *data;
};

static int not_json(const struct exchange *x, int r, const char *why, gb_error *err)
{
        if (r == -ENOMEM)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory for an answer of the engine");
        return engine_rubbish(x->engine, GB_E_LOST, why, err);
}

static int take_values(struct exchange *x, bool whole, void *data, gb_error *err)
{
        struct values *v = data;
        const char *why = NULL;

        for (;;) {
                size_t size;
                const char *bytes = client_data(&x->client, &size);
                if (v->scan.at == 0 && size > 0) {
                        size_t blank = value_skip(bytes, size);
                        client_take(&x->client, blank);
                        bytes = client_data(&x->client, &size);
                }
                if (size == 0)
                        return 0;
                long length = value_scan(&v->scan, bytes, size, &why);
                if (length == 0 && whole)
                        return not_json(x, -EBADMSG, "its JSON is cut off", err);
                if (length == 0)
                        return 0;
                if (length < 0)
                        return not_json(x, (int)length, why, err);

                _cleanup_json_ json_t *value = NULL;
                int r = value_load(bytes, (size_t)length, &value, &why);
                if (r < 0)
                        return not_json(x, r, why, err);
                client_take(&x->client, (size_t)length);
                r = v->line ? v->line(v->data, value) : 0;
                if (r < 0)
                        return r;
        }
}

int engine_stream(const struct engine *e, const char *method, const char *target, const char *type, int body_fd, uint64_t body_size, uint64_t silence_usec,
                  int cancel_fd, int (*line)(void *data, const json_t *value), void *data, int *ret_status, gb_error *err)
{
        _cleanup_exchange_ struct exchange x = {0};
        struct values v = {.line = line, .data = data};
        struct client_request request = {.method = method, .target = target, .body_fd = -1};
        struct sink sink = {take_values, &v, silence_usec > 0 ? silence_usec : ENGINE_SILENCE_USEC, cancel_fd};

        if (body_fd >= 0) {
                request.type = type;
                request.body_fd = body_fd;
                request.body_size = body_size;
        }
        return converse(&x, e, &request, &sink, ret_status, err);
}

/* ---- bytes ---- */

struct save {
        int fd;
        uint64_t left;
};

static int take_save(struct exchange *x, bool whole _unused_, void *data, gb_error *err)
{
        struct save *s = data;
        size_t size;
        const char *bytes = client_data(&x->client, &size);

        if (size > s->left)
                return error_set(err, GB_E_LIMIT, EFBIG, "%s answers %s with more than is taken", engine_label(x->engine).text, x->what);
        int r = size > 0 ? fd_write_all(s->fd, bytes, size) : 0;
        if (r < 0)
                return error_set(err, r == -ENOSPC || r == -EDQUOT ? GB_E_DISK_FULL : GB_E_INTERNAL, -r, "cannot write what the engine sends: %s", strerror(-r));
        s->left -= size;
        client_take(&x->client, size);
        return 0;
}

int engine_save(const struct engine *e, const char *target, int fd, uint64_t max, int cancel_fd, int *ret_status, gb_error *err)
{
        _cleanup_exchange_ struct exchange x = {0};
        struct save s = {.fd = fd, .left = max};
        struct client_request request = {.method = "GET", .target = target, .accept = "*/*", .body_fd = -1};
        struct sink sink = {take_save, &s, ENGINE_SILENCE_USEC, cancel_fd};

        return converse(&x, e, &request, &sink, ret_status, err);
}
