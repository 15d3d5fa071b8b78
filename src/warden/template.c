/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/template.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/message.h"
#include "kernel/privilege.h"
#include "kernel/sys.h"
#include "runner/runner.h"
#include "warden/channel.h"
#include "warden/inside.h"
#include "warden/loop.h"
#include "warden/session.h"
#include "warden/setup.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

static struct template templates[TEMPLATES_MAX];

static struct template *template_new(void)
{
        for (size_t i = 0; i < TEMPLATES_MAX; i++)
                if (templates[i].state == TEMPLATE_NONE) {
                        templates[i] = (struct template){.state = TEMPLATE_STARTING, .foreman = -1, .orders = -1};
                        memset(templates[i].fds, -1, sizeof(templates[i].fds));
                        return &templates[i];
                }
        return NULL;
}

struct template *template_find(const struct template_key *key)
{
        for (size_t i = 0; i < TEMPLATES_MAX; i++)
                if (templates[i].state == TEMPLATE_READY && memcmp(&templates[i].key, key, sizeof(*key)) == 0)
                        return &templates[i];
        return NULL;
}

int template_create(struct channel *c, const struct box_spec *spec, int *fds, gb_error *err)
{
        struct template *t = template_new();
        struct box *b = box_new();

        if (!t || !b) {
                if (t)
                        t->state = TEMPLATE_NONE;
                return error_set(err, GB_E_LIMIT, EAGAIN, "no more templates: %d are in use", TEMPLATES_MAX);
        }
        t->key = spec->template;
        t->pool = spec->pool;
        t->box = b;
        t->channel = c;
        b->channel = c;
        b->own = t;
        c->kind = CHANNEL_TEMPLATE;
        c->template = t;
        int r = box_create(b, spec, t, fds, err);
        if (r < 0) {
                b->failed = true;
                b->error = *err;
                box_stop(b, WARDEN_STOP_NONE);
                return 0; /* told when the box is settled */
        }
        loop_watch(t->orders, LOOP_TEMPLATE, t);
        return 0;
}

#define AHEAD_PAUSE_MIN_USEC 100000ULL
#define AHEAD_PAUSE_MAX_USEC 60000000ULL
#define SILENCE_USEC 1000000ULL /* for processes that need microseconds */

static void silence(struct template *t);

static void forget_spec(struct template *t)
{
        for (size_t i = 0; i < BOX_FDS_MAX; i++)
                t->fds[i] = safe_close(t->fds[i]);
}

static void end_session(struct box *b, void *template)
{
        /* Its init lives in the template's pid namespace, dies with that, and has to be reaped before. */
        if (b->template != template)
                return;
        box_stop(b, WARDEN_STOP_NONE);
        box_settle(b);
}

void template_end(struct template *t)
{
        if (t->state == TEMPLATE_NONE)
                return;
        t->state = TEMPLATE_DRAINING;
        memset(t->ahead, 0, sizeof(t->ahead));
        t->box->own = NULL;
        t->foreman = safe_close(t->foreman);
        silence(t);
        forget_spec(t);
        box_for_each(end_session, t);
        t->state = TEMPLATE_NONE;
}

/* What was made ahead has failed, and the next would fail, too: not again and again. A request will tell why. */
static void pause_making(struct template *t)
{
        t->pause_usec = t->pause_usec == 0 ? AHEAD_PAUSE_MIN_USEC : MIN(t->pause_usec * 2, AHEAD_PAUSE_MAX_USEC);
        t->again_usec = monotonic_usec() + t->pause_usec;
}

struct sessions {
        const struct template *of;
        int n;
};

static void count_session(struct box *b, void *data)
{
        struct sessions *s = data;

        s->n += b->template == s->of;
}

static int count_sessions(const struct template *t)
{
        struct sessions s = {.of = t};

        box_for_each(count_session, &s);
        return s.n;
}

static void fail_order(struct program *p, void *data)
{
        if (!p->warm || p->state != PROGRAM_STARTING || child_exists(&p->process) || p->box->template != data)
                return;
        p->failed = true;
        error_set(&p->error, GB_E_LOST, ECHILD, "the template has died");
        program_stop(p, WARDEN_STOP_NONE);
}

static void drop_ahead(struct template *t)
{
        for (size_t i = 0; i < TEMPLATE_POOL_MAX; i++) {
                struct box *b = t->ahead[i];
                t->ahead[i] = NULL;
                if (!b)
                        continue;
                box_stop(b, WARDEN_STOP_NONE);
                box_settle(b);
        }
}

