/* SPDX-License-Identifier: Apache-2.0
 *
 * A program in a session: an interpreter, or something that runs once. A process of the warden enters the
 * box's namespaces for it (setup.c), or the box's template forks it. */
#ifndef WARDEN_PROGRAM_H
#define WARDEN_PROGRAM_H

#include "warden/box.h"

/*   STARTING  frames of who starts it; stop
 *   PARKED    forked ahead, locked in, nobody's yet
 *   RUNNING   its end; signal, stop, its deadline
 *   DEAD      it is reaped; the event can be sent */
enum program_state { PROGRAM_NONE, PROGRAM_STARTING, PROGRAM_PARKED, PROGRAM_RUNNING, PROGRAM_DEAD };

struct program {
        _Alignas(16) enum program_state state;
        struct box *box;
        struct program *next;    /* of the same box */
        struct channel *channel; /* NULL: nobody listens yet */
        uint32_t flags;          /* of its request */
        bool warm;               /* forked from a template */
        bool deferred;           /* asked for before its box stood */
        bool compiling;          /* it is the compiler that runs */
        bool early;              /* ready before its box was */
        bool ordered;            /* a template was told to fork it: before that nobody can have done so */
        bool stopping;           /* it was ended: what is left is to see it die */
        bool killed;             /* SIGKILL was sent to it */
        bool locked;             /* forked from a template: it says that it has locked itself in */
        uint32_t number;         /* of the order to the template */
        struct child entrant;    /* the process that enters the box with it */
        struct child process;
        int socket; /* frames of both */
        int timer;
        int control, out, err; /* the front's ends, until it has them */
        uint64_t asked_usec, started_usec;
        enum warden_stop stop; /* why we ended it */
        bool failed;
        gb_error error;
};

/* Keeps the table of all of them from children. */
void program_keep_private(void);
/* NULL: all are in use. */
struct program *program_new(struct box *b);
/* The one that is being started under this number; NULL: none. */
struct program *program_by_number(uint32_t number);
void program_for_each(struct box *b, void (*visit)(struct program *p, void *data), void *data);

/* Starts one for the request; takes fds[]. */
int program_start(struct program *p, const struct box_spec *spec, int *fds, gb_error *err);
/* Makes the streams, the control channel and the timer of an interpreter; theirs[] are the box's ends: standard
 * input, output and error, control. */
int program_make_streams(struct program *p, int theirs[static 4], gb_error *err);
/* It is locked in and waits for code: tells the front, or parks it. */
void program_ready(struct program *p);
void program_announce(struct program *p);

void program_on_frame(void *program);
void program_on_end(void *program);
void program_on_timer(void *program);
void program_signal(struct program *p, int sig);
/* Kills it with all it has started. When it is dead it is reaped, and the front told: at once, or later. Nobody waits for a process
 * that may be deep in the kernel, in a file system that does not answer. */
void program_stop(struct program *p, enum warden_stop why);
/* The same when its box goes; is done when it returns. */
void program_end(struct program *p);
/* The kernel has killed a task of the session for its memory: which programs still have all their parts nobody can tell, so
 * none is kept. The workspace stays. */
void program_end_for_memory(struct box *b);
/* A run is under way in it, as far as its deadline says. */
bool program_is_active(const struct program *p);

#endif
