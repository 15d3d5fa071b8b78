/* SPDX-License-Identifier: Apache-2.0
 *
 * What the front and the proxy say to each other: fixed-size structs over SOCK_SEQPACKET, with descriptors. Each order is answered, in order. */
#ifndef EGRESS_PROTOCOL_H
#define EGRESS_PROTOCOL_H

#include "base/error.h"
#include "base/limits.h"

#include <stdint.h>

#define EGRESS_PROTOCOL_VERSION 1U
#define EGRESS_SOCKET_FD 3 /* where the proxy finds its end */
#define EGRESS_PORT 3128   /* of the listener in each box, on 127.0.0.1 */
#define EGRESS_PORT_TEXT "3128"

enum egress_order_kind {
        EGRESS_ORDER_RESOLVER = 1, /* descriptors: a sealed memfd with the text of resolv.conf, one with that of hosts. Before the first box, and whenever they change */
        EGRESS_ORDER_BOX,   /* a box: its rules (sealed memfd), its ledger, and where its connections come from: a listening socket, or a SOCK_SEQPACKET on which each
                             * message of one byte brings a connected socket. With EGRESS_BOX_AUTHORITY a memfd more: PEM of its certificate and its key */
        EGRESS_ORDER_RULES, /* of a box: its new rules (sealed memfd). What is open and would not pass any more is cut */
        EGRESS_ORDER_GONE,  /* a box: everything of it is closed */
        EGRESS_ORDER_ROOTS, /* the certificates (PEM, memfd or file) by which upstreams are verified; before the first box with EGRESS_BOX_AUTHORITY */
};

#define EGRESS_BOX_AUTHORITY 1U

struct egress_order {
        uint32_t version;
        uint32_t kind;
        uint64_t box;   /* chosen by the front, never used twice */
        uint32_t flags;
        uint32_t reserved;
};

struct egress_answer {
        uint32_t version;
        uint32_t kind;
        uint64_t box;
        gb_error error; /* code 0: done */
};

#endif
