/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of hosts in the one form in which they are compared, and patterns for them. */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include "base/address.h"

#define HOST_TEXT_MAX 254 /* 253 letters and the NUL */

enum host_kind { HOST_NAME, HOST_ADDRESS };

struct host {
        enum host_kind kind;
        char text[HOST_TEXT_MAX]; /* lower case, without a dot at its end; an address in canonical form, without brackets */
        struct address address;   /* HOST_ADDRESS */
};

/* Letters, digits, "-" and "_" in labels of 1 to 63, no "-" at their ends; one dot at the end is dropped. What inet_aton() takes for an address is that address; a
 * name whose last label begins with a digit but is none is refused, and so is everything that is not ASCII (names in other scripts come as xn--). IPv6 only in
 * brackets, without a zone. 0 or -EINVAL. */
int host_parse(const char *text, size_t size, struct host *ret);
/* "host:443", "[::1]:443": the port is there, 1 to 65535 in plain digits without a 0 in front. 0 or -EINVAL. */
int host_parse_port(const char *text, size_t size, struct host *ret, uint16_t *ret_port);
/* Plain digits, 1 to 65535. */
int port_parse(const char *text, size_t size, uint16_t *ret);

void host_from_address(const struct address *a, struct host *ret);
bool host_equals(const struct host *a, const struct host *b);

enum host_pattern_kind {
        PATTERN_EXACT, /* "a.com", "1.2.3.4" */
        PATTERN_BELOW, /* "*.a.com": every name below it, not itself */
        PATTERN_ANY,   /* "*": every name, no address */
};

struct host_pattern {
        enum host_pattern_kind kind;
        struct host host; /* PATTERN_BELOW: of what stands behind "*." */
};

/* 0 or -EINVAL. */
int host_pattern_parse(const char *text, size_t size, struct host_pattern *ret);
bool host_pattern_has(const struct host_pattern *pattern, const struct host *host);
/* Whether everything that b matches is matched by a, too. */
bool host_pattern_covers(const struct host_pattern *a, const struct host_pattern *b);

#endif
