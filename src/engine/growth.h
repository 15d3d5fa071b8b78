/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells growth by the host from growth by the code. Both may write to a workspace between two runs. Growth that the
 * box's processor time cannot explain is attributed to the host and added to the initial contents. Uploads by the API
 * count as the session's own. While a run lasts the same comparison is made when the limit is passed, for what was
 * written since the last look. */
#ifndef ENGINE_GROWTH_H
#define ENGINE_GROWTH_H

#include "engine/exec.h"

/* Attributes unexplained growth to the host, if anything has changed. Call with disk_lock held. The mark's processor
 * time is read before its look and compared with one read after the next, so writes during a look are explained. */
void growth_judge(struct session *s);
/* Before each program of a session. An interpreter runs code before it is asked to: what is in the workspace may be among its modules. */
void growth_start(struct session *s);
/* When an interpreter is up, which ready shows by being readable: it has computed for long enough to have written much, and has not. */
void growth_settle(struct session *s, int ready);
/* When a run begins. Refused when the workspace holds far more than its limit. */
int growth_begin(struct exec *x, gb_error *err);
/* A look while a run lasts, or at its end; due: only if it is time for one. Returns whether the run has to end for what the code may have written. The caller
 * has disk_lock. */
bool growth_look(struct exec *x, bool due);
/* After the last look of a run. now: the usage of the session, read before that look; NULL: it could not be read. asked_usec: when it was read. */
void growth_end(struct exec *x, const struct box_usage *now, uint64_t asked_usec);
/* The API is about to write that much. It does not say when it has, so what was ever reserved is taken from what is unexplained. */
void growth_reserve(struct places *p, uint64_t bytes, uint64_t inodes);

/* The part of an amount that processor time cannot explain. */
uint64_t growth_unexplained(uint64_t grown, uint64_t cpu_usec, uint64_t per_usec);
/* unexplained: that part of all growth since the mark. How much of it is the host's and was not given yet. */
uint64_t growth_credit(struct growth_credit *c, uint64_t unexplained);

#endif
