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

struct address {
        union {
                struct sockaddr any;
                struct sockaddr_un un;
                struct sockaddr_in in;
                struct sockaddr_in6 in6;
        };
        socklen_t size;
};

/* "unix:/absolute/path", "127.0.0.1:8080", "[::1]:8080"; port 0: any that is free. GB_E_USAGE. */
int address_parse(const char *text, struct address *ret, gb_error *err);
/* Only processes of this machine reach it: a unix socket, or a loopback address. */
bool address_is_local(const struct address *a);
/* The same form again. */
#define ADDRESS_TEXT_MAX 128
char *address_text(const struct address *a, char buf[static ADDRESS_TEXT_MAX]);

#endif
