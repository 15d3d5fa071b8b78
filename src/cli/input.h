/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "base/error.h"

#include <sys/types.h>

/* Standard input in a form that may be handed into a box. */
struct input {
        int fd;     /* for the program; -1: empty */
        pid_t pump; /* the process that copies into it, or 0 */
};

int input_open(struct input *ret, gb_error *err);
void input_done(struct input *in);
#define _cleanup_input_ _cleanup_(input_done)

#endif
