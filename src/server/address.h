/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses to listen at, as text: literal ones only, since a name may mean another machine tomorrow. */
#ifndef SERVER_ADDRESS_H
#define SERVER_ADDRESS_H

#include "base/error.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

struct listen_address {
        union {
                struct sockaddr any;
                struct sockaddr_un un;
                struct sockaddr_in in;
                struct sockaddr_in6 in6;
        };
        socklen_t size;
};

/* "unix:/absolute/path", "127.0.0.1:8080", "[::1]:8080"; port 0: any that is free. GB_E_USAGE. */
int listen_address_parse(const char *text, struct listen_address *ret, gb_error *err);
/* Only processes of this machine reach it: a unix socket, or a loopback address. */
bool listen_address_is_local(const struct listen_address *a);
/* The same form again. */
#define LISTEN_ADDRESS_TEXT_MAX 128
char *listen_address_text(const struct listen_address *a, char buf[static LISTEN_ADDRESS_TEXT_MAX]);

#endif
