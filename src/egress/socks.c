/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/socks.h"

#include <string.h>

#define METHOD_NONE 0x00      /* no authentication */
#define METHOD_IMPOSSIBLE 0xff
#define COMMAND_CONNECT 1

enum { TYPE_IPV4 = 1, TYPE_NAME = 3, TYPE_IPV6 = 4 };

void socks_reply(enum socks_reply code, uint8_t ret[static SOCKS_REPLY_BYTES])
{
        /* The address from which it was dialled is nobody's business: 0.0.0.0:0. */
        memcpy(ret, (const uint8_t[SOCKS_REPLY_BYTES]){SOCKS_VERSION, (uint8_t)code, 0, TYPE_IPV4}, SOCKS_REPLY_BYTES);
}

static enum socks_step refuse(struct socks *s, enum socks_reply code, const char *why)
{
        socks_reply(code, s->answer);
        s->answer_size = SOCKS_REPLY_BYTES;
        s->why = why;
        return SOCKS_REFUSED;
}

/* Version, number of methods, methods. */
static enum socks_step greet(struct socks *s, const uint8_t *bytes, size_t size, size_t *ret_used)
{
        if (size >= 1 && bytes[0] != SOCKS_VERSION) {
                s->answer_size = 0; /* in whatever it speaks, it would not understand us */
                s->why = "not SOCKS5";
                return SOCKS_REFUSED;
        }
        if (size < 2 || size < 2U + bytes[1])
                return SOCKS_MORE;
        if (!memchr(bytes + 2, METHOD_NONE, bytes[1])) {
                memcpy(s->answer, (const uint8_t[]){SOCKS_VERSION, METHOD_IMPOSSIBLE}, 2);
                s->answer_size = 2;
                s->why = "the client insists on authentication, and there is none here";
                return SOCKS_REFUSED;
        }
        *ret_used = 2U + bytes[1];
        s->greeted = true;
        return SOCKS_GREETED;
}

/* The address of a request, in address_size bytes. */
static int parse_host(uint8_t type, const uint8_t *bytes, size_t size, struct host *ret)
{
        struct address a;

        if (type == TYPE_NAME)
                return host_parse((const char *)bytes, size, ret);
        if (type == TYPE_IPV4)
                address_from_ipv4(bytes, &a);
        else
                address_from_ipv6(bytes, &a);
        host_from_address(&a, ret);
        return 0;
}

/* Version, command, 0, type of the address, address, port. */
static enum socks_step request(struct socks *s, const uint8_t *bytes, size_t size, size_t *ret_used)
{
        size_t at = 4, length;

        if (size >= 1 && bytes[0] != SOCKS_VERSION)
                return refuse(s, SOCKS_FAILED, "not a request of SOCKS5");
        if (size >= 2 && bytes[1] != COMMAND_CONNECT)
                return refuse(s, SOCKS_COMMAND, "only CONNECT is possible, neither BIND nor UDP");
        if (size >= 3 && bytes[2] != 0)
                return refuse(s, SOCKS_FAILED, "not a request of SOCKS5");
        if (size < 4)
                return SOCKS_MORE;
        switch (bytes[3]) {
        case TYPE_IPV4:
                length = 4;
                break;
        case TYPE_IPV6:
                length = 16;
                break;
        case TYPE_NAME:
                if (size <= at)
                        return SOCKS_MORE;
                length = bytes[at++];
                break;
        default:
                return refuse(s, SOCKS_ADDRESS_TYPE, "no such type of address");
        }
        if (size < at + length + 2)
                return SOCKS_MORE;

        struct host host;
        uint16_t port = (uint16_t)(bytes[at + length] << 8 | bytes[at + length + 1]);
        if (parse_host(bytes[3], bytes + at, length, &host) < 0)
                return refuse(s, SOCKS_FAILED, "that is no name of a host");
        if (port == 0)
                return refuse(s, SOCKS_FAILED, "there is no port 0");
        s->host = host;
        s->port = port;
        *ret_used = at + length + 2;
        return SOCKS_REQUEST;
}

enum socks_step socks_feed(struct socks *s, const uint8_t *bytes, size_t size, size_t *ret_used)
{
        *ret_used = 0;
        return s->greeted ? request(s, bytes, size, ret_used) : greet(s, bytes, size, ret_used);
}
