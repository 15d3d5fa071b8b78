/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/exec_end.h"

#include "base/fd.h"
#include "base/parse.h"
#include "engine/growth.h"
#include "engine/left.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/timerfd.h>

#define BLIND_LOOKS_MAX 40 /* two seconds */
#define PAGE_BYTES 4096ULL /* what a file takes in a tmpfs */

static int check_timeout(struct exec *x, gb_error *err)
{
        const struct policy *policy = x->session->policy;
        char asked[FORMAT_MAX], max[FORMAT_MAX];

        if (x->timeout_usec == 0) {
                x->timeout_usec = policy->timeout_usec;
                return 0;
        }
        if (x->timeout_usec <= policy->timeout_max_usec)
                return 0;
        return error_set(err, GB_E_LIMIT, ERANGE, "a timeout of %s is above timeout_max, which is %s at trust level \"%s\"",
                         format_duration(x->timeout_usec, asked), format_duration(policy->timeout_max_usec, max), policy->trust);
}

int exec_init(struct exec *x, gb_error *err)
{
        x->pump = (struct pump)PUMP_INIT;
        x->inlet = (struct inlet){.watch = x->session->watch};
        x->pump.seen = inlet_see;
        x->pump.seen_data = &x->inlet;
        x->pump_child = -1;
        x->outlet = (struct outlet){
                .result = x->result, .scrub = watch_scrub(x->session->watch), .limit_bytes = x->session->policy->output_limit_bytes, .keep = x->keep_output,
                .output = x->callbacks->output, .data = x->callbacks->data, .asked_usec = x->asked_usec,
        };
        buffer_init(&x->input, STDIN_FRAME_MAX);
        x->input.secret = true;
        bool watched = x->session->policy->cpu_time_usec > 0 || places_are_watched(&x->session->places);
        x->sample_usec = watched ? x->asked_usec + SAMPLE_PERIOD_USEC : 0;
        int r = check_timeout(x, err);
        if (r == 0)
                r = session_usage(x->session, &x->before, err);
        if (r == 0 && !x->ours)
                left_begin(x);
        if (r == 0)
                r = growth_begin(x, err);
        if (r == 0 && network_run_begin(&x->network, x->ours ? NULL : x->session->network) < 0)
                r = error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        return r;
}

void exec_done(struct exec *x)
{
        if (x->running)
                atomic_fetch_sub(&x->session->n_running, 1);
        network_run_end(&x->network);
        pump_done(&x->pump);
        outlet_done(&x->outlet);
        inlet_done(&x->inlet);
        x->pump_child = safe_close(x->pump_child);
        buffer_done(&x->input);
}

/* The box's end stays open here as well until the run is over: a write to a pipe that nobody reads any more
 * would send SIGPIPE to our caller. */
int exec_open_input(struct exec *x, gb_error *err)
{
        int r = pump_open(&x->pump, x->stdin_fd, &x->pump_child);

        return r < 0 ? pump_explain(r, err) : 0;
}

static void set_deadline(struct exec *x, uint64_t usec)
{
        struct itimerspec when = {.it_value = {.tv_sec = (time_t)(usec / 1000000), .tv_nsec = (long)(usec % 1000000) * 1000}};

        if (x->io->deadline >= 0)
                (void)timerfd_settime(x->io->deadline, 0, &when, NULL);
}

uint64_t exec_begin_usec(const struct exec *x)
{
        return x->began_usec > 0 ? x->began_usec : x->asked_usec;
}

void exec_arm_deadline(struct exec *x)
{
        uint64_t timeout = x->timeout_usec, passed = monotonic_usec() - exec_begin_usec(x);
        /* A program that runs to its end is killed at its time; an interpreter is asked first. */
        uint64_t extra = x->channel && !x->script ? INTERRUPT_GRACE_USEC + DEADLINE_SLACK_USEC : 0;

        set_deadline(x, MAX(timeout + extra > passed ? timeout + extra - passed : 0, (uint64_t)1));
}

static uint64_t grown(uint64_t now, uint64_t before)
{
        return now > before ? now - before : 0;
}

