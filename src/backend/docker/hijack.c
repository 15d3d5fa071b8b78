/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection of a request that becomes a stream both ways. */
#include "backend/docker/exchange.h"
#include "base/fd.h"

#include <errno.h>

int engine_hijack(const struct engine *e, const char *target, int *ret_fd, struct buffer *early, gb_error *err)
{
        uint64_t deadline = monotonic_usec() + ENGINE_ANSWER_USEC;
        _cleanup_exchange_ struct exchange x = {0};
        struct client *c = &x.client;
        struct client_request request = {.method = "POST", .target = target, .accept = "*/*", .upgrade = "tcp", .body_fd = -1};
        int r = exchange_start(&x, e, request, deadline, -1, err);

        if (r == 0)
                r = exchange_head(&x, deadline, -1, err);
        if (r < 0)
                return r;
        int status = c->response.status;
        if (status >= 300)
                return exchange_refusal(&x, deadline, -1, err);
        if ((status != 101 && status != 200) || !c->response.until_close || c->fd < 0)
                return engine_rubbish(e, GB_E_LOST, "it does not let go of a connection for a stream", err);
        size_t size;
        const char *bytes = client_data(c, &size);
        if (size > 0 && buffer_add(early, bytes, size) < 0)
                return error_set(err, GB_E_LIMIT, EFBIG, "%s sends too much at the beginning of a stream", engine_label(e).text);
        *ret_fd = TAKE_FD(c->fd);
        return 0;
}
