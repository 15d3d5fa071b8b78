/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: a closed table, each legal for some kinds of channel only. Anything else ends the channel, and
 * what it stands for with it. */
#include "warden/channel.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/message.h"
#include "warden/box.h"
#include "warden/files.h"
#include "warden/loop.h"
#include "warden/program.h"
#include "warden/session.h"
#include "warden/template.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

bool warden_over;
struct warden_front warden_front;

static LOOP_TABLE struct channel channels[CHANNELS_MAX];
static struct warden_request request;

void channel_keep_private(void)
{
        loop_keep_private(channels, sizeof(channels));
}

static size_t lowest; /* all before these are in use */

struct channel *channel_new(int fd)
{
        for (; lowest < CHANNELS_MAX; lowest++) {
                struct channel *c = &channels[lowest];
                if (c->kind != CHANNEL_UNUSED)
                        continue;
                *c = (struct channel){.kind = CHANNEL_FREE, .fd = fd};
                loop_watch(fd, LOOP_CHANNEL, c);
                return c;
        }
        safe_close(fd);
        return NULL;
}

void channel_release(struct channel *c)
{
        if (!c || c->kind == CHANNEL_UNUSED)
                return;
        c->kind = CHANNEL_FREE;
        c->box = NULL;
}

void channel_close(struct channel *c)
{
        enum channel_kind kind = c->kind;

        if (kind == CHANNEL_UNUSED)
                return;
        c->kind = CHANNEL_UNUSED;
        lowest = MIN(lowest, (size_t)(c - channels));
        c->fd = loop_close(c->fd);
        warden_over = warden_over || c->first;
        if (kind == CHANNEL_PROGRAM) {
                c->program->channel = NULL;
                program_stop(c->program, WARDEN_STOP_ASKED);
        } else if (kind == CHANNEL_BOX || kind == CHANNEL_SESSION || kind == CHANNEL_TEMPLATE) {
                struct box *b = kind == CHANNEL_TEMPLATE ? c->template->box : c->box;
                b->channel = NULL;
                if (b->state == BOX_OPEN)
                        box_abandon(b);
                else
                        box_stop(b, WARDEN_STOP_ASKED);
                box_settle(b);
        }
}

void channel_send(struct channel *c, struct warden_event *event, const int *fds, int n_fds)
{
        if (!c || c->kind == CHANNEL_UNUSED)
                return;
        event->version = WARDEN_PROTOCOL_VERSION;
        event->t_usec = monotonic_usec();
        /* A front that is gone shows at its socket. One that does not read is treated as if it were: nobody else shall wait for it. */
        if (message_send_now(c->fd, event, sizeof(*event), fds, n_fds) == -EAGAIN)
                shutdown(c->fd, SHUT_RDWR);
}

static void refuse(struct channel *c, const gb_error *error)
{
        struct warden_event event = {.kind = WARDEN_FAILED, .error = *error};

        channel_send(c, &event, NULL, 0);
}

/* ---- the requests ---- */

static void on_run(struct channel *c, int *fds)
{
        struct box *b = box_take_shell();
        gb_error error = {0};

        if (!b) {
                error_set(&error, GB_E_LIMIT, EAGAIN, "no more boxes: %d are in use", BOXES_MAX);
                refuse(c, &error);
                return;
        }
        c->kind = CHANNEL_BOX;
        c->box = b;
        b->channel = c;
        if (box_create(b, &request.spec, NULL, fds, &b->error) < 0) {
                b->failed = true;
                box_stop(b, WARDEN_STOP_NONE);
        }
        box_settle(b);
}

static void on_channel(struct channel *c, int *fds)
{
        if (request.spec.n_fds == 1)
                (void)channel_new(TAKE_FD(fds[0])); /* no room: the front sees its end closed */
}

static void on_template(struct channel *c, int *fds)
{
        gb_error error = {0};

        if (template_create(c, &request.spec, fds, &error) < 0)
                refuse(c, &error);
        else if (c->kind == CHANNEL_TEMPLATE)
                box_settle(c->template->box);
}

static void on_open(struct channel *c, int *fds)
{
        gb_error error = {0};

        if (session_open(c, &request.spec, fds, &error) < 0)
                refuse(c, &error);
}

static void on_start(struct channel *c, int *fds)
{
        gb_error error = {0};

        if (session_start(c->box, &request.spec, fds, &error) < 0)
                channel_close(c);
}

static void on_signal(struct channel *c, int *fds)
{
        struct warden_event sent = {.kind = WARDEN_SIGNALLED};

        if (request.value != SIGINT && request.value != SIGTERM)
                return;
        if (c->kind == CHANNEL_BOX) {
                box_signal(c->box, (int)request.value);
                return;
        }
        program_signal(c->program, (int)request.value);
        channel_send(c, &sent, NULL, 0);
}

static void on_stop(struct channel *c, int *fds)
{
        if (c->kind == CHANNEL_PROGRAM) {
                program_stop(c->program, WARDEN_STOP_ASKED);
        } else if (c->kind == CHANNEL_BOX) {
                box_stop(c->box, WARDEN_STOP_ASKED);
                box_settle(c->box);
        } else if (c->kind == CHANNEL_SESSION && c->box->state == BOX_OPEN) {
                box_abandon(c->box);
        }
}

