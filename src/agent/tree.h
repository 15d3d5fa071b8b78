/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that /proc shows, and who is below whom. Nothing is allocated: whoever has to end processes must not depend on memory
 * that they use up. */
#ifndef AGENT_TREE_H
#define AGENT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TREE_TASKS_MAX 32768 /* that are looked at in one go; what is above is seen when these are gone */

struct task {
        pid_t pid, parent;
        uint32_t threads;
        char state;
        int8_t below; /* tree_mark(): 1: yes, 0: no, -1: not known yet */
};

struct tree {
        int proc; /* a descriptor of /proc of this process's own: its offset must be */
        size_t n;
        struct task tasks[TREE_TASKS_MAX];
};

/* One for each process. 0 or a negative errno. */
int tree_open(struct tree *t);
int tree_read(struct tree *t);
/* Whether there may be more processes than the list has. */
static inline bool tree_is_cut(const struct tree *t)
{
        return t->n == TREE_TASKS_MAX;
}

#define TASK_NAME_MAX 16 /* with its NUL */

/* Whether a child, dead or alive but not reaped, has called exec since it was forked: 1 or 0, or a negative errno. The
 * caller must itself be forked and not executed. name: the random name that the child had; proc: a descriptor of
 * /proc. */
int tree_has_executed(int proc, pid_t pid, const char *name);
/* Marks who is below root, but for those in stops and who is below those. stops ends with 0. */
void tree_mark(struct tree *t, pid_t root, const pid_t *stops);

/* Where there are no subreapers (gVisor before 2023) an orphan is process 1's child, whoever's it was. So each program is marked by two limits that
 * its processes inherit, that can only be lowered, and whose sum is known. */
int tree_set_owner(uint32_t number);
/* The number of the program that a process belongs to; 0: none. Who has changed its mark is -1. */
int tree_owner(pid_t pid);

/* A process whose first thread has ended looks dead, and is not while it has others. */
static inline bool task_is_alive(const struct task *task)
{
        return (task->state != 'Z' && task->state != 'X') || task->threads > 1;
}

/* Sends the signal to all that are marked and alive, and forbids them to fork. Returns how many there are; *ret_moving, when it is not NULL: how many
 * of them were not stopped when they were looked at. */
size_t tree_signal(const struct tree *t, int sig, size_t *ret_moving);

#endif
