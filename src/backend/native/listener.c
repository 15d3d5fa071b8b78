/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/listener.h"

#include "base/fd.h"
#include "base/message.h"
#include "egress/protocol.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

_Static_assert(BOX_EGRESS_PORT == EGRESS_PORT, "programs in a box are told of the port that is listened on");

int listener_plan(struct box_plan *plan, const struct policy *policy, int *ret, gb_error *err)
{
        int pair[2];

        *ret = -1;
        if (policy->network_mode != NETWORK_ALLOWLIST)
                return 0;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket pair: %s", strerror(errno));
        int r = plan_fd(plan, BOX_FD_LISTENER, 0, pair[1], true, err);
        if (r < 0)
                safe_close(pair[0]);
        else
                *ret = pair[0];
        return r;
}

/* What the proxy is to accept from: nothing else is ever given to it. */
static bool is_listener(int fd)
{
        struct sockaddr_in address = {0};
        socklen_t size = sizeof(address), flag_size = sizeof(int);
        int listens = 0;

        return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag_size) == 0 && listens && getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
               address.sin_family == AF_INET && address.sin_port == htons(EGRESS_PORT) && address.sin_addr.s_addr == htonl(INADDR_LOOPBACK);
}

int listener_take(int *from, gb_error *err)
{
        _cleanup_close_ int way = TAKE_FD(*from);
        int fds[BOX_FDS_MAX], n_fds = 0;
        char word;

        if (way < 0)
                return error_set(err, GB_E_INTERNAL, ENOENT, "the box has no listener, or somebody has it already");
        /* It was sent before the box was said to stand: there is nothing to wait for. */
        ssize_t n = message_receive(way, MSG_DONTWAIT, &word, sizeof(word), fds, &n_fds);
        _cleanup_close_ int fd = n >= 0 && n_fds > 0 ? fds[0] : -1;
        for (int i = 1; n >= 0 && i < n_fds; i++)
                safe_close(fds[i]);
        if (n != (ssize_t)sizeof(word) || n_fds != 1 || !is_listener(fd) || fd_set_nonblock(fd) < 0)
                return error_set(err, GB_E_LOST, EPROTO, "the box's listener did not come: the proxy cannot hear it");
        return TAKE_FD(fd);
}
