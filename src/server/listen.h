/* SPDX-License-Identifier: Apache-2.0
 *
 * The sockets that the server listens at: those of systemd when it brought any, else those of the configuration. */
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include "server/address.h"
#include "server/config.h"

struct listener {
        int fd; /* listening, non-blocking */
        struct listen_address address; /* as bound: with its port */
        bool local;  /* a unix socket: callers are known by their uid */
        bool tls;
        bool theirs; /* systemd's: not removed at the end */
        int lock;    /* of a unix socket: held for the server's life */
};

struct listeners {
        struct listener rows[SERVER_LISTEN_MAX];
        size_t n;
};

/* All or none. They are bound, and nobody can connect yet. GB_E_CONFLICT: somebody else has the address. */
int listeners_open(struct listeners *ret, const struct server_config *config, gb_error *err);
/* Unix sockets become somebody else's. */
int listeners_give(struct listeners *l, uid_t uid, gid_t gid, gb_error *err);
/* From here on clients can connect. have_tokens: whether any token counts; a non-loopback address without is refused. */
int listeners_listen(struct listeners *l, const struct server_config *config, bool have_tokens, gb_error *err);
/* Removes our unix sockets. */
void listeners_remove(const struct listeners *l);
/* The same, and closes all. */
void listeners_close(struct listeners *l);

#endif
