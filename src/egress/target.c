/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/target.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#define HTTP_SCHEME "http://"
#define HTTP_PORT 80

int target_parse_authority(const char *text, struct target *ret)
{
        struct target t = {};

        if (host_parse_port(text, strlen(text), &t.host, &t.port) < 0)
                return -EINVAL;
        *ret = t;
        return 0;
}

/* "host" or "host:port". */
static int parse_host(const char *text, size_t size, uint16_t fallback_port, struct target *ret)
{
        if (host_parse(text, size, &ret->host) == 0) {
                ret->port = fallback_port;
                return 0;
        }
        return host_parse_port(text, size, &ret->host, &ret->port);
}

/* Path and query as they may be sent on: nothing that an upstream could read as something else than we do. */
static bool is_path(const char *text)
{
        for (const char *p = text; *p; p++) {
                if (*p <= ' ' || *p >= 0x7f || strchr("#\\\"<>", *p))
                        return false;
                if (*p == '%' && !(isxdigit((unsigned char)p[1]) && isxdigit((unsigned char)p[2])))
                        return false;
        }
        return text[0] == '/';
}

/* Whether a text begins with a scheme and "://". */
static bool has_scheme(const char *text)
{
        size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");

        return n > 0 && isalpha((unsigned char)text[0]) && strncmp(text + n, "://", 3) == 0;
}

int target_parse_absolute(const char *text, struct target *ret)
{
        struct target t = {};

        if (strncasecmp(text, HTTP_SCHEME, strlen(HTTP_SCHEME)) != 0)
                return has_scheme(text) ? -EPROTONOSUPPORT : -EINVAL;
        text += strlen(HTTP_SCHEME);

        size_t size = strcspn(text, "/?#");
        if (parse_host(text, size, HTTP_PORT, &t) < 0)
                return -EINVAL;
        t.path = text[size] ? text + size : "/";
        if (!is_path(t.path))
                return -EINVAL;
        *ret = t;
        return 0;
}

bool target_is_host_field(const struct target *t, const char *field, uint16_t fallback_port)
{
        struct target said = {};

        return parse_host(field, strlen(field), fallback_port, &said) == 0 && said.port == t->port && host_equals(&said.host, &t->host);
}
