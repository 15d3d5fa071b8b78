/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside engine/: one run in a session, from a program that stands ready to the verdict. */
#ifndef ENGINE_EXEC_H
#define ENGINE_EXEC_H

#include "base/chunk.h"
#include "engine/inlet.h"
#include "engine/outlet.h"
#include "engine/pump.h"
#include "engine/session_state.h"

struct exec {
        /* From the caller */
        struct session *session;
        const struct language *language;
        struct backend_program *program;
        struct program_io *io;
        struct channel *channel; /* NULL: a program that runs to its end */
        bool ours;               /* a question (context.h), no run: what is printed stays for the next one, and what is sent meanwhile is no run's */
        bool script;             /* the channel only hands over the code; then it is as without one */
        struct chunk *chunk;
        int interrupt_fd, cancel_fd;
        int stdin_fd; /* of the caller; -1: empty */
        const char *code;
        size_t code_size;
        bool last; /* the interpreter ends after the code, as a program does */
        const struct session_callbacks *callbacks;
        bool keep_output;
        struct result *result;
        uint64_t asked_usec;
        uint64_t timeout_usec; /* 0: the policy's */

        struct outlet outlet;
        struct inlet inlet;
        struct pump pump;
        int pump_child; /* the box's end of the pump's pipe */
        struct buffer input; /* standard input for a runner that takes no descriptor */
        bool input_ended;
        struct box_usage before;
        bool maybe_full_before; /* of struct session, when the run began */
        struct network_run network;
        struct box_usage after; /* as before, when the run was over */
        bool after_known;
        uint64_t after_usec; /* when it was read */
        bool running;  /* it is counted in n_running */
        bool bombed;   /* what it has left running was killed */
        unsigned number; /* of the runs that have begun in the session */
        bool overlapped; /* another run was not over when it began */
        bool doubtful;   /* processes that an earlier run has left were computing when it began */
        unsigned cancels;
        unsigned late; /* rounds since the time was over in which something was still to be read */
        char reason[128]; /* lost_reason, where it is not a constant */
        uint64_t kill_usec;   /* when an interrupt was in vain; 0: not yet */
        uint64_t again_usec;  /* when it is repeated */
        uint64_t lost_usec;   /* when a kill was in vain */
        uint64_t closed_usec; /* when the channel was closed, which an exit explains */
        uint64_t began_usec;  /* when a script was handed over */
        unsigned blind;       /* looks at processor time that failed, one after the other */
        uint64_t sample_usec; /* the next look at processor time and disk */
        bool stopped;         /* the backend was told to end the program */
        bool suspected;       /* for a closed channel: if it has not ended by itself, it broke a rule */
        bool ended;           /* the program */
        bool over;            /* the run */
        int status;           /* 0, or a negative errno with error: nothing was run */
        gb_error error;
};

/* Fills in what is not the caller's. The usage before the run is taken here. */
int exec_init(struct exec *x, gb_error *err);
void exec_done(struct exec *x);
/* Opens the pipe that carries standard input, for programs that take a descriptor. Before a program that runs to
 * its end is started, and by exec_run() for others. */
int exec_open_input(struct exec *x, gb_error *err);
/* Delivers what the pipes hold now. */
void exec_drain(struct exec *x);
/* Drops what processes have printed that were killed before this run. The pipes do not block. */
void exec_drop_outputs(struct exec *x);
/* Returns 0 with the verdict in the result. When ended is set the program is dead, or lost. */
int exec_run(struct exec *x, gb_error *err);

#endif
