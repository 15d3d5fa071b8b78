/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation. The facts of a run are turned into one verdict by the first rule that
 * holds, in this order:
 *
 *   1. lost        the backend or the host failed under the run, or nobody saw it end
 *   2. our stop    timeout, cpu, disk, output, cancelled, memory: we ended it, so we know why
 *   3. error       an interpreter broke the rules of its control channel, so we ended it
 *   4. memory      the kernel killed tasks for the memory limit, and the program failed
 *   5. syscall     it ended by SIGSYS, which is how the filter kills
 *   6. pids        forks were refused by the task limit (or it was reached, where refusals are not
 *                  counted), and the program failed; or it ended well, and what it left running reached the limit
 *   7. disk        a writable place was full at the end and not before, and the program failed
 *   8. error       any other signal, or an exit status that is not 0
 *   9. ok
 *
 * In a context the program goes on after the run. Then the only word on how the code did is that of the
 * interpreter it shares a process with, which is taken for what it is: it chooses between "ok" and "the
 * program failed" in the rules 4 to 9, and nothing else.
 *
 * In a session a place may be full from an earlier run. That the run freed some of it and filled it again cannot be
 * seen, and most failures there have nothing to do with it: they are errors, and a note tells of the full place.
 *
 * A limit that was hit although the program ended well stays ok: the result's notes tell it. An
 * exit status is never read as a signal, nor SIGKILL as a limit: without a counter of the kernel
 * and without our stop the program was killed from inside, and that is an error of its own. The same
 * holds for SIGXCPU and SIGXFSZ, which anybody can send: we end a box for its cpu time ourselves, and
 * too large a file is seen by the last look at the disk. */
#include "engine/verdict.h"

#include "policy/place.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HUMAN_MAX 32 /* an amount with its unit, as text */

struct verdict_row {
        const char *name;
        int exit_status;
};

static const struct verdict_row rows[] = {
#define ROW(id, name, exit_status) [id] = {name, exit_status},
        VERDICTS(ROW)
#undef ROW
};

const char *verdict_name(enum verdict_kind kind)
{
        return (size_t)kind < ARRAY_SIZE(rows) ? rows[kind].name : "unknown";
}

bool verdict_exit_code(const struct run_facts *facts, int *ret_code)
{
        bool is_claim = !ending_is_seen(&facts->ending);
        const struct ending *e = is_claim ? &facts->claimed_ending : &facts->ending;

        if (!ending_is_exit(e) || (is_claim && (facts->channel_broken || facts->stop == STOP_LOST)))
                return false;
        *ret_code = (int)e->value;
        return true;
}

int verdict_exit_status(const struct verdict *v, const struct run_facts *facts)
{
        int status = (size_t)v->kind < ARRAY_SIZE(rows) ? rows[v->kind].exit_status : rows[VERDICT_LOST].exit_status;

        if (status >= 0)
                return status;
        if (ending_signal(&facts->ending) > 0)
                return 128 + ending_signal(&facts->ending);
        if (!verdict_exit_code(facts, &status))
                return v->kind == VERDICT_OK ? 0 : 1; /* an exception in a context has no status */
        return status;
}

const char *signal_name(int signal, char *ret)
{
        const char *abbreviation = sigabbrev_np(signal);

        if (abbreviation)
                snprintf(ret, SIGNAL_NAME_MAX, "SIG%s", abbreviation);
        else if (signal >= SIGRTMIN && signal <= SIGRTMAX)
                snprintf(ret, SIGNAL_NAME_MAX, "SIGRTMIN+%d", signal - SIGRTMIN);
        else
                snprintf(ret, SIGNAL_NAME_MAX, "SIG%d", signal);
        return ret;
}

/* "512 MB", "1.5 GB": one decimal, and none when it is 0. */
static void print_scaled(char ret[HUMAN_MAX], double value, const char *unit)
{
        int n = snprintf(ret, HUMAN_MAX, "%.1f", value);

        if (n > 2 && strcmp(ret + n - 2, ".0") == 0)
                n -= 2;
        snprintf(ret + n, (size_t)(HUMAN_MAX - n), " %s", unit);
}

