/* SPDX-License-Identifier: Apache-2.0
 *
 * The flags of `glovebox-server serve`: main.c lists them. */
#ifndef SERVER_OPTIONS_H
#define SERVER_OPTIONS_H

#include "server/config.h"

struct serve_options {
        struct server_config config; /* of the file and the flags; not checked yet */
        const char *user;            /* NULL: the default one */
        bool json, check, print;
};

/* argv[0] is not looked at. */
int serve_options_parse(int argc, char **argv, struct serve_options *ret, gb_error *err);
void serve_options_done(struct serve_options *o);
/* The value of the last such flag; NULL: there is none. */
const char *serve_options_find(int argc, char **argv, const char *flag);


#endif
