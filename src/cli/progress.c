/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include "base/fd.h"
#include "cli/human.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define QUIET_USEC 1000000ULL /* what is over by then needs no line */
#define PERIOD_USEC 200000ULL

void progress_init(struct progress *p, const struct arguments *a)
{
        *p = (struct progress){.wanted = !arguments_has(a, OPT_QUIET) && isatty(STDERR_FILENO), .began_usec = monotonic_usec()};
}

void progress_show(struct progress *p, uint64_t bytes)
{
        uint64_t now = p->wanted ? monotonic_usec() : 0;
        char size[HUMAN_TEXT_MAX], rate[HUMAN_TEXT_MAX], line[96];

        if (!p->wanted || now - p->began_usec < QUIET_USEC || now - p->told_usec < PERIOD_USEC)
                return;
        p->told_usec = now;
        p->shown = true;
        int n = snprintf(line, sizeof(line), "\r%s, %s/s\033[K", human_size(bytes, size),
                         human_size(bytes * 1000000 / (now - p->began_usec), rate));
        (void)fd_write_all(STDERR_FILENO, line, (size_t)n);
}

void progress_done(struct progress *p)
{
        if (p->shown)
                (void)fd_write_all(STDERR_FILENO, "\r\033[K", 4);
        p->shown = false;
}
