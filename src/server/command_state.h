/* SPDX-License-Identifier: Apache-2.0
 *
 * What `token` and `audit` share. */
#ifndef SERVER_COMMAND_STATE_H
#define SERVER_COMMAND_STATE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Where journal and tokens are: the flag's, else that of the configuration (file NULL: the default one). The caller frees it. */
int command_directory(const char *flag, const char *file, char **ret, gb_error *err);

/* Says what went wrong, on standard error; as an object on standard output, too, for who asked for JSON. Returns the exit status. */
int command_failed(const gb_error *err, bool json);

/* What getopt_long() did not like about argv[optind - 1], as an error. */
int command_wrong_option(int argc, char **argv, const char *verb, gb_error *err);

/* "90s", "12h", "30d", "2w". -EINVAL, -ERANGE. */
int command_span(const char *text, uint64_t *ret_usec);

/* All of standard output has gone out; else it is told, and that is the exit status. */
int command_end(int status);

#endif