bool template_drain(struct template *t)
{
        struct warden_event event = {.kind = WARDEN_ENDED};

        if (t->state != TEMPLATE_READY)
                return false;
        t->state = TEMPLATE_DRAINING;
        silence(t);
        forget_spec(t);
        drop_ahead(t);
        program_for_each(NULL, fail_order, t);
        channel_send(t->channel, &event, NULL, 0);
        channel_release(t->channel);
        t->channel = t->box->channel = NULL;
        return count_sessions(t) > 0;
}

void template_kill(struct template *t)
{
        child_kill(&t->box->program);
}

void template_lost_session(struct template *t, const struct box *lost)
{
        t->slots[lost->slot / 8] &= (unsigned char)~(1U << lost->slot % 8);
        for (size_t i = 0; i < TEMPLATE_POOL_MAX; i++)
                if (t->ahead[i] == lost) { /* before anybody wanted it */
                        t->ahead[i] = NULL;
                        pause_making(t);
                }
        if (t->state != TEMPLATE_DRAINING || !t->box->own || t->box->stopping || count_sessions(t) > 0)
                return;
        struct box *b = t->box;
        box_stop(b, WARDEN_STOP_NONE);
        box_settle(b);
}

/* ---- namespaces ---- */

/* An id that no living session of this template has, and that came up as long ago as can be. */
_Static_assert(BOXES_MAX < TEMPLATE_UIDS_MAX - 1, "there is always one left");
static uint32_t take_slot(struct template *t)
{
        do
                t->next_slot = t->next_slot % (TEMPLATE_UIDS_MAX - 1) + 1;
        while (t->slots[t->next_slot / 8] & 1U << t->next_slot % 8);
        t->slots[t->next_slot / 8] |= (unsigned char)(1U << t->next_slot % 8);
        return t->next_slot;
}

int template_make_shell(struct template *t, struct box *b, gb_error *err)
{
        bool root = privilege_is_host_root();
        uint32_t slot = root ? take_slot(t) : 0;
        const struct userns_map *own = &t->box->identity;
        struct foreman_order order = {
                .map = {
                        .uid_inside = b->spec.uid, .uid_outside = own->uid_inside + slot,
                        .gid_inside = b->spec.gid, .gid_outside = own->gid_inside + slot,
                },
                .host_network = !!(b->spec.flags & BOX_NETWORK_HOST),
                .wants_namespaces = !root,
        };
        int pair[2];

        b->slot = slot;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket pair: %s", strerror(errno));
        _cleanup_close_ int theirs = pair[1];
        b->identity = order.map;
        b->host_uid = own->uid_outside + slot;
        b->host_gid = own->gid_outside + slot;
        b->socket = pair[0];
        loop_watch(b->socket, LOOP_BOX_FRAME, b);
        int r = message_send_now(t->foreman, &order, sizeof(order), &theirs, 1);
        return r < 0 ? error_set(err, GB_E_LOST, -r, "the template's foreman is gone, or does not keep up") : 0;
}

/* ---- forks ---- */

/* The namespaces of a box's init, as descriptors. */
static int open_namespaces(struct box *b, int *ret, gb_error *err)
{
        static const struct {
                const char *name;
                unsigned number;
        } rows[] = {
#define ROW(name, number) {name, number},
                FORK_NAMESPACES(ROW)
#undef ROW
        };
        char path[64];

        for (int i = 0; i < FORK_NAMESPACE_COUNT; i++) {
                ret[i] = b->namespaces[i] >= 0 ? fcntl(b->namespaces[i], F_DUPFD_CLOEXEC, 3)
                                               : ioctl(b->init.pidfd, SYS_PIDFD_GET_NAMESPACE(rows[i].number), 0);
                snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)b->init.pid, rows[i].name);
                if (ret[i] < 0 && b->namespaces[i] < 0)
                        ret[i] = open(path, O_RDONLY | O_CLOEXEC);
                if (ret[i] < 0)
                        return error_set(err, GB_E_LOST, errno, "cannot open the session's namespaces: %s", strerror(errno));
        }
        /* Its number was its own until here. */
        return sys_pidfd_send_signal(b->init.pidfd, 0) < 0 ? error_set(err, GB_E_LOST, errno, "the session is gone")
                                                           : 0;
}

/* Whether its socket has room. Both sides would wait for each other for ever if we waited for it. */
static bool can_take_order(const struct template *t)
{
        struct pollfd p = {.fd = t->orders, .events = POLLOUT};

        return t->orders < 0 || poll(&p, 1, 0) != 0;
}

