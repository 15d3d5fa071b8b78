/* SPDX-License-Identifier: Apache-2.0 */
#include "base/host.h"

#include <errno.h>
#include <string.h>

static char to_lower(char c)
{
        return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static bool is_label_letter(char c)
{
        return (to_lower(c) >= 'a' && to_lower(c) <= 'z') || is_digit(c) || c == '-' || c == '_';
}

static bool is_label(const char *text, size_t size)
{
        if (size == 0 || size > 63 || text[0] == '-' || text[size - 1] == '-')
                return false;
        for (size_t i = 0; i < size; i++)
                if (!is_label_letter(text[i]))
                        return false;
        return true;
}

void host_from_address(const struct address *a, struct host *ret)
{
        char text[ADDRESS_TEXT_MAX];
        struct host host = {.kind = HOST_ADDRESS, .address = *a};

        strcpy(host.text, address_format(a, text));
        *ret = host;
}

bool host_equals(const struct host *a, const struct host *b)
{
        return a->kind == b->kind && strcmp(a->text, b->text) == 0;
}

static int parse_name(const char *text, size_t size, struct host *ret)
{
        struct host host = {.kind = HOST_NAME};

        if (size > 0 && text[size - 1] == '.')
                size--;
        if (size == 0 || size >= HOST_TEXT_MAX)
                return -EINVAL;
        for (const char *label = text, *end = text + size;;) {
                const char *dot = memchr(label, '.', (size_t)(end - label));
                if (!is_label(label, (size_t)((dot ? dot : end) - label)))
                        return -EINVAL;
                if (!dot) {
                        /* Some reader might take it for an address. */
                        if (is_digit(label[0]))
                                return -EINVAL;
                        break;
                }
                label = dot + 1;
        }
        for (size_t i = 0; i < size; i++)
                host.text[i] = to_lower(text[i]);
        *ret = host;
        return 0;
}

int host_parse(const char *text, size_t size, struct host *ret)
{
        struct address a;

        if (size >= 2 && text[0] == '[' && text[size - 1] == ']') {
                if (!memchr(text, ':', size) || address_parse(text + 1, size - 2, &a) < 0)
                        return -EINVAL;
                host_from_address(&a, ret);
                return 0;
        }
        if (address_parse_odd(text, size, &a) == 0) {
                host_from_address(&a, ret);
                return 0;
        }
        return parse_name(text, size, ret);
}

int port_parse(const char *text, size_t size, uint16_t *ret)
{
        uint32_t value = 0;

        if (size == 0 || size > 5 || text[0] == '0')
                return -EINVAL;
        for (size_t i = 0; i < size; i++) {
                if (!is_digit(text[i]))
                        return -EINVAL;
                value = value * 10 + (uint32_t)(text[i] - '0');
        }
        if (value > UINT16_MAX)
                return -EINVAL;
        *ret = (uint16_t)value;
        return 0;
}

int host_parse_port(const char *text, size_t size, struct host *ret, uint16_t *ret_port)
{
        const char *colon = memrchr(text, ':', size);
        struct host host;

        /* In "[::1]" the last colon is the address's; what stands before it is no host then. */
        if (!colon || host_parse(text, (size_t)(colon - text), &host) < 0 || port_parse(colon + 1, (size_t)(text + size - colon - 1), ret_port) < 0)
                return -EINVAL;
        *ret = host;
        return 0;
}

int host_pattern_parse(const char *text, size_t size, struct host_pattern *ret)
{
        struct host_pattern pattern = {};

        if (size == 1 && text[0] == '*')
                pattern.kind = PATTERN_ANY;
        else if (size > 2 && text[0] == '*' && text[1] == '.') {
                pattern.kind = PATTERN_BELOW;
                if (host_parse(text + 2, size - 2, &pattern.host) < 0 || pattern.host.kind != HOST_NAME)
                        return -EINVAL;
        } else {
                pattern.kind = PATTERN_EXACT;
                if (host_parse(text, size, &pattern.host) < 0)
                        return -EINVAL;
        }
        *ret = pattern;
        return 0;
}

/* Whether name ends with a dot and parent, and something stands before that. */
static bool is_below(const struct host *name, const struct host *parent)
{
        size_t size = strlen(name->text), parent_size = strlen(parent->text);

        return name->kind == HOST_NAME && parent->kind == HOST_NAME && size > parent_size + 1 && name->text[size - parent_size - 1] == '.' &&
               strcmp(name->text + size - parent_size, parent->text) == 0;
}

bool host_pattern_has(const struct host_pattern *pattern, const struct host *host)
{
        switch (pattern->kind) {
        case PATTERN_EXACT:
                return host_equals(&pattern->host, host);
        case PATTERN_BELOW:
                return is_below(host, &pattern->host);
        case PATTERN_ANY:
                return host->kind == HOST_NAME;
        }
        return false;
}

bool host_pattern_covers(const struct host_pattern *a, const struct host_pattern *b)
{
        switch (b->kind) {
        case PATTERN_EXACT:
                return host_pattern_has(a, &b->host);
        case PATTERN_BELOW:
                return a->kind == PATTERN_ANY || (a->kind == PATTERN_BELOW && (host_equals(&a->host, &b->host) || is_below(&b->host, &a->host)));
        case PATTERN_ANY:
                return a->kind == PATTERN_ANY;
        }
        return false;
}
