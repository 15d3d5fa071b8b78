/* SPDX-License-Identifier: Apache-2.0
 *
 * The line to the agent of one container (agent/wire.h): a thread that carries bytes between the engine's attach stream and the descriptors that
 * our callers hold, and what it knows of the programs inside. Everything that comes over it is checked; the first thing that is wrong ends it.
 *
 * One lock. The thread holds it but while it waits; callers hold it for moments. */
#ifndef DOCKER_LINE_H
#define DOCKER_LINE_H

#include "agent/wire.h"
#include "backend/backend.h"
#include "base/buffer.h"

#include <poll.h>
#include <pthread.h>

#define LINE_LAST_WORDS_MAX 256

/* The state of the container when its line was lost. */
enum line_end {
        LINE_END_OTHER,  /* it still ran and was ended then, or its state is not known */
        LINE_END_GONE,   /* it had ended */
        LINE_END_MEMORY, /* it had, after the kernel killed in it for its memory */
};

/* What only who made the container can tell or do. Called by the thread, without the lock. */
struct line_owner {
        /* Whether the engine answers. */
        bool (*engine_answers)(void *data);
        /* Whether the kernel has killed something in the container for its memory since the last time. */
        bool (*memory_ran_out)(void *data);
        /* Ends the container for sure; 0 when it is gone. */
        int (*kill)(void *data);
        /* The line has ended: why, and a sentence about it. */
        enum line_end (*explain)(void *data, bool engine_lost, gb_error *ret);
        void *data;
};

enum program_state { PROGRAM_STARTING, PROGRAM_RUNNING, PROGRAM_FAILED, PROGRAM_OVER };

/* A source of bytes for the box. */
struct line_source {
        int fd; /* ours; -1: none */
        uint32_t credit;
};

struct backend_program {
        struct line *line;
        uint32_t number;
        enum program_state state;
        bool released;  /* nobody waits for its end */
        bool abandoned; /* nobody holds it any more: it goes with its end */
        bool ended;     /* the agent has said so; what it wrote may still be on its way to us */
        bool cut;       /* a part of its output was dropped when the line was lost: the run is lost, whatever its end */
        gb_error error;
        int event;      /* an eventfd */
        int deadline;   /* a copy of the timer */
        int sinks[WIRE_CONTROL];                    /* WIRE_STDOUT, WIRE_STDERR: our ends of pipes */
        int control;                                /* our end of the control channel */
        bool control_shut;                          /* no more bytes come from our caller's side */
        uint32_t uncredited[WIRE_CONTROL + 1];      /* bytes that came and for which no credit was given */
        struct line_source sources[WIRE_STREAMS_MAX]; /* WIRE_STDIN, WIRE_CONTROL (only its credit), pipes */
        uint16_t next_pipe;
        struct buffer queue; /* what came and was not handed on yet, in its order */
        size_t queue_at, queue_last, head_done; /* where its first entry is, and the last; of the first, what was handed on */
        enum box_stop stop;
        uint64_t stop_usec; /* when it was told to end; 0: it was not */
        uint64_t started_usec;
        unsigned unanswered; /* signals */
        struct wire_end end;
        struct box_event last;
        bool told; /* the last event was taken */
};

/* A connection of code in the container to the one way out (line_connection.c). */
struct line_connection {
        struct line *line;
        uint32_t number;
        int fd; /* our end of a pair of sockets, whose other one was handed on; -1: closed */
        struct buffer queue; /* what came and was not handed on yet */
        size_t queue_at;
        uint32_t uncredited;       /* bytes that came and for which no credit was given */
        uint32_t delivered;        /* of them, those that were handed on or dropped */
        uint32_t credit;           /* that may be sent */
        bool deaf;                 /* nobody reads at the other end of the pair */
        bool got_eof, got_close;   /* from the agent */
        bool said_eof, said_close; /* to it */
};

enum listen_state { LISTEN_NOT, LISTEN_ASKED, LISTEN_REFUSED, LISTEN_DONE };

struct line {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        pthread_t thread;
        bool has_thread, thread_over, closing, lost, greeted;
        enum line_end end; /* lost */
        bool memory_lost;  /* lost: memory was the end of one program at least */
        int fd, wake, ended;
        uint8_t head[8]; /* of the engine's frame, as far as it has come */
        size_t head_size;
        uint32_t left; /* of that frame */
        bool is_error; /* it is standard error */
        char last_words[LINE_LAST_WORDS_MAX];
        struct buffer in, out;
        size_t out_sent;
        int send_failed; /* a frame could not be kept for sending: the line is of no use */
        struct wire_keys keys;
        bool has_keys;
        uint64_t n_sent, n_heard; /* frames with tags */
        struct wire_hello hello;
        struct wire_usage usage; /* the last values; known: those that were ever read */
        bool usage_is_old;       /* of the places: the agent could not read it the last time */
        bool usage_came;   /* the agent has answered a look */
        uint32_t tasks_peak;     /* the largest number that the agent has reported */
        struct backend_program *programs[WIRE_PROGRAMS_MAX + 1];
        uint32_t next_number;
        enum listen_state listening;
        gb_error listen_error;
        int handover; /* SOCK_SEQPACKET on which sockets of connections are handed on; -1: none */
        int listener; /* its other end, until somebody takes it */
        struct line_connection *connections[WIRE_CONNECTIONS_MAX + 1];
        uint64_t heard_usec; /* the last byte of the agent */
        bool awaited;        /* somebody waits for it */
        bool looking;        /* it was asked to look */
        uint64_t looked_usec;
        unsigned clearing;   /* how many WIRE_CLEARED are under way */
        uint32_t cleared;    /* what the last one said */
        gb_error clear_error; /* of it; code 0: all were ended */
        bool waiting;        /* somebody waits for an answer */
        uint64_t sampled_usec; /* when memory was looked at */
        gb_error why;        /* lost */
        struct line_owner owner;
        struct pollfd *polls;
        struct line_poll *polled;
        size_t n_polls;
};

