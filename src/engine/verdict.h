/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a run ended: decided from facts of the kernel, never guessed from "137". */
#ifndef ENGINE_VERDICT_H
#define ENGINE_VERDICT_H

#include "base/ending.h"
#include "base/full_place.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <stdint.h>

/* kind, name, exit status of `glovebox run` (-1: the program's own) */
#define VERDICTS(X)                          \
        X(VERDICT_OK, "ok", -1)              \
        X(VERDICT_ERROR, "error", -1)        \
        X(VERDICT_TIMEOUT, "timeout", 124)   \
        X(VERDICT_CPU, "cpu", 122)           \
        X(VERDICT_MEMORY, "memory", 118)     \
        X(VERDICT_PIDS, "pids", 119)         \
        X(VERDICT_DISK, "disk", 120)         \
        X(VERDICT_OUTPUT, "output", 121)     \
        X(VERDICT_SYSCALL, "syscall", 123)   \
        X(VERDICT_BLOCKED, "blocked", 117)   \
        X(VERDICT_CANCELLED, "cancelled", 130) \
        X(VERDICT_LOST, "lost", 116)

enum verdict_kind {
#define VERDICT_ENUM(id, name, exit_status) id,
        VERDICTS(VERDICT_ENUM)
#undef VERDICT_ENUM
};

/* Why glovebox itself ended the run; the first reason stays. */
enum stop_reason { STOP_NONE, STOP_TIMEOUT, STOP_CPU, STOP_DISK, STOP_OUTPUT, STOP_CANCELLED, STOP_LOST, STOP_MEMORY };

/* Which amounts of a run were observed. Nothing is known about the others, whatever the number says. */
struct known_amounts {
        bool wall, cpu, memory, pids, disk;
        bool kills; /* for memory, which only a cgroup counts */
};
#define ALL_KNOWN ((struct known_amounts){true, true, true, true, true, true})

/* What the kernel said about a run. */
struct run_facts {
        bool started;          /* user code was executed */
        struct ending ending;  /* how the program's first process ended; not seen: it goes on, or its end was not
                                * observed */
        bool compiling;        /* it was the compiler that ended */
        enum stop_reason stop; /* what we did to it */
        struct known_amounts known;
        uint64_t wall_usec, cpu_usec;
        uint64_t memory_peak_bytes;
        uint64_t pids_peak;
        uint64_t disk_peak_bytes, inodes_peak;
        uint64_t output_bytes;
        uint64_t oom_kills;    /* tasks the kernel killed for the memory limit; known with the memory */
        uint64_t pids_refused; /* forks refused by the task limit; known with the tasks */
        bool counters_lost;    /* the counters were there when the run began, and could not be read at its end */
        bool pids_full;        /* no cgroup counts refusals, but the task limit was reached at the end */
        uint64_t tasks_ended;  /* processes that the code had left running, and that were killed for the task limit; of this run, or before it */
        bool tasks_unended;    /* some should have been killed for it, and could not be */
        uint64_t tasks_left;   /* the most that were seen of what the code had left running when it ended */
        bool disk_hidden;      /* stopped for disk: what was written could not be measured */
        int disk_error;        /* the same: the errno of the host that could not; 0: the box hid it */
        bool host_full;        /* stopped for disk: the host's file system was running full */
        unsigned disk_full;    /* enum full_place: a writable place of the box had no room left at the end */
        bool disk_full_before; /* and, as far as anybody knows, none when the run began: in a session */

        /* Runs in a context */
        bool channel_broken; /* we ended the interpreter, because it broke the rules of its control channel */
        bool claimed;        /* the interpreter lives and says that the run is over; not a fact of the kernel */
        bool claimed_error;  /* and that the code failed */
        struct ending claimed_ending; /* and that the code exited with this status, as by sys.exit(); not seen: it did not */

        /* For the message only; not from the kernel. */
        uint64_t memory_min_bytes; /* what the language needs to start; 0: not known */
        const char *language;      /* borrowed, read by verdict_decide() only; NULL: not known */
        const char *error_name;    /* the same: what the code says it failed with */
        const char *broken_rule;   /* the same: of the control channel */
        const char *lost_reason;   /* the same: why the outcome is not known; NULL: the reason is not known */
        const char *network_hint;  /* the same: a sentence about what the network policy refused; NULL or "": nothing */
};

struct verdict {
        enum verdict_kind kind;
        uint64_t limit, peak; /* of the resource the verdict is about; 0 when none */
        bool peak_known;
        const char *unit;     /* "bytes", "inodes", "usec", "tasks", or NULL */
        char message[704];    /* one sentence a model can act on */
};

/* A lost_reason: there was no memory for the output or the traffic of the run. */
extern const char verdict_no_memory[];

/* A pure function: nothing but facts and policy goes in. */
void verdict_decide(const struct run_facts *facts, const struct policy *policy, struct verdict *ret);
const char *verdict_name(enum verdict_kind kind);
/* About a full place that the verdict is not about; ret holds at least FULL_PLACE_MAX bytes. Returns ret. */
#define FULL_PLACE_MAX 256
const char *verdict_full_place(const struct run_facts *facts, const struct policy *policy, char *ret);
/* The status of the program, or the one that the code of a context claims; false: there is none. */
bool verdict_exit_code(const struct run_facts *facts, int *ret_code);
/* The exit status of the command for this end. */
int verdict_exit_status(const struct verdict *v, const struct run_facts *facts);

/* "SIGSEGV", "SIGRTMIN+3"; ret holds at least SIGNAL_NAME_MAX bytes. Returns ret. */
#define SIGNAL_NAME_MAX 32
const char *signal_name(int signal, char *ret);

#endif
