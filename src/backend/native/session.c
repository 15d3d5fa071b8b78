/* SPDX-License-Identifier: Apache-2.0
 *
 * A session is a channel to the warden and what came with its opening: the workspace, and the cgroups to read from.
 * A program is a channel of its own. When a template is to be used, the request for its first child is sent right
 * behind that for the session, so that nobody waits for two answers. */
#include "backend/native/session.h"

#include "backend/native/admit.h"
#include "backend/native/command.h"
#include "backend/native/keeper.h"
#include "backend/native/listener.h"
#include "backend/native/payload.h"
#include "backend/native/root.h"
#include "backend/native/template.h"
#include "backend/usage.h"
#include "backend/native/warden.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/message.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_USEC (BUILD_TIMEOUT_USEC + 5000000ULL)
#define CLOSE_USEC 5000000ULL
#define SETTLE_USEC 1000000ULL
#define ABOUT_USEC 5000000ULL
#define ADMITTED_UID 1000 /* inside; for the question only */
#define ONCE_SLOTS 16 /* programs that run once, at a time: each has a directory for its code */

struct backend_program {
        struct backend_session *session;
        int channel;
        bool over;           /* its last event was read */
        unsigned unanswered; /* signals that were asked for */
        bool has_event;      /* read while we waited for the answers */
        struct warden_event event;
};

struct backend_session {
        int channel;
        int workspace;
        int places[OPENED_PLACES_MAX]; /* tmpfs mounts whose room is looked at; -1: none */
        int listener; /* where it comes from; -1: there is none, or it was taken */
        struct usage_files usage;
        bool unified;
        bool warm; /* its interpreters come from a template */
        struct warden_places kinds; /* of its file systems */
        bool is_private; /* its workspace is a file system of its own */
        int files;       /* the workspace as our own: a directory of the host, or what the warden lends; -1: nobody has asked yet */
        pthread_mutex_t files_lock;
        uid_t uid, host_uid;
        gid_t gid, host_gid;
        atomic_int first; /* channel of the child that was asked for ahead; -1: none, or taken */
        unsigned next_slot;
};

/* ---- the host, looked at once ---- */

static int host_once(const struct native_host **ret, gb_error *err)
{
        static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        static struct native_host host;
        static bool known;

        pthread_mutex_lock(&mutex);
        int r = known ? 0 : native_host_probe(&host, true);
        known = r == 0; /* what lacks only for a moment is not what this host is */
        pthread_mutex_unlock(&mutex);
        *ret = &host;
        return r < 0 ? native_host_fail(r, err) : 0;
}

/* ---- requests ---- */

static struct warden_request *request_new(uint32_t kind)
{
        struct warden_request *m = calloc(1, sizeof(*m));

        if (m) {
                m->version = WARDEN_PROTOCOL_VERSION;
                m->kind = kind;
        }
        return m;
}

static int request_send(int channel, struct warden_request *m, const struct box_plan *plan, gb_error *err)
{
        m->spec.n_fds = plan->n_fds;
        memcpy(m->spec.fds, plan->fds, sizeof(plan->fds[0]) * plan->n_fds);
        int r = message_send(channel, m, sizeof(*m), plan->fd_values, (int)plan->n_fds);
        return r < 0 ? error_set(err, GB_E_LOST, -r, "the session is gone: %s", strerror(-r)) : 0;
}

