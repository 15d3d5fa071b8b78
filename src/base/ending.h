/* SPDX-License-Identifier: Apache-2.0
 *
 * How a process ended, as the kernel reported it to its parent. An end that was not observed has no number: a zeroed
 * struct is "not seen", and code that wants a status must ask for it. */
#ifndef BASE_ENDING_H
#define BASE_ENDING_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/wait.h>

enum ending_kind { ENDING_NOT_SEEN, ENDING_EXIT, ENDING_SIGNAL };

struct ending {
        uint32_t kind;  /* enum ending_kind */
        uint32_t value; /* the exit status, or the number of the signal; 0 when not seen */
};

#define ENDING_OF_EXIT(status) ((struct ending){ENDING_EXIT, (status)})
#define ENDING_OF_SIGNAL(number) ((struct ending){ENDING_SIGNAL, (number)})

/* From the result of waitid(). Not seen, unless it reports the end of a process. */
static inline struct ending ending_from_wait(const siginfo_t *info)
{
        if (info->si_pid == 0)
                return (struct ending){0};
        if (info->si_code == CLD_EXITED)
                return ENDING_OF_EXIT((uint32_t)info->si_status & 0xff);
        if (info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED)
                return ENDING_OF_SIGNAL((uint32_t)info->si_status);
        return (struct ending){0};
}

static inline bool ending_is_seen(const struct ending *e)
{
        return e->kind != ENDING_NOT_SEEN;
}

static inline bool ending_is_exit(const struct ending *e)
{
        return e->kind == ENDING_EXIT;
}

/* The number of the signal; 0: it was not ended by one. */
static inline int ending_signal(const struct ending *e)
{
        return e->kind == ENDING_SIGNAL ? (int)e->value : 0;
}

/* Whether a SIGKILL of ours can have been the reason. Any other end came before it. */
static inline bool ending_may_be_kill(const struct ending *e)
{
        return !ending_is_seen(e) || ending_signal(e) == SIGKILL;
}

/* For one that another process has sent: whether a kernel can report it. */
static inline bool ending_is_possible(const struct ending *e)
{
        switch (e->kind) {
        case ENDING_NOT_SEEN:
                return e->value == 0;
        case ENDING_EXIT:
                return e->value <= 0xff;
        case ENDING_SIGNAL:
                return e->value > 0 && e->value < NSIG;
        default:
                return false;
        }
}

#endif
