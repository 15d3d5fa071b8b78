/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a server is: "unix:/path" or "http://host:port", as in $GLOVEBOX_SERVER. */
#ifndef CLIENT_ADDRESS_H
#define CLIENT_ADDRESS_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/socket.h>

#define CLIENT_HOST_MAX 256 /* a host name, with its NUL */

struct client_address {
        struct sockaddr_storage address;
        socklen_t size;
        bool is_local;                           /* bytes to it do not leave this host */
        char authority[CLIENT_HOST_MAX + 16];    /* for Host: "127.0.0.1:8080"; "localhost" of a unix socket */
};

/* Names are looked up (lookup.c): this may take a while. what names the giver in errors. */
int client_address_parse(const char *text, const char *what, struct client_address *ret, gb_error *err);
/* -ENAMETOOLONG when a socket cannot have that path. */
int client_address_unix(const char *path, struct client_address *ret);

/* Inside client/: the first address of a host by its name; the port is the caller's. */
int client_lookup(const char *host, struct sockaddr_storage *ret, socklen_t *ret_size, gb_error *err);
/* "127.0.0.1", "::1" */
int client_numeric(const char *host, struct sockaddr_storage *ret, socklen_t *ret_size);

#endif
