/* SPDX-License-Identifier: Apache-2.0
 *
 * The native backend: the front's side of the warden. It starts one warden (early, by prepare(), so
 * that its exec overlaps with the reading of files), plans the box, sends one request with
 * all descriptors and reads events. The warden ends by itself when its socket is closed. */
#include "backend/backend.h"
#include "backend/native/admit.h"
#include "backend/native/command.h"
#include "backend/native/keeper.h"
#include "backend/native/listener.h"
#include "backend/native/payload.h"
#include "backend/native/root.h"
#include "backend/native/session.h"
#include "backend/native/warm.h"
#include "backend/native/warden.h"
#include "base/fd.h"
#include "base/message.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

struct backend_box {
        int socket;
        int listener; /* where it comes from; -1: there is none, or it was taken */
        struct warden_process warden;
        bool over; /* the last event was read */
        struct warden_places places;
};

/* The warden that prepare() has started and nobody has taken yet. */
static struct {
        int socket;
        struct warden_process process;
} prepared = {.socket = -1, .process = {.pidfd = -1}};

static void native_prepare(void)
{
        if (prepared.socket < 0)
                (void)warden_spawn(-1, &prepared.socket, &prepared.process, NULL); /* start() tries again and tells */
}

static int take_warden(struct backend_box *box, gb_error *err)
{
        if (prepared.socket >= 0) {
                box->socket = TAKE_FD(prepared.socket);
                box->warden = prepared.process;
                prepared.process = WARDEN_NOBODY;
                return 0;
        }
        return warden_spawn(-1, &box->socket, &box->warden, err);
}

static int start_box(const struct box_request *request, const struct native_host *host, struct backend_box *box,
                     struct controls *ret_controls, gb_error *err)
{
        _cleanup_free_ struct warden_request *message = calloc(1, sizeof(*message));
        _cleanup_plan_ struct box_plan *plan = plan_new();

        if (!message || !plan)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");

        message->version = WARDEN_PROTOCOL_VERSION;
        message->kind = WARDEN_RUN;
        message->spec.layers_off = warden_layers_off();
        int r = native_admit(host, request, &message->spec, ret_controls, err);
        if (r == 0)
                r = root_plan(plan, request, err);
        if (r == 0)
                r = command_plan(plan, request, err);
        if (r == 0)
                r = plan_descriptors(plan, host, request->stdio, err);
        if (r == 0)
                r = listener_plan(plan, request->policy, &box->listener, err);
        if (r == 0)
                r = take_warden(box, err);
        if (r < 0)
                return r;

        message->spec.n_fds = plan->n_fds;
        memcpy(message->spec.fds, plan->fds, sizeof(plan->fds));
        message->spec.flags |= BOX_ONCE;
        r = message_send(box->socket, message, sizeof(*message), plan->fd_values, (int)plan->n_fds);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "the warden does not answer: %s", strerror(-r));
        return 0;
}

static void native_forget(void)
{
        if (prepared.socket >= 0)
                warden_end(&prepared.socket, &prepared.process);
}

static void native_free(struct backend_box *box)
{
        if (!box)
                return;
        safe_close(box->listener);
        warden_end(&box->socket, &box->warden);
        free(box);
}
DEFINE_CLEANUP(struct backend_box, native_free)

static int native_start(const struct box_request *request, struct controls *ret_controls, struct backend_box **ret,
                        gb_error *err)
{
        struct native_host host;
        _cleanup_(native_free_ptr) struct backend_box *box = calloc(1, sizeof(*box));

        if (!box)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        box->socket = box->listener = -1;
        box->warden = WARDEN_NOBODY;
        box->places = warden_places_of(request->policy, request->workspace_fd < 0);
        int r = native_host_probe(&host, true);
        if (r < 0)
                return native_host_fail(r, err);
        r = start_box(request, &host, box, ret_controls, err);
        native_host_done(&host);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(box);
        return 0;
}

static int native_event_fd(const struct backend_box *box)
{
        return box->socket;
}

struct warden_places warden_places_of(const struct policy *policy, bool has_own_workspace)
{
        struct warden_places of = {0};
        size_t n = 0;

        if (!policy->scratch_only)
                of.kinds[n++] = FULL_TMP;
        of.kinds[n++] = FULL_SHM;
        if (has_own_workspace)
                of.kinds[n++] = FULL_WORKSPACE;
        of.kinds[n++] = FULL_CODE; /* of a session */
        return of;
}

/* Bit i of the mask: the i-th tmpfs. */
static unsigned full_places(uint32_t mask, const struct warden_places *of)
{
        unsigned full = 0;
        size_t i = 0;

        for (; of->kinds[i] != 0; i++)
                full |= mask >> i & 1 ? of->kinds[i] : 0;
        return full | (mask >> i ? FULL_SOMEWHERE : 0);
}