/* Processor time is that of the whole session, since the run began: what others run at the same time counts. */
static enum stop_reason sample_cpu(struct exec *x)
{
        uint64_t limit = x->session->policy->cpu_time_usec;
        struct session *s = x->session;
        struct box_usage now;

        /* Somebody starts a program just now: next time. */
        if (limit == 0 || pthread_mutex_trylock(&s->backend_lock) != 0)
                return STOP_NONE;
        int r = s->backend->session_usage(s->box, &now, NULL);
        pthread_mutex_unlock(&s->backend_lock);
        bool seen = r == 0 && now.cpu_known && x->before.cpu_known;
        x->blind = seen ? 0 : x->blind + 1;
        if (!seen) /* the backend may be about to report the end; but a limit that cannot be looked at is not kept */
                return x->blind < BLIND_LOOKS_MAX ? STOP_NONE : STOP_LOST;
        return grown(now.cpu_usec, x->before.cpu_usec) > limit ? STOP_CPU : STOP_NONE;
}

static bool is_over_disk(struct exec *x)
{
        struct session *s = x->session;
        bool over = false;

        if (!places_are_watched(&s->places) || pthread_mutex_trylock(&s->disk_lock) != 0)
                return false;
        over = growth_look(x, true);
        pthread_mutex_unlock(&s->disk_lock);
        return over;
}

enum stop_reason exec_sample(struct exec *x)
{
        if (is_over_disk(x))
                return STOP_DISK;
        return sample_cpu(x);
}

void exec_take_end(struct exec *x, const struct box_end *end)
{
        bool started = x->result->facts.started;

        result_take_end(x->result, end);
        x->result->facts.started = started;
}

/* Whose doing a full place is. The usage of the session was looked at before and after the run, but it need not have all places:
 * of the others the end of a program tells, and they were not full before if they were not when the last one ended. */
static void judge_full(struct exec *x, const struct box_usage *now)
{
        struct run_facts *f = &x->result->facts;
        bool unseen = f->disk_full && !(now && now->disk_full);
        unsigned fresh = f->disk_full & ~x->before.disk_full;
        bool maybe = fresh == 0 || x->before.disk_unknown;

        if (!unseen && !maybe)
                f->disk_full = fresh; /* the others were full before */
        f->disk_full_before = f->disk_full && (unseen ? x->maybe_full_before || !now : maybe);
        if (x->ended && f->stop != STOP_LOST)
                atomic_store(&x->session->maybe_full, unseen);
}

/* The usage of the run is the difference between the counters of the session now and when the run began. Peaks are
 * those of the session. */
static void take_counters(struct exec *x, const struct box_usage *now)
{
        struct run_facts *f = &x->result->facts;

        f->cpu_usec = grown(now->cpu_usec, x->before.cpu_usec);
        f->memory_peak_bytes = now->memory_peak_bytes;
        f->pids_peak = now->pids_peak;
        f->oom_kills = grown(now->oom_kills, x->before.oom_kills);
        f->pids_refused = grown(now->pids_refused, x->before.pids_refused);
        f->known.cpu = now->cpu_known && x->before.cpu_known;
        f->known.memory = now->memory_peak_known;
        f->known.kills = now->kills_known;
        f->known.pids = now->pids_peak_known;
}

/* The counters cannot be read. Those that came with the end of the program are as good; without them it is not known
 * whether a limit killed it. */
static void miss_counters(struct exec *x)
{
        struct run_facts *f = &x->result->facts;
        struct box_usage end = {
                .cpu_usec = f->cpu_usec, .memory_peak_bytes = f->memory_peak_bytes, .pids_peak = f->pids_peak,
                .oom_kills = f->oom_kills,
                .pids_refused = f->pids_refused, .cpu_known = f->known.cpu, .memory_peak_known = f->known.memory,
                .kills_known = f->known.kills, .pids_peak_known = f->known.pids,
        };

        take_counters(x, &end);
        f->counters_lost = (x->before.kills_known && !f->known.kills) || (x->before.pids_peak_known && !f->known.pids);
        if (f->counters_lost && f->stop == STOP_NONE && ending_signal(&f->ending) == SIGKILL) {
                f->stop = STOP_LOST;
                f->lost_reason = "it was killed, and the counters that say whether a limit did it could not be read";
        }
}