/* Asks for something that has a channel of its own, which is returned. The plan may be empty. */
static int request_channel(const struct backend_session *s, uint32_t kind, uint32_t flags, struct box_plan *plan, int *ret_channel, gb_error *err)
{
        _cleanup_free_ struct warden_request *m = request_new(kind);
        int pair[2];

        if (!m || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a channel to the warden: %s", strerror(errno));
        m->spec.flags = flags;
        int r = plan_fd(plan, BOX_FD_CHANNEL, 0, pair[1], true, err);
        if (r == 0)
                r = request_send(s->channel, m, plan, err);
        if (r < 0)
                safe_close(pair[0]);
        else
                *ret_channel = pair[0];
        return r;
}

/* ---- whether and how a template can be used ---- */

struct warmth {
        bool use;
        bool inherits; /* its root is the template's */
        struct template_key key;
        char note[TEMPLATE_WHY_MAX], why[TEMPLATE_WHY_MAX];
};

/* Why a template cannot serve this request; NULL: it can. */
static const char *why_cold(const struct session_request *q, const struct native_host *host)
{
        bool own_root = root_is_own(q->policy);

        if (!q->template)
                return "";
        if (q->ca)
                return "its certificates need a root of their own";
        if (!q->policy->warm)
                return "the policy says warm: false";
        if (warden_layers_off() != 0)
                return "not in a build with layers off";
        if (q->policy->network_mode == NETWORK_HOST)
                return "the host's network cannot be joined from a template";
        if (!host->cgroup.memory || !host->cgroup.pids)
                return "memory and tasks are not counted by cgroups";
        if (!host->cgroup.cpu)
                return "processors are not limited by a cgroup, and a fork of a template is not bound to any";
        if (!host->host_root && (own_root || q->workspace_fd >= 0))
                return "without root a template's sessions have no directories of the host";
        if (q->uid != BOX_UID_DEFAULT || q->gid != BOX_UID_DEFAULT)
                return "the template is for another user inside";
        if ((q->rootfs || q->template->rootfs) && (!q->rootfs || !q->template->rootfs || strcmp(q->rootfs, q->template->rootfs) != 0))
                return "the template is of another image";
        return NULL;
}

static void decide_warmth(const struct session_request *q, const struct native_host *host, struct warmth *w)
{
        const char *why = why_cold(q, host);

        *w = (struct warmth){0};
        if (why) {
                snprintf(w->why, sizeof(w->why), "%s", why);
                return;
        }
        if (q->only_warm && !warden_find_served()) {
                snprintf(w->why, sizeof(w->why), "none is kept warm (glovebox warm)");
                return;
        }
        w->use = template_ensure(q->template, host, !warden_is_shared(), &w->key, w->note, w->why) == 0;
        w->inherits = !root_is_own(q->policy);
}

static void say_warmth(const struct session_request *q, const struct warmth *w, struct controls *c)
{
        struct control_status *s = &c->status[CONTROL_LAYOUT];

        if (w->use) {
                s->state = CONTROL_WEAKER;
                snprintf(s->how, sizeof(s->how), "forked from the template %.32s: shared with its other sessions%s%.50s", q->template->name,
                         w->note[0] ? "; it lacks " : "", w->note);
        } else if (w->why[0]) {
                snprintf(s->how, sizeof(s->how), "fresh exec; no template: %.120s", w->why);
        }
}

/* ---- opening ---- */

static int plan_session(struct box_plan *plan, const struct box_request *request, const struct warmth *w, gb_error *err)
{
        plan->cwd = policy_workspace(request->policy);
        return w->use && w->inherits ? root_plan_inherited(plan, request, err) : root_plan_session(plan, request, err);
}

static uint64_t hash_plan(const struct box_plan *plan, const struct native_host *host)
{
        uint64_t hash = hash_bytes(HASH_INIT, plan->ops, sizeof(plan->ops[0]) * plan->n_ops);
        struct stat st;

        hash = hash_bytes(hash, plan->data.data, plan->data.size);
        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++)
                if (host->cgroup.parent[kind] >= 0 && fstat(host->cgroup.parent[kind], &st) == 0)
                        hash = hash_bytes(hash, &st.st_ino, sizeof(st.st_ino));
        return hash;
}

static int send_open(struct backend_session *s, const struct session_request *q, const struct native_host *host,
                     const struct warmth *w, struct controls *ret_controls, gb_error *err)
{
        static const struct language none; /* contexts come later */
        _cleanup_free_ struct warden_request *m = request_new(WARDEN_OPEN);
        _cleanup_plan_ struct box_plan *plan = plan_new();
        const struct language *python = NULL;

        if (!m || !plan)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (q->languages)
                (void)language_by_name(q->languages, "python", &python, NULL);
        struct box_request request = {
                .policy = q->policy, .language = python ? python : &none, .workspace_fd = q->workspace_fd, .mount_fds = q->mount_fds,
                .rootfs = q->rootfs, .ca = q->ca, .uid = q->uid, .gid = q->gid,
        };
        m->spec.layers_off = warden_layers_off();
        int r = native_admit(host, &request, &m->spec, ret_controls, err);
        if (r == 0)
                r = plan_session(plan, &request, w, err);
        if (r == 0 && w->use)
                m->spec.payload_hash = hash_plan(plan, host);
        if (r == 0)
                r = plan_descriptors(plan, host, NULL, err);
        if (r == 0)
                r = listener_plan(plan, q->policy, &s->listener, err);
        if (r < 0)
                return r;
        say_warmth(q, w, ret_controls);
        if (w->use) {
                m->spec.flags |= w->inherits ? BOX_ROOT_INHERITED : 0;
                m->spec.template = w->key;
                m->spec.wall_usec = m->spec.cpu_time_usec = 0; /* the engine's, with each run; sessions are alike without */
        }
        return request_send(s->channel, m, plan, err);
}

