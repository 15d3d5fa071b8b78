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

#define ANSWER_MSEC 10000
#define END_MSEC 2000

static int find_name(int directory, char name[static NAME_MAX + 1], gb_error *err)
{
        char link[32], path[HOST_PATH_MAX];

        snprintf(link, sizeof(link), "/proc/self/fd/%d", directory);
        ssize_t n = readlink(link, path, sizeof(path) - 1);
        if (n < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot find the name of a mounted directory: %s", strerror(errno));
        path[n] = '\0';
        const char *slash = strrchr(path, '/');
        snprintf(name, NAME_MAX + 1, "%.*s", NAME_MAX, slash ? slash + 1 : path);
        return 0;
}

/* Where engines find mounts; only root looks in there. */
static int make_views(char *ret, size_t size, gb_error *err)
{
        _cleanup_free_ char *runtime = NULL, *path = NULL;

        int r = path_runtime("", &runtime);
        if (r == 0)
                r = path_runtime("views", &path);
        if (r == 0 && strlen(path) + 64 > size)
                r = -ENAMETOOLONG;
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot find a directory for mounts: %s", strerror(-r));
        (void)mkdir(runtime, 0700);
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make %s: %s", path, strerror(errno));
        strcpy(ret, path);
        return 0;
}

static int fill(struct hide_order *o, enum hide_kind kind, int directory, const char *names, gb_error *err)
{
        struct stat st;

        if (kind == HIDE_ATTACHED && !privilege_is_host_root())
                return error_set(err, GB_E_UNENFORCEABLE, EPERM, "a directory without its credential files can be mounted for an engine only by root, which this process is not: "
                                 "use the native backend, or mount a directory that holds none");
        if (strlen(names) >= sizeof(o->names))
                return error_set(err, GB_E_LIMIT, E2BIG, "the rules name too many credential files; at most %zu bytes of names", sizeof(o->names));
        if (fstat(directory, &st) < 0 || !S_ISDIR(st.st_mode))
                return error_set(err, GB_E_USAGE, ENOTDIR, "only a directory can be mounted without its credential files");
        *o = (struct hide_order){.kind = kind, .as_root = privilege_is_host_root(), .owner_uid = st.st_uid, .owner_gid = st.st_gid};
        strcpy(o->names, names);
        int r = find_name(directory, o->name, err);
        return r < 0 || kind != HIDE_ATTACHED ? r : make_views(o->views, sizeof(o->views), err);
}

/* What comes back: with a descriptor, with a path, or with what is wrong. */
static int receive(struct hide *h, int *ret, gb_error *err)
{
        struct pollfd wait = {.fd = h->socket, .events = POLLIN};
        int fds[BOX_FDS_MAX], n_fds = 0;
        struct hide_answer answer;

        ssize_t n = poll(&wait, 1, ANSWER_MSEC) == 1 ? message_receive(h->socket, 0, &answer, sizeof(answer), fds, &n_fds) : -ETIMEDOUT;
        bool whole = n == (ssize_t)sizeof(answer) && n_fds == (h->kind == HIDE_DETACHED);
        if (whole && answer.error.code == GB_E_NONE) {
                *ret = n_fds ? fds[0] : open(answer.path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                return *ret < 0 ? error_set(err, GB_E_INTERNAL, errno, "cannot open %s: %s", answer.path, strerror(errno)) : 0;
        }
        for (int i = 0; i < n_fds; i++)
                safe_close(fds[i]);
        if (n == (ssize_t)sizeof(answer) && answer.error.code != GB_E_NONE)
                return error_set(err, answer.error.code, answer.error.errnum, "%s", answer.error.message);
        return error_set(err, GB_E_INTERNAL, EIO, "glovebox-hide does not answer");
}

int hide_open(struct hide *h, enum hide_kind kind, int directory, const char *names, int *ret, gb_error *err)
{
        static const char *const words[] = {NULL};
        _cleanup_free_ struct hide_order *order = calloc(1, sizeof(*order));
        _cleanup_close_ int theirs = -1;
        int pair[2];

        *h = (struct hide)HIDE_NONE;
        h->kind = kind;
        int r = order ? fill(order, kind, directory, names, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket pair: %s", strerror(errno));
        h->socket = pair[0];
        theirs = pair[1];
        r = helper_start(&h->helper, "glovebox-hide", words, theirs, err);
        if (r == 0) {
                theirs = safe_close(theirs);
                r = message_send(h->socket, order, sizeof(*order), &directory, 1);
                r = r < 0 ? error_set(err, GB_E_INTERNAL, -r, "glovebox-hide does not listen: %s", strerror(-r)) : receive(h, ret, err);
        }
        if (r < 0)
                hide_close(h);
        return r;
}

void hide_close(struct hide *h)
{
        h->socket = safe_close(h->socket);
        /* It takes its mount off. */
        for (int waited = 0; h->kind == HIDE_ATTACHED && h->helper.pid > 0 && waited < END_MSEC; waited++) {
                if (waitpid(h->helper.pid, NULL, WNOHANG) != 0)
                        h->helper.pid = 0;
                else
                        (void)poll(NULL, 0, 1);
        }
        helper_end(&h->helper);
}