static const char *human_bytes(uint64_t bytes, char ret[HUMAN_MAX])
{
        static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
        double value = (double)bytes;
        size_t unit = 0;

        /* 1023.95 would be printed as 1024 of the smaller unit */
        while (value >= 1023.95 && unit + 1 < ARRAY_SIZE(units)) {
                value /= 1024;
                unit++;
        }
        print_scaled(ret, value, units[unit]);
        return ret;
}

static const char *human_usec(uint64_t usec, char ret[HUMAN_MAX])
{
        if (usec >= 999950)
                print_scaled(ret, (double)usec / 1e6, "s");
        else
                print_scaled(ret, (double)usec / 1e3, "ms");
        return ret;
}

static void say(struct verdict *v, const char *format, ...) _printf_(2, 3);
static void say(struct verdict *v, const char *format, ...)
{
        va_list ap;
        va_start(ap, format);
        vsnprintf(v->message, sizeof(v->message), format, ap);
        va_end(ap);
}

/* How to ask for more of a limit: the flag, from the one table of options, or the policy's key. */
static const char *asking(size_t offset, char ret[HUMAN_MAX * 2])
{
        for (size_t i = 0; i < n_policy_options; i++) {
                const struct policy_option *o = &policy_options[i];
                if (o->offset != offset)
                        continue;
                if (o->flag)
                        snprintf(ret, HUMAN_MAX * 2, "with --%s", o->flag);
                else
                        snprintf(ret, HUMAN_MAX * 2, "with %s in the policy", o->key);
                return ret;
        }
        return "in the policy";
}
#define ASKING(field) asking(offsetof(struct policy, field), (char[HUMAN_MAX * 2]){0})
#define BYTES(n) human_bytes((n), (char[HUMAN_MAX]){0})
#define USEC(n) human_usec((n), (char[HUMAN_MAX]){0})

/* As far as the program itself goes. */
static bool is_success(const struct run_facts *f)
{
        return ending_is_seen(&f->ending) ? ending_is_exit(&f->ending) && f->ending.value == 0 : !f->claimed_error;
}

static const char *while_compiling(const struct run_facts *f)
{
        return f->compiling ? " while compiling" : "";
}

static void set_amounts(struct verdict *v, uint64_t limit, bool known, uint64_t peak, const char *unit)
{
        v->limit = limit;
        v->peak = known ? peak : 0;
        v->peak_known = known;
        v->unit = unit;
}

/* "peak 12 MB"; "" if it was not observed. Before and after stand around it. */
static const char *peak_text(bool known, const char *before, const char *amount, const char *after,
        char ret[HUMAN_MAX * 2])
{
        ret[0] = '\0';
        if (known)
                snprintf(ret, HUMAN_MAX * 2, "%s%s%s", before, amount, after);
        return ret;
}
#define PEAK(known, before, amount, after) peak_text((known), (before), (amount), (after), (char[HUMAN_MAX * 2]){0})
#define COUNT(n) count_text((n), (char[HUMAN_MAX]){0})

static const char *count_text(uint64_t n, char ret[HUMAN_MAX])
{
        snprintf(ret, HUMAN_MAX, "%llu", (unsigned long long)n);
        return ret;
}

static bool cannot_start(const struct run_facts *f, const struct policy *p)
{
        return f->language && f->memory_min_bytes > p->mem_limit_bytes;
}

static void tell_timeout(const struct run_facts *f, const struct policy *p, struct verdict *v)
{
        set_amounts(v, p->timeout_usec, f->known.wall, f->wall_usec, "usec");
        say(v, "Stopped by the time limit of %s%s: do less work in one run, or ask for more %s.",
            USEC(p->timeout_usec), while_compiling(f), ASKING(timeout_usec));
}

