/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/orders.h"

#include "base/fd.h"
#include "base/message.h"
#include "egress/core.h"
#include "egress/intercept.h"
#include "egress/protocol.h"
#include "egress/resolve.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PEM_BYTES_MAX (4 * MIB)

struct order {
        struct egress_order head;
        int fds[BOX_FDS_MAX];
        int n_fds;
};

/* The whole of what a descriptor holds, wherever its offset is: a proxy before us may have read it, too. */
static int read_text(int fd, size_t max, char **ret, size_t *ret_size, gb_error *err)
{
        off_t size = lseek(fd, 0, SEEK_END); /* fstat() is not left to us: it comes as a call that takes paths */

        if (size < 0 || (uint64_t)size > max || lseek(fd, 0, SEEK_SET) < 0)
                return error_set(err, GB_E_INTERNAL, EINVAL, "an order of the front has a text that is too large, or none");
        int r = fd_read_all(fd, max, ret, ret_size);
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "cannot read an order of the front: %s", strerror(-r)) : 0;
}

static int do_resolver(struct order *o, gb_error *err)
{
        _cleanup_free_ char *resolv = NULL, *hosts = NULL;
        size_t resolv_size = 0, hosts_size = 0;

        if (o->n_fds != 2)
                return error_set(err, GB_E_INTERNAL, EPROTO, "an order of the front lacks a descriptor");
        int r = read_text(o->fds[0], EGRESS_RESOLVER_BYTES_MAX, &resolv, &resolv_size, err);
        if (r == 0)
                r = read_text(o->fds[1], EGRESS_RESOLVER_BYTES_MAX, &hosts, &hosts_size, err);
        return r < 0 ? r : resolve_set(resolv, resolv_size, hosts, hosts_size, err);
}

static int do_roots(struct order *o, gb_error *err)
{
        _cleanup_free_ char *pem = NULL;
        size_t size = 0;

        if (o->n_fds != 1)
                return error_set(err, GB_E_INTERNAL, EPROTO, "an order of the front lacks a descriptor");
        int r = read_text(o->fds[0], PEM_BYTES_MAX, &pem, &size, err);
        return r < 0 ? r : intercept_set_roots(pem, size, err);
}

static int read_authority(int fd, struct authority **ret, gb_error *err)
{
        char *pem = NULL;
        size_t size = 0;

        int r = read_text(fd, PEM_BYTES_MAX, &pem, &size, err);
        if (r < 0)
                return r;
        r = authority_new(pem, size, ret, err);
        explicit_bzero(pem, size);
        free(pem);
        return r;
}

static int do_box(struct order *o, gb_error *err)
{
        bool has_authority = o->head.flags & EGRESS_BOX_AUTHORITY;
        struct authority *authority = NULL;
        struct ledger *ledger = NULL;
        int r = 0;

        if (o->n_fds != (has_authority ? 4 : 3) || box_find(o->head.box))
                return error_set(err, GB_E_INTERNAL, EPROTO, "an order of the front does not fit");
        struct rules_block *rules = rules_map(o->fds[0]);
        if (!rules || ledger_map(o->fds[1], &ledger) < 0)
                r = error_set(err, GB_E_INTERNAL, EINVAL, "the rules of a box are not as they should be");
        if (r == 0 && has_authority)
                r = read_authority(o->fds[3], &authority, err);
        if (r == 0)
                r = box_new(o->head.box, rules, ledger, authority, o->fds[2], err);
        if (r == 0) {
                o->fds[2] = -1;
                return 0;
        }
        rules_drop(rules);
        ledger_unmap(ledger);
        authority_free(authority);
        return r;
}

static int do_rules(struct order *o, gb_error *err)
{
        struct box *b = box_find(o->head.box);
        struct rules_block *rules = b && o->n_fds == 1 ? rules_map(o->fds[0]) : NULL;

        if (!rules)
                return error_set(err, GB_E_INTERNAL, EINVAL, "the new rules of a box are not as they should be");
        box_change(b, rules);
        return 0;
}

static int do_gone(struct order *o, gb_error *err)
{
        struct box *b = box_find(o->head.box);

        if (b)
                box_free(b);
        return 0;
}

static int obey(struct order *o, gb_error *err)
{
        switch (o->head.kind) {
        case EGRESS_ORDER_RESOLVER: return do_resolver(o, err);
        case EGRESS_ORDER_BOX: return do_box(o, err);
        case EGRESS_ORDER_RULES: return do_rules(o, err);
        case EGRESS_ORDER_GONE: return do_gone(o, err);
        case EGRESS_ORDER_ROOTS: return do_roots(o, err);
        default: return error_set(err, GB_E_INTERNAL, EPROTO, "the proxy does not know this order: it is of another version");
        }
}

static void on_order(evutil_socket_t socket, short what, void *data)
{
        static struct order o;
        struct egress_answer answer = {.version = EGRESS_PROTOCOL_VERSION};

        o.n_fds = 0;
        ssize_t n = message_receive(socket, MSG_DONTWAIT, &o.head, sizeof(o.head), o.fds, &o.n_fds);
        if (n == -EAGAIN || n == -EINTR)
                return;
        if (n != (ssize_t)sizeof(o.head) || o.head.version != EGRESS_PROTOCOL_VERSION) {
                event_base_loopbreak(egress_base); /* the front is gone, or something else */
                return;
        }
        answer.kind = o.head.kind;
        answer.box = o.head.box;
        if (obey(&o, &answer.error) == 0)
                answer.error = (gb_error){0};
        for (int i = 0; i < o.n_fds; i++)
                safe_close(o.fds[i]);
        if (message_send(socket, &answer, sizeof(answer), NULL, 0) < 0)
                event_base_loopbreak(egress_base);
}

int orders_watch(int socket)
{
        struct event *e = event_new(egress_base, socket, EV_READ | EV_PERSIST, on_order, NULL);

        return e && event_add(e, NULL) == 0 ? 0 : -ENOMEM;
}
