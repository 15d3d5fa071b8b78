/* SPDX-License-Identifier: Apache-2.0 */
#include "server/address.h"

#include "base/parse.h"
#include "base/quote.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int wrong(const char *text, gb_error *err)
{
        return error_set(err, GB_E_USAGE, EINVAL, "%s is not an address; allowed: unix:/path, 127.0.0.1:8080, [::1]:8080 (numbers, no names)",
                         quote(text).text);
}

static int parse_unix(const char *text, const char *path, struct listen_address *ret, gb_error *err)
{
        ret->un = (struct sockaddr_un){.sun_family = AF_UNIX};
        if (path[0] != '/' || path[1] == '\0' || path[strlen(path) - 1] == '/')
                return error_set(err, GB_E_USAGE, EINVAL, "%s: the path of a socket is absolute", quote(text).text);
        if (strlen(path) >= sizeof(ret->un.sun_path))
                return error_set(err, GB_E_USAGE, ENAMETOOLONG, "%s is too long for a socket: the kernel takes %zu bytes", quote(text).text,
                                 sizeof(ret->un.sun_path) - 1);
        strcpy(ret->un.sun_path, path);
        ret->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1);
        return 0;
}

int listen_address_parse(const char *text, struct listen_address *ret, gb_error *err)
{
        char host[INET6_ADDRSTRLEN];
        const char *colon = strrchr(text, ':');
        uint64_t port;

        *ret = (struct listen_address){0};
        if (strncmp(text, "unix:", 5) == 0)
                return parse_unix(text, text + 5, ret, err);
        if (!colon || parse_count(colon + 1, &port) < 0 || port > UINT16_MAX)
                return wrong(text, err);
        bool six = text[0] == '[' && colon > text + 1 && colon[-1] == ']';
        size_t n = (size_t)(colon - text) - (six ? 2 : 0);
        if (n == 0 || n >= sizeof(host))
                return wrong(text, err);
        memcpy(host, text + (six ? 1 : 0), n);
        host[n] = '\0';
        if (six) {
                ret->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
                ret->size = sizeof(ret->in6);
                return inet_pton(AF_INET6, host, &ret->in6.sin6_addr) == 1 ? 0 : wrong(text, err);
        }
        ret->in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        ret->size = sizeof(ret->in);
        return inet_pton(AF_INET, host, &ret->in.sin_addr) == 1 ? 0 : wrong(text, err);
}

bool listen_address_is_local(const struct listen_address *a)
{
        if (a->any.sa_family == AF_UNIX)
                return true;
        if (a->any.sa_family == AF_INET)
                return ntohl(a->in.sin_addr.s_addr) >> 24 == 127;
        /* Not ::ffff:127.0.0.1: it is spelt in two ways, and one is enough. */
        return a->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
}

char *listen_address_text(const struct listen_address *a, char buf[static LISTEN_ADDRESS_TEXT_MAX])
{
        char host[INET6_ADDRSTRLEN] = "";

        if (a->any.sa_family == AF_UNIX)
                snprintf(buf, LISTEN_ADDRESS_TEXT_MAX, "unix:%s", a->un.sun_path);
        else if (a->any.sa_family == AF_INET)
                snprintf(buf, LISTEN_ADDRESS_TEXT_MAX, "%s:%u", inet_ntop(AF_INET, &a->in.sin_addr, host, sizeof(host)), ntohs(a->in.sin_port));
        else if (a->any.sa_family == AF_INET6)
                snprintf(buf, LISTEN_ADDRESS_TEXT_MAX, "[%s]:%u", inet_ntop(AF_INET6, &a->in6.sin6_addr, host, sizeof(host)), ntohs(a->in6.sin6_port));
        else
                snprintf(buf, LISTEN_ADDRESS_TEXT_MAX, "an unknown kind of address");
        return buf;
}
