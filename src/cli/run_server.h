/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox run through a server. */
#ifndef CLI_RUN_SERVER_H
#define CLI_RUN_SERVER_H

#include "cli/service.h"
#include "engine/run.h"

/* Whether this run is to go to a server: 1 with the connection, 0: it is done here. */
int run_find_server(const struct option_set *set, const struct arguments *a, struct service *ret, gb_error *err);

/* The exit status, or a negative errno with err; *ret_here then says whether nothing was run and it can still be done here.
 * request->policy may be NULL; input_fd is standard input for the program, or -1. */
int run_on_server(struct service *s, const struct option_set *set, const struct arguments *a, const struct run_request *request, int input_fd,
                  bool *ret_here, gb_error *err);

#endif
