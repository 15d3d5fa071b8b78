/* SPDX-License-Identifier: Apache-2.0
 *
 * The process between the agent and a program. */
#ifndef AGENT_SUPERVISOR_H
#define AGENT_SUPERVISOR_H

#include "agent/plan.h"
#include "base/error.h"

#include <stdbool.h>

#define KILL_WAIT_USEC 1000000ULL /* from the kill of a program's processes until they are called unkillable */

enum report_kind {
        REPORT_STARTED = 1, /* leader */
        REPORT_FAILED,      /* error */
        REPORT_ENDED,       /* end, but for its usage */
};

/* Sent to the agent over the supervisor's socket (SOCK_SEQPACKET). The agent sends one byte back: to end the program. */
struct report {
        uint32_t kind;
        int32_t leader;
        bool marked; /* its processes have its mark: tree_set_owner() */
        union {
                gb_error error;
                struct wire_end end;
        };
};

/* What a program is started with. Descriptors are the program's ends; -1: none. */
struct launch {
        const struct plan *plan;
        int streams[3], control;
        int ruleset;
        uint32_t number; /* of the program */
        bool marked;     /* there are no subreapers: tree_set_owner() */
};

/* In a process of its own, right after the fork. */
_noreturn_ void supervisor_run(struct launch *launch, int socket);

/* In the program's process: locks itself in and becomes the program. `status` is a socket to the supervisor, closed when it is executed; before that come
 * reports: REPORT_STARTED when the compiler is, the same again when that was content, REPORT_FAILED. */
_noreturn_ void launch_run(const struct launch *launch, int status);

/* Closes everything from `first` on but the n descriptors of keep (at most 8, in any order, -1 is none). */
void close_all_but(int first, const int *keep, size_t n);

#endif
