/* SPDX-License-Identifier: Apache-2.0
 *
 * A template: a box in which an interpreter has done its imports and waits. For a session the box's foreman
 * (foreman.c) makes fresh namespaces with an init below the template's own, and the interpreter forks a child
 * that joins them, gives up everything and waits for code. What was prepared for one spec is used for
 * requests with the same spec only, once. */
#ifndef WARDEN_TEMPLATE_H
#define WARDEN_TEMPLATE_H

#include "warden/program.h"

/*   DRAINING  its interpreter has died; the box stays for as long as sessions live in it */
enum template_state { TEMPLATE_NONE, TEMPLATE_STARTING, TEMPLATE_READY, TEMPLATE_DRAINING };

struct template {
        _Alignas(16) enum template_state state;
        struct template_key key;
        struct box *box; /* it lives in */
        struct channel *channel;
        int foreman, orders; /* sockets */
        uint64_t heard_usec; /* when it last did what it was told */
        uint32_t pool;       /* how many to have ready */
        uint32_t next_slot;  /* of the uids that are mapped in its user namespace: the one that was taken last */
        unsigned char slots[TEMPLATE_UIDS_MAX / 8 + 1]; /* one bit for each: a session has it */

        /* What is made ahead is like the session that was asked for last. */
        struct box_spec spec;
        int fds[BOX_FDS_MAX]; /* of that spec; fds[0] is -1: none */
        struct box *ahead[TEMPLATE_POOL_MAX];
        uint64_t pause_usec; /* how long nothing was made ahead after the last that failed; 0: none has */
        uint64_t again_usec; /* nothing is before this */
};

/* Begins one on a channel; takes fds[]. */
int template_create(struct channel *c, const struct box_spec *spec, int *fds, gb_error *err);
struct template *template_find(const struct template_key *key);
/* An answer of the interpreter; all there are. */
void template_on_frame(void *template);
void template_pump(struct template *t);
/* Its box is ending, and all that came from it with it. */
void template_end(struct template *t);
/* Its interpreter has ended. Tells the front; true when its box is to stay for the sessions that live in it. */
bool template_drain(struct template *t);
/* Ends its interpreter. */
void template_kill(struct template *t);
/* A session has ended, its box is unused. */
void template_lost_session(struct template *t, const struct box *lost);

/* Asks the foreman for namespaces with an init for b, whose socket frames come through. */
int template_make_shell(struct template *t, struct box *b, gb_error *err);
/* Asks the interpreter for a child in p's box. */
int template_fork(struct template *t, struct program *p, gb_error *err);
/* A session that was made ahead for this spec and waits with its program; NULL: none. */
struct box *template_take(struct template *t, const struct box_spec *spec);
/* Remembers what to make ahead: this, which is the caller's. */
void template_remember(struct template *t, const struct box_spec *spec, const int *fds);
/* When one more is to be made ahead, which may be long ago; 0: every template has as many sessions ready as it should. */
uint64_t template_next_usec(void);
/* Begins it. */
void template_replenish(void);

#endif
