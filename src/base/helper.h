/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of the installation that does one thing for us with a stranger's bytes: it reads them from its standard input and writes what it
 * found to a pipe. It gets no environment, no other descriptor and no signal of ours. */
#ifndef BASE_HELPER_H
#define BASE_HELPER_H

#include "base/error.h"
#include "base/macro.h"

#include <sys/types.h>

struct helper {
        pid_t pid; /* 0: none */
        int fd;    /* what it writes */
};
#define HELPER_NONE {.fd = -1}

/* The words of its command line after its name; NULL at their end. */
int helper_start(struct helper *h, const char *name, const char *const *words, int in, gb_error *err);
/* Ends and reaps it. */
void helper_end(struct helper *h);
#define _cleanup_helper_ _cleanup_(helper_end)

#endif
