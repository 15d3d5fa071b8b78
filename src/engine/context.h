/* SPDX-License-Identifier: Apache-2.0
 *
 * A context: an interpreter in a session that keeps its state from run to run. */
#ifndef ENGINE_CONTEXT_H
#define ENGINE_CONTEXT_H

#include "engine/session.h"

struct context;

struct context_info {
        char id[CONTEXT_ID_MAX];
        const char *language; /* borrowed from the table of languages */
        bool alive;           /* it has an interpreter; without one the next run starts a new one */
        bool busy;
        uint64_t runs;
};

struct context_request {
        const char *code; /* UTF-8, without NUL */
        size_t code_size;
        int stdin_fd;     /* -1: empty */
        int cancel_fd;    /* an eventfd: 1st count interrupts, 2nd kills; -1: none */
        bool keep_output; /* the result holds stdout and stderr, capped by output_limit */
        bool ours;        /* the code is no caller's, but a question of our own: the guard does not look at it, it does not count, and it starts no interpreter
                           * (GB_E_LOST when there is none) */
        bool last;        /* the interpreter ends after the code, as a program does: its exit status is the run's */
        uint64_t timeout_usec; /* up to the policy's timeout_max; 0: the policy's */
        struct session_callbacks callbacks;
};

/* Starts an interpreter and does not wait until it is up: the first run does. language is borrowed until the
 * context is closed. */
int context_open(struct session *s, const struct language *language, struct context **ret, gb_error *err);
/* Ends the interpreter, and with it the state, and starts a new one. -EBUSY while a run lasts. */
int context_restart(struct context *c, gb_error *err);
/* -EBUSY while a run lasts. The context is gone then. */
int context_close(struct context *c, gb_error *err);
/* From any thread: asks the code that runs to stop, as Ctrl-C. -ESRCH when nothing runs. */
int context_interrupt(struct context *c, gb_error *err);
const char *context_id(const struct context *c);
struct session *context_session(const struct context *c);
void context_info_get(struct context *c, struct context_info *ret);

/* The contexts of a session: how many there are; the first max of them are filled in. */
size_t session_contexts(struct session *s, struct context_info *ret, size_t max);
/* NULL when there is none of that id. Nobody may close it meanwhile. */
struct context *session_find_context(struct session *s, const char *id);

/* Runs code to its end. As run_execute(); -EBUSY while another run lasts. An interpreter that was lost is
 * replaced first, and the result says so. */
int context_run(struct context *c, const struct context_request *request, struct result **ret, gb_error *err);

#endif
