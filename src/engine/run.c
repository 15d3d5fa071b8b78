/* SPDX-License-Identifier: Apache-2.0
 *
 * One run, seen from the front. A libevent loop carries bytes: the caller's stdin into the box's
 * pipe, the box's stdout and stderr to the callbacks, counting; it watches the backend's
 * events, the cancel descriptor and the workspace's size. Who ends the box for time, memory or
 * tasks is the backend, so a reader that stands still here cannot stretch a limit.
 *
 * The run is over when the backend says so: then everything inside is dead, both pipes have their
 * end within reach, and the rest of the output is read to it. */
#include "engine/run.h"

#include "backend/backend.h"
#include "base/chunk.h"
#include "base/fd.h"
#include "engine/inlet.h"
#include "engine/network.h"
#include "engine/outlet.h"
#include "engine/places.h"
#include "engine/pump.h"
#include "engine/run_session.h"
#include "engine/run_warm.h"
#include "engine/watch.h"
#include "guard/reader.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct run;

struct run_output {
        struct run *run;
        enum run_stream stream;
        int fd;
        struct event *event;
};

struct run {
        const struct run_request *request;
        const struct backend *backend;
        struct backend_box *box;
        struct result *result;
        struct event_base *base;
        struct event *backend_event, *cancel_event, *grace_event, *disk_event, *pause_event;
        struct run_output outputs[2];
        struct outlet outlet;
        struct inlet inlet;
        struct pump pump;
        struct places places;
        struct network_box *network; /* NULL: no allowlist */
        int child_fds[3]; /* the box's ends, until it has them */
        uint64_t asked_usec;
        unsigned cancels;
        bool stopped; /* the backend was told to end it */
        bool ended;   /* its end was seen, or the backend is lost */
        char reason[128]; /* lost_reason, where it is not a constant */
        struct chunk chunk;
        int status; /* of the loop: 0, or a negative errno with error */
        gb_error error;
};

static void stop(struct run *r, enum stop_reason why)
{
        if (r->result->facts.stop == STOP_NONE)
                r->result->facts.stop = why;
        if (!r->stopped) {
                places_end_hides(&r->places);
                r->backend->stop(r->box);
        }
        r->stopped = true;
}

/* The outcome is not known, whatever was thought of it before. The first reason stays. */
static void lose(struct run *r, const char *reason)
{
        struct run_facts *f = &r->result->facts;

        f->stop = STOP_LOST;
        f->lost_reason = f->lost_reason ? f->lost_reason : reason;
}

/* The host has failed during the run, which is stopped. */
static void fail(struct run *r, const char *what, int errnum)
{
        stop(r, STOP_LOST);
        if (!r->result->facts.lost_reason)
                snprintf(r->reason, sizeof(r->reason), "%s: %s", what, strerror(errnum));
        lose(r, r->reason);
}

/* Told once, and before any output: that may overtake the backend's event on its way here. */
static void note_started(struct run *r, uint64_t t_usec)
{
        if (!r->result->facts.started && r->request->callbacks.started)
                r->request->callbacks.started(r->request->callbacks.data, t_usec - r->asked_usec);
        r->result->facts.started = true;
}

static void deliver(struct run *r, enum run_stream stream, const char *bytes, size_t size)
{
        static const struct timeval soon = {.tv_usec = OUTLET_PAUSE_USEC};

        note_started(r, monotonic_usec());
        int e = outlet_write(&r->outlet, stream, bytes, size);
        if (e != 0)
                stop(r, e < 0 ? STOP_LOST : STOP_OUTPUT);
        if (e < 0)
                lose(r, verdict_no_memory);
        if (r->outlet.pause_usec > 0)
                event_add(r->pause_event, &soon);
}

static void on_pause(evutil_socket_t fd, short what, void *data)
{
        struct run *r = data;

        outlet_pause(&r->outlet);
}

/* Reads and delivers what is there, up to one chunk; false at the end or when there is nothing now. Pieces are
 * put together: a program that writes byte by byte must not make us work byte by byte. */
static bool read_output(struct run_output *o)
{
        struct chunk *chunk = &o->run->chunk;
        size_t used = 0;
        bool ended = false;

        while (o->fd >= 0 && used < OUTPUT_CHUNK_BYTES) {
                ssize_t n = read(o->fd, chunk->data + used, OUTPUT_CHUNK_BYTES - used);
                if (n < 0 && errno == EINTR)
                        continue;
                ended = n == 0 || (n < 0 && errno != EAGAIN);
                if (n < 0 && ended)
                        fail(o->run, "its output could not be read", errno);
                if (n <= 0)
                        break;
                used += (size_t)n;
        }
        chunk_mark(chunk, used);
        if (used > 0)
                deliver(o->run, o->stream, chunk->data, used);
        if (ended) {
                if (o->event)
                        event_del(o->event);
                o->fd = safe_close(o->fd);
        }
        return used > 0;
}

