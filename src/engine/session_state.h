/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside engine/: what a session and a context are made of, and who may touch what. A context is used by one
 * run at a time (busy); all it shares with others is its session, and there each field says what guards it. */
#ifndef ENGINE_SESSION_STATE_H
#define ENGINE_SESSION_STATE_H

#include "base/chunk.h"
#include "engine/channel.h"
#include "engine/context.h"
#include "engine/network.h"
#include "engine/places.h"
#include "engine/session.h"
#include "engine/watch.h"

#include <pthread.h>
#include <stdatomic.h>

struct session {
        /* Set once, by session_open() */
        const struct backend *backend;
        struct backend_session *box;
        const struct policy *policy;
        char id[ID_DIGITS + 1];
        struct controls controls;
        struct watch *watch;
        struct network_box *network; /* NULL: no allowlist */
        uint64_t started_usec;
        struct files_remote remote; /* for struct files, where the workspace cannot be opened from here */
        char *python; /* the command of the template that it has; NULL: none */

        atomic_bool gone; /* it has ended by itself */
        /* A place that the backend looks at only when a program ends (/tmp, say) may be full. */
        atomic_bool maybe_full;
        /* Kills for memory that the kernel had counted when a program was last ended for them. Interpreters that were
         * started before are dead, or will be in a moment. */
        _Atomic uint64_t memory_kills;

        atomic_uint n_running;         /* runs that have begun and are not over */
        atomic_uint n_begun;           /* runs that have begun so far */
        _Atomic uint64_t tasks_begin; /* tasks besides the interpreters when the first run began, plus 1; 0: no run yet */
        _Atomic uint64_t tasks_left; /* tasks at the end of the last run */
        _Atomic uint64_t forks_refused; /* refused forks that the last run has seen */
        atomic_uint bombs;             /* how often leftover processes were killed */

        pthread_mutex_t backend_lock; /* calls of the backend that are about the session and not one program */

        pthread_mutex_t disk_lock;
        struct places places;

        pthread_mutex_t contexts_lock;
        struct context *contexts[CONTEXTS_MAX];
        size_t n_contexts;
        uint64_t last_context; /* ids are not used again */
};

struct context {
        /* Set once, by context_open() */
        struct session *session;
        char id[CONTEXT_ID_MAX];
        const struct language *language;
        int interrupt_fd; /* an eventfd */

        pthread_mutex_t lock; /* of these, and of writing to interrupt_fd */
        bool busy;
        bool alive; /* as far as anybody has seen */
        uint64_t runs;

        /* Of who has made it busy */
        struct backend_program *program; /* NULL: there is no interpreter */
        bool lost;                       /* there was one, and nobody has asked for its end */
        uint64_t memory_kills;           /* of the session, when it was started */
        unsigned bombs;                  /* the same: those that its interpreter knows of */
        struct program_io io;
        struct channel channel;
        struct chunk chunk; /* of output */
};

#define PROGRAM_IO_NONE {.control = -1, .out = -1, .err = -1, .deadline = -1}

/* Closes what is open. */
void program_io_close(struct program_io *io);
int session_start_program(struct session *s, const struct program_request *request, struct backend_program **ret, struct program_io *ret_io,
                          gb_error *err);
/* Whether the session has ended by itself; looks. */
bool session_is_gone(struct session *s);

/* Sets s->remote. */
void session_files_init(struct session *s);

/* Corrects what the session's controls say of a program that was not forked from its template. */
void session_say_layout(struct controls *c, bool forked);

#endif
