/* SPDX-License-Identifier: Apache-2.0
 *
 * Who serves holds a lock on the user's runtime directory, for its whole life: what lies there while nobody has the
 * lock was left by one that was killed. The listening socket belongs to the backend's helper alone, so that when
 * that dies nobody can connect to a socket behind which nobody is. */
#include "engine/warm.h"

#include "base/fd.h"
#include "base/path.h"
#include "engine/script.h"
#include "engine/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_NAME "warm.sock"
#define BACKLOG 128
#define LOCK_ATTEMPTS_MAX 16 /* the directory goes away when a server ends */
#define STOP_USEC 10000000ULL

static const struct backend *const backend = &backend_native;

struct warm_server {
        char *dir, *path;
        bool made; /* the directory is ours to remove */
        int lock;  /* the directory */
};

bool warm_is_served(void)
{
        return backend->warm && backend->warm->is_served();
}

bool warm_has(const struct template *t)
{
        return backend->warm && backend->warm->has(t);
}

/* ---- the socket ---- */

static int find_paths(struct warm_server *s, gb_error *err)
{
        int r = path_runtime(SOCKET_NAME, &s->path);

        if (r == -EPERM)
                return error_set(err, GB_E_USAGE, EPERM, "the directory for sockets of this user is not his, or others can write to it: "
                                 "remove it (/run/glovebox of root, else glovebox in $XDG_RUNTIME_DIR, else /tmp/glovebox-UID)");
        s->dir = r == 0 ? strndup(s->path, (size_t)(strrchr(s->path, '/') - s->path)) : NULL;
        return s->dir ? 0 : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

/* 0 when the lock is ours, 1 when the directory was removed meanwhile. */
static int try_lock(struct warm_server *s, gb_error *err)
{
        struct stat ours, now;

        s->made = mkdir(s->dir, 0700) == 0;
        if (!s->made && errno != EEXIST)
                return error_set(err, GB_E_NOT_FOUND, errno, "cannot make the directory %s: %s", s->dir, strerror(errno));
        _cleanup_close_ int fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &ours) < 0)
                return errno == ENOENT ? 1 : error_set(err, GB_E_USAGE, errno, "cannot open the directory %s: %s", s->dir, strerror(errno));
        if (ours.st_uid != geteuid() || ours.st_mode & 022)
                return error_set(err, GB_E_USAGE, EPERM, "the directory %s is not this user's, or others can write to it", s->dir);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return error_set(err, GB_E_USAGE, EEXIST, "another 'glovebox warm' of this user serves already, at %s: use that, or end "
                                 "it with 'glovebox warm --stop'", s->path);
        if (stat(s->dir, &now) < 0 || now.st_ino != ours.st_ino || now.st_dev != ours.st_dev)
                return 1;
        s->lock = TAKE_FD(fd);
        return 0;
}

static int take_lock(struct warm_server *s, gb_error *err)
{
        for (int i = 0; i < LOCK_ATTEMPTS_MAX; i++) {
                int r = try_lock(s, err);
                if (r <= 0)
                        return r;
        }
        return error_set(err, GB_E_INTERNAL, EAGAIN, "the directory %s goes away again and again", s->dir);
}

static int fill_address(const char *path, struct sockaddr_un *ret, gb_error *err)
{
        *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
        if (strlen(path) >= sizeof(ret->sun_path))
                return error_set(err, GB_E_LIMIT, ENAMETOOLONG, "the path %s is too long for a socket: set GLOVEBOX_RUNTIME_DIR to a "
                                 "shorter directory", path);
        strcpy(ret->sun_path, path);
        return 0;
}

/* With the lock: whatever lies there is nobody's. */
static int make_socket(const struct warm_server *s, gb_error *err)
{
        struct sockaddr_un address;
        int r = fill_address(s->path, &address, err);

        if (r < 0)
                return r;
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        mode_t mask = umask(0177);
        (void)unlink(s->path);
        if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, BACKLOG) < 0)
                r = error_set(err, GB_E_INTERNAL, errno, "cannot listen at %s: %s", s->path, strerror(errno));
        umask(mask);
        return r < 0 ? r : TAKE_FD(fd);
}

static int serve(const struct warm_server *s, gb_error *err)
{
        _cleanup_close_ int fd = make_socket(s, err);

        return fd < 0 ? fd : backend->warm->serve(fd, err);
}

/* ---- serving ---- */

