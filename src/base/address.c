/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include "base/macro.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* ::ffff:0:0/96 */

bool address_is_ipv4(const struct address *a)
{
        return memcmp(a->bytes, mapped, sizeof(mapped)) == 0;
}

bool address_equals(const struct address *a, const struct address *b)
{
        return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

void address_from_ipv4(const void *bytes, struct address *ret)
{
        memcpy(ret->bytes, mapped, sizeof(mapped));
        memcpy(ret->bytes + sizeof(mapped), bytes, 4);
}

void address_from_ipv6(const void *bytes, struct address *ret)
{
        memcpy(ret->bytes, bytes, sizeof(ret->bytes));
}

/* A copy with a NUL behind it, for functions that need that. */
static int copy_text(const char *text, size_t size, char buf[static ADDRESS_TEXT_MAX])
{
        if (size == 0 || size >= ADDRESS_TEXT_MAX || memchr(text, '\0', size))
                return -EINVAL;
        memcpy(buf, text, size);
        buf[size] = '\0';
        return 0;
}

int address_parse(const char *text, size_t size, struct address *ret)
{
        char copy[ADDRESS_TEXT_MAX];
        uint8_t bytes[16];

        if (copy_text(text, size, copy) < 0)
                return -EINVAL;
        /* inet_pton() takes neither zones nor short forms; parts with a 0 in front are refused, too: others read them as octal. */
        if (inet_pton(AF_INET, copy, bytes) == 1)
                address_from_ipv4(bytes, ret);
        else if (inet_pton(AF_INET6, copy, bytes) == 1)
                address_from_ipv6(bytes, ret);
        else
                return -EINVAL;
        return 0;
}

/* One part of what inet_aton() reads: "10", "012", "0xa". Where it ends, or NULL. */
static const char *parse_part(const char *p, const char *end, uint64_t *ret)
{
        unsigned base = 10, digit;
        uint64_t value = 0;
        const char *first;

        if (end - p >= 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
                base = 16;
                p += 2;
        } else if (p < end && p[0] == '0')
                base = 8;
        for (first = p; p < end; p++) {
                if (*p >= '0' && *p <= '9')
                        digit = (unsigned)(*p - '0');
                else if ((*p | 0x20) >= 'a' && (*p | 0x20) <= 'f')
                        digit = (unsigned)((*p | 0x20) - 'a') + 10;
                else
                        break;
                if (digit >= base)
                        return NULL;
                value = value * base + digit;
                if (value > UINT32_MAX)
                        return NULL;
        }
        if (p == first)
                return NULL;
        *ret = value;
        return p;
}

/* Not inet_aton() itself: that also takes what stands behind a blank. */
int address_parse_odd(const char *text, size_t size, struct address *ret)
{
        const char *p = text, *end = text + size;
        uint64_t part[4], value = 0;
        unsigned n = 0;

        for (;;) {
                p = parse_part(p, end, &part[n]);
                if (!p)
                        return -EINVAL;
                n++;
                if (p == end)
                        break;
                if (*p != '.' || n == 4)
                        return -EINVAL;
                p++;
        }
        /* The last part fills the bytes that are left. */
        for (unsigned i = 0; i + 1 < n; i++) {
                if (part[i] > 255)
                        return -EINVAL;
                value |= part[i] << (24 - 8 * i);
        }
        if (part[n - 1] >> (8 * (5 - n)) != 0)
                return -EINVAL;
        value |= part[n - 1];

        uint32_t ordered = htonl((uint32_t)value);
        address_from_ipv4(&ordered, ret);
        return 0;
}

/* The longest row of two or more groups that are 0, the first of those as long; that is where "::" stands. */
static unsigned find_zeros(const uint16_t group[static 8], unsigned *ret_first)
{
        unsigned best = 0;

        *ret_first = 8;
        for (unsigned i = 0; i < 8; i++) {
                unsigned n = 0;
                while (i + n < 8 && group[i + n] == 0)
                        n++;
                if (n >= 2 && n > best) {
                        best = n;
                        *ret_first = i;
                }
        }
        return best;
}

char *address_format(const struct address *a, char buf[static ADDRESS_TEXT_MAX])
{
        const uint8_t *b = a->bytes;
        uint16_t group[8];
        unsigned first, n_zeros;
        size_t used = 0;

        if (address_is_ipv4(a)) {
                snprintf(buf, ADDRESS_TEXT_MAX, "%u.%u.%u.%u", b[12], b[13], b[14], b[15]);
                return buf;
        }
        for (unsigned i = 0; i < 8; i++)
                group[i] = (uint16_t)(b[2 * i] << 8 | b[2 * i + 1]);
        n_zeros = find_zeros(group, &first);
        buf[0] = '\0';
        for (unsigned i = 0; i < 8;) {
                if (i == first) {
                        used += (size_t)snprintf(buf + used, ADDRESS_TEXT_MAX - used, "::");
                        i += n_zeros;
                        continue;
                }
                used += (size_t)snprintf(buf + used, ADDRESS_TEXT_MAX - used, "%s%x", i > 0 && i != first + n_zeros ? ":" : "", group[i]);
                i++;
        }
        return buf;
}

/* What is of IPv4 is in ranges of IPv4 only: who writes ::/0 does not mean 10.0.0.1. */
bool address_range_has(const struct address_range *range, const struct address *a)
{
        unsigned whole = range->bits / 8, rest = range->bits % 8;

        if (range->bits > 128 || address_is_ipv4(&range->first) != address_is_ipv4(a) || memcmp(range->first.bytes, a->bytes, whole) != 0)
                return false;
        return rest == 0 || ((range->first.bytes[whole] ^ a->bytes[whole]) >> (8 - rest)) == 0;
}

/* "0" to "128", plain. */
static int parse_bits(const char *text, size_t size, unsigned *ret)
{
        unsigned value = 0;

        if (size == 0 || size > 3 || (text[0] == '0' && size > 1))
                return -EINVAL;
        for (size_t i = 0; i < size; i++) {
                if (text[i] < '0' || text[i] > '9')
                        return -EINVAL;
                value = value * 10 + (unsigned)(text[i] - '0');
        }
        *ret = value;
        return 0;
}

int address_range_parse(const char *text, size_t size, struct address_range *ret)
{
        const char *slash = memchr(text, '/', size);
        size_t address_size = slash ? (size_t)(slash - text) : size;
        struct address_range range = {};
        unsigned bits = 128;

        if (address_parse(text, address_size, &range.first) < 0)
                return -EINVAL;
        if (slash) {
                if (parse_bits(slash + 1, size - address_size - 1, &bits) < 0)
                        return -EINVAL;
                /* ::ffff:10.0.0.0/104 is not a way to write 10.0.0.0/8: one form for one range. */
                if (address_is_ipv4(&range.first)) {
                        if (bits > 32 || memchr(text, ':', address_size))
                                return -EINVAL;
                        bits += 96;
                }
                if (bits > 128)
                        return -EINVAL;
        }
        range.bits = (uint8_t)bits;
        for (unsigned i = bits; i < 128; i++)
                if (range.first.bytes[i / 8] & (0x80 >> (i % 8)))
                        return -EINVAL;
        *ret = range;
        return 0;
}

char *address_range_format(const struct address_range *range, char buf[static ADDRESS_TEXT_MAX + 4])
{
        address_format(&range->first, buf);
        if (range->bits < 128) {
                size_t used = strlen(buf);
                bool is_ipv4 = range->bits >= 96 && address_is_ipv4(&range->first);
                snprintf(buf + used, ADDRESS_TEXT_MAX + 4 - used, "/%u", (unsigned)range->bits - (is_ipv4 ? 96 : 0));
        }
        return buf;
}

#define V4(a, b, c, d, prefix) {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}}, 96 + (prefix)}
/* Three groups are enough for all of them but those that begin with zeros. */
#define V6(a, b, c, prefix) {{{(a) >> 8, (a) & 0xff, (b) >> 8, (b) & 0xff, (c) >> 8, (c) & 0xff}}, prefix}

/* RFC 6890 and the registries of IANA for special purposes. The first that has an address names it. */
static const struct {
        struct address_range range;
        const char *kind;
} forbidden[] = {
        {V4(0, 0, 0, 0, 32), "unspecified"},
        {V4(0, 0, 0, 0, 8), "this-network"},
        {V4(10, 0, 0, 0, 8), "private"},
        {V4(100, 64, 0, 0, 10), "shared"}, /* of providers, behind their NAT; some clouds keep their metadata there */
        {V4(127, 0, 0, 0, 8), "loopback"},
        {V4(168, 63, 129, 16, 32), "cloud metadata"}, /* Azure's; it looks public */
        {V4(169, 254, 0, 0, 16), "link-local (cloud metadata)"},
        {V4(172, 16, 0, 0, 12), "private"},
        {V4(192, 0, 0, 0, 24), "protocol-assignment"}, /* one of them is the metadata of Oracle's cloud */
        {V4(192, 0, 2, 0, 24), "documentation"},
        {V4(192, 88, 99, 0, 24), "6to4-relay"},
        {V4(192, 168, 0, 0, 16), "private"},
        {V4(198, 18, 0, 0, 15), "benchmark"},
        {V4(198, 51, 100, 0, 24), "documentation"},
        {V4(203, 0, 113, 0, 24), "documentation"},
        {V4(224, 0, 0, 0, 4), "multicast"},
        {V4(255, 255, 255, 255, 32), "broadcast"},
        {V4(240, 0, 0, 0, 4), "reserved"},
        {{{{0}}, 128}, "unspecified"},
        {{{{[15] = 1}}, 128}, "loopback"},
        {{{{0}}, 96}, "ipv4-compatible"},
        {{{{[8] = 0xff, [9] = 0xff}}, 96}, "ipv4-translated"}, /* ::ffff:0:a.b.c.d */
        {{{{0x00, 0x64, 0xff, 0x9b}}, 96}, "nat64"},
        {V6(0x0064, 0xff9b, 0x0001, 48), "nat64"},
        {V6(0x0100, 0, 0, 64), "discard"},
        {V6(0x2001, 0x0000, 0, 32), "teredo"},
        {V6(0x2001, 0x0002, 0, 48), "benchmark"},
        {V6(0x2001, 0x0010, 0, 28), "orchid"},
        {V6(0x2001, 0x0020, 0, 28), "orchid"},
        {V6(0x2001, 0x0db8, 0, 32), "documentation"},
        {V6(0x2001, 0x0000, 0, 23), "protocol-assignment"},
        {V6(0x2002, 0, 0, 16), "6to4"},
        {V6(0x3fff, 0, 0, 20), "documentation"},
        {V6(0x5f00, 0, 0, 16), "segment-routing"},
        {V6(0xfc00, 0, 0, 7), "private"},
        {V6(0xfe80, 0, 0, 10), "link-local"},
        {V6(0xfec0, 0, 0, 10), "site-local"},
        {V6(0xff00, 0, 0, 8), "multicast"},
        /* What is left outside of 2000::/3. */
        {V6(0x0000, 0, 0, 3), "reserved"},
        {V6(0x4000, 0, 0, 2), "reserved"},
        {V6(0x8000, 0, 0, 1), "reserved"},
};

/* ISATAP (RFC 5214 6.1): in any network, behind its 64 bits, an address of IPv4 behind one of these. */
static const uint8_t isatap[][4] = {{0x00, 0x00, 0x5e, 0xfe}, {0x02, 0x00, 0x5e, 0xfe}};

const char *address_forbidden(const struct address *a)
{
        for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++)
                if (address_range_has(&forbidden[i].range, a))
                        return forbidden[i].kind;
        for (size_t i = 0; i < ARRAY_SIZE(isatap) && !address_is_ipv4(a); i++)
                if (memcmp(a->bytes + 8, isatap[i], sizeof(isatap[i])) == 0)
                        return "isatap";
        return NULL;
}