static int take_opened(struct backend_session *s, gb_error *err)
{
        struct warden_event event;
        int fds[1 + OPENED_PLACES_MAX + CGROUP_KIND_COUNT], dirs[CGROUP_KIND_COUNT], n = ARRAY_SIZE(fds), at = 1;

        int r = warden_wait(s->channel, ANSWER_USEC, &event, fds, &n, err);
        if (r < 0)
                return r;
        if (event.kind != WARDEN_OPENED || n < 1) {
                safe_close_all(fds, (size_t)n);
                return error_set(err, GB_E_LOST, EPROTO, "the warden answers out of turn");
        }
        s->workspace = fds[0];
        for (int i = 0; i < n - 1 - __builtin_popcount(event.cgroups) && i < OPENED_PLACES_MAX; i++)
                s->places[i] = fds[at++];
        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++)
                dirs[kind] = event.cgroups & (1U << kind) && at < n ? fds[at++] : -1;
        safe_close_all(fds + at, (size_t)(n - at)); /* more than it says */
        usage_open(&s->usage, dirs, s->unified);
        safe_close_all(dirs, CGROUP_KIND_COUNT);
        s->host_uid = event.host_uid, s->host_gid = event.host_gid;
        return 0;
}

static int open_session(struct backend_session *s, const struct session_request *q, const struct native_host *host,
                        const struct warmth *w, struct controls *ret_controls, gb_error *err)
{
        int r = warden_channel(&s->channel, err);
        if (r == 0)
                r = send_open(s, q, host, w, ret_controls, err);
        if (r == 0 && w->use) {
                _cleanup_plan_ struct box_plan *plan = plan_new();
                int first = -1;
                if (!plan)
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
                r = request_channel(s, WARDEN_START, BOX_CONTEXT | BOX_WARM, plan, &first, err);
                atomic_store(&s->first, first);
        }
        if (r == 0)
                r = take_opened(s, err);
        s->warm = r == 0 && w->use;
        return r;
}

static void drop_first(struct backend_session *s)
{
        safe_close(atomic_exchange(&s->first, -1));
}

static void close_session(struct backend_session *s)
{
        drop_first(s);
        s->channel = safe_close(s->channel);
        s->workspace = safe_close(s->workspace);
        safe_close_all(s->places, OPENED_PLACES_MAX);
        s->listener = safe_close(s->listener);
        usage_close(&s->usage);
}

static int session_new(const struct session_request *q, bool unified, struct backend_session **ret, gb_error *err)
{
        struct backend_session *s = calloc(1, sizeof(*s));

        if (!s)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        *s = (struct backend_session){
                .channel = -1, .workspace = -1, .places = {-1, -1}, .listener = -1, .first = -1, .files = -1, .unified = unified, .uid = q->uid, .gid = q->gid, .is_private = q->workspace_fd < 0,
                .kinds = warden_places_of(q->policy, q->workspace_fd < 0), .files_lock = PTHREAD_MUTEX_INITIALIZER,
        };
        memset(&s->usage, -1, sizeof(s->usage));
        if (keeper_is_used() && !s->is_private)
                s->files = fcntl(q->workspace_fd, F_DUPFD_CLOEXEC, 3);
        *ret = s;
        return 0;
}

int session_native_open(const struct session_request *q, struct controls *ret_controls, struct backend_session **ret,
                        gb_error *err)
{
        const struct native_host *host;
        struct backend_session *s = NULL;
        struct warmth w;
        gb_error why = {0};

        int r = host_once(&host, err);
        if (r < 0)
                return r;
        r = session_new(q, host->cgroup.unified_controllers, &s, err);
        if (r < 0)
                return r;
        decide_warmth(q, host, &w);
        r = q->only_warm && !w.use ? error_set(&why, GB_E_NOT_FOUND, ENOENT, "%s", w.why)
                                       : open_session(s, q, host, &w, ret_controls, &why);
        /* Somebody else's warden does not have this template: it gets one of ours, which goes with us. */
        if (r < 0 && w.use && !q->only_warm && why.code == GB_E_NOT_FOUND && template_ensure(q->template, host, true, &w.key, w.note, w.why) == 0) {
                close_session(s);
                r = open_session(s, q, host, &w, ret_controls, &why);
        }
        /* A warden that was killed looks alive for as long as a child of it has not noticed. */
        if (r < 0 && why.code == GB_E_LOST && warden_bury()) {
                close_session(s);
                decide_warmth(q, host, &w);
                r = open_session(s, q, host, &w, ret_controls, &why);
        }
        /* One that has just died: a fresh exec does it too. */
        if (r < 0 && w.use && !q->only_warm && (why.code == GB_E_NOT_FOUND || why.code == GB_E_LOST)) {
                close_session(s);
                w.use = false;
                snprintf(w.why, sizeof(w.why), "%.100s", why.message);
                r = open_session(s, q, host, &w, ret_controls, &why);
        }
        if (r < 0) {
                if (err)
                        *err = why;
                session_native_free(s);
                return r;
        }
        *ret = s;
        return 0;
}

