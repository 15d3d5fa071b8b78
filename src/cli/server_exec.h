/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs that another program of the installation carries out: glovebox-server, which is linked with all that a server needs. */
#ifndef CLI_SERVER_EXEC_H
#define CLI_SERVER_EXEC_H

#include "cli/command.h"

/* Becomes that program, with the verb, its options as they were given (paths made absolute) and its words. Returns only when that failed: the
 * exit status. */
int server_exec(const struct command *command, const struct arguments *arguments);

#endif
