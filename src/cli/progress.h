/* SPDX-License-Identifier: Apache-2.0
 *
 * How far something long has come: a line on standard error that is written over, when that is a terminal and it takes long. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli/options.h"

#include <stdint.h>

struct progress {
        bool wanted, shown;
        uint64_t began_usec, told_usec;
};

void progress_init(struct progress *p, const struct arguments *a);
void progress_show(struct progress *p, uint64_t bytes);
/* Takes the line away. */
void progress_done(struct progress *p);

#endif
