/* SPDX-License-Identifier: Apache-2.0 */
#include "hide/hide.h"

#include "base/fd.h"
#include "base/message.h"
#include "base/path.h"
#include "hide/wire.h"
#include "kernel/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ANSWER_USEC 10000000ULL
#define END_USEC 2000000ULL

static int fill(struct hide_order *o, enum hide_kind kind, int directory, const char *names, gb_error *err)
{
        struct stat st;

        if (strlen(names) >= sizeof(o->names))
                return error_set(err, GB_E_LIMIT, E2BIG, "the rules name too many credential files; at most %zu bytes of names", sizeof(o->names));
        if (fstat(directory, &st) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot look at a mounted directory: %s", strerror(errno));
        *o = (struct hide_order){.kind = kind, .owner_uid = st.st_uid, .owner_gid = st.st_gid};
        strcpy(o->names, names);
        return 0;
}

/* 1: something has come. 0: nothing did in this time. A signal handler of our caller does not end it. */
static int wait_for(int fd, uint64_t usec)
{
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        uint64_t end = monotonic_usec() + usec, now;
        int r;

        while ((r = poll(&wait, 1, (int)(usec / 1000))) < 0 && errno == EINTR) {
                now = monotonic_usec();
                usec = now < end ? end - now : 0;
        }
        return r;
}

/* What comes back: with a descriptor, with a path, or with what is wrong. */
static int receive(struct hide *h, int *ret, gb_error *err)
{
        int fds[BOX_FDS_MAX], n_fds = 0;
        struct hide_answer answer;

        ssize_t n = wait_for(h->socket, ANSWER_USEC) == 1 ? message_receive(h->socket, 0, &answer, sizeof(answer), fds, &n_fds) : -ETIMEDOUT;
        if (n == (ssize_t)sizeof(answer) && n_fds == 1 && answer.error.code == GB_E_NONE) {
                *ret = fds[0];
                return 0;
        }
        for (int i = 0; i < n_fds; i++)
                safe_close(fds[i]);
        if (n == (ssize_t)sizeof(answer) && answer.error.code != GB_E_NONE)
                return error_set(err, answer.error.code, answer.error.errnum, "%s", answer.error.message);
        return error_set(err, GB_E_INTERNAL, EIO, "glovebox-hide did not answer");
}

int hide_spawn(struct helper *h, int socket, gb_error *err)
{
        _cleanup_free_ char *runtime = NULL;

        *h = (struct helper)HELPER_NONE;
        /* Where engines find mounts: only root can attach one, and nobody else needs the directory. */
        int r = privilege_is_host_root() ? path_runtime("", &runtime) : 0;
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot find a directory for mounts: %s", strerror(-r));
        const char *words[] = {runtime, NULL};
        return helper_start(h, "glovebox-hide", words, socket, err);
}

static int start_child(struct hide *h, gb_error *err)
{
        int pair[2];

        if (h->kind == HIDE_ATTACHED && !privilege_is_host_root())
                return error_set(err, GB_E_UNENFORCEABLE, EPERM, "only root can mount a directory without its credential files for a container engine, and this process is not root: "
                                 "use the native backend, or mount a directory that holds no credential files");
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket pair: %s", strerror(errno));
        int r = hide_spawn(&h->helper, pair[1], err);
        safe_close(pair[1]);
        h->socket = pair[0];
        return r;
}

int hide_open(struct hide *h, enum hide_kind kind, hide_start_function *start, int directory, const char *names, int *ret, gb_error *err)
{
        _cleanup_free_ struct hide_order *order = calloc(1, sizeof(*order));

        *h = (struct hide)HIDE_NONE;
        h->kind = kind;
        int r = order ? fill(order, kind, directory, names, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r == 0)
                r = start ? start(&h->socket, &h->pidfd, err) : start_child(h, err);
        if (r == 0) {
                r = message_send(h->socket, order, sizeof(*order), &directory, 1);
                r = r < 0 ? error_set(err, GB_E_INTERNAL, -r, "glovebox-hide did not accept the request: %s", strerror(-r)) : receive(h, ret, err);
        }
        if (r < 0)
                hide_close(h);
        return r;
}

/* It takes its mount off. */
static void wait_for_end(struct hide *h)
{
        uint64_t end = monotonic_usec() + END_USEC;

        if (h->pidfd >= 0)
                (void)wait_for(h->pidfd, END_USEC);
        while (h->helper.pid > 0 && monotonic_usec() < end) {
                if (waitpid(h->helper.pid, NULL, WNOHANG) != 0)
                        h->helper.pid = 0;
                else
                        (void)poll(NULL, 0, 1);
        }
}

void hide_close(struct hide *h)
{
        h->socket = safe_close(h->socket);
        if (h->kind == HIDE_ATTACHED)
                wait_for_end(h);
        h->pidfd = safe_close(h->pidfd);
        helper_end(&h->helper);
}