static void tell_cpu(const struct run_facts *f, const struct policy *p, struct verdict *v)
{
        set_amounts(v, p->cpu_time_usec, f->known.cpu, f->cpu_usec, "usec");
        if (p->cpu_time_usec == 0)
                say(v, "Stopped by a limit on processor time%s%s: do less work in one run.",
                    PEAK(f->known.cpu, " after ", USEC(f->cpu_usec), " of it"), while_compiling(f));
        else
                say(v, "Stopped by the processor time limit of %s%s%s: do less work in one run, or ask for more %s.",
                    USEC(p->cpu_time_usec), PEAK(f->known.cpu, " (used ", USEC(f->cpu_usec), ")"), while_compiling(f),
                    ASKING(cpu_time_usec));
}

static void tell_memory(const struct run_facts *f, const struct policy *p, struct verdict *v)
{
        const char *peak = PEAK(f->known.memory, " (peak ", BYTES(f->memory_peak_bytes), ")");

        set_amounts(v, p->mem_limit_bytes, f->known.memory, f->memory_peak_bytes, "bytes");
        if (f->known.memory && f->oom_kills > 0 && f->memory_peak_bytes < p->mem_limit_bytes / 10 * 9)
                say(v, "Stopped%s because the host, or a group above the box, ran out of memory at %s, before the limit of %s was "
                       "reached: free memory on the host, or run less at a time.",
                    while_compiling(f), BYTES(f->memory_peak_bytes), BYTES(p->mem_limit_bytes));
        else if (cannot_start(f, p))
                say(v, "Stopped by the memory limit of %s%s%s: %.40s needs about %s to start, ask for more %s.",
                    BYTES(p->mem_limit_bytes), peak, while_compiling(f), f->language,
                    BYTES(f->memory_min_bytes), ASKING(mem_limit_bytes));
        else
                say(v, "Stopped by the memory limit of %s%s%s: process the data in smaller pieces, or ask for more %s.",
                    BYTES(p->mem_limit_bytes), peak, while_compiling(f), ASKING(mem_limit_bytes));
}

/* A bomb whose first process ends at once: what it left running is most of what there may be, and wanted to be more. */
static bool has_left_bomb(const struct run_facts *f, const struct policy *p)
{
        return (f->pids_refused > 0 || f->pids_full) && f->tasks_left > 0 && f->tasks_left * 2 >= p->pids_limit;
}

static void tell_pids(const struct run_facts *f, const struct policy *p, struct verdict *v)
{
        set_amounts(v, p->pids_limit, f->known.pids, f->pids_peak, "tasks");
        char refused[48] = ")"; /* not every host counts them */
        if (f->pids_refused > 0)
                snprintf(refused, sizeof(refused), ", %llu refused)", (unsigned long long)f->pids_refused);
        if (is_success(f))
                say(v, "The code ended, but processes it left running reached the limit of %llu processes and threads%s: wait "
                       "for child processes, start fewer at a time, or ask for more %s.",
                    (unsigned long long)p->pids_limit, PEAK(f->known.pids, " (peak ", COUNT(f->pids_peak), refused), ASKING(pids_limit));
        else
                say(v, "Failed%s after the limit of %llu processes and threads was reached%s: start fewer at a time, or ask "
                       "for more %s.",
                    while_compiling(f), (unsigned long long)p->pids_limit,
                    PEAK(f->known.pids, " (peak ", COUNT(f->pids_peak), refused), ASKING(pids_limit));
}

/* Room has two measures and several places; the facts tell which one ran out when they can. */
static bool has_reached_bytes(const struct run_facts *f, const struct policy *p)
{
        return f->known.disk && p->disk_limit_bytes > 0 && f->disk_peak_bytes >= p->disk_limit_bytes;
}

static bool has_reached_inodes(const struct run_facts *f, const struct policy *p)
{
        return f->known.disk && p->inode_limit > 0 && f->inodes_peak >= p->inode_limit && !has_reached_bytes(f, p);
}

