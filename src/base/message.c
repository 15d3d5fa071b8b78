/* SPDX-License-Identifier: Apache-2.0 */
#include "base/message.h"

#include "base/fd.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

union control {
        char bytes[CMSG_SPACE(sizeof(int) * BOX_FDS_MAX)];
        struct cmsghdr align;
};

static int send_with(int flags, int socket, const void *data, size_t size, const int *fds, int n_fds)
{
        union control control = {0};
        struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
        ssize_t n;

        if (n_fds < 0 || n_fds > BOX_FDS_MAX)
                return -EINVAL;
        if (n_fds > 0) {
                msg.msg_control = control.bytes;
                msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n_fds);
                struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n_fds);
                memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)n_fds);
        }
        do
                n = sendmsg(socket, &msg, MSG_NOSIGNAL | flags);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : 0;
}

int message_send(int socket, const void *data, size_t size, const int *fds, int n_fds)
{
        return send_with(0, socket, data, size, fds, n_fds);
}

int message_send_now(int socket, const void *data, size_t size, const int *fds, int n_fds)
{
        return send_with(MSG_DONTWAIT, socket, data, size, fds, n_fds);
}

ssize_t message_receive(int socket, int flags, void *data, size_t size, int fds[static BOX_FDS_MAX], int *n_fds)
{
        union control control;
        struct iovec iov = {.iov_base = data, .iov_len = size};
        struct msghdr msg = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes),
        };
        ssize_t n;

        *n_fds = 0;
        do
                n = recvmsg(socket, &msg, flags | MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
                if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
                        *n_fds = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
                        memcpy(fds, CMSG_DATA(c), sizeof(int) * (size_t)*n_fds);
                }
        if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
                while (*n_fds > 0)
                        safe_close(fds[--*n_fds]);
                return -EMSGSIZE;
        }
        return n;
}
