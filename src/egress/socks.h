/* SPDX-License-Identifier: Apache-2.0
 *
 * SOCKS5 (RFC 1928), as far as a tunnel to a name or an address goes: no authentication, CONNECT only. */
#ifndef EGRESS_SOCKS_H
#define EGRESS_SOCKS_H

#include "base/host.h"

#include <stddef.h>
#include <stdint.h>

#define SOCKS_VERSION 5
#define SOCKS_REPLY_BYTES 10

enum socks_step {
        SOCKS_MORE,    /* it goes on */
        SOCKS_GREETED, /* answer {5, 0}, and go on with the rest */
        SOCKS_REQUEST, /* host and port are set; answer with socks_reply() when it is decided */
        SOCKS_REFUSED, /* answer with these bytes (answer, answer_size), and close */
};

enum socks_reply {
        SOCKS_OK = 0, SOCKS_FAILED = 1, SOCKS_NOT_ALLOWED = 2, SOCKS_NETWORK_UNREACHABLE = 3, SOCKS_HOST_UNREACHABLE = 4, SOCKS_CONNECTION_REFUSED = 5,
        SOCKS_COMMAND = 7, SOCKS_ADDRESS_TYPE = 8,
};

struct socks {
        bool greeted;
        struct host host;
        uint16_t port;
        uint8_t answer[SOCKS_REPLY_BYTES];
        size_t answer_size;
        const char *why; /* SOCKS_REFUSED: in words */
};

/* bytes: what has come and was not used yet. *ret_used: how many of them it is done with; 0 with SOCKS_MORE. */
enum socks_step socks_feed(struct socks *s, const uint8_t *bytes, size_t size, size_t *ret_used);
void socks_reply(enum socks_reply code, uint8_t ret[static SOCKS_REPLY_BYTES]);

#endif