int template_fork(struct template *t, struct program *p, gb_error *err)
{
        struct box *b = p->box;
        struct fork_order order = {
                .uid = b->spec.uid, .gid = b->spec.gid, .has_ruleset = b->ruleset >= 0, .nofile = b->spec.nofile,
                .file_bytes = b->spec.file_bytes, .apparmor = b->spec.flags & BOX_APPARMOR,
        };
        int fds[BOX_FDS_MAX], n = FORK_REST, n_join = 0;

        p->warm = true;
        p->deferred = (b->state == BOX_BUILDING && b->proc < 0) || !can_take_order(t);
        if (p->deferred)
                return 0; /* it is tried again when the root stands, and with every tick */
        order.number = p->number;
        memset(fds, -1, sizeof(fds));
        int r = open_namespaces(b, fds, err);
        if (r == 0)
                r = program_make_streams(p, fds + FORK_STDIN, err);
        if (r == 0 && b->has_cgroup) {
                n_join = cgroup_box_open_join(&b->cgroup, fds + FORK_REST + 1);
                int procs = n_join == 0 ? cgroup_box_open_procs(&b->cgroup) : -ENOENT;
                if (procs >= 0)
                        fds[FORK_REST + 1 + n_join++] = procs;
                else if (procs != -ENOENT)
                        n_join = procs;
                r = n_join < 0 ? error_set(err, GB_E_UNENFORCEABLE, -n_join, "cannot open the session's cgroup: %s", strerror(-n_join)) : 0;
        }
        if (b->ruleset >= 0)
                fds[n++] = b->ruleset;
        else
                memmove(fds + FORK_REST, fds + FORK_REST + 1, sizeof(int) * (size_t)MAX(n_join, 0));
        order.n_join = (uint32_t)MAX(n_join, 0);
        n += (int)order.n_join;
        if (r == 0) {
                r = message_send_now(t->orders, &order, sizeof(order), fds, n);
                p->ordered = r == 0;
                if (r < 0)
                        error_set(err, GB_E_LOST, -r, "the template is gone, or does not keep up");
        }
        for (int i = 0; i < n; i++)
                if (i != FORK_REST || b->ruleset < 0)
                        safe_close(fds[i]);
        return r;
}

static void fail_program(struct program *p, int errnum, const char *what)
{
        p->failed = true;
        error_set(&p->error, GB_E_UNENFORCEABLE, errnum, "the template's child cannot %s: %s", what, strerror(errnum));
        program_stop(p, WARDEN_STOP_NONE);
}

/* It may come from an image: nothing of it shall drive a terminal, or break a message. */
static void make_plain(char *text, size_t size)
{
        text[size - 1] = '\0';
        for (; *text; text++)
                if (*text < ' ' || *text > '~')
                        *text = '?';
}

static void take_answer(struct template *t, struct fork_answer *answer, int *fds, int n_fds)
{
        make_plain(answer->what, sizeof(answer->what));
        if (answer->kind == FORK_READY && t->state == TEMPLATE_STARTING) {
                struct warden_event event = {.kind = WARDEN_READY};
                t->state = TEMPLATE_READY;
                snprintf(event.error.message, sizeof(event.error.message), "%s", answer->what); /* what it lacks */
                channel_send(t->channel, &event, NULL, 0);
                return;
        }
        struct program *p = program_by_number(answer->number);
        bool wanted = p && p->box->template == t && p->ordered && !p->stopping &&
                      !(answer->kind == FORK_FORKED && child_exists(&p->process));
        if (n_fds == 1 && (answer->kind == FORK_MIDDLE || (answer->kind == FORK_FORKED && !wanted)))
                child_discard(fds[0]);
        if (!wanted)
                return;
        t->heard_usec = monotonic_usec();
        if (answer->kind == FORK_FORKED && n_fds == 1) {
                if (child_claim(&p->process, &fds[0]) < 0) {
                        fail_program(p, ECHILD, "be claimed: it is dead, or the template has sent another process");
                        return;
                }
                loop_watch(p->process.pidfd, LOOP_PROGRAM_END, p);
        } else if (answer->kind == FORK_LOCKED) {
                p->locked = true; /* it may be faster than the one who forked it */
        } else if (answer->kind == FORK_FAILED) {
                fail_program(p, answer->errnum, answer->what);
                return;
        }
        if (!child_exists(&p->process) || !p->locked)
                return;
        /* What it says is looked at from outside. */
        int r = inside_is_locked(p->process.pid, p->box->host_uid);
        if (r < 0)
                fail_program(p, -r, "be seen to be locked in");
        else if (p->box->state == BOX_BUILDING)
                p->early = true; /* init is not locked in yet */
        else
                program_ready(p);
}

