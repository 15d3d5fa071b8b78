/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside exec: amounts at the beginning and the end of a run, and its verdict. */
#ifndef ENGINE_EXEC_END_H
#define ENGINE_EXEC_END_H

#include "engine/exec.h"

/* From when on its time counts. */
uint64_t exec_begin_usec(const struct exec *x);
/* The backend's own clock for the case that ours stands still. */
void exec_arm_deadline(struct exec *x);
/* A look at processor time and disk; STOP_NONE within the limits, STOP_LOST when processor time has a limit and cannot
 * be read. */
enum stop_reason exec_sample(struct exec *x);
void exec_take_end(struct exec *x, const struct box_end *end);
int exec_finish(struct exec *x, gb_error *err);

#endif
