/* SPDX-License-Identifier: Apache-2.0
 *
 * What a request to a proxy is for (RFC 9112 3.2). */
#ifndef EGRESS_TARGET_H
#define EGRESS_TARGET_H

#include "base/host.h"

struct target {
        struct host host;
        uint16_t port;
        const char *path; /* absolute form: from its "/" on, with the query; "/" when there is none. In the text that was parsed, or static. NULL: authority form */
};

/* Of CONNECT: "host:port". 0 or -EINVAL. */
int target_parse_authority(const char *text, struct target *ret);
/* "http://host[:port][/path[?query]]", without user, password and fragment. 0, -EINVAL, or -EPROTONOSUPPORT for other schemes. */
int target_parse_absolute(const char *text, struct target *ret);
/* Whether a Host field says the same as the target: its host, and its port or, where none stands, fallback_port. */
bool target_is_host_field(const struct target *t, const char *field, uint16_t fallback_port);

#endif
