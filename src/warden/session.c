/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/session.h"

#include "base/error.h"
#include "base/fd.h"
#include "warden/channel.h"
#include "warden/children.h"
#include "warden/loop.h"
#include "warden/program.h"
#include "warden/template.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- requests ---- */

static void tell_opened(struct box *b)
{
        static bool swept; /* once: of what dead wardens have left there is no more to come */

        struct warden_event event = {
                .kind = WARDEN_OPENED, .host_uid = b->host_uid, .host_gid = b->host_gid, .warm = b->template != NULL,
        };
        int fds[1 + OPENED_PLACES_MAX + CGROUP_KIND_COUNT] = {b->workspace}, kept = 1 + MIN(b->n_watch, OPENED_PLACES_MAX), n = kept;

        memcpy(fds + 1, b->watch, sizeof(int) * (size_t)(kept - 1));
        for (int kind = 0; b->has_cgroup && kind < CGROUP_KIND_COUNT; kind++) {
                /* Opened anew: a copy of ours would share its lock. */
                int fd = b->cgroup.dir[kind] < 0 ? -1 : openat(b->cgroup.dir[kind], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (fd < 0)
                        continue;
                /* An ordinary user's front reads the counters; it may go through the directory, no more. */
                if (warden_front.uid != geteuid() && (fchown(fd, (uid_t)-1, warden_front.gid) < 0 || fchmod(fd, 0710) < 0)) {
                        safe_close(fd);
                        continue;
                }
                event.cgroups |= 1U << kind;
                fds[n++] = fd;
        }
        channel_send(b->channel, &event, fds, n);
        while (n > kept)
                safe_close(fds[--n]);
        if (!swept)
                box_sweep(b);
        swept = true;
        box_keep_little(b);
}

int session_open(struct channel *c, const struct box_spec *spec, int *fds, gb_error *err)
{
        static const struct template_key none;
        bool warm = memcmp(&spec->template, &none, sizeof(none)) != 0;
        struct template *t = warm ? template_find(&spec->template) : NULL;

        if (warm && !t)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no such template here");
        if (t)
                template_remember(t, spec, fds);
        struct box *b = t ? template_take(t, spec) : NULL;
        if (!b) {
                b = t ? box_new() : box_take_shell();
                if (!b)
                        return error_set(err, GB_E_LIMIT, EAGAIN, "no more sessions: %d boxes are in use", BOXES_MAX);
                b->session = true;
                b->template = t;
                int r = box_create(b, spec, NULL, fds, err);
                if (r < 0) {
                        b->failed = true;
                        b->error = *err;
                        box_stop(b, WARDEN_STOP_NONE);
                }
        }
        c->kind = CHANNEL_SESSION;
        c->box = b;
        b->channel = c;
        if (b->state == BOX_OPEN)
                tell_opened(b);
        box_settle(b);
        return 0;
}

int session_start(struct box *b, const struct box_spec *spec, int *fds, gb_error *err)
{
        struct channel *c = NULL;
        bool warm = spec->flags & BOX_WARM && spec->flags & BOX_CONTEXT && b->template;

        for (uint32_t i = 0; i < spec->n_fds; i++)
                if (spec->fds[i].role == BOX_FD_CHANNEL && !c)
                        c = channel_new(TAKE_FD(fds[i]));
        if (!c)
                return error_set(err, GB_E_INTERNAL, EPROTO, "the request for a program has no channel");
        struct program *p = warm ? b->parked : NULL;
        bool parked = p;
        gb_error error = {0};
        int r = 0;
        if (!p)
                p = program_new(b);
        if (!p) {
                struct warden_event event = {.kind = WARDEN_FAILED};
                error_set(&event.error, GB_E_LIMIT, EAGAIN, "no more programs: %d are in use", PROGRAMS_MAX);
                channel_send(c, &event, NULL, 0);
                return 0;
        }
        c->kind = CHANNEL_PROGRAM;
        c->program = p;
        p->channel = c;
        p->flags = spec->flags;
        if (parked)
                program_announce(p);
        else if (b->state == BOX_BUILDING && !warm)
                r = error_set(&error, GB_E_INTERNAL, EPROTO, "the session does not stand yet");
        else
                r = program_start(p, spec, fds, &error);
        if (r < 0) {
                p->failed = true;
                p->error = error;
                program_stop(p, WARDEN_STOP_NONE);
        }
        return 0;
}

/* ---- what follows ---- */

static void start_deferred(struct program *p, void *data)
{
        gb_error error = {0};

        if (!p->deferred || p->state != PROGRAM_STARTING)
                return;
        p->deferred = false;
        if (template_fork(p->box->template, p, &error) < 0) {
                p->failed = true;
                p->error = error;
                program_stop(p, WARDEN_STOP_NONE);
        }
}

static void finish_early(struct program *p, void *data)
{
        if (p->early && p->state == PROGRAM_STARTING)
                program_ready(p);
}

/* A session made ahead gets its program, so that it waits with one, unless the template is to have no such children. */
static void start_ahead(struct box *b)
{
        struct program *p = b->template->pool > 0 ? program_new(b) : NULL;
        struct box_spec spec = {.flags = BOX_CONTEXT | BOX_WARM};
        gb_error error = {0};

        if (p && program_start(p, &spec, NULL, &error) < 0)
                box_stop(b, WARDEN_STOP_NONE);
}

/* The root of a template's session stands, and only its init has to lock itself in yet: no user code runs before that,
 * but a child can be forked meanwhile. */
static void on_built(struct box *b)
{
        b->peopled = true;
        if (b->channel)
                program_for_each(b, start_deferred, NULL);
        else
                start_ahead(b);
}

/* A session stands. */
static void on_open(struct box *b)
{
        b->announced = true;
        if (b->channel)
                tell_opened(b);
        program_for_each(b, finish_early, NULL);
}

static void end_program(struct program *p, void *data)
{
        program_end(p);
}

void session_end_programs(struct box *b)
{
        program_for_each(b, end_program, NULL);
}

static void on_dead(struct box *b)
{
        struct warden_event event = {.kind = b->failed ? WARDEN_FAILED : WARDEN_ENDED, .error = b->error, .report = b->report};
        struct channel *c = b->channel;
        bool once = b->spec.flags & BOX_ONCE;

        struct template *t = b->template;
        channel_send(c, &event, NULL, 0);
        box_done(b);
        channel_release(c);
        if (t)
                template_lost_session(t, b);
        warden_over = warden_over || once;
}

/* When the next tick is wanted; 0: never. Each box that something has happened to brings it nearer, a tick finds it anew: nobody
 * goes through all boxes for every event. */
static uint64_t last_tick_usec, next_tick_usec;

static void note_time(struct box *b)
{
        uint64_t next = b->state == BOX_OPEN ? last_tick_usec + SAMPLE_PERIOD_USEC : box_next_sample(b);

        if (next > 0 && (next_tick_usec == 0 || next < next_tick_usec))
                next_tick_usec = next;
}

void box_settle(struct box *b)
{
        if (b->executed && !b->announced) {
                struct warden_event event = {.kind = WARDEN_STARTED};
                b->announced = true;
                if (b->channel && b->channel->kind == CHANNEL_BOX)
                        channel_send(b->channel, &event, NULL, 0);
                if (b->state == BOX_RUNNING)
                        box_sweep(b);
        }
        if (b->template && !b->peopled && b->proc >= 0 && (b->state == BOX_BUILDING || b->state == BOX_OPEN))
                on_built(b);
        if (b->state == BOX_OPEN && !b->announced)
                on_open(b);
        if (b->state == BOX_DEAD)
                on_dead(b);
        note_time(b);
}

/* ---- time ---- */

static void end_for_disk(struct program *p, void *data)
{
        program_stop(p, WARDEN_STOP_DISK);
}

static void look_at_session(struct box *b)
{
        if (!b->active)
                return;
        b->active = false;
        box_measure(b);
        if (b->report.stats.oom_kills > b->oom_kills_known)
                program_end_for_memory(b);
        else if (b->unlinked_over)
                program_for_each(b, end_for_disk, NULL);
}

static void tick_box(struct box *b, void *data)
{
        if (b->state == BOX_OPEN && b->channel)
                look_at_session(b);
        else
                box_sample(b, last_tick_usec);
        box_settle(b);
}

/* One pass over all programs: which sessions have a run, who still waits for a template, who waits in vain. */
static void tick_program(struct program *p, void *data)
{
        struct template *template = p->box->template;

        p->box->active = p->box->active || program_is_active(p);
        if (p->deferred && p->box->peopled)
                start_deferred(p, NULL);
        /* A template that does not answer is of no use to anybody: its end fails the order. */
        bool late = p->state == PROGRAM_STARTING && p->ordered && template && last_tick_usec - MAX(p->asked_usec, template->heard_usec) >= FORK_TIMEOUT_USEC;
        if (late)
                template_kill(template);
        if (late && child_exists(&p->process)) { /* or said something that does not fit */
                p->failed = true;
                error_set(&p->error, GB_E_LOST, ETIMEDOUT, "the template's child does not come up");
                program_stop(p, WARDEN_STOP_NONE);
                return;
        }

        if (p->state != PROGRAM_STARTING || last_tick_usec - p->asked_usec < BUILD_TIMEOUT_USEC)
                return;
        p->failed = true;
        error_set(&p->error, GB_E_LOST, ETIMEDOUT, "the program was not started within %llu s", BUILD_TIMEOUT_USEC / 1000000);
        program_stop(p, WARDEN_STOP_NONE);
}

void session_tick(uint64_t now_usec)
{
        last_tick_usec = now_usec;
        next_tick_usec = 0;
        program_for_each(NULL, tick_program, NULL);
        box_for_each(tick_box, NULL);
        children_reap_unclaimed();
}

uint64_t session_next_tick(void)
{
        uint64_t look = children_need_look() ? last_tick_usec + SAMPLE_PERIOD_USEC : 0;

        return look > 0 && (next_tick_usec == 0 || look < next_tick_usec) ? look : next_tick_usec;
}