/* Takes fd, and starts the thread. early: bytes that have already come. */
int line_open(struct line *l, int fd, const struct buffer *early, const struct line_owner *owner, gb_error *err);
/* Waits for the agent's first word. */
int line_greet(struct line *l, gb_error *err);
/* What happens to the container from here on is its owner's doing: nobody looks for reasons. */
void line_quiet(struct line *l);
/* Ends the thread, and all programs for those who hold them. The container is the caller's affair. */
void line_close(struct line *l);

/* Before the first program: the agent listens on a port of the container's loopback. */
int line_listen(struct line *l, uint16_t port, gb_error *err);
/* Where connections to it come out: a SOCK_SEQPACKET, each message a byte and a connected socket. Once; the caller's. */
int line_take_listener(struct line *l, gb_error *err);

/* Has the agent kill what programs have left running; how many there were. One at a time. */
int line_clear(struct line *l, unsigned *ret_ended, gb_error *err);

/* Starts a program by its plan; waits until it was executed. stdin_fd: borrowed, or -1. */
int line_start(struct line *l, const struct buffer *plan, int stdin_fd, bool control, struct backend_program **ret, struct program_io *ret_io,
               gb_error *err);
void line_signal(struct backend_program *p, int sig);
void line_stop(struct backend_program *p, enum box_stop why);
void line_settle(struct backend_program *p);
/* 1: *ret has its end; 0: not yet; or a negative errno with err. */
int line_next_event(struct backend_program *p, struct box_event *ret, gb_error *err);
void line_forget(struct backend_program *p);
/* Nobody waits for its end: it goes on until its control channel does, and is forgotten then. */
void line_release(struct backend_program *p);

struct line_usage {
        struct wire_usage seen;
        bool disk_is_old; /* the agent could not read the sizes the last time */
        uint32_t tasks_peak;
};
/* The last report of the agent; asks for another one when that is old. */
void line_usage(struct line *l, struct line_usage *ret);
/* In the thread: keeps the values that the agent could read, and the last known ones of the others. */
void line_keep_usage(struct line *l, const struct wire_usage *usage);
bool line_is_lost(struct line *l, gb_error *ret);
size_t line_programs(struct line *l);
/* Whether a run goes on in one of them. */
bool line_has_runs(struct line *l);

/* ---- inside line*.c ---- */

/* In the thread: bytes of the attach stream; 0 or a negative errno with why. */
int line_take(struct line *l, const char *bytes, size_t size, gb_error *why);
int line_send(struct line *l, const struct wire_frame *frame, const void *payload);
/* What the agent says is wrong: the sentence. */
int line_broken(gb_error *why, const char *rule);
/* What the agent tells of an error, made fit to be shown. */
void line_take_error(gb_error *ret, const char payload[static sizeof(gb_error)]);
/* Whether so much is under way to the agent that nothing more is read for it. */
bool line_is_full(const struct line *l);
/* One frame of the agent that is about connections: 0, or a negative errno with why. */
int line_take_connection(struct line *l, const struct wire_frame *f, const char *payload, gb_error *why);
bool line_is_of_connections(uint16_t type);
/* What it waits for; 0: nothing. */
short line_connection_events(const struct line_connection *c);
/* What was waited for has come, perhaps for another one that had the number. chunk: WIRE_DATA_MAX bytes. */
void line_serve_connection(struct line *l, uint32_t number, char *chunk);
void line_end_connections(struct line *l);
/* Hands on what it can of a program's queue. */
void line_deliver(struct backend_program *p);
bool line_queue_is_empty(const struct backend_program *p);
void line_queue_clear(struct backend_program *p);
/* It is over when all that it wrote was handed on. */
void line_queue_end(struct backend_program *p);
/* The stream that the head of the queue waits for; -1: none. */
int line_queue_head(const struct backend_program *p);
/* The line is lost: whether that ended the program for the memory of the container. */
bool line_ended_for_memory(const struct backend_program *p);
void line_program_free(struct backend_program *p);
void line_program_over(struct backend_program *p);
/* These with the lock. */
void line_tell_stop(struct backend_program *p, enum box_stop why);
void line_look(struct line *l, uint64_t now);
/* Waits for a change until the time (CLOCK_MONOTONIC); false when that has come. */
bool line_wait_change(struct line *l, uint64_t until_usec);
void line_wake(struct line *l);

#endif
