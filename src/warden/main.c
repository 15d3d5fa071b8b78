/* SPDX-License-Identifier: Apache-2.0
 *
 * The warden: the only process of glovebox with privilege (root's, or that of a user over the
 * namespaces he made). A front starts it with one end of a SOCK_SEQPACKET pair as descriptor 3.
 * It serves one box at a time, in one thread:
 *
 *   front --request + descriptors--> warden --clone3--> setup process --CLONE_PARENT--> init, program
 *   front <--event------------------ warden <--frames, pidfds, waitid--'
 *
 * Should: obey a closed table of requests, each in some states only; end the box and itself when
 * the front is gone. Mustn't: parse text from anybody but the kernel, open a path it was given,
 * allocate, or print. Anything unexpected from the front ends it. */
#include "base/fd.h"
#include "kernel/sys.h"
#include "warden/box.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

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

        box_init(&box);
        if (box_create(&box, &request.spec, fds, err) < 0) {
                box.failed = true;
                box_stop(&box, WARDEN_STOP_NONE, 0);
        }
}

static void on_signal(int *fds)
{
        if (request.value == SIGINT || request.value == SIGTERM)
                box_signal(&box, (int)request.value);
}

static void on_stop(int *fds)
{
        box_stop(&box, WARDEN_STOP_ASKED, request.value);
}

/* A request that races with the end of its box is late, not wrong: DEAD and NONE ignore it. */
#define IN(state) (1U << (state))
static const struct {
        unsigned states, ignored;
        void (*handle)(int *fds);
} table[WARDEN_REQUEST_COUNT] = {
        [WARDEN_RUN] = {IN(BOX_NONE), 0, on_run},
        [WARDEN_SIGNAL] = {IN(BOX_BUILDING) | IN(BOX_RUNNING), IN(BOX_NONE), on_signal},
        [WARDEN_STOP] = {IN(BOX_BUILDING) | IN(BOX_RUNNING), IN(BOX_NONE), on_stop},
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
        union {
                char bytes[CMSG_SPACE(sizeof(int) * BOX_FDS_MAX)];
                struct cmsghdr align;
        } control;
        struct iovec iov = {.iov_base = &request, .iov_len = sizeof(request)};
        struct msghdr msg = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes),
        };
        int fds[BOX_FDS_MAX];
        uint32_t n_fds = 0;

        ssize_t n = recvmsg(WARDEN_SOCKET_FD, &msg, MSG_CMSG_CLOEXEC);
        if (n < 0)
                return errno == EINTR;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
                if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
                        n_fds = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
                        memcpy(fds, CMSG_DATA(c), sizeof(int) * n_fds);
                }

        bool valid = n > 0 && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && request_valid(n, n_fds);
        if (valid) {
                if (table[request.kind].states & IN(box.state))
                        table[request.kind].handle(fds);
                else
                        valid = table[request.kind].ignored & IN(box.state);
        }
        for (uint32_t i = 0; i < n_fds; i++)
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

static void report_end(void)
{
        send_event(box.failed ? WARDEN_FAILED : WARDEN_ENDED);
        box_done(&box);
        box_init(&box);
}

static void serve(void)
{
        for (;;) {
                struct pollfd fds[] = {
                        {.fd = WARDEN_SOCKET_FD, .events = POLLIN},
                        {.fd = box.socket, .events = POLLIN},
                        {.fd = box.setup_pidfd, .events = POLLIN},
                        {.fd = box.program_pidfd, .events = POLLIN},
                };
                if (poll(fds, ARRAY_SIZE(fds), poll_timeout()) < 0 && errno != EINTR)
                        return;
                if (fds[1].revents && box_on_frame(&box) && !box.announced) {
                        box.announced = true;
                        send_event(WARDEN_STARTED);
                        box_sweep(&box);
                }
                if (fds[2].revents || fds[3].revents)
                        box_on_end(&box);
                box_sample(&box, monotonic_usec());
                if (fds[0].revents && !serve_request())
                        return;
                if (box.state == BOX_DEAD)
                        report_end();
        }
}

int main(void)
{
        struct sigaction ignore = {.sa_handler = SIG_IGN};

        /* A session of our own: what the terminal sends is for the front to judge. */
        setsid();
        sigaction(SIGPIPE, &ignore, NULL);
        sigaction(SIGHUP, &ignore, NULL);
        prctl(PR_SET_NAME, "glovebox-warden");
        if (warden_is_host_root() && setgroups(0, NULL) < 0)
                return 1;
        sys_close_range(WARDEN_SOCKET_FD + 1, ~0U, 0);

        box_init(&box);
        serve();
        if (box.state != BOX_NONE)
                box_stop(&box, WARDEN_STOP_NONE, 0);
        return 0;
}