const char *verdict_full_place(const struct run_facts *f, const struct policy *p, char *ret)
{
        if (!f->disk_full_before)
                snprintf(ret, FULL_PLACE_MAX, "a writable place had no room left at the end");
        else if (has_reached_inodes(f, p))
                snprintf(ret, FULL_PLACE_MAX, "a writable place was full before the run and at its end (limit of %llu files and directories, peak %llu): no "
                                              "more can be made there until some are deleted",
                         (unsigned long long)p->inode_limit, (unsigned long long)f->inodes_peak);
        else if (f->disk_full == FULL_TMP || f->disk_full == FULL_WORKSPACE)
                snprintf(ret, FULL_PLACE_MAX, "a writable place was full before the run and at its end: %s (limit %s): no more can be written there until something "
                                              "is deleted; ask for more %s",
                         f->disk_full == FULL_TMP ? "/tmp" : "the workspace", BYTES(f->disk_full == FULL_TMP ? p->tmp_size_bytes : p->disk_limit_bytes),
                         f->disk_full == FULL_TMP ? ASKING(tmp_size_bytes) : ASKING(disk_limit_bytes));
        else
                snprintf(ret, FULL_PLACE_MAX,
                         "a writable place was full before the run and at its end (workspace %s, /tmp %s%s): no more "
                         "can be written there until something is deleted",
                         BYTES(p->disk_limit_bytes), BYTES(p->tmp_size_bytes),
                         PEAK(f->known.disk, ", peak ", BYTES(f->disk_peak_bytes), ""));
        return ret;
}

static void tell_disk(const struct run_facts *f, const struct policy *p, struct verdict *v)
{
        if (f->stop == STOP_NONE && f->disk_full == FULL_CODE) { /* no limit of the policy is for it */
                say(v, "Failed%s with no room left in /run/glovebox, which is for the code of programs: write to %s instead.", while_compiling(f),
                    policy_workspace(p));
                return;
        }
        if (has_reached_inodes(f, p)) {
                set_amounts(v, p->inode_limit, true, f->inodes_peak, "inodes");
                say(v, "Stopped by the limit of %llu files and directories (peak %llu)%s: make fewer files, or ask for "
                       "more %s.",
                    (unsigned long long)p->inode_limit, (unsigned long long)f->inodes_peak, while_compiling(f),
                    ASKING(inode_limit));
                return;
        }
        if (f->stop == STOP_NONE && f->disk_full > 0 && !(f->disk_full & ~(unsigned)(FULL_TMP | FULL_SHM))) {
                set_amounts(v, p->tmp_size_bytes, false, 0, "bytes");
                say(v, "Failed%s with no room left in %s (limit %s%s): write less there, delete what is not needed, or ask for more %s.", while_compiling(f),
                    f->disk_full == FULL_TMP ? "/tmp" : f->disk_full == FULL_SHM ? "/dev/shm" : "/tmp and /dev/shm", BYTES(p->tmp_size_bytes),
                    f->disk_full & FULL_SHM ? ", for /dev/shm at most 64 MB" : "", ASKING(tmp_size_bytes));
                return;
        }
        set_amounts(v, p->disk_limit_bytes, f->known.disk, f->disk_peak_bytes, "bytes");
        if (f->host_full)
                say(v, "Stopped%s because the host's file system under the workspace was running full%s: free "
                       "space on the host, or use another directory.",
                    while_compiling(f), PEAK(f->known.disk, " (written here: ", BYTES(f->disk_peak_bytes), ")"));
        else if (f->disk_hidden && f->disk_error > 0)
                say(v, "Stopped%s because the host could not measure what was written (%s): the disk limit cannot be "
                       "enforced; check the host, and try again.",
                    while_compiling(f), strerror(f->disk_error));
        else if (f->disk_hidden)
                say(v, "Stopped%s because what was written can no longer be measured (a directory closed to its owner or too deep, a "
                       "process that hides its files, or too many open ones): keep directories readable and less than 128 deep.",
                    while_compiling(f));
        else if (f->disk_full && !has_reached_bytes(f, p))
                say(v, "Failed%s with no room left to write (workspace %s, /tmp %s%s): write less, or ask for more %s "
                       "or %s.",
                    while_compiling(f), BYTES(p->disk_limit_bytes), BYTES(p->tmp_size_bytes),
                    PEAK(f->known.disk, ", peak ", BYTES(f->disk_peak_bytes), ""), ASKING(disk_limit_bytes),
                            ASKING(tmp_size_bytes));
        else
                say(v, "Stopped by the disk limit of %s%s%s: write less or delete what is not needed, or ask for "
                       "more %s.",
                    BYTES(p->disk_limit_bytes), PEAK(f->known.disk, " (peak ", BYTES(f->disk_peak_bytes), ")"),
                            while_compiling(f),
                    ASKING(disk_limit_bytes));
}

