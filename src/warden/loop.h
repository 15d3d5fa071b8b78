/* SPDX-License-Identifier: Apache-2.0
 *
 * What the warden waits for: descriptors, each with the object it belongs to. */
#ifndef WARDEN_LOOP_H
#define WARDEN_LOOP_H

#include <stddef.h>
#include <stdint.h>

/* A function called when a descriptor is readable or at its end. The object may have been ended by an
 * earlier call of the same round: it looks at its state first. */
enum loop_kind {
        LOOP_CHANNEL,       /* struct channel: a request */
        LOOP_LISTEN,        /* no object: a front connects */
        LOOP_BOX_FRAME,     /* struct box: a frame of who builds it */
        LOOP_BOX_END,       /* struct box: the end of a process of it */
        LOOP_PROGRAM_FRAME, /* struct program: a frame of who starts it */
        LOOP_PROGRAM_END,   /* struct program: the end of a process of it */
        LOOP_PROGRAM_TIMER, /* struct program: its time is over */
        LOOP_TEMPLATE,      /* struct template: an answer of the interpreter */
        LOOP_KIND_COUNT
};

/* Makes a table of objects the warden's own: its children do not get it, neither its bytes nor its room in their
 * address space. The table begins with a page of its own. */
void loop_keep_private(void *table, size_t size);
#define LOOP_TABLE _Alignas(4096)

int loop_init(void);
/* Watches fd from now on. Without a loop (in a test) it does nothing. */
void loop_watch(int fd, enum loop_kind kind, void *object);
/* Stops watching fd. */
void loop_forget(int fd);
/* The same, and closes it; takes -1. Returns -1: `fd = loop_close(fd)`. */
int loop_close(int fd);
/* Waits up to timeout_msec (-1: without end) and calls handlers[kind](object). How many, or a negative errno. */
int loop_turn(int timeout_msec, void (*const handlers[LOOP_KIND_COUNT])(void *object));

#endif
