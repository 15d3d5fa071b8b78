/* SPDX-License-Identifier: Apache-2.0
 *
 * The warden's children, and the one owner that may reap each of them.
 *
 * The warden clones some of its children itself. Others are cloned on its behalf, by CLONE_PARENT: init and the program
 * by the setup process, an interpreter by its template. From birth to reaping a child has exactly one owner:
 *
 *   not claimed   this module. children_reap_unclaimed() reaps it
 *   claimed       the struct child that holds it. Only child_reap() of that struct reaps it
 *
 * Only a claimed process is told to run user code: the setup process waits for setup_say_claimed() before it lets a
 * program go, and the code of a template's child comes through a channel that the front gets after the claim. So a
 * process that is reaped without a claim has run nothing, and no status is lost with it. A claim of a process that is
 * already reaped fails. */
#ifndef WARDEN_CHILDREN_H
#define WARDEN_CHILDREN_H

#include "base/ending.h"

#include <stdbool.h>
#include <sys/types.h>

struct child {
        pid_t pid; /* 0: none */
        int pidfd;
};

#define CHILD_NONE {0, -1}

/* Keeps its table from children. */
void children_keep_private(void);

static inline bool child_exists(const struct child *c)
{
        return c->pid > 0;
}

/* Takes a child that the warden has just cloned itself; takes the descriptor. */
void child_own(struct child *c, pid_t pid, int pidfd);
/* Claims a child that another process has cloned and sent; takes *pidfd. -ECHILD: it is no child of ours, is reaped
 * already, or has another owner; then *pidfd stays with the caller. */
int child_claim(struct child *c, int *pidfd);
void child_kill(const struct child *c);
/* Whether it has ended; it stays unreaped. */
bool child_has_ended(const struct child *c);
/* Reaps it when it has ended, and returns true; *c is CHILD_NONE then. flags: WNOHANG, or 0 to wait for its end. ret
 * may be NULL. */
bool child_reap(struct child *c, int flags, struct ending *ret);
/* Gives the claim back: children_reap_unclaimed() reaps it when it ends. */
void child_release(struct child *c);
/* Kills an unclaimed child that another process has sent and that is not needed. Does nothing to other processes. */
void child_discard(int pidfd);

/* Reaps every unclaimed child that has ended. */
void children_reap_unclaimed(void);
/* Something has ended whose processes may live on, unclaimed. Their end wakes nobody: children_need_look() is true until
 * children_reap_unclaimed() has found none alive. */
void children_look_again(void);
bool children_need_look(void);

#endif