static void on_output(evutil_socket_t fd, short what, void *data)
{
        read_output(data);
}

static void take_end(struct run *r, const struct box_end *end)
{
        struct run_facts *facts = &r->result->facts;

        /* The last look: what a short program wrote between two looks counts as well. */
        if (facts->stop == STOP_NONE && end->stop == BOX_STOP_NONE && places_look(&r->places, facts))
                facts->stop = STOP_DISK;
        result_take_end(r->result, end);
        places_add_peaks(&r->places, facts);
}

/* What the program asks for before this waits in its listener. Without a network it is not to go on: it would take that for an answer. */
static void connect_network(struct run *r)
{
        if (!r->network || network_box_attach(r->network, r->backend->listener(r->box, &r->error), &r->error) == 0)
                return;
        r->status = -EIO;
        r->error.code = GB_E_LOST;
        event_base_loopbreak(r->base);
}

/* Takes one event of the backend; false: there is none. */
static bool take_event(struct run *r)
{
        struct box_event event;

        r->status = r->backend->next_event(r->box, &event, &r->error);
        if (r->status < 0) {
                r->ended = true;
                event_base_loopbreak(r->base);
                return true;
        }
        if (event.kind == BOX_EVENT_STARTED) {
                r->result->setup_usec = event.t_usec - r->asked_usec;
                r->result->setup_known = true;
                note_started(r, event.t_usec);
                connect_network(r);
        } else if (event.kind == BOX_EVENT_ENDED) {
                take_end(r, &event.end);
                r->ended = true;
                event_base_loopbreak(r->base);
        }
        return event.kind != BOX_EVENT_NONE;
}

static void on_backend(evutil_socket_t fd, short what, void *data)
{
        (void)take_event(data);
}

static void on_cancel(evutil_socket_t fd, short what, void *data)
{
        static const struct timeval grace = {.tv_sec = INTERRUPT_GRACE_USEC / 1000000, .tv_usec = INTERRUPT_GRACE_USEC % 1000000};
        struct run *r = data;
        uint64_t count;

        if (read(fd, &count, sizeof(count)) != sizeof(count))
                return;
        /* An end that has happened comes before a request to end it. */
        while (!r->ended && r->status == 0 && take_event(r))
                ;
        if (r->ended || r->status < 0)
                return;
        r->cancels += (unsigned)MIN(count, (uint64_t)2);
        if (r->result->facts.stop == STOP_NONE)
                r->result->facts.stop = STOP_CANCELLED;
        if (r->cancels >= 2) {
                stop(r, STOP_CANCELLED);
        } else {
                r->backend->signal(r->box, SIGINT);
                if (event_add(r->grace_event, &grace) < 0)
                        stop(r, STOP_CANCELLED);
        }
}

static void on_grace(evutil_socket_t fd, short what, void *data)
{
        stop(data, STOP_CANCELLED);
}

static void on_disk(evutil_socket_t fd, short what, void *data)
{
        static const struct timeval period = {.tv_usec = SAMPLE_PERIOD_USEC};
        struct run *r = data;

        if (places_look_if_due(&r->places, &r->result->facts))
                stop(r, STOP_DISK);
        else if (event_add(r->disk_event, &period) < 0)
                fail(r, "the size of the workspace cannot be watched", ENOMEM);
}

/* The program must not take a part of its input for all of it. */
static void on_input_failed(void *data, int errnum)
{
        fail(data, "standard input could not be read to its end", errnum);
}

static int open_pipes(struct run *r, gb_error *err)
{
        int fds[2];

        for (int i = 0; i < 2; i++) {
                if (pipe2(fds, O_CLOEXEC) < 0 || fd_set_nonblock(fds[0]) < 0)
                        return error_set(err, GB_E_INTERNAL, errno, "cannot make a pipe: %s", strerror(errno));
                r->outputs[i].fd = fds[0];
                r->child_fds[1 + i] = fds[1];
        }
        int e = pump_open(&r->pump, r->request->stdin_fd, &r->child_fds[0]);
        return e < 0 ? pump_explain(e, err) : 0;
}

