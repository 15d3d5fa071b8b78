/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs of a session, as the agent knows them. */
#ifndef AGENT_PROGRAM_H
#define AGENT_PROGRAM_H

#include "agent/tree.h"
#include "agent/wire.h"
#include "base/error.h"

#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

enum program_state {
        PROGRAM_NONE,     /* its number is free; what the host says of it was said before it knew */
        PROGRAM_PLANNED,  /* its plan is coming */
        PROGRAM_STARTING, /* it has a supervisor */
        PROGRAM_RUNNING,  /* executed */
        PROGRAM_ENDING,   /* all its processes are gone, or lost; what it has written last is being sent */
};

/* Bytes from a program to the host. */
struct source {
        int fd; /* -1: its end was sent, or nobody reads it */
        uint32_t window; /* that may be sent */
        uint64_t owed; /* that must be sent before what waits for them */
};

#define PASSES_MAX (WIRE_STREAMS_MAX - WIRE_PIPE_FIRST)

/* Bytes from the host to a program. */
struct sink {
        int fd;
        bool used;
        bool eof;  /* nothing comes after what is here */
        bool shut; /* WIRE_SHUT was sent: what still comes is dropped */
        uint32_t taken, written; /* of the window: what came and was given no credit for; of that, what the program has got */
        char *data; /* WIRE_WINDOW bytes, while something waits */
        size_t start, size;
        struct {
                size_t at; /* bytes that wait before the one that it goes with */
                int fd;
        } passes[PASSES_MAX];
        size_t n_passes;
};

struct program {
        enum program_state state;
        uint32_t number;
        char *plan;
        size_t plan_size, plan_allocated;
        bool plan_lost; /* there was no memory for it */
        pid_t supervisor, leader; /* 0: reaped */
        bool serves_files; /* it is the agent itself (WIRE_PLAN_FILES) */
        bool marked; /* its processes have its mark; where it is not, a mark means nothing: everybody can lower its limits */
        uint64_t started_usec; /* its compiler, then the program itself */
        bool compiling;        /* as its supervisor last said */
        bool starved;          /* program_starve() */
        int report; /* socket of the supervisor */
        uint64_t stop_usec; /* when the supervisor is killed, who was told to end the program */
        struct ending leader_end; /* when its supervisor was killed and the leader became our child */
        bool failed, ended, lost; /* what the supervisor said: why nothing was executed, how it ended; it died without a word */
        gb_error error;
        struct wire_end end;
        struct source sources[WIRE_CONTROL + 1];
        struct sink sinks[WIRE_STREAMS_MAX];
        char *held; /* bytes of its control channel that wait for its output to be sent */
        size_t held_size;
};

/* 0 or a negative errno. */
int programs_init(void);
struct tree *program_tree(void);
/* How many processes the agent has for programs: supervisors, servers of files. */
size_t programs_own_tasks(void);

/* One frame of the host (frames.c). 0, or -EPROTO. */
int programs_take(const struct wire_frame *frame, const char *payload);

#define PROGRAM_SLOTS_MAX (WIRE_PROGRAMS_MAX * (WIRE_STREAMS_MAX + 3))
/* What is waited for; returns how many slots that are. Then what has come. */
size_t programs_fill(struct pollfd slots[static PROGRAM_SLOTS_MAX]);
void programs_serve(const struct pollfd *slots, size_t n);
/* Children have ended. */
void programs_reap(void);
/* What is to be done after a time; returns the milliseconds until then, or -1. */
int programs_tick(void);

/* Ends every process but this one, then this one. */
_noreturn_ void programs_end_all(void);

/* ---- one program ---- */

struct program *program_by_number(uint32_t number); /* NULL: there can be none */
void program_say(uint16_t type, const struct program *p, uint32_t value, const void *payload, size_t size);
/* Tells its supervisor to end it. */
void program_stop(struct program *p);
/* The same, because there is no room for its input. WIRE_ENDED says so: its SIGKILL is the agent's. */
void program_starve(struct program *p);
/* There is room for what it has for the host. */
void program_go_on(struct program *p);
/* Nothing of it is left, and its number is free. */
void program_release(struct program *p);
/* Sends what is used now, as an answer to the host's question. */
void program_look(uint32_t value);
/* Kills what programs have left running, and says how many there were. */
void programs_clear(void);

/* ---- its start (start.c) ---- */

int program_start_init(void);
/* 0, or -EPROTO: longer than a plan may be. */
int program_add_to_plan(struct program *p, const char *bytes, size_t size);
/* 0, also when it was said that it cannot be started; -EPROTO: what it has is no plan. */
int program_start(struct program *p);
/* A pipe; our end does not block. 0 or a negative errno. */
int program_make_pipe(int *ret_read, int *ret_write, bool we_read);

/* ---- streams (stream.c) ---- */

void source_open(struct program *p, uint32_t stream, int fd);
void source_close(struct source *s);
/* Whether its bytes would be taken. */
bool source_is_wanted(const struct source *s);
/* What it holds in this moment becomes owed. */
void source_owe(struct source *s);
/* One frame of up to max bytes. Returns how many; 0: none now, or no more at all. */
size_t source_pull(struct program *p, uint32_t stream, size_t max);
/* Sends what is owed of output. Whether all of it was sent. */
bool source_pull_owed(struct program *p);
/* A control channel has something: it is sent after the output that was written before it. */
void source_pull_control(struct program *p);
void source_send_held(struct program *p);

void sink_open(struct program *p, uint32_t stream, int fd);
void sink_close(struct sink *s);
/* Takes bytes of the host; pass: a descriptor that goes with the first one, or -1. 0; -EPROTO: more than the window; -ENOMEM. */
int sink_put(struct program *p, uint32_t stream, const char *bytes, size_t size, int pass);
void sink_flush(struct program *p, uint32_t stream);
void sink_end(struct program *p, uint32_t stream);
void sink_shut(struct program *p, uint32_t stream);

/* Sends what is used now, unless the host knows it. */
void program_send_usage(void);

#endif
