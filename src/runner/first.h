/* SPDX-License-Identifier: Apache-2.0
 *
 * The first process of a program, from its fork to its exec: the steps that are the same in a native box (program.c) and in a
 * container (agent/launch.c). */
#ifndef RUNNER_FIRST_H
#define RUNNER_FIRST_H

#include <sys/types.h>

/* Signals as the kernel has them for a new process, a process session of its own, the usual umask. A negative errno, and what could not be done. */
int first_become_session(const char **ret_what);

/* Returns only a failure, as a negative errno. A word without a slash is looked up in the box's directories of programs; -ENOENT: in none of them. */
int first_execute(char *const *words, char *const *variables);

/* Returns when the compiler was content; ends as the compiler ended otherwise. */
void first_wait_for_compiler(pid_t pid);

#endif
