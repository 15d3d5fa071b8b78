/* SPDX-License-Identifier: Apache-2.0 */
#include "http/uri.h"

#include "base/utf8.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

int uri_decode(const char *text, size_t size, bool plus, char **ret)
{
        _cleanup_free_ char *out = malloc(size + 1);
        size_t n = 0;

        if (!out)
                return -ENOMEM;
        for (size_t i = 0; i < size; i++) {
                char c = text[i];
                if (c == '%') {
                        int high = i + 2 < size ? hex_digit(text[i + 1]) : -1;
                        int low = i + 2 < size ? hex_digit(text[i + 2]) : -1;
                        if (high < 0 || low < 0)
                                return -EINVAL;
                        c = (char)(high << 4 | low);
                        i += 2;
                } else if (c == '+' && plus) {
                        c = ' ';
                }
                if (c == '\0')
                        return -EINVAL;
                out[n++] = c;
        }
        if (!utf8_is_valid(out, n))
                return -EINVAL;
        out[n] = '\0';
        *ret = TAKE_PTR(out);
        return 0;
}

void uri_query_free(struct uri_query *q)
{
        if (!q)
                return;
        for (size_t i = 0; i < q->n; i++) {
                free(q->items[i].name);
                free(q->items[i].value);
        }
        free(q);
}

static int query_add(struct uri_query *q, const char *text, size_t size)
{
        const char *equals = memchr(text, '=', size);
        size_t name_size = equals ? (size_t)(equals - text) : size;
        _cleanup_free_ char *name = NULL, *value = NULL;

        if (q->n == HTTP_QUERY_MAX)
                return -E2BIG;
        int r = uri_decode(text, name_size, true, &name);
        if (r < 0)
                return r;
        r = uri_decode(equals ? equals + 1 : "", equals ? size - name_size - 1 : 0, true, &value);
        if (r < 0)
                return r;
        q->items[q->n].name = TAKE_PTR(name);
        q->items[q->n++].value = TAKE_PTR(value);
        return 0;
}

int uri_query_parse(const char *text, struct uri_query **ret)
{
        _cleanup_uri_query_ struct uri_query *q = calloc(1, sizeof(*q));

        if (!q)
                return -ENOMEM;
        for (const char *p = text ? text : ""; *p;) {
                size_t size = strcspn(p, "&");
                int r = size > 0 ? query_add(q, p, size) : 0;
                if (r < 0)
                        return r;
                p += size;
                p += *p == '&';
        }
        *ret = TAKE_PTR(q);
        return 0;
}

/* Digits from 1 to 65535. */
static int parse_port(const char *text, int *ret)
{
        int port = 0;

        if (!*text)
                return -EINVAL;
        for (; *text; text++) {
                if (*text < '0' || *text > '9')
                        return -EINVAL;
                port = port * 10 + (*text - '0');
                if (port > 65535)
                        return -EINVAL;
        }
        if (port == 0)
                return -EINVAL;
        *ret = port;
        return 0;
}

static int parse_ipv6(const char *text, size_t size, struct uri_host *ret)
{
        char address[INET6_ADDRSTRLEN];
        struct in6_addr parsed;

        if (size >= sizeof(address))
                return -EINVAL;
        memcpy(address, text, size);
        address[size] = '\0';
        if (inet_pton(AF_INET6, address, &parsed) != 1 || !inet_ntop(AF_INET6, &parsed, ret->name, sizeof(ret->name)))
                return -EINVAL;
        ret->ipv6 = true;
        return 0;
}

static int parse_name(const char *text, size_t size, struct uri_host *ret)
{
        if (size == 0 || size >= sizeof(ret->name) || text[0] == '.' || text[0] == '-')
                return -EINVAL;
        for (size_t i = 0; i < size; i++) {
                char c = text[i];
                if (c >= 'A' && c <= 'Z')
                        c = (char)(c - 'A' + 'a');
                bool fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || (c == '.' && text[i - 1] != '.');
                if (!fine)
                        return -EINVAL;
                ret->name[i] = c;
        }
        ret->name[size] = '\0';
        return text[size - 1] == '.' ? -EINVAL : 0;
}

int uri_host_parse(const char *text, struct uri_host *ret)
{
        struct uri_host host = {.port = -1};
        const char *rest;
        int r;

        if (text[0] == '[') {
                const char *end = strchr(text, ']');
                if (!end)
                        return -EINVAL;
                r = parse_ipv6(text + 1, (size_t)(end - text - 1), &host);
                rest = end + 1;
        } else {
                size_t size = strcspn(text, ":");
                r = parse_name(text, size, &host);
                rest = text + size;
        }
        if (r < 0)
                return r;
        if (*rest) {
                r = *rest == ':' ? parse_port(rest + 1, &host.port) : -EINVAL;
                if (r < 0)
                        return r;
        }
        *ret = host;
        return 0;
}

int uri_origin_parse(const char *text, bool *ret_secure, struct uri_host *ret)
{
        bool secure = strncmp(text, "https://", 8) == 0;

        if (!secure && strncmp(text, "http://", 7) != 0)
                return -EINVAL;
        int r = uri_host_parse(text + (secure ? 8 : 7), ret);
        if (r < 0)
                return r;
        *ret_secure = secure;
        return 0;
}