static void tell_output(const struct run_facts *f, const struct policy *p, struct verdict *v)
{
        set_amounts(v, p->output_limit_bytes, true, f->output_bytes, "bytes");
        say(v, "Stopped by the output limit of %s (%s printed)%s: print less or write to a file, or ask for more %s.",
            BYTES(p->output_limit_bytes), BYTES(f->output_bytes), while_compiling(f), ASKING(output_limit_bytes));
}

static void tell_syscall(const struct run_facts *f, const struct policy *p, struct verdict *v)
{
        say(v, "%s was ended by SIGSYS: it made a system call that the sandbox does not allow; do it another way.",
            f->compiling ? "The compiler" : "The program");
}

static void tell_cancelled(const struct run_facts *f, const struct policy *p, struct verdict *v)
{
        say(v, "The run was cancelled by its caller%s.", PEAK(f->known.wall, " after ", USEC(f->wall_usec), ""));
}

const char verdict_no_memory[] = "out of memory: a part of what it wrote or sent is missing";

static void tell_lost(const struct run_facts *f, const struct policy *p, struct verdict *v)
{
        const char *reason = f->lost_reason || f->stop == STOP_LOST ? f->lost_reason : "the program's end was not seen";

        if (reason)
                say(v, "The outcome is unknown (%.200s): it may have run in part; try again if that is harmless.",
                    reason);
        else
                say(v, "The outcome is unknown, because the sandbox or the host failed during the run: it may have run "
                       "in part; try again if that is harmless.");
}

static void tell_ok(const struct run_facts *f, const struct policy *p, struct verdict *v)
{
        say(v, ending_is_seen(&f->ending) ? "The program ended well." : "The code ended well.");
}

/* Names come from the code: only one that looks like a name is repeated. */
static bool is_plain_name(const char *name)
{
        size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") : 0;

        return n > 0 && n <= 64 && name[n] == '\0';
}

/* An error of a run in a context that has neither an exit status nor a signal. */
static void tell_claimed_error(const struct run_facts *f, struct verdict *v)
{
        if (f->channel_broken)
                say(v, "The interpreter was ended and its variables are lost, because the code misused the descriptor of its control "
                       "channel (%s): close or use only descriptors that the code has opened itself.",
                    f->broken_rule ? f->broken_rule : "it broke a rule");
        else if (ending_is_exit(&f->claimed_ending))
                say(v, "The code exited with status %d.", (int)f->claimed_ending.value);
        else if (is_plain_name(f->error_name))
                say(v, "The code failed with %s: the error says what and where.", f->error_name);
        else
                say(v, "The code failed: the error and the output say what and where.");
}

/* The meaning of a signal for the program's author. */
static const char *signal_meaning(int signal, bool kills_known)
{
        switch (signal) {
        case SIGSEGV:
                return "invalid memory access";
        case SIGBUS:
                return "invalid memory access, often a mapped file or /dev/shm without room";
        case SIGABRT:
                return "it aborted itself, often by a failed assertion";
        case SIGFPE:
                return "arithmetic error, often a division by zero";
        case SIGILL:
                return "invalid instruction";
        case SIGTRAP:
                return "trap, often a check of the compiler or runtime that failed";
        case SIGKILL:
                return kills_known ? "killed from inside, not by a limit"
                                    : "killed from inside or by the host, which counts no memory here";
        case SIGPIPE:
                return "it wrote to a pipe nobody reads";
        case SIGALRM:
                return "its own timer";
        default:
                return sigdescr_np(signal);
        }
}