int session_native_workspace(const struct backend_session *s)
{
        return s->workspace;
}

/* Asks the warden about the session. The answer is of the kind `wanted` and brings a descriptor if ret_fd is not NULL; source: one that goes along, or -1. */
static int ask_about(const struct backend_session *s, uint32_t kind, int source, uint32_t wanted, struct warden_event *ret, int *ret_fd, gb_error *err)
{
        _cleanup_plan_ struct box_plan *plan = plan_new();
        _cleanup_close_ int channel = -1, fd = -1;
        int n = !!ret_fd;

        if (!plan)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = source >= 0 ? plan_fd(plan, BOX_FD_SOURCE, 0, source, false, err) : 0;
        if (r == 0)
                r = request_channel(s, kind, 0, plan, &channel, err);
        if (r == 0)
                r = warden_wait(channel, ABOUT_USEC, ret, &fd, &n, err);
        if (r == 0 && (ret->kind != wanted || n != !!ret_fd))
                r = error_set(err, GB_E_LOST, EPROTO, "the warden answers out of turn");
        if (r == 0 && ret_fd)
                *ret_fd = TAKE_FD(fd);
        return r;
}

/* Without root nobody can take the identity of the box's user: the warden gives us the workspace as a mount in which what is his is ours. */
static int borrow_files(struct backend_session *s, gb_error *err)
{
        struct warden_event event;

        return ask_about(s, WARDEN_FILES, s->workspace, WARDEN_LENT, &event, &s->files, err);
}

int session_native_clear(struct backend_session *s, unsigned *ret_ended, gb_error *err)
{
        struct warden_event event;

        int r = ask_about(s, WARDEN_CLEAR, -1, WARDEN_CLEARED, &event, NULL, err);
        if (r == 0)
                *ret_ended = (unsigned)event.report.tasks_left;
        return r;
}

int session_native_files(struct backend_session *s, int *ret_fd, uid_t *ret_uid, gid_t *ret_gid, gb_error *err)
{
        if (!keeper_is_used()) {
                *ret_fd = s->workspace;
                *ret_uid = s->host_uid;
                *ret_gid = s->host_gid;
                return 0;
        }
        pthread_mutex_lock(&s->files_lock);
        int r = s->files >= 0 ? 0 : borrow_files(s, err);
        pthread_mutex_unlock(&s->files_lock);
        if (r < 0)
                return r;
        *ret_fd = s->files;
        *ret_uid = geteuid();
        *ret_gid = getegid();
        return 0;
}

bool session_native_is_busy(struct backend_session *s)
{
        return usage_is_busy(&s->usage);
}

int session_native_usage(struct backend_session *s, struct box_usage *ret, gb_error *err)
{
        int r = usage_fill(&s->usage, ret);

        if (r < 0)
                return error_set(err, GB_E_LOST, -r, "the session is gone: its cgroups cannot be read");
        ret->disk_full = warden_full_places(s->places, &s->kinds);
        ret->disk_unknown = s->is_private && !warden_measure_place(s->workspace, ret);
        return 0;
}

int session_native_admit(const struct policy *policy, struct controls *ret, gb_error *err)
{
        struct box_request request = {.policy = policy, .workspace_fd = -1, .uid = ADMITTED_UID, .gid = ADMITTED_UID, .stdio = {-1, -1, -1}};
        const struct native_host *host;
        struct box_spec spec = {0};

        int r = host_once(&host, err);
        return r < 0 ? r : native_admit(host, &request, &spec, ret, err);
}

int session_native_listener(struct backend_session *s, gb_error *err)
{
        return listener_take(&s->listener, err);
}

int session_native_event_fd(const struct backend_session *s)
{
        return s->channel;
}