/* False: there is nothing to read, or nobody to read from any more. */
static bool read_answer(struct template *t)
{
        struct fork_answer answer = {0};
        int fds[BOX_FDS_MAX], n_fds;

        if (t->orders < 0)
                return false;
        ssize_t n = message_receive(t->orders, MSG_DONTWAIT, &answer, sizeof(answer), fds, &n_fds);
        if (n == (ssize_t)sizeof(answer))
                take_answer(t, &answer, fds, n_fds);
        for (int i = 0; i < n_fds; i++)
                safe_close(fds[i]);
        if (n == 0 && t->orders >= 0)
                t->orders = loop_close(t->orders); /* its process is ending; the box will see it */
        return n > 0;
}

void template_on_frame(void *template)
{
        (void)read_answer(template);
}

void template_pump(struct template *t)
{
        while (read_answer(t))
                ;
}

/* Ends the interpreter and hears out all who still speak for it: no child is forked that we do not know of. */
static void silence(struct template *t)
{
        uint64_t end = monotonic_usec() + SILENCE_USEC;

        child_kill(&t->box->program);
        while (t->orders >= 0 && monotonic_usec() < end) {
                struct pollfd p = {.fd = t->orders, .events = POLLIN};
                if (poll(&p, 1, 10) > 0)
                        template_pump(t);
        }
        t->orders = loop_close(t->orders);
}

/* ---- ahead ---- */

struct box *template_take(struct template *t, const struct box_spec *spec)
{
        for (size_t i = 0; i < TEMPLATE_POOL_MAX; i++) {
                struct box *b = t->ahead[i];
                if (!b || b->state != BOX_OPEN || (!b->parked && t->pool > 0) || memcmp(&b->spec, spec, sizeof(*spec)) != 0)
                        continue;
                t->ahead[i] = NULL;
                t->pause_usec = 0;
                return b;
        }
        return NULL;
}

/* Only what needs nothing of a caller but numbers can be made before there is one. A listener goes to who has asked for it. */
static bool can_be_ahead(const struct box_spec *spec)
{
        for (uint32_t i = 0; i < spec->n_fds; i++)
                if (spec->fds[i].role == BOX_FD_SOURCE || spec->fds[i].role == BOX_FD_LISTENER)
                        return false;
        return spec->n_fds > 0;
}

void template_remember(struct template *t, const struct box_spec *spec, const int *fds)
{
        if (!can_be_ahead(spec) || (t->fds[0] >= 0 && memcmp(&t->spec, spec, sizeof(*spec)) == 0))
                return;
        forget_spec(t);
        t->pause_usec = t->again_usec = 0;
        t->spec = *spec;
        for (uint32_t i = 0; i < spec->n_fds; i++)
                t->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        drop_ahead(t); /* those for another spec would wait for nobody */
}

static void make_ahead(struct template *t, struct box **place)
{
        int fds[BOX_FDS_MAX];
        gb_error err;
        struct box *b = box_new();

        t->again_usec = b ? 0 : monotonic_usec() + AHEAD_PAUSE_MIN_USEC; /* all places are taken */
        if (!b)
                return;
        b->session = true;
        b->template = t;
        *place = b;
        for (uint32_t i = 0; i < t->spec.n_fds; i++)
                fds[i] = fcntl(t->fds[i], F_DUPFD_CLOEXEC, 3);
        if (box_create(b, &t->spec, NULL, fds, &err) < 0)
                box_stop(b, WARDEN_STOP_NONE);
        for (uint32_t i = 0; i < t->spec.n_fds; i++)
                safe_close(fds[i]);
        box_settle(b);
}

#define SHELLS_AHEAD 2U

/* Where the next one goes, of the template that has not failed or may try again first; NULL: there are enough. */
static struct box **find_place(struct template **ret)
{
        struct box **place = NULL;

        for (size_t i = 0; i < TEMPLATES_MAX; i++) {
                struct template *t = &templates[i];
                if (t->state != TEMPLATE_READY || t->fds[0] < 0 || (place && t->again_usec >= (*ret)->again_usec))
                        continue;
                /* Without a pool of children there are still namespaces ahead, which are the same for all. */
                size_t n = MIN(t->pool > 0 ? t->pool : SHELLS_AHEAD, (uint32_t)TEMPLATE_POOL_MAX), k = 0;
                while (k < n && t->ahead[k])
                        k++;
                if (k < n)
                        place = &(*ret = t)->ahead[k];
        }
        return place;
}

uint64_t template_next_usec(void)
{
        struct template *t = NULL;

        return find_place(&t) ? MAX(t->again_usec, 1U) : 0;
}

void template_replenish(void)
{
        struct template *t = NULL;
        struct box **place = find_place(&t);

        if (place)
                make_ahead(t, place);
}
