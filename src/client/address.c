/* SPDX-License-Identifier: Apache-2.0 */
#include "client/address.h"

#include "base/parse.h"
#include "base/quote.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define UNIX_SCHEME "unix:"
#define HTTP_SCHEME "http://"
#define HTTPS_SCHEME "https://"
#define HTTP_PORT "80"

int client_address_unix(const char *path, struct client_address *ret)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        size_t length = strlen(path);

        if (length == 0 || length >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        memcpy(address.sun_path, path, length + 1);
        *ret = (struct client_address){.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1), .is_local = true};
        memcpy(&ret->address, &address, sizeof(address));
        snprintf(ret->authority, sizeof(ret->authority), "localhost");
        return 0;
}

int client_numeric(const char *host, struct sockaddr_storage *ret, socklen_t *ret_size)
{
        struct sockaddr_in four = {.sin_family = AF_INET};
        struct sockaddr_in6 six = {.sin6_family = AF_INET6};

        if (inet_pton(AF_INET, host, &four.sin_addr) == 1) {
                memcpy(ret, &four, sizeof(four));
                *ret_size = sizeof(four);
                return 0;
        }
        if (inet_pton(AF_INET6, host, &six.sin6_addr) == 1) {
                memcpy(ret, &six, sizeof(six));
                *ret_size = sizeof(six);
                return 0;
        }
        return -EINVAL;
}

static bool is_loopback(const struct sockaddr_storage *s)
{
        if (s->ss_family == AF_INET)
                return ntohl(((const struct sockaddr_in *)s)->sin_addr.s_addr) >> 24 == 127;
        return s->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)s)->sin6_addr);
}

static void set_port(struct sockaddr_storage *s, uint16_t port)
{
        if (s->ss_family == AF_INET)
                ((struct sockaddr_in *)s)->sin_port = htons(port);
        else
                ((struct sockaddr_in6 *)s)->sin6_port = htons(port);
}

static int wrong(const char *what, const char *text, const char *why, gb_error *err)
{
        return error_set(err, GB_E_USAGE, EINVAL, "%s: %s %s; a server is unix:/path or http://host:port", what, quote(text).text, why);
}

/* Splits "host:port", "[::1]:port", "host/". */
static int split(const char *text, char host[static CLIENT_HOST_MAX], char port[static 8])
{
        bool bracket = text[0] == '[';
        const char *begin = text + bracket, *end = begin + strcspn(begin, bracket ? "]" : ":/"), *rest = end;
        size_t length = (size_t)(end - begin);

        if (bracket && *rest++ != ']')
                return -EINVAL;
        if (length == 0 || length >= CLIENT_HOST_MAX)
                return -EINVAL;
        snprintf(host, CLIENT_HOST_MAX, "%.*s", (int)length, begin);
        snprintf(port, 8, HTTP_PORT);
        if (*rest == ':') {
                length = strcspn(rest + 1, "/");
                if (length == 0 || length > 5)
                        return -EINVAL;
                snprintf(port, 8, "%.*s", (int)length, rest + 1);
                rest += 1 + length;
        }
        if (*rest == '/')
                rest++;
        return *rest ? -EINVAL : 0;
}

static bool is_host_name(const char *host)
{
        for (const char *p = host; *p; p++)
                if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || (*p == '-' && p > host) ||
                      *p == '.' || *p == '_'))
                        return false;
        return *host;
}

static int parse_http(const char *text, const char *what, struct client_address *ret, gb_error *err)
{
        struct client_address a = {0};
        char host[CLIENT_HOST_MAX], port_text[8];
        uint64_t port;

        if (split(text + strlen(HTTP_SCHEME), host, port_text) < 0)
                return wrong(what, text, "is not a host and a port", err);
        if (parse_count(port_text, &port) < 0 || port == 0 || port > UINT16_MAX)
                return wrong(what, text, "has a port that is none (1 to 65535)", err);
        if (client_numeric(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &a.address, &a.size) < 0) {
                if (!is_host_name(host))
                        return wrong(what, text, "has a host that is none", err);
                int r = client_lookup(host, &a.address, &a.size, err);
                if (r < 0)
                        return error_prefix(err, "%s", what);
        }
        set_port(&a.address, (uint16_t)port);
        a.is_local = is_loopback(&a.address);
        bool six = strchr(host, ':') != NULL;
        snprintf(a.authority, sizeof(a.authority), "%s%s%s:%u", six ? "[" : "", host, six ? "]" : "", (unsigned)port);
        *ret = a;
        return 0;
}

int client_address_parse(const char *text, const char *what, struct client_address *ret, gb_error *err)
{
        if (strncmp(text, UNIX_SCHEME, strlen(UNIX_SCHEME)) == 0) {
                if (text[strlen(UNIX_SCHEME)] != '/')
                        return wrong(what, text, "is not an absolute path", err);
                if (client_address_unix(text + strlen(UNIX_SCHEME), ret) < 0)
                        return wrong(what, text, "is too long for a socket", err);
                return 0;
        }
        if (strncmp(text, HTTP_SCHEME, strlen(HTTP_SCHEME)) == 0)
                return parse_http(text, what, ret, err);
        if (strncmp(text, HTTPS_SCHEME, strlen(HTTPS_SCHEME)) == 0)
                return error_set(err, GB_E_USAGE, EPROTONOSUPPORT,
                                 "%s: the command does not speak TLS; use curl or the Python SDK for https, or a tunnel to the server's "
                                 "socket (ssh -L) and GLOVEBOX_SERVER=unix:/path", what);
        return wrong(what, text, "is no address", err);
}