bool session_native_is_warm(const struct backend_session *s)
{
        return s->warm;
}

/* Whether everything in it has ended. A box that ended by itself has reported that before it could be asked. When the
 * warden dies, its boxes die, too. */
static bool wait_for_end(const struct backend_session *s)
{
        _cleanup_free_ struct warden_request *m = request_new(WARDEN_STOP);
        struct warden_event event = {0};
        int r = m ? 0 : -ENOMEM;

        if (m)
                (void)message_send(s->channel, m, sizeof(*m), NULL, 0);
        /* WARDEN_FAILED may be the late answer to something else. If it is about the box, the channel ends next. */
        while ((r == 0 && event.kind != WARDEN_ENDED) || event.kind == WARDEN_FAILED) {
                event.kind = WARDEN_OPENED;
                r = warden_wait(s->channel, CLOSE_USEC, &event, NULL, NULL, NULL);
        }
        return r == 0 || r == -EPIPE;
}

bool session_native_free(struct backend_session *s)
{
        if (!s)
                return true;
        bool ended = s->workspace < 0 || wait_for_end(s);
        close_session(s);
        safe_close(s->files);
        free(s);
        return ended;
}

/* ---- programs ---- */

static int plan_program(struct backend_session *s, const struct program_request *q, struct box_plan *plan, gb_error *err)
{
        struct box_request request = {
                .policy = q->policy, .language = q->language, .code_name = q->code_name ? q->code_name : q->language->file, .code = q->code,
                .code_size = q->code_size, .args = q->args, .uid = s->uid, .gid = s->gid,
        };
        int r = q->mode == PROGRAM_CONTEXT ? command_plan_context(plan, &request, err)
                                           : command_plan_once(plan, &request, q->alone ? -1 : (int)(s->next_slot++ % ONCE_SLOTS), err);
        if (r < 0)
                return r;
        int payload = plan_seal(plan, err);
        return payload < 0 ? payload : plan_fd(plan, BOX_FD_PAYLOAD, 0, payload, true, err);
}

/* The streams of a program that runs once; ours go to io. */
static int plan_streams(struct box_plan *plan, int stdin_fd, struct program_io *io, gb_error *err)
{
        int pair[2], fd = stdin_fd >= 0 ? fcntl(stdin_fd, F_DUPFD_CLOEXEC, 3) : open("/dev/null", O_RDONLY | O_CLOEXEC);
        int r = fd < 0 ? error_set(err, GB_E_INTERNAL, errno, "cannot take standard input: %s", strerror(errno))
                       : plan_fd(plan, BOX_FD_STDIN, 0, fd, true, err);

        for (int i = 0; r == 0 && i < 2; i++) {
                if (pipe2(pair, O_CLOEXEC) < 0)
                        return error_set(err, GB_E_INTERNAL, errno, "cannot make a pipe: %s", strerror(errno));
                *(i == 0 ? &io->out : &io->err) = pair[0];
                r = plan_fd(plan, BOX_FD_STDOUT + (uint32_t)i, 0, pair[1], true, err);
        }
        return r;
}

static bool wants_fork(const struct backend_session *s, const struct program_request *q)
{
        return q->mode == PROGRAM_CONTEXT && s->warm && q->warm && q->language->context && strcmp(q->language->context, "python") == 0;
}

static int ask_for_program(struct backend_session *s, const struct program_request *q, struct program_io *io, int *ret_channel,
                           gb_error *err)
{
        bool context = q->mode == PROGRAM_CONTEXT;
        bool warm = wants_fork(s, q);

        int first = warm ? atomic_exchange(&s->first, -1) : -1;
        if (first >= 0) {
                *ret_channel = first;
                return 0;
        }
        _cleanup_plan_ struct box_plan *plan = plan_new();
        if (!plan)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = warm ? 0 : plan_program(s, q, plan, err);
        if (r == 0 && !context)
                r = plan_streams(plan, q->stdin_fd, io, err);
        return r < 0 ? r : request_channel(s, WARDEN_START, (context ? BOX_CONTEXT : 0) | (warm ? BOX_WARM : 0), plan, ret_channel, err);
}

