/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose growth it is. Between two runs of a session the host may put files into a workspace, and processes that a run left behind may write there. The kernel counts
 * the processor time of the box: what that time cannot have written, the host has, and it becomes a part of what was there before. What the API has put there counts as
 * the session's own. While a run lasts the same is asked when the limit is passed: of what was written since the last look. */
#ifndef ENGINE_GROWTH_H
#define ENGINE_GROWTH_H

#include "engine/exec.h"

/* Gives the host what is its own by now, if anything has changed. The caller has disk_lock. The mark has the processor time from before its look, and is compared with
 * one from after the next: what is written during a look is explained. */
void growth_judge(struct session *s);
/* The same, when a run begins. */
void growth_begin(struct exec *x);
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