static void tell_error(const struct run_facts *f, const struct policy *p, struct verdict *v)
{
        const char *who = f->compiling ? "The compiler" : "The program";
        char hint[160] = "";

        if (f->channel_broken || !ending_is_seen(&f->ending)) {
                tell_claimed_error(f, v);
                return;
        }
        /* Without a counter of the kernel this stays a guess: a hint, not a verdict. */
        if (cannot_start(f, p))
                snprintf(hint, sizeof(hint), " (%.40s needs about %s to start, the memory limit is %s)", f->language,
                         BYTES(f->memory_min_bytes), BYTES(p->mem_limit_bytes));

        int signal = ending_signal(&f->ending);
        if (signal > 0) {
                char name[SIGNAL_NAME_MAX];
                const char *meaning = signal_meaning(signal, f->known.kills);
                say(v, "%s was ended by %s%s%s%s%s.", who, signal_name(signal, name), meaning ? " (" : "",
                    meaning ? meaning : "", meaning ? ")" : "", hint);
        } else {
                say(v, "%s %s with status %d%s.", who, f->compiling ? "failed" : "exited", (int)f->ending.value, hint);
        }
}

/* Rule 2; VERDICT_OK when we did not stop it. */
static enum verdict_kind kind_of_stop(enum stop_reason stop)
{
        switch (stop) {
        case STOP_TIMEOUT:
                return VERDICT_TIMEOUT;
        case STOP_CPU:
                return VERDICT_CPU;
        case STOP_DISK:
                return VERDICT_DISK;
        case STOP_OUTPUT:
                return VERDICT_OUTPUT;
        case STOP_CANCELLED:
                return VERDICT_CANCELLED;
        case STOP_MEMORY:
                return VERDICT_MEMORY;
        case STOP_LOST:
                return VERDICT_LOST;
        case STOP_NONE:
                return VERDICT_OK;
        }
        return VERDICT_LOST;
}

static enum verdict_kind decide_kind(const struct run_facts *f, const struct policy *p)
{
        if (f->stop != STOP_NONE)
                return kind_of_stop(f->stop);
        if (f->channel_broken)
                return VERDICT_ERROR;
        if (!ending_is_seen(&f->ending) && !f->claimed)
                return VERDICT_LOST;
        if (is_success(f))
                return has_left_bomb(f, p) ? VERDICT_PIDS : VERDICT_OK;

        if (f->oom_kills > 0)
                return VERDICT_MEMORY;
        if (ending_signal(&f->ending) == SIGSYS)
                return VERDICT_SYSCALL;
        if (f->pids_refused > 0 || f->pids_full)
                return VERDICT_PIDS;
        if (f->disk_full && !f->disk_full_before)
                return VERDICT_DISK;
        return VERDICT_ERROR;
}

static void (*const tell[])(const struct run_facts *f, const struct policy *p, struct verdict *v) = {
        [VERDICT_OK] = tell_ok,           [VERDICT_ERROR] = tell_error,
        [VERDICT_TIMEOUT] = tell_timeout, [VERDICT_CPU] = tell_cpu,
        [VERDICT_MEMORY] = tell_memory,   [VERDICT_PIDS] = tell_pids,
        [VERDICT_DISK] = tell_disk,       [VERDICT_OUTPUT] = tell_output,
        [VERDICT_SYSCALL] = tell_syscall, [VERDICT_CANCELLED] = tell_cancelled,
        [VERDICT_LOST] = tell_lost, /* blocked is the guard's to tell: nothing ran */
};

void verdict_decide(const struct run_facts *facts, const struct policy *policy, struct verdict *ret)
{
        *ret = (struct verdict){.kind = decide_kind(facts, policy)};
        tell[ret->kind](facts, policy, ret);
        if (facts->network_hint && facts->network_hint[0] && (ret->kind == VERDICT_ERROR || ret->kind == VERDICT_TIMEOUT)) {
                size_t n = strlen(ret->message);
                snprintf(ret->message + n, sizeof(ret->message) - n, " %s", facts->network_hint);
        }
}
