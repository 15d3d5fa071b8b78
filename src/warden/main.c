/* SPDX-License-Identifier: Apache-2.0
 *
 * The warden: the only process of glovebox with privilege (root's, or that of a user over the
 * namespaces he made). A front starts it with one end of a SOCK_SEQPACKET pair as descriptor 3, and may give it a
 * listening socket as descriptor 4 for other fronts of the same user. In one thread it serves boxes, sessions with
 * their programs, and templates, each through a channel of its own (channel.h):
 *
 *   front --request + descriptors--> warden --clone3--> setup process --CLONE_PARENT--> init, program
 *   front <--event------------------ warden <--frames, pidfds, waitid--'
 *
 * While no request has come it makes a shell ahead (box.h), which most first requests fit into.
 *
 * Should: obey a closed table of requests; end everything and itself when the front that started it is gone.
 * Mustn't: parse text from anybody but the kernel, open a path it was given, allocate, or print. */
#include "base/fd.h"
#include "kernel/privilege.h"
#include "kernel/sys.h"
#include "warden/box.h"
#include "warden/channel.h"
#include "warden/children.h"
#include "warden/loop.h"
#include "warden/program.h"
#include "warden/session.h"
#include "warden/template.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

static void on_box_frame(void *object)
{
        struct box *b = object;

        if (b->state != BOX_NONE && b->socket >= 0)
                box_on_frame(b);
        box_settle(b);
}

static void on_box_end(void *object)
{
        struct box *b = object;

        if (b->state != BOX_NONE)
                box_on_end(b);
        box_settle(b);
}

static void on_listen(void *object)
{
        channel_accept(WARDEN_LISTEN_FD);
}

static void (*const handlers[LOOP_KIND_COUNT])(void *object) = {
        [LOOP_CHANNEL] = channel_serve,
        [LOOP_LISTEN] = on_listen,
        [LOOP_BOX_FRAME] = on_box_frame,
        [LOOP_BOX_END] = on_box_end,
        [LOOP_PROGRAM_FRAME] = program_on_frame,
        [LOOP_PROGRAM_END] = program_on_end,
        [LOOP_PROGRAM_TIMER] = program_on_timer,
        [LOOP_TEMPLATE] = template_on_frame,
};

/* What is made ahead is made when there is nothing else to do: nobody shall wait for what nobody has asked for yet. Where there always is something
 * (a template may see to that), one is made with each tick. */
#define REPLENISH_AFTER_MSEC 2

static int timeout_msec(uint64_t next)
{
        uint64_t now = monotonic_usec();

        return next == 0 ? -1 : next <= now ? 0 : (int)MIN((next - now + 999) / 1000, (uint64_t)60000);
}

static void serve(void)
{
        while (!warden_over) {
                uint64_t next = session_next_tick(), ahead = template_next_usec();
                int wait = timeout_msec(next), idle = ahead > 0 ? MAX(timeout_msec(ahead), REPLENISH_AFTER_MSEC) : -1;
                int n = loop_turn(idle >= 0 && (wait < 0 || idle < wait) ? idle : wait, handlers);
                if (n < 0)
                        return;
                bool tick = next > 0 && monotonic_usec() >= next;
                if (tick)
                        session_tick(monotonic_usec());
                if ((n == 0 || tick) && ahead > 0 && monotonic_usec() >= ahead)
                        template_replenish();
        }
}

static void end_box(struct box *b, void *data)
{
        box_stop(b, WARDEN_STOP_NONE);
        box_settle(b);
}

/* Whom we work for. Sockets know who made them: the front itself, or the keeper as the user that the front has become. */
static bool learn_front(void)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (getsockopt(WARDEN_SOCKET_FD, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return false;
        warden_front = (struct warden_front){peer.uid, peer.gid};
        return true;
}

/* Each session has a dozen descriptors. */
static void raise_descriptor_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return;
        const rlim_t wanted = BOXES_MAX * 24;
        struct rlimit more = {.rlim_cur = wanted, .rlim_max = limit.rlim_max};
        if (more.rlim_max < wanted)
                more.rlim_max = wanted;
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &more) < 0)
                (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int main(void)
{
        struct sigaction ignore = {.sa_handler = SIG_IGN}, standard = {.sa_handler = SIG_DFL};
        int listening = 0;
        socklen_t size = sizeof(listening);

        /* A caller that ignores the ends of its children has handed that down; we must see them. */
        sigaction(SIGCHLD, &standard, NULL);
        /* A session of our own: what the terminal sends is for the front to judge. */
        setsid();
        sigaction(SIGPIPE, &ignore, NULL);
        sigaction(SIGHUP, &ignore, NULL);
        prctl(PR_SET_NAME, "glovebox-warden");
        if (privilege_is_host_root() && setgroups(0, NULL) < 0)
                return 1;
        if (!learn_front())
                return 1;
        bool listens = getsockopt(WARDEN_LISTEN_FD, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening;
        sys_close_range(listens ? WARDEN_LISTEN_FD + 1 : WARDEN_LISTEN_FD, ~0U, 0);
        raise_descriptor_limit();
        box_keep_private();
        program_keep_private();
        channel_keep_private();
        children_keep_private();
        if (loop_init() < 0)
                return 1;
        struct channel *first = channel_new(WARDEN_SOCKET_FD);
        first->first = true;
        if (listens)
                loop_watch(WARDEN_LISTEN_FD, LOOP_LISTEN, NULL);

        box_make_shell();
        serve();
        box_for_each(end_box, NULL);
        return 0;
}