static void drop_log(int severity, const char *message)
{
}

static int add_events(struct run *r)
{
        const struct timeval first = {.tv_usec = SAMPLE_PERIOD_USEC};

        event_set_log_callback(drop_log); /* a library prints nothing; failures come back as results */
        r->base = event_base_new();
        if (!r->base)
                return -ENOMEM;
        r->backend_event = event_new(r->base, r->backend->event_fd(r->box), EV_READ | EV_PERSIST, on_backend, r);
        r->grace_event = event_new(r->base, -1, 0, on_grace, r);
        r->disk_event = event_new(r->base, -1, 0, on_disk, r);
        r->pause_event = event_new(r->base, -1, 0, on_pause, r);
        if (!r->backend_event || !r->grace_event || !r->disk_event || !r->pause_event || event_add(r->backend_event, NULL) < 0)
                return -ENOMEM;
        if (places_are_watched(&r->places) && event_add(r->disk_event, &first) < 0)
                return -ENOMEM;
        if (r->request->cancel_fd >= 0) {
                r->cancel_event = event_new(r->base, r->request->cancel_fd, EV_READ | EV_PERSIST, on_cancel, r);
                if (!r->cancel_event || event_add(r->cancel_event, NULL) < 0)
                        return -ENOMEM;
        }
        for (int i = 0; i < 2; i++) {
                r->outputs[i].event = event_new(r->base, r->outputs[i].fd, EV_READ | EV_PERSIST, on_output, &r->outputs[i]);
                if (!r->outputs[i].event || event_add(r->outputs[i].event, NULL) < 0)
                        return -ENOMEM;
        }
        return pump_start(&r->pump, r->base);
}

static void free_event(struct event **event)
{
        if (*event)
                event_free(*event);
        *event = NULL;
}

static void run_done(struct run *r)
{
        free_event(&r->backend_event);
        free_event(&r->cancel_event);
        free_event(&r->grace_event);
        free_event(&r->disk_event);
        free_event(&r->pause_event);
        for (int i = 0; i < 2; i++) {
                free_event(&r->outputs[i].event);
                r->outputs[i].fd = safe_close(r->outputs[i].fd);
        }
        pump_done(&r->pump);
        outlet_done(&r->outlet);
        inlet_done(&r->inlet);
        if (r->base)
                event_base_free(r->base);
        for (int i = 0; i < 3; i++)
                r->child_fds[i] = safe_close(r->child_fds[i]);
        places_done(&r->places);
        if (r->box)
                r->backend->free(r->box);
        network_box_free(r->network);
        chunk_done(&r->chunk);
        result_free(r->result);
}

static int start(struct run *r, gb_error *err)
{
        const struct run_request *q = r->request;

        int e = places_open(&r->places, q->policy, q->workspace, err);
        if (e == 0)
                e = network_box_open(q->policy, r->backend, false, r->outlet.scrub, &r->network, err);
        if (e == 0)
                e = open_pipes(r, err);
        if (e < 0)
                return e;
        struct box_request request = {
                .policy = q->policy, .language = q->language, .code_name = q->code_name ? q->code_name : q->language->file,
                .code = q->code, .code_size = q->code_size, .args = q->args, .workspace_fd = r->places.workspace_fd,
                .mount_fds = r->places.mount_fds,
                .rootfs = q->rootfs, .ca = network_box_ca(r->network), .uid = q->uid, .gid = q->gid,
                .stdio = {r->child_fds[0], r->child_fds[1], r->child_fds[2]},
        };
        e = r->backend->start(&request, &r->result->controls, &r->box, err);
        for (int i = 0; i < 3; i++)
                r->child_fds[i] = safe_close(r->child_fds[i]);
        if (e < 0)
                return e;
        e = add_events(r);
        return e < 0 ? error_set(err, GB_E_INTERNAL, -e, "cannot watch the run: %s", strerror(-e)) : 0;
}

/* After the loop: what is still in the pipes, and the verdict. */
static int finish(struct run *r, gb_error *err)
{
        struct run_facts *facts = &r->result->facts;

        if (r->status < 0 && !(facts->started && r->error.code == GB_E_LOST)) {
                if (err)
                        *err = r->error;
                return r->status;
        }
        if (r->status < 0)
                lose(r, r->error.message);
        for (int i = 0; i < 2; i++)
                while (read_output(&r->outputs[i]))
                        ;
        if (outlet_end(&r->outlet) < 0 || inlet_end(&r->inlet, r->result) < 0 || result_name_scrubbed(r->result, r->outlet.scrub) < 0)
                lose(r, verdict_no_memory);
        network_box_end(r->network);
        if (r->network && !(r->result->network = network_box_ledger(r->network)))
                lose(r, verdict_no_memory);
        char hint[NETWORK_HINT_MAX];
        facts->network_hint = network_hint(r->result->network, hint);
        verdict_decide(facts, r->request->policy, &r->result->verdict);
        facts->language = facts->lost_reason = facts->network_hint = NULL; /* borrowed */
        return 0;
}