/* The answer has a channel of its own: that of a session tells of nothing but its end. */
static void on_files(struct channel *c, int *fds)
{
        struct warden_event event = {.version = WARDEN_PROTOCOL_VERSION, .kind = WARDEN_LENT, .t_usec = monotonic_usec()};
        const struct box_fd *rows = request.spec.fds;

        if (request.spec.n_fds != 2 || rows[0].role != BOX_FD_SOURCE || rows[1].role != BOX_FD_CHANNEL) {
                channel_close(c);
                return;
        }
        _cleanup_close_ int tree = files_lend(c->box, fds[0], &event.error);
        if (tree < 0)
                event.kind = WARDEN_FAILED;
        (void)message_send_now(fds[1], &event, sizeof(event), &tree, tree >= 0);
}

/* The same. */
static void on_clear(struct channel *c, int *fds)
{
        struct warden_event event = {.version = WARDEN_PROTOCOL_VERSION, .kind = WARDEN_CLEARED, .t_usec = monotonic_usec()};

        if (request.spec.n_fds != 1 || request.spec.fds[0].role != BOX_FD_CHANNEL) {
                channel_close(c);
                return;
        }
        int r = box_clear(c->box);
        event.report.tasks_left = (uint64_t)MAX(r, 0);
        if (r < 0) {
                event.kind = WARDEN_FAILED;
                error_set(&event.error, GB_E_INTERNAL, -r, "cannot kill the processes left running in the session: %s", strerror(-r));
        }
        (void)message_send_now(fds[0], &event, sizeof(event), NULL, 0);
}

/* A request that races with the end of what it is for finds its channel free: it is late, not wrong. */
#define FOR(kind) (1U << (kind))
static const struct {
        unsigned kinds, ignored;
        void (*handle)(struct channel *c, int *fds);
} table[WARDEN_REQUEST_COUNT] = {
        [WARDEN_RUN] = {FOR(CHANNEL_FREE), 0, on_run},
        [WARDEN_CHANNEL] = {FOR(CHANNEL_FREE) | FOR(CHANNEL_BOX) | FOR(CHANNEL_SESSION) | FOR(CHANNEL_TEMPLATE), 0, on_channel},
        [WARDEN_TEMPLATE] = {FOR(CHANNEL_FREE), 0, on_template},
        [WARDEN_OPEN] = {FOR(CHANNEL_FREE), 0, on_open},
        [WARDEN_START] = {FOR(CHANNEL_SESSION), FOR(CHANNEL_FREE), on_start},
        [WARDEN_SIGNAL] = {FOR(CHANNEL_BOX) | FOR(CHANNEL_PROGRAM), FOR(CHANNEL_FREE), on_signal},
        [WARDEN_FILES] = {FOR(CHANNEL_SESSION), FOR(CHANNEL_FREE), on_files},
        [WARDEN_CLEAR] = {FOR(CHANNEL_SESSION), FOR(CHANNEL_FREE), on_clear},
        [WARDEN_STOP] = {FOR(CHANNEL_BOX) | FOR(CHANNEL_SESSION) | FOR(CHANNEL_PROGRAM), FOR(CHANNEL_FREE), on_stop},
};

static bool request_valid(ssize_t size, uint32_t n_fds)
{
        if (size != (ssize_t)sizeof(request) || request.version != WARDEN_PROTOCOL_VERSION)
                return false;
        if (request.kind == 0 || request.kind >= WARDEN_REQUEST_COUNT)
                return false;
        if (request.kind == WARDEN_SIGNAL || request.kind == WARDEN_STOP)
                return n_fds == 0;
        if (!GLOVEBOX_TEST_LAYERS && request.spec.layers_off != 0)
                return false;
        bool has_user = request.kind == WARDEN_CHANNEL || request.kind == WARDEN_START || request.kind == WARDEN_FILES || request.kind == WARDEN_CLEAR || (request.spec.uid != 0 && request.spec.gid != 0);
        return request.spec.n_fds == n_fds && n_fds <= BOX_FDS_MAX && has_user;
}

void channel_serve(void *channel)
{
        struct channel *c = channel;
        int fds[BOX_FDS_MAX], n_fds;

        if (c->kind == CHANNEL_UNUSED)
                return;
        ssize_t n = message_receive(c->fd, MSG_DONTWAIT, &request, sizeof(request), fds, &n_fds);
        if (n == -EAGAIN)
                return;
        bool valid = n > 0 && request_valid(n, (uint32_t)n_fds);
        if (valid && table[request.kind].kinds & FOR(c->kind))
                table[request.kind].handle(c, fds);
        else if (valid)
                valid = table[request.kind].ignored & FOR(c->kind);
        for (int i = 0; i < n_fds; i++)
                safe_close(fds[i]);
        if (!valid)
                channel_close(c);
}

void channel_accept(int listen_fd)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);

        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
                return;
        /* Whoever may use our privilege is whoever started us, nobody else. */
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != geteuid())
                safe_close(fd);
        else
                (void)channel_new(fd);
}
