/* SPDX-License-Identifier: Apache-2.0
 *
 * What a box has sent where: memory that the proxy writes and the front reads, one for each box. It outlives a proxy that dies, and with it what is left of the
 * budgets. The front believes no number in it further than it would believe the proxy. */
#ifndef EGRESS_LEDGER_H
#define EGRESS_LEDGER_H

#include "base/host.h"
#include "base/limits.h"
#include "egress/rules.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LEDGER_VERSION 1U
#define LEDGER_ROWS_ALL (LEDGER_ROWS_MAX + 2)

struct ledger_row {
        char host[HOST_TEXT_MAX]; /* "" in the row of all that had no place */
        uint16_t port;
        uint8_t decision; /* enum egress_decision */
        uint8_t protocol; /* enum egress_protocol */
        char rule[NETWORK_RULE_TEXT_MAX]; /* "": none */
        _Atomic uint64_t requests; /* tunnels, and requests of HTTP */
        _Atomic uint64_t bytes_up, bytes_down;
};

struct ledger {
        uint32_t version;
        _Atomic uint32_t n_rows; /* those below are complete */
        _Atomic uint32_t open;   /* connections of the box right now */
        _Atomic uint32_t cut;    /* enum egress_decision of the budget that ended connections; 0: none */
        _Atomic uint64_t requests, denied;
        _Atomic uint64_t bytes_up, bytes_down;
        struct ledger_row rows[LEDGER_ROWS_ALL]; /* the last two: what had no place of its own, and has passed; and what has not */
};

/* ---- the proxy's side ---- */

/* The row for this; makes it, or gives one of the last two. rule: text or NULL. */
struct ledger_row *ledger_row(struct ledger *l, const char *host, uint16_t port, enum egress_decision d, enum egress_protocol protocol, const char *rule);
/* Counts a request that was decided. */
void ledger_count(struct ledger *l, struct ledger_row *row);
/* Counts bytes, in the row and in all. */
void ledger_add(struct ledger *l, struct ledger_row *row, uint64_t up, uint64_t down);

/* ---- the front's side ---- */

/* A new one: a descriptor whose size is sealed, mapped. 0 or a negative errno. */
int ledger_new(int *ret_fd, struct ledger **ret);
/* The proxy's: maps what came; -EINVAL when it is not one. */
int ledger_map(int fd, struct ledger **ret);
void ledger_unmap(struct ledger *l); /* takes NULL */

/* What it says now, as plain numbers: checked, every text with its NUL, n_rows in its bounds. */
struct ledger_entry {
        char host[HOST_TEXT_MAX];
        uint16_t port;
        enum egress_decision decision;
        enum egress_protocol protocol;
        char rule[NETWORK_RULE_TEXT_MAX];
        uint64_t requests, bytes_up, bytes_down;
};

struct ledger_copy {
        uint32_t open;
        enum egress_decision cut;
        uint64_t requests, denied, bytes_up, bytes_down;
        /* set where copies are added up: there was no memory for a part, so the numbers are too small or rows are
         * missing */
        bool incomplete;
        bool unserved; /* set by who reads it, who knows: the proxy is gone, and nothing passes any more */
        size_t n;
        struct ledger_entry rows[]; /* n */
};

/* NULL when out of memory. */
struct ledger_copy *ledger_read(const struct ledger *l);
/* What has come since `before` (NULL: all): rows without anything new are left out. NULL when out of memory. */
struct ledger_copy *ledger_since(const struct ledger *l, const struct ledger_copy *before);

#endif
