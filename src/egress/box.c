/* SPDX-License-Identifier: Apache-2.0
 *
 * A box is known by where its connections come from, and by nothing that it says. */
#include "base/fd.h"
#include "base/message.h"
#include "egress/core.h"
#include "egress/intercept.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPTS_AT_ONCE 64 /* so that one box that floods us does not keep the others waiting */

LIST_HEAD(boxes, box);
static struct boxes boxes = LIST_HEAD_INITIALIZER(boxes);

/* ---- rules ---- */

struct rules_block *rules_map(int fd)
{
        const int wanted = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
        off_t size = lseek(fd, 0, SEEK_END);
        int seals = fcntl(fd, F_GET_SEALS);

        if (seals < 0 || (seals & wanted) != wanted || size <= 0 || size > (off_t)EGRESS_POLICY_BYTES_MAX)
                return NULL;
        void *p = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
                return NULL;
        struct rules_block *b = egress_rules_valid(p, (size_t)size) ? malloc(sizeof(*b)) : NULL;
        if (!b) {
                munmap(p, (size_t)size);
                return NULL;
        }
        *b = (struct rules_block){.uses = 1, .size = (size_t)size, .rules = p};
        return b;
}

struct rules_block *rules_hold(struct rules_block *b)
{
        b->uses++;
        return b;
}

void rules_drop(struct rules_block *b)
{
        if (!b || --b->uses > 0)
                return;
        munmap((void *)(uintptr_t)b->rules, b->size);
        free(b);
}

/* ---- budgets ---- */

uint64_t box_left(const struct box *b)
{
        uint64_t max = b->rules->rules->bytes_max, used = b->ledger->bytes_up + b->ledger->bytes_down;

        return max == 0 ? UINT64_MAX : used >= max ? 0 : max - used;
}

int box_count(struct box *b, struct ledger_row *row, uint64_t up, uint64_t down)
{
        ledger_add(b->ledger, row, up, down);
        if (box_left(b) > 0)
                return 0;
        if (b->ledger->cut == 0) {
                b->ledger->cut = EGRESS_OVER_BYTES;
                ledger_count(b->ledger, ledger_row(b->ledger, row->host, row->port, EGRESS_OVER_BYTES, row->protocol, NULL));
        }
        event_active(b->cut_event, 0, 0);
        return -EDQUOT;
}

static void on_cut(evutil_socket_t fd, short what, void *data)
{
        struct box *b = data;

        for (struct connection *c = LIST_FIRST(&b->connections), *next; c; c = next) {
                next = LIST_NEXT(c, entry);
                if (!c->ending) /* it is being told why */
                        connection_free(c);
        }
}

/* ---- connections ---- */