int warm_server_open(struct warm_server **ret, gb_error *err)
{
        _cleanup_warm_server_ struct warm_server *s = calloc(1, sizeof(*s));

        if (!backend->warm)
                return error_set(err, GB_E_INTERNAL, ENOSYS, "the backend %s keeps no templates warm", backend->name);
        if (!s)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        s->lock = -1;
        int r = find_paths(s, err);
        if (r == 0)
                r = take_lock(s, err);
        if (r == 0)
                r = serve(s, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

void warm_server_abandon(const struct warm_server *s)
{
        (void)unlink(s->path);
        if (s->made)
                (void)rmdir(s->dir); /* others may have something there */
}

void warm_server_close(struct warm_server *s)
{
        if (!s)
                return;
        if (s->lock >= 0) {
                /* Nobody comes any more, then those who came are ended, then there may be another. */
                warm_server_abandon(s);
                backend->warm->end();
        }
        safe_close(s->lock);
        free(s->dir);
        free(s->path);
        free(s);
}

/* A first session tells the backend what is to be made ahead. It also shows whether one can be made. */
static int make_ahead(const struct template *t, const struct policy *policy, gb_error *err)
{
        struct session_options options = {.policy = policy, .template = t, .uid = TEMPLATE_USER, .gid = TEMPLATE_USER};
        _cleanup_session_ struct session *session = NULL;

        int r = session_open(&options, &session, err);
        if (r < 0)
                return r;
        const struct control_status *layout = &session_controls(session)->status[CONTROL_LAYOUT];
        if (layout->state == CONTROL_WEAKER)
                return 0;
        return error_set(err, GB_E_UNENFORCEABLE, ENOTSUP, "sessions of this policy cannot come from the template %s (%s)", t->name,
                         layout->how);
}

int warm_server_start(struct warm_server *s, const struct template *t, const struct policy *policy, struct warm_status *ret,
                      gb_error *err)
{
        uint64_t begin = monotonic_usec();
        gb_error why = {0};

        *ret = (struct warm_status){0};
        int r = backend->warm->start(t, ret->missing, &why);
        if (r < 0 && why.code == GB_E_LOST) {
                r = serve(s, &why);
                if (r == 0)
                        r = backend->warm->start(t, ret->missing, &why);
        }
        ret->took_usec = monotonic_usec() - begin;
        if (r == 0)
                r = make_ahead(t, policy, &why);
        if (r < 0 && err)
                *err = why;
        return r;
}

int warm_own(gb_error *err)
{
        return backend->warm ? backend->warm->own(err) : 0;
}

int warm_server_event_fd(const struct template *t)
{
        return backend->warm->event_fd(t);
}

/* ---- ending another ---- */

/* The process that listens is the one that serves: the kernel has noted it at listen(). */
static int find_server(const char *path, int *ret_socket, gb_error *err)
{
        struct sockaddr_un address;
        struct ucred peer;
        socklen_t size = sizeof(peer);
        int r = fill_address(path, &address, err);

        if (r < 0)
                return r;
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket: %s", strerror(errno));
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return error_set(err, GB_E_NOT_FOUND, errno, "no 'glovebox warm' of this user serves (%s: %s)", path, strerror(errno));
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != geteuid() || peer.pid <= 0)
                return error_set(err, GB_E_USAGE, EPERM, "who serves at %s is another user", path);
        int pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
        if (pidfd < 0)
                return error_set(err, GB_E_NOT_FOUND, errno, "the process %d that served at %s is gone", (int)peer.pid, path);
        *ret_socket = TAKE_FD(fd);
        return pidfd;
}

int warm_stop(gb_error *err)
{
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *path = NULL;
        int r = path_runtime(SOCKET_NAME, &path);

        if (r < 0)
                return error_set(err, GB_E_NOT_FOUND, -r, "no 'glovebox warm' of this user serves");
        _cleanup_close_ int pidfd = find_server(path, &fd, err);
        if (pidfd < 0)
                return pidfd;
        /* The helper ends with the process that listened: as long as our connection stands, its number was its own. */
        struct pollfd connection = {.fd = fd}, process = {.fd = pidfd, .events = POLLIN};
        if (poll(&connection, 1, 0) != 0 || syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0) < 0)
                return error_set(err, GB_E_NOT_FOUND, ESRCH, "the process that served at %s has just ended", path);
        do
                r = poll(&process, 1, (int)(STOP_USEC / 1000));
        while (r < 0 && errno == EINTR);
        return r > 0 ? 0 : error_set(err, GB_E_INTERNAL, ETIMEDOUT, "the process that serves at %s was told to end and does not", path);
}