/* A private place of the session; with the end of a program the backend has reported all of them. */
static void take_private_disk(struct exec *x, const struct box_usage *now)
{
        struct run_facts *f = &x->result->facts;

        if (!f->known.disk) {
                f->disk_peak_bytes = now ? now->disk_bytes : 0;
                f->inodes_peak = now ? now->inodes : 0;
                f->disk_full = now ? now->disk_full : 0;
                f->known.disk = now && !now->disk_unknown;
        }
        judge_full(x, now);
        /* The file of the code is in one of them. */
        if (x->script) {
                f->disk_peak_bytes -= MIN(f->disk_peak_bytes, (x->code_size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES);
                f->inodes_peak -= MIN(f->inodes_peak, (uint64_t)1);
        }
}

/* The usage when the run is over. What it has left running may still be growing. */
static void look_after(struct exec *x)
{
        x->after_known = session_usage(x->session, &x->after, NULL) == 0;
        if (x->after_known && x->running)
                left_end(x, &x->after);
        x->after_usec = monotonic_usec();
        if (x->bombed && !x->ended && x->channel)
                exec_drain(x);
}

static void take_usage(struct exec *x)
{
        struct run_facts *f = &x->result->facts;
        struct session *s = x->session;

        /* The backend does not know when a script began: its interpreter was there before. */
        if (!x->ended || x->channel || x->script)
                f->wall_usec = monotonic_usec() - exec_begin_usec(x);
        /* A run whose end was not seen has no duration. */
        f->known.wall = f->known.wall || f->stop != STOP_LOST || f->claimed;
        if (x->after_known)
                take_counters(x, &x->after);
        else
                miss_counters(x);
        take_private_disk(x, x->after_known ? &x->after : NULL);
        if (!places_are_watched(&s->places))
                return;
        pthread_mutex_lock(&s->disk_lock);
        /* The last look: what a short program wrote between two looks counts as well. */
        if (f->stop == STOP_NONE && growth_look(x, x->channel))
                f->stop = STOP_DISK;
        growth_end(x, x->after_known ? &x->after : NULL, x->after_usec);
        places_add_peaks(&s->places, f);
        pthread_mutex_unlock(&s->disk_lock);
}

static void lose(struct run_facts *f)
{
        f->stop = STOP_LOST;
        f->lost_reason = f->lost_reason ? f->lost_reason : verdict_no_memory;
}

int exec_finish(struct exec *x, gb_error *err)
{
        struct run_facts *f = &x->result->facts;

        set_deadline(x, 0);
        /* An interrupt that is still on its way must not hit the next run. */
        if (x->kill_usec > 0 && !x->ended && x->program && x->session->backend->program_settle)
                x->session->backend->program_settle(x->program);
        if (x->channel)
                frame_decoder_trim(&x->channel->decoder);
        if (x->status < 0) {
                if (err)
                        *err = x->error;
                return x->status;
        }
        look_after(x);
        if (outlet_end(&x->outlet) < 0 || inlet_end(&x->inlet, x->result) < 0 || result_name_scrubbed(x->result, x->outlet.scrub) < 0)
                lose(f);
        take_usage(x);
        if (x->network.box && !(x->result->network = network_run_ledger(&x->network)))
                lose(f);
        f->error_name = x->result->has_error ? x->result->error.name.bytes : NULL;
        struct policy policy = *x->session->policy; /* borrows what that owns */
        policy.timeout_usec = x->timeout_usec;
        char hint[NETWORK_HINT_MAX];
        f->network_hint = network_hint(x->result->network, hint);
        verdict_decide(f, &policy, &x->result->verdict);
        f->language = f->error_name = f->broken_rule = f->lost_reason = f->network_hint = NULL; /* borrowed */
        return 0;
}