/* Nothing is read of it: there is no room for what it says. */
static void turn_away(struct box *b, int fd)
{
        static const char text[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nGlovebox-Denied: connections\r\n\r\n"
                                   "glovebox: this sandbox has as many connections open as it may have at a time. Close some, then try again.\n";
        char unread[4096];

        ledger_count(b->ledger, ledger_row(b->ledger, "", 0, EGRESS_OVER_CONNECTIONS, EGRESS_HTTPS, NULL));
        (void)recv(fd, unread, sizeof(unread), MSG_DONTWAIT);
        (void)send(fd, text, sizeof(text) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        safe_close(fd);
}

/* A connection has two descriptors, and the proxy must have some for orders, nameservers and pipes: one box that takes all it may must not end the others. */
#define RESERVED_DESCRIPTORS 320

static unsigned connections_most = 256;

void boxes_init(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return;
        if (limit.rlim_cur < limit.rlim_max) {
                limit.rlim_cur = limit.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &limit);
                (void)getrlimit(RLIMIT_NOFILE, &limit);
        }
        rlim_t most = limit.rlim_cur > RESERVED_DESCRIPTORS ? (limit.rlim_cur - RESERVED_DESCRIPTORS) / 2 : 16;
        connections_most = (unsigned)MIN(most, (rlim_t)INT32_MAX);
}

static void take(struct box *b, int fd)
{
        if (b->n_connections >= b->rules->rules->connections_max || connections_now >= connections_most)
                turn_away(b, fd);
        else
                connection_new(b, fd);
}

/* The descriptors of the process are used up: those who wait do so where they are. */
static void pause_source(struct box *b)
{
        static const struct timeval soon = {.tv_usec = 100000};

        event_del(b->source_event);
        evtimer_add(b->pause_event, &soon);
}

static void on_pause(evutil_socket_t fd, short what, void *data)
{
        struct box *b = data;

        event_add(b->source_event, NULL);
}

static void on_listener(evutil_socket_t source, short what, void *data)
{
        struct box *b = data;

        for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
                int fd = accept4(source, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (fd >= 0)
                        take(b, fd);
                else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
                        return pause_source(b);
                else if (errno != EINTR && errno != ECONNABORTED)
                        return;
        }
}

/* Each message brings one. */
static void on_door(evutil_socket_t source, short what, void *data)
{
        struct box *b = data;
        int fds[BOX_FDS_MAX], n = 0;
        char byte;

        for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
                ssize_t size = message_receive(source, MSG_DONTWAIT, &byte, 1, fds, &n);
                if (size == 0) /* the box is gone, and will be taken from us */
                        event_del(b->source_event);
                if (size <= 0 && size != -EMSGSIZE && size != -EINTR)
                        return;
                for (int at = 0; size > 0 && at < n; at++) {
                        if (at > 0 || fd_set_nonblock(fds[at]) < 0)
                                safe_close(fds[at]);
                        else
                                take(b, fds[at]);
                }
        }
}

/* ---- the box ---- */

struct box *box_find(uint64_t id)
{
        struct box *b;

        LIST_FOREACH(b, &boxes, entry)
                if (b->id == id)
                        return b;
        return NULL;
}

static void free_event(struct event *e)
{
        if (e)
                event_free(e);
}

int box_new(uint64_t id, struct rules_block *rules, struct ledger *ledger, struct authority *authority, int source, gb_error *err)
{
        struct box *b = calloc(1, sizeof(*b));
        int listening = 0;
        socklen_t size = sizeof(listening);

        if (!b)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        (void)getsockopt(source, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size);
        *b = (struct box){.id = id, .rules = rules, .ledger = ledger, .authority = authority, .source = source};
        b->source_event = event_new(egress_base, source, EV_READ | EV_PERSIST, listening ? on_listener : on_door, b);
        b->cut_event = evtimer_new(egress_base, on_cut, b);
        b->pause_event = evtimer_new(egress_base, on_pause, b);
        if (!b->source_event || !b->cut_event || !b->pause_event || fd_set_nonblock(source) < 0 || event_add(b->source_event, NULL) < 0) {
                free_event(b->source_event);
                free_event(b->cut_event);
                free_event(b->pause_event);
                free(b);
                return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot watch the connections of a box");
        }
        b->ledger->open = 0; /* those of a proxy before us have died with it */
        LIST_INSERT_HEAD(&boxes, b, entry);
        return 0;
}

void box_change(struct box *b, struct rules_block *rules)
{
        rules_drop(b->rules);
        b->rules = rules;
        if (box_left(b) > 0)
                b->ledger->cut = 0;
        for (struct connection *c = LIST_FIRST(&b->connections), *next; c; c = next) {
                next = LIST_NEXT(c, entry);
                connection_judge_again(c);
        }
}

void box_free(struct box *b)
{
        LIST_REMOVE(b, entry);
        while (!LIST_EMPTY(&b->connections))
                connection_free(LIST_FIRST(&b->connections));
        free_event(b->source_event);
        free_event(b->cut_event);
        free_event(b->pause_event);
        safe_close(b->source);
        authority_free(b->authority);
        rules_drop(b->rules);
        ledger_unmap(b->ledger);
        free(b);
}
