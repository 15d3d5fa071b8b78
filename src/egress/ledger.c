/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/ledger.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What was refused or has failed gets no more places than this: a program that asks for one name after another cannot hide what it does reach. */
#define FAILED_ROWS_MAX (LEDGER_ROWS_MAX / 2)

/* ---- the proxy's side ---- */

static bool row_is(const struct ledger_row *row, const char *host, uint16_t port, enum egress_decision d, enum egress_protocol protocol, const char *rule)
{
        return row->port == port && row->decision == d && row->protocol == protocol && strcmp(row->host, host) == 0 && strcmp(row->rule, rule) == 0;
}

struct ledger_row *ledger_row(struct ledger *l, const char *host, uint16_t port, enum egress_decision d, enum egress_protocol protocol, const char *rule)
{
        struct ledger_row *rest = &l->rows[LEDGER_ROWS_MAX + (d != EGRESS_ALLOWED)];
        size_t n = atomic_load_explicit(&l->n_rows, memory_order_relaxed), failed = 0;

        if (!rule)
                rule = "";
        for (size_t i = 0; i < n && i < LEDGER_ROWS_MAX; i++) {
                if (row_is(&l->rows[i], host, port, d, protocol, rule))
                        return &l->rows[i];
                failed += l->rows[i].decision != EGRESS_ALLOWED;
        }
        /* A request without a host has no row either. */
        if (n >= LEDGER_ROWS_MAX || *host == '\0' || (d != EGRESS_ALLOWED && failed >= FAILED_ROWS_MAX)) {
                rest->decision = (uint8_t)d;
                return rest;
        }
        struct ledger_row *row = &l->rows[n];
        memset(row, 0, sizeof(*row));
        snprintf(row->host, sizeof(row->host), "%s", host);
        snprintf(row->rule, sizeof(row->rule), "%s", rule);
        row->port = port;
        row->decision = (uint8_t)d;
        row->protocol = (uint8_t)protocol;
        atomic_store_explicit(&l->n_rows, (uint32_t)n + 1, memory_order_release);
        return row;
}

void ledger_count(struct ledger *l, struct ledger_row *row)
{
        atomic_fetch_add_explicit(&row->requests, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&l->requests, 1, memory_order_relaxed);
        if (egress_is_denied(row->decision))
                atomic_fetch_add_explicit(&l->denied, 1, memory_order_relaxed);
}

void ledger_add(struct ledger *l, struct ledger_row *row, uint64_t up, uint64_t down)
{
        atomic_fetch_add_explicit(&row->bytes_up, up, memory_order_relaxed);
        atomic_fetch_add_explicit(&row->bytes_down, down, memory_order_relaxed);
        atomic_fetch_add_explicit(&l->bytes_up, up, memory_order_relaxed);
        atomic_fetch_add_explicit(&l->bytes_down, down, memory_order_relaxed);
}

/* ---- the memory ---- */

