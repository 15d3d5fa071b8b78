/* SPDX-License-Identifier: Apache-2.0
 *
 * The warden: the only process of glovebox with privilege (root's, or that of a user over the
 * namespaces he made). A front starts it with one end of a SOCK_SEQPACKET pair as descriptor 3.
 * It serves one box at a time, in one thread:
 *
 *   front --request + descriptors--> warden --clone3--> setup process --CLONE_PARENT--> init, program
 *   front <--event------------------ warden <--frames, pidfds, waitid--'
 *
 * While no request has come it makes a shell ahead (box.h), which most requests fit into.
 *
 * Should: obey a closed table of requests, each in some states only; end the box and itself when
 * the front is gone. Mustn't: parse text from anybody but the kernel, open a path it was given,
 * allocate, or print. Anything unexpected from the front ends it. */
#include "base/fd.h"
#include "base/message.h"
#include "kernel/privilege.h"
#include "kernel/sys.h"
#include "warden/box.h"

#include <errno.h>
#include <grp.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/vfs.h>

static struct box box;
static struct warden_request request;

static void send_event(uint32_t kind)
{
        struct warden_event event = {
                .version = WARDEN_PROTOCOL_VERSION, .kind = kind, .t_usec = monotonic_usec(),
                .error = box.error, .report = box.report,
        };

        while (send(WARDEN_SOCKET_FD, &event, sizeof(event), MSG_NOSIGNAL) < 0 && errno == EINTR)
                ;
}

static void on_run(int *fds)
{
        gb_error *err = &box.error;

        if (box_create(&box, &request.spec, fds, err) < 0) {
                box.failed = true;
                box_stop(&box, WARDEN_STOP_NONE);
        }
}

static void on_signal(int *fds)
{
        if (request.value == SIGINT || request.value == SIGTERM)
                box_signal(&box, (int)request.value);
}

static void on_stop(int *fds)
{
        box_stop(&box, WARDEN_STOP_ASKED);
}

/* A request that races with the end of its box is late, not wrong: it is ignored. */
#define IN(state) (1U << (state))
static const struct {
        unsigned states, ignored;
        void (*handle)(int *fds);
} table[WARDEN_REQUEST_COUNT] = {
        [WARDEN_RUN] = {IN(BOX_NONE) | IN(BOX_SHELL), 0, on_run},
        [WARDEN_SIGNAL] = {IN(BOX_BUILDING) | IN(BOX_RUNNING), IN(BOX_NONE) | IN(BOX_SHELL), on_signal},
        [WARDEN_STOP] = {IN(BOX_BUILDING) | IN(BOX_RUNNING), IN(BOX_NONE) | IN(BOX_SHELL), on_stop},
};

static bool request_valid(ssize_t size, uint32_t n_fds)
{
        if (size != (ssize_t)sizeof(request) || request.version != WARDEN_PROTOCOL_VERSION)
                return false;
        if (request.kind == 0 || request.kind >= WARDEN_REQUEST_COUNT)
                return false;
        if (request.kind != WARDEN_RUN)
                return n_fds == 0;
        if (!GLOVEBOX_TEST_LAYERS && request.spec.layers_off != 0)
                return false;
        return request.spec.n_fds == n_fds && request.spec.uid != 0 && request.spec.gid != 0;
}

/* False: the front is gone or broke the protocol. */
static bool serve_request(void)
{
        int fds[BOX_FDS_MAX], n_fds;

        ssize_t n = message_receive(WARDEN_SOCKET_FD, 0, &request, sizeof(request), fds, &n_fds);
        bool valid = n > 0 && request_valid(n, (uint32_t)n_fds);
        if (valid) {
                if (table[request.kind].states & IN(box.state))
                        table[request.kind].handle(fds);
                else
                        valid = table[request.kind].ignored & IN(box.state);
        }
        for (int i = 0; i < n_fds; i++)
                safe_close(fds[i]);
        return valid;
}

static int poll_timeout(void)
{
        uint64_t next = box_next_sample(&box), now = monotonic_usec();

        if (next == 0)
                return -1;
        return next <= now ? 0 : (int)MIN((next - now + 999) / 1000, (uint64_t)60000);
}

/* Makes the next box ahead, for the user that most have inside. */
static void prepare(void)
{
        struct statfs st;

        box_init(&box);
        /* On a v2 host the first process must be born in its cgroup, which only a request brings; and the
         * escape tests want their layers off from the start. */
        bool v2 = statfs("/sys/fs/cgroup", &st) == 0 && st.f_type == CGROUP2_SUPER_MAGIC;
        if (!GLOVEBOX_TEST_LAYERS && !v2)
                box_prepare(&box, BOX_UID_DEFAULT, BOX_UID_DEFAULT);
}

/* False: this warden was wanted for one box only. */
static bool report_end(void)
{
        bool once = box.spec.flags & BOX_ONCE;

        send_event(box.failed ? WARDEN_FAILED : WARDEN_ENDED);
        box_done(&box);
        if (once)
                box_init(&box);
        else
                prepare();
        return !once;
}

static void serve(void)
{
        for (;;) {
                struct pollfd fds[] = {
                        {.fd = WARDEN_SOCKET_FD, .events = POLLIN},
                        {.fd = box.socket, .events = POLLIN},
                        {.fd = box.setup_pidfd, .events = POLLIN},
                        {.fd = box.program_ended ? -1 : box.program_pidfd, .events = POLLIN},
                };
                if (poll(fds, ARRAY_SIZE(fds), poll_timeout()) < 0 && errno != EINTR)
                        return;
                if (fds[1].revents)
                        box_on_frame(&box);
                if (fds[2].revents || fds[3].revents)
                        box_on_end(&box);
                if (box.executed && !box.announced) {
                        box.announced = true;
                        send_event(WARDEN_STARTED);
                        if (box.state == BOX_RUNNING)
                                box_sweep(&box);
                }
                box_sample(&box, monotonic_usec());
                if (fds[0].revents && !serve_request())
                        return;
                if (box.state == BOX_DEAD && !report_end())
                        return;
        }
}

int main(void)
{
        struct sigaction ignore = {.sa_handler = SIG_IGN}, standard = {.sa_handler = SIG_DFL};

        /* A caller that ignores the ends of its children has handed that down; we must see them. */
        sigaction(SIGCHLD, &standard, NULL);
        /* A session of our own: what the terminal sends is for the front to judge. */
        setsid();
        sigaction(SIGPIPE, &ignore, NULL);
        sigaction(SIGHUP, &ignore, NULL);
        prctl(PR_SET_NAME, "glovebox-warden");
        if (privilege_is_host_root() && setgroups(0, NULL) < 0)
                return 1;
        sys_close_range(WARDEN_SOCKET_FD + 1, ~0U, 0);

        prepare();
        serve();
        if (box.state != BOX_NONE)
                box_stop(&box, WARDEN_STOP_NONE);
        box_done(&box);
        return 0;
}
