/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of the internet, ranges of them, and those that nobody in a box is to reach. */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of IPv6; one of IPv4 is in it as ::ffff:a.b.c.d, and so both are compared alike. */
struct address {
        uint8_t bytes[16];
};

struct address_range {
        struct address first; /* its bits behind the prefix are 0 */
        uint8_t bits;         /* of the prefix, in those 128: 10.0.0.0/8 has 104 */
};

#define ADDRESS_TEXT_MAX 46 /* with the NUL */

bool address_is_ipv4(const struct address *a);
bool address_equals(const struct address *a, const struct address *b);

/* "1.2.3.4" in four decimal parts, or IPv6 without brackets and without a zone. What is of IPv4 in IPv6 (::ffff:1.2.3.4) becomes that. 0 or -EINVAL. */
int address_parse(const char *text, size_t size, struct address *ret);
/* As inet_aton() reads it: also "0x7f.1", "0177.0.0.1", "2130706433". 0 or -EINVAL. */
int address_parse_odd(const char *text, size_t size, struct address *ret);
/* In canonical form (RFC 5952). */
char *address_format(const struct address *a, char buf[static ADDRESS_TEXT_MAX]);
/* From four or sixteen bytes in the order of the network. */
void address_from_ipv4(const void *bytes, struct address *ret);
void address_from_ipv6(const void *bytes, struct address *ret);

/* "10.0.0.0/8", "fd00::/8", or one address. Bits behind the prefix must be 0. 0 or -EINVAL. */
int address_range_parse(const char *text, size_t size, struct address_range *ret);
bool address_range_has(const struct address_range *range, const struct address *a);
/* "10.0.0.0/8"; of one address only that. */
char *address_range_format(const struct address_range *range, char buf[static ADDRESS_TEXT_MAX + 4]);

/* What kind of address it is that is never dialled unless the operator lists it: "loopback", "private", "link-local" ...; NULL: an address of the
 * public internet. Whatever wraps an address of IPv4 into IPv6 (but ::ffff:, which is that address) is one of those, too. */
const char *address_forbidden(const struct address *a);

#endif