bool warden_measure_place(int fd, struct box_usage *ret)
{
        struct statfs st;

        if (fstatfs(fd, &st) < 0)
                return false;
        ret->disk_bytes = (uint64_t)(st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
        ret->inodes = (uint64_t)(st.f_files - st.f_ffree);
        ret->disk_full |= warden_place_is_full(fd) ? FULL_WORKSPACE : 0;
        return true;
}

bool warden_place_is_full(int fd)
{
        struct statfs st;

        return fd >= 0 && fstatfs(fd, &st) == 0 && ((st.f_blocks > 0 && st.f_bfree == 0) || (st.f_files > 0 && st.f_ffree == 0));
}

unsigned warden_full_places(const int places[static OPENED_PLACES_MAX], const struct warden_places *of)
{
        uint32_t mask = 0;

        for (int i = 0; i < OPENED_PLACES_MAX; i++)
                mask |= warden_place_is_full(places[i]) ? 1U << i : 0;
        return full_places(mask, of);
}

void warden_fill_end(struct box_end *end, const struct box_report *report, const struct warden_places *of)
{
        *end = (struct box_end){
                .ending = report->ending,
                .stop = (enum box_stop)report->stop,
                .compiling = report->compiling,
                .disk_full = full_places(report->disk_full, of),
                .disk_hidden = report->disk_hidden,
                .pids_full = report->pids_full,
                .wall_usec = report->wall_usec,
                .cpu_usec = report->stats.cpu_usec,
                .memory_peak_bytes = report->stats.memory_peak_bytes,
                .pids_peak = report->stats.pids_peak,
                .disk_peak_bytes = report->disk_peak_bytes,
                .inodes_peak = report->inodes_peak,
                .oom_kills = report->stats.oom_kills,
                .pids_refused = report->stats.pids_refused,
                .tasks_left = report->tasks_left,
                /* A program that ran has used some of each: an amount that is still 0 was not counted. */
                .cpu_known = report->stats.cpu_usec > 0,
                .memory_known = report->stats.memory_peak_bytes > 0,
                .kills_known = report->memory_counted,
                .pids_known = report->stats.pids_peak > 0,
                .disk_known = true,
        };
}

static int native_next_event(struct backend_box *box, struct box_event *ret, gb_error *err)
{
        struct warden_event event;

        *ret = (struct box_event){.kind = BOX_EVENT_NONE};
        ssize_t n = recv(box->socket, &event, sizeof(event), MSG_DONTWAIT);
        if (n < 0 && errno == ECONNRESET) /* the warden has ended without reading all we sent; its last words are still there */
                n = recv(box->socket, &event, sizeof(event), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n != (ssize_t)sizeof(event) || event.version != WARDEN_PROTOCOL_VERSION)
                return error_set(err, GB_E_LOST, EPIPE, "the warden died; what it ran is dead too, its outcome is not known");

        ret->t_usec = event.t_usec;
        switch (event.kind) {
        case WARDEN_STARTED:
                ret->kind = BOX_EVENT_STARTED;
                return 0;
        case WARDEN_ENDED:
                ret->kind = BOX_EVENT_ENDED;
                warden_fill_end(&ret->end, &event.report, &box->places);
                box->over = true;
                return 0;
        default:
                box->over = true;
                if (err)
                        *err = event.error;
                return event.error.errnum > 0 ? -event.error.errnum : -EINVAL;
        }
}

static void native_ask(struct backend_box *box, uint32_t kind, uint32_t value)
{
        struct warden_request request = {.version = WARDEN_PROTOCOL_VERSION, .kind = kind, .value = value};

        if (!box->over)
                (void)message_send(box->socket, &request, sizeof(request), NULL, 0); /* a dead warden shows at its socket */
}

static void native_signal(struct backend_box *box, int sig)
{
        native_ask(box, WARDEN_SIGNAL, (uint32_t)sig);
}

/* When it does not work, admission will say what is missing. */
static void native_settle(void)
{
        (void)cgroup_make_room();
}

static void native_stop(struct backend_box *box)
{
        native_ask(box, WARDEN_STOP, 0);
}

static int native_listener(struct backend_box *box, gb_error *err)
{
        return listener_take(&box->listener, err);
}

const struct backend backend_native = {
        .name = "native",
        .admit = session_native_admit,
        .settle = native_settle,
        .separate = native_separate,
        .separated_fd = native_separated_fd,
        .separated_hide = keeper_start_hide,
        .prepare = native_prepare,
        .forget = native_forget,
        .start = native_start,
        .event_fd = native_event_fd,
        .next_event = native_next_event,
        .signal = native_signal,
        .stop = native_stop,
        .free = native_free,
        .listener = native_listener,
        .session_open = session_native_open,
        .session_workspace = session_native_workspace,
        .session_files = session_native_files,
        .session_usage = session_native_usage,
        .session_clear = session_native_clear,
        .session_is_busy = session_native_is_busy,
        .session_listener = session_native_listener,
        .session_event_fd = session_native_event_fd,
        .memory_ends_all = true,
        .session_is_warm = session_native_is_warm,
        .session_free = session_native_free,
        .program_start = program_native_start,
        .program_event_fd = program_native_event_fd,
        .program_next_event = program_native_next_event,
        .program_signal = program_native_signal,
        .program_settle = program_native_settle,
        .program_stop = program_native_stop,
        .program_free = program_native_free,
        .warm = &native_warm,
};