static int map(int fd, struct ledger **ret)
{
        void *memory = mmap(NULL, sizeof(struct ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (memory == MAP_FAILED)
                return -errno;
        *ret = memory;
        return 0;
}

int ledger_new(int *ret_fd, struct ledger **ret)
{
        _cleanup_close_ int fd = memfd_create("glovebox-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        struct ledger *l = NULL;

        if (fd < 0)
                return -errno;
        if (ftruncate(fd, sizeof(struct ledger)) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                return -errno;
        int r = map(fd, &l);
        if (r < 0)
                return r;
        l->version = LEDGER_VERSION;
        *ret_fd = TAKE_FD(fd);
        *ret = l;
        return 0;
}

int ledger_map(int fd, struct ledger **ret)
{
        struct ledger *l = NULL;

        int seals = fcntl(fd, F_GET_SEALS);
        if (seals < 0 || !(seals & F_SEAL_SHRINK) || lseek(fd, 0, SEEK_END) != (off_t)sizeof(*l)) /* not fstat(): the proxy has no calls that take paths */
                return -EINVAL;
        int r = map(fd, &l);
        if (r < 0)
                return r;
        if (l->version != LEDGER_VERSION || atomic_load(&l->n_rows) > LEDGER_ROWS_MAX) {
                ledger_unmap(l);
                return -EINVAL;
        }
        *ret = l;
        return 0;
}

void ledger_unmap(struct ledger *l)
{
        if (l)
                munmap(l, sizeof(*l));
}

/* ---- the front's side ---- */

/* One that is not ours may write there what it wants, also while it is read. */
static void copy_text(char *to, const char *from, size_t size)
{
        memcpy(to, from, size);
        to[size - 1] = '\0';
        for (; *to; to++)
                if (*to < ' ' || *to > '~')
                        *to = '?';
}

static uint64_t load(const _Atomic uint64_t *from)
{
        return atomic_load_explicit(from, memory_order_relaxed);
}

static bool read_row(const struct ledger_row *row, struct ledger_entry *ret)
{
        uint8_t decision = row->decision, protocol = row->protocol;

        if (decision >= EGRESS_DECISION_COUNT || protocol >= EGRESS_PROTOCOLS)
                return false;
        *ret = (struct ledger_entry){
                .port = row->port,
                .decision = (enum egress_decision)decision,
                .protocol = (enum egress_protocol)protocol,
                .requests = load(&row->requests),
                .bytes_up = load(&row->bytes_up),
                .bytes_down = load(&row->bytes_down),
        };
        copy_text(ret->host, row->host, sizeof(ret->host));
        copy_text(ret->rule, row->rule, sizeof(ret->rule));
        return true;
}

struct ledger_copy *ledger_read(const struct ledger *l)
{
        size_t n = atomic_load_explicit(&l->n_rows, memory_order_acquire);
        uint32_t cut = atomic_load_explicit(&l->cut, memory_order_relaxed);

        if (n > LEDGER_ROWS_MAX)
                n = LEDGER_ROWS_MAX;
        struct ledger_copy *c = calloc(1, sizeof(*c) + (n + 2) * sizeof(c->rows[0]));
        if (!c)
                return NULL;
        c->open = atomic_load_explicit(&l->open, memory_order_relaxed);
        c->cut = cut < EGRESS_DECISION_COUNT ? (enum egress_decision)cut : EGRESS_ALLOWED;
        c->requests = load(&l->requests);
        c->denied = load(&l->denied);
        c->bytes_up = load(&l->bytes_up);
        c->bytes_down = load(&l->bytes_down);
        for (size_t i = 0; i < n; i++)
                c->n += read_row(&l->rows[i], &c->rows[c->n]);
        /* What had no place is named by nothing, whatever is written there. */
        for (size_t i = LEDGER_ROWS_MAX; i < LEDGER_ROWS_ALL; i++) {
                struct ledger_entry *rest = &c->rows[c->n];
                if (!read_row(&l->rows[i], rest) || (rest->requests == 0 && rest->bytes_up == 0 && rest->bytes_down == 0))
                        continue;
                rest->host[0] = rest->rule[0] = '\0';
                rest->port = 0;
                c->n++;
        }
        return c;
}

static bool is_same(const struct ledger_entry *a, const struct ledger_entry *b)
{
        if (a->host[0] == '\0' || b->host[0] == '\0')
                return a->host[0] == b->host[0] && (a->decision == EGRESS_ALLOWED) == (b->decision == EGRESS_ALLOWED);
        return a->port == b->port && a->decision == b->decision && a->protocol == b->protocol && strcmp(a->host, b->host) == 0 && strcmp(a->rule, b->rule) == 0;
}

/* A number that went back has not grown. */
static void subtract(uint64_t *from, uint64_t what)
{
        *from = *from > what ? *from - what : 0;
}

static void subtract_row(struct ledger_entry *row, const struct ledger_copy *before)
{
        for (size_t i = 0; i < before->n; i++) {
                const struct ledger_entry *old = &before->rows[i];
                if (!is_same(row, old))
                        continue;
                subtract(&row->requests, old->requests);
                subtract(&row->bytes_up, old->bytes_up);
                subtract(&row->bytes_down, old->bytes_down);
                return;
        }
}

struct ledger_copy *ledger_since(const struct ledger *l, const struct ledger_copy *before)
{
        struct ledger_copy *c = ledger_read(l);
        size_t n = 0;

        if (!c || !before)
                return c;
        subtract(&c->requests, before->requests);
        subtract(&c->denied, before->denied);
        subtract(&c->bytes_up, before->bytes_up);
        subtract(&c->bytes_down, before->bytes_down);
        if (c->cut == before->cut)
                c->cut = EGRESS_ALLOWED;
        for (size_t i = 0; i < c->n; i++) {
                struct ledger_entry row = c->rows[i];
                subtract_row(&row, before);
                if (row.requests > 0 || row.bytes_up > 0 || row.bytes_down > 0)
                        c->rows[n++] = row;
        }
        c->n = n;
        return c;
}