static int run_cold(const struct run_request *request, const struct watch *watch, struct result **ret, gb_error *err)
{
        _cleanup_(run_done) struct run r = {
                .request = request, .backend = backend_for(request->policy), .child_fds = {-1, -1, -1},
                .asked_usec = monotonic_usec(), .pump = PUMP_INIT,
        };
        places_init(&r.places, request->policy);
        for (int i = 0; i < 2; i++)
                r.outputs[i] = (struct run_output){.run = &r, .stream = i == 0 ? RUN_STDOUT : RUN_STDERR, .fd = -1};

        r.result = result_new(request->policy, request->language, r.backend->name, request->keep_output);
        if (chunk_init(&r.chunk) < 0 || !r.result)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        r.outlet = (struct outlet){
                .result = r.result, .scrub = watch_scrub(watch), .limit_bytes = request->policy->output_limit_bytes, .keep = request->keep_output,
                .output = request->callbacks.output, .data = request->callbacks.data, .asked_usec = r.asked_usec,
        };
        r.inlet.watch = watch;
        r.pump.seen = inlet_see;
        r.pump.seen_data = &r.inlet;
        r.pump.failed = on_input_failed;
        r.pump.failed_data = &r;
        int e = start(&r, err);
        if (e < 0)
                return e;
        event_base_dispatch(r.base);
        e = finish(&r, err);
        if (e < 0)
                return e;
        *ret = TAKE_PTR(r.result);
        return 0;
}

static int run_anyhow(const struct run_request *request, const struct watch *watch, struct result **ret, gb_error *err)
{
        char why[RUN_WHY_MAX] = "";

        if (!backend_for(request->policy)->start)
                return run_in_session(request, false, ret, err);
        /* Nothing was run when this fails: then there is the other way, and what is wrong with the request shows there. */
        if (request->template && run_warm(request, ret, why) == 0)
                return 0;
        int r = run_cold(request, watch, ret, err);
        if (r == 0 && why[0]) {
                struct control_status *layout = &(*ret)->controls.status[CONTROL_LAYOUT];
                snprintf(layout->how, sizeof(layout->how), "fresh exec; no template: %.120s", why);
        }
        return r;
}

int run_execute(const struct run_request *request, struct result **ret, gb_error *err)
{
        const struct policy *p = request->policy;
        _cleanup_watch_ struct watch *watch = NULL;
        _cleanup_result_ struct result *looked = NULL;

        int r = policy_validate(p, err);
        if (r == 0)
                r = watch_open(p, &watch, err);
        if (r < 0)
                return r;
        looked = result_new(p, request->language, backend_for(p)->name, request->keep_output);
        if (!looked)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        struct watch_subject subject = {.language = request->language, .code = request->code, .code_size = request->code_size, .stdin_fd = request->stdin_fd};
        r = watch_before(watch, &subject, looked, err);
        if (r < 0)
                return r;
        if (r == 1) {
                looked->facts.language = NULL; /* borrowed */
                *ret = TAKE_PTR(looked);
                return 0;
        }
        r = run_anyhow(request, watch, ret, err);
        if (r == 0 && watch_add(looked->findings, *ret) < 0)
                r = error_set(err, GB_E_LOST, ENOMEM, "it was run, and there is no memory for what was found before");
        return r;
}

/* Beside what reads flags and policy. Whatever goes wrong shows again when code is looked at. */
static void *prepare_guard(void *unused)
{
        const struct rules *rules;

        reader_prepare(1);
        if (rules_get(&rules, NULL) == 0)
                rules_scratch_put(rules, RULES_CODE, rules_scratch_get(rules, RULES_CODE));
        return NULL;
}

void run_prepare(bool box)
{
        static bool guarded;
        pthread_t thread;

        if (box)
                backend_native.prepare();
        if (guarded)
                return;
        guarded = true;
        if (pthread_create(&thread, NULL, prepare_guard, NULL) == 0)
                (void)pthread_detach(thread);
}

void run_forget(void)
{
        backend_native.forget();
}
