/* SPDX-License-Identifier: Apache-2.0
 *
 * The first words of TLS (RFC 8446 4.1.2), read for the name of the host that they are meant for. */
#ifndef EGRESS_HELLO_H
#define EGRESS_HELLO_H

#include "base/host.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hello_result {
        HELLO_MORE,    /* it goes on */
        HELLO_DONE,    /* a ClientHello, whole */
        HELLO_NOT_TLS, /* something else */
        HELLO_BAD,     /* TLS, but not as it must be: malformed, two names, longer than EGRESS_HELLO_MAX */
};

struct hello {
        bool has_name;
        bool has_ech; /* encrypted_client_hello: there is a second name that cannot be seen */
        char name[HOST_TEXT_MAX]; /* as it stands there */
};

/* bytes: all that has come so far, from the first on; it may be in several records. */
enum hello_result hello_parse(const uint8_t *bytes, size_t size, struct hello *ret);

#endif
