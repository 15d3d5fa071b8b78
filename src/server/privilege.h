/* SPDX-License-Identifier: Apache-2.0
 *
 * A server that root starts does not stay root. docs/server.md says who it becomes. */
#ifndef SERVER_PRIVILEGE_H
#define SERVER_PRIVILEGE_H

#include "server/config.h"
#include "server/listen.h"

#include <sys/types.h>

#define ACCOUNT_NAME "glovebox"
#define ACCOUNT_UID_FIRST 61184 /* the range that systemd hands out to services without an account, too */
#define ACCOUNT_UID_LAST 65519

struct account {
        uid_t uid;
        gid_t gid;
};

/* Whether this process has something to give up: it is root, and a service. Who started a server for himself (parent_fd) stays who he is. */
bool privilege_is_to_drop(const struct server_config *config);

/* As mkdir -p; the directory may be there. */
int privilege_make_directory(const char *path, gb_error *err);

/* Who that will be. user: a name or a number; NULL: the account `glovebox` where there is one, else a number made from the path of the directory. */
int account_find(const char *user, const char *directory, struct account *ret, gb_error *err);

/* As root, before the drop: the state's directory (made when it is not there) becomes the account's with what is in it, the base of workspaces when it is not there,
 * the unix sockets. */
int privilege_hand_over(const struct server_config *config, struct listeners *listeners, const struct account *account, gb_error *err);
/* The drop. The keeper removes the sockets when we are gone. last: called as root when the keeper is there already, who is not to know of it. */
struct privilege_drop {
        const struct server_config *config;
        struct listeners *listeners;
        gid_t groups[1]; /* that we keep: that of an engine's socket */
        size_t n_groups;
        int (*last)(void *data, gb_error *err);
        void *data;
};
int privilege_drop(const struct privilege_drop *drop, const struct account *account, gb_error *err);

/* For commands that root runs beside such a server: takes the identity of the directory's owner for files, so that what they write can be read by the server. 0 also when there is
 * nothing to become. */
int privilege_become_owner(const char *directory, gb_error *err);

#endif
