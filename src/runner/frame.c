/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/runner.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
        char bytes[CMSG_SPACE(sizeof(int) * BOX_FDS_MAX)];
        struct cmsghdr align;
};

void runner_send(int socket, const struct setup_frame *frame, const int *fds, int n_fds)
{
        union control control = {0};
        struct iovec iov = {.iov_base = (void *)(uintptr_t)frame, .iov_len = sizeof(*frame)};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

        if (n_fds > 0) {
                msg.msg_control = control.bytes;
                msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n_fds);
                struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n_fds);
                memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)n_fds);
        }
        while (sendmsg(socket, &msg, MSG_NOSIGNAL) < 0 && errno == EINTR)
                ;
}

ssize_t runner_receive(int socket, int flags, struct setup_frame *frame, int *fds, int max, int *n_fds)
{
        union control control;
        struct iovec iov = {.iov_base = frame, .iov_len = sizeof(*frame)};
        struct msghdr msg = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
                .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)max),
        };
        ssize_t n;

        *n_fds = 0;
        do
                n = recvmsg(socket, &msg, flags | MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                *n_fds = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
                memcpy(fds, CMSG_DATA(c), sizeof(int) * (size_t)*n_fds);
        }
        return n;
}