/* The answer brings the timer, and of an interpreter all streams. */
static int take_started(int channel, bool context, struct program_io *io, gb_error *err)
{
        struct warden_event event;
        int fds[4] = {-1, -1, -1, -1}, n = ARRAY_SIZE(fds);

        int r = warden_wait(channel, ANSWER_USEC, &event, fds, &n, err);
        if (r == 0 && (event.kind != WARDEN_STARTED || n != (context ? 4 : 1)))
                r = error_set(err, GB_E_LOST, EPROTO, "the warden answers out of turn");
        if (r < 0) {
                for (int i = 0; i < n; i++)
                        safe_close(fds[i]);
                return r;
        }
        io->deadline = fds[STARTED_DEADLINE];
        io->ready = event.warm;
        if (context) {
                io->out = fds[STARTED_OUT];
                io->err = fds[STARTED_ERR];
                io->control = fds[STARTED_CONTROL];
        }
        for (int i = 0; i < 3; i++) {
                int fd = (int[]){io->out, io->err, io->control}[i];
                if (fd >= 0)
                        (void)fd_set_nonblock(fd);
        }
        return 0;
}

int program_native_start(struct backend_session *s, const struct program_request *q, struct backend_program **ret,
                         struct program_io *ret_io, gb_error *err)
{
        struct program_io io = {.control = -1, .out = -1, .err = -1, .deadline = -1};
        struct backend_program *p = calloc(1, sizeof(*p));

        if (!p)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        p->session = s;
        p->channel = -1;
        bool warm = wants_fork(s, q);
        int r = ask_for_program(s, q, &io, &p->channel, err);
        if (r == 0)
                r = take_started(p->channel, q->mode == PROGRAM_CONTEXT, &io, err);
        if (r < 0 && warm) {
                /* The template has died meanwhile; the session has not, and a fresh exec does it too. */
                s->warm = false;
                p->channel = safe_close(p->channel);
                r = ask_for_program(s, q, &io, &p->channel, err);
                if (r == 0)
                        r = take_started(p->channel, true, &io, err);
        }
        if (r < 0) {
                safe_close(io.out);
                safe_close(io.err);
                program_native_free(p);
                return r;
        }
        *ret_io = io;
        *ret = p;
        return 0;
}

int program_native_event_fd(const struct backend_program *p)
{
        return p->channel;
}

int program_native_next_event(struct backend_program *p, struct box_event *ret, gb_error *err)
{
        struct warden_event event;

        *ret = (struct box_event){.kind = BOX_EVENT_NONE};
        ssize_t n = p->has_event ? (ssize_t)sizeof(event) : recv(p->channel, &event, sizeof(event), MSG_DONTWAIT);
        if (p->has_event)
                event = p->event;
        p->has_event = false;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n == (ssize_t)sizeof(event) && event.kind == WARDEN_SIGNALLED) {
                p->unanswered -= p->unanswered > 0;
                return 0;
        }
        p->over = true;
        if (n != (ssize_t)sizeof(event) || event.version != WARDEN_PROTOCOL_VERSION)
                return error_set(err, GB_E_LOST, EPIPE, "the warden died; what it ran is dead too, its outcome is not known");
        if (event.kind != WARDEN_ENDED) {
                if (err)
                        *err = event.error;
                return event.error.errnum > 0 ? -event.error.errnum : -EINVAL;
        }
        ret->kind = BOX_EVENT_ENDED;
        ret->t_usec = event.t_usec;
        warden_fill_end(&ret->end, &event.report, &p->session->kinds);
        if (ret->end.oom_kills > 0)
                drop_first(p->session); /* it is ended as well, and that is nothing that a later run did */
        return 0;
}

static void ask(struct backend_program *p, uint32_t kind, uint32_t value)
{
        _cleanup_free_ struct warden_request *m = request_new(kind);

        if (!m || p->over)
                return;
        m->value = value;
        (void)message_send(p->channel, m, sizeof(*m), NULL, 0); /* a dead warden shows at its socket */
}

void program_native_signal(struct backend_program *p, int sig)
{
        if (!p->over)
                p->unanswered++;
        ask(p, WARDEN_SIGNAL, (uint32_t)sig);
}

void program_native_settle(struct backend_program *p)
{
        while (p->unanswered > 0 && !p->over && !p->has_event) {
                if (warden_wait(p->channel, SETTLE_USEC, &p->event, NULL, NULL, NULL) < 0 && p->event.kind != WARDEN_FAILED)
                        return; /* the next event tells */
                if (p->event.kind == WARDEN_SIGNALLED)
                        p->unanswered--;
                else
                        p->has_event = true;
        }
}

void program_native_stop(struct backend_program *p)
{
        ask(p, WARDEN_STOP, 0);
}

void program_native_free(struct backend_program *p)
{
        if (!p)
                return;
        safe_close(p->channel);
        free(p);
}
