/* SPDX-License-Identifier: Apache-2.0
 *
 * The process between the agent and a program. */
#ifndef AGENT_SUPERVISOR_H
#define AGENT_SUPERVISOR_H

#include "agent/plan.h"
#include "agent/tree.h"
#include "base/error.h"

#include <stdbool.h>

#define KILL_WAIT_USEC 1000000ULL /* from the kill of a program's processes until they are called unkillable */

enum report_kind {
        REPORT_STARTED = 1, /* leader; compiling. Sent again when the compiler has succeeded */
        REPORT_FAILED,      /* error: nothing was executed, or (GB_E_LOST) that is not known */
        REPORT_ENDED,       /* end, but for its usage; after REPORT_STARTED */

        /* of the leader, to the supervisor */
        REPORT_COMPILING,   /* the compiler was executed */
        REPORT_COMPILED,    /* the compiler has succeeded: the program is executed next */
        REPORT_SERVING,     /* it serves files, without an exec */
};

/* Sent to the agent over the supervisor's socket (SOCK_SEQPACKET). The agent sends one byte back: to end the program. */
struct report {
        uint32_t kind;
        int32_t leader;
        bool marked; /* its processes have its mark: tree_set_owner() */
        bool compiling;
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
        char name[TASK_NAME_MAX]; /* of its processes until they are executed: tree_has_executed() */
};

/* In a process of its own, right after the fork. */
_noreturn_ void supervisor_run(struct launch *launch, int socket);

/* In the program's process: locks itself in and becomes the program. `status` is a socket to the supervisor, for
 * reports until the exec. Both the exec and the end of the process close it: tree_has_executed() tells them apart. */
_noreturn_ void launch_run(const struct launch *launch, int status);

/* Closes everything from `first` on but the n descriptors of keep (at most 8, in any order, -1 is none). */
void close_all_but(int first, const int *keep, size_t n);

#endif
