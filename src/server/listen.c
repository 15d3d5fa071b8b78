/* SPDX-License-Identifier: Apache-2.0
 *
 * A unix socket belongs to one server at a time: whoever holds the lock on the file beside it (<socket>.lock). With the lock, whatever socket lies
 * there was left by a server that was killed, unless somebody answers, who then is not one of ours and is left alone. The directory is
 * ours, or root's, and nobody else may write to it, so that nobody can put another socket or a link in its place. */
#include "server/listen.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_INHERITED_FD 3 /* by the protocol of systemd */

/* ---- unix sockets ---- */

static int split_path(const char *path, char dir[static HOST_PATH_MAX])
{
        const char *slash = strrchr(path, '/');

        snprintf(dir, HOST_PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
        return 0;
}

/* Nobody but us and root may write to it. A sticky directory such as /tmp will not do: others can lay out what we want to make there. */
static int open_directory(const char *dir, gb_error *err)
{
        struct stat st;

        if (mkdir(dir, 0700) < 0 && errno != EEXIST)
                return error_set(err, GB_E_USAGE, errno, "cannot make the directory %s for the socket: %s", quote_path(dir).text, strerror(errno));
        _cleanup_close_ int fd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set(err, GB_E_USAGE, errno, "cannot open the directory %s of the socket: %s", quote_path(dir).text,
                                 errno == ELOOP || errno == ENOTDIR ? "it is a link, or not a directory" : strerror(errno));
        if ((st.st_uid != geteuid() && st.st_uid != 0) || st.st_mode & 022)
                return error_set(err, GB_E_USAGE, EPERM, "others can write to the directory %s: the socket would not be safe there. Take one of your own, mode 0700",
                                 quote_path(dir).text);
        return TAKE_FD(fd);
}

/* Whether somebody accepts there. */
static bool answers(const struct listen_address *a)
{
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        return fd >= 0 && (connect(fd, &a->any, a->size) == 0 || errno == EAGAIN);
}

/* Who has it and does not answer is about to end: the keeper of a server that was killed, for one. */
static int wait_for_lock(int fd, const struct listen_address *a)
{
        uint64_t end = monotonic_usec() + LISTEN_LOCK_USEC;

        while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (answers(a) || monotonic_usec() >= end)
                        return -EADDRINUSE;
                (void)poll(NULL, 0, 20);
        }
        return 0;
}

static int take_lock(int dir, const struct listen_address *a, gb_error *err)
{
        const char *path = a->un.sun_path;
        char name[sizeof(a->un.sun_path) + 8];
        struct stat st;

        snprintf(name, sizeof(name), "%s.lock", strrchr(path, '/') + 1);
        _cleanup_close_ int fd = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return error_set(err, GB_E_USAGE, errno, "cannot make the lock file %s.lock: %s", quote_path(path).text,
                                 fd < 0 ? strerror(errno) : "it is not a regular file");
        if (wait_for_lock(fd, a) < 0)
                return error_set(err, GB_E_CONFLICT, EADDRINUSE, "another server listens at %s: end it, or take another address with --listen",
                                 quote_path(path).text);
        return TAKE_FD(fd);
}

static int remove_stale(int dir, const struct listen_address *a, gb_error *err)
{
        const char *name = strrchr(a->un.sun_path, '/') + 1;
        struct stat st;

        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : error_set(err, GB_E_USAGE, errno, "cannot look at %s: %s", quote_path(a->un.sun_path).text, strerror(errno));
        if (!S_ISSOCK(st.st_mode))
                return error_set(err, GB_E_CONFLICT, EEXIST, "%s is there and is not a socket; it is left alone: remove it, or take another address",
                                 quote_path(a->un.sun_path).text);
        if (answers(a))
                return error_set(err, GB_E_CONFLICT, EADDRINUSE, "another program listens at %s: end it, or take another address with --listen",
                                 quote_path(a->un.sun_path).text);
        if (unlinkat(dir, name, 0) < 0)
                return error_set(err, GB_E_USAGE, errno, "cannot remove the old socket %s: %s", quote_path(a->un.sun_path).text, strerror(errno));
        return 0;
}

static int open_unix(struct listener *l, gb_error *err)
{
        char parent[HOST_PATH_MAX];

        split_path(l->address.un.sun_path, parent);
        _cleanup_close_ int dir = open_directory(parent, err);
        _cleanup_close_ int lock = dir < 0 ? -1 : take_lock(dir, &l->address, err);
        int r = dir < 0 ? dir : lock < 0 ? lock : remove_stale(dir, &l->address, err);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        mode_t mask = umask(0177); /* before any thread: the socket is never there with another mode */
        r = fd < 0 ? -1 : bind(fd, &l->address.any, l->address.size);
        int saved = errno;
        umask(mask);
        if (r < 0)
                return error_set(err, GB_E_USAGE, saved, "cannot listen at %s: %s", quote_path(l->address.un.sun_path).text, strerror(saved));
        l->fd = TAKE_FD(fd);
        l->lock = TAKE_FD(lock);
        return 0;
}

/* ---- TCP ---- */

static int open_tcp(struct listener *l, gb_error *err)
{
        static const int on = 1;
        char text[LISTEN_ADDRESS_TEXT_MAX];
        socklen_t size = sizeof(l->address) - offsetof(struct listen_address, any);

        _cleanup_close_ int fd = socket(l->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_set(err, GB_E_USAGE, errno, "cannot make a socket: %s", strerror(errno));
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        /* [::] is IPv6 alone: who wants both names both. */
        if (l->address.any.sa_family == AF_INET6)
                (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
        if (bind(fd, &l->address.any, l->address.size) < 0)
                return error_set(err, errno == EADDRINUSE ? GB_E_CONFLICT : GB_E_USAGE, errno, "cannot listen at %s: %s%s", listen_address_text(&l->address, text),
                                 strerror(errno), errno == EACCES ? "; ports below 1024 are root's" : "");
        size = sizeof(struct sockaddr_in6);
        (void)getsockname(fd, &l->address.any, &size); /* port 0 has become one */
        l->fd = TAKE_FD(fd);
        return 0;
}

/* ---- what systemd brings ---- */

static int inherited_count(void)
{
        const char *pid = secure_getenv("LISTEN_PID"), *fds = secure_getenv("LISTEN_FDS");
        uint64_t us, n;

        if (!pid || !fds || parse_count(pid, &us) < 0 || us != (uint64_t)getpid() || parse_count(fds, &n) < 0)
                return 0;
        return (int)MIN(n, (uint64_t)SERVER_LISTEN_MAX + 1);
}

static int take_inherited(struct listener *l, int fd, gb_error *err)
{
        int type = 0, accepts = 0;
        socklen_t size = sizeof(type);

        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        l->theirs = true;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_STREAM)
                return error_set(err, GB_E_USAGE, EPROTOTYPE, "descriptor %d of LISTEN_FDS is not a stream socket", fd);
        size = sizeof(accepts);
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) < 0 || !accepts)
                return error_set(err, GB_E_USAGE, EINVAL, "descriptor %d of LISTEN_FDS does not listen (Accept=yes is not for this)", fd);
        l->address.size = sizeof(struct sockaddr_un);
        if (getsockname(fd, &l->address.any, &l->address.size) < 0 || fd_set_nonblock(fd) < 0)
                return error_set(err, GB_E_USAGE, errno, "cannot use descriptor %d of LISTEN_FDS: %s", fd, strerror(errno));
        l->fd = fd;
        return 0;
}

/* ---- all ---- */

static int judge(const struct listener *l, const struct server_config *config, bool have_tokens, gb_error *err)
{
        char text[LISTEN_ADDRESS_TEXT_MAX];

        if (listen_address_is_local(&l->address) || (config->tokens && have_tokens))
                return 0;
        return error_set(err, GB_E_USAGE, EPERM, "%s can be reached by others, and %s: %s", listen_address_text(&l->address, text),
                         config->tokens ? "there is no token that counts yet" : "without tokens everybody could run code here",
                         config->tokens ? "make one first, with 'glovebox token create --tenant NAME'"
                                        : "switch tokens on, or listen at a loopback address or a unix socket");
}

static int open_one(struct listener *l, const char *text, gb_error *err)
{
        int r = listen_address_parse(text, &l->address, err);

        if (r < 0)
                return r;
        return l->address.any.sa_family == AF_UNIX ? open_unix(l, err) : open_tcp(l, err);
}

int listeners_open(struct listeners *ret, const struct server_config *config, gb_error *err)
{
        struct listeners all = {.n = 0};
        int inherited = inherited_count(), r = 0;
        size_t n = inherited > 0 ? (size_t)inherited : config->n_listen;

        if (n > SERVER_LISTEN_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "more than %d sockets", SERVER_LISTEN_MAX);
        for (size_t i = 0; r == 0 && i < n; i++) {
                struct listener *l = &all.rows[all.n++];
                *l = (struct listener){.fd = -1, .lock = -1};
                r = inherited > 0 ? take_inherited(l, FIRST_INHERITED_FD + (int)i, err) : open_one(l, config->listen[i].address, err);
                l->local = l->address.any.sa_family == AF_UNIX;
                l->tls = config->certificate && !l->local;
        }
        unsetenv("LISTEN_PID"); /* not for those we start */
        unsetenv("LISTEN_FDS");
        unsetenv("LISTEN_FDNAMES");
        if (r < 0) {
                listeners_close(&all);
                return r;
        }
        *ret = all;
        return 0;
}

int listeners_give(struct listeners *l, uid_t uid, gid_t gid, gb_error *err)
{
        for (size_t i = 0; i < l->n; i++)
                /* Its directory is root's, and nobody else can write there. */
                if (l->rows[i].lock >= 0 && lchown(l->rows[i].address.un.sun_path, uid, gid) < 0)
                        return error_set(err, GB_E_USAGE, errno, "cannot give away the socket %s: %s", quote_path(l->rows[i].address.un.sun_path).text,
                                         strerror(errno));
        return 0;
}

int listeners_listen(struct listeners *l, const struct server_config *config, bool have_tokens, gb_error *err)
{
        char text[LISTEN_ADDRESS_TEXT_MAX];
        int r = 0;

        for (size_t i = 0; r == 0 && i < l->n; i++) {
                r = judge(&l->rows[i], config, have_tokens, err);
                if (r == 0 && listen(l->rows[i].fd, LISTEN_BACKLOG) < 0)
                        r = error_set(err, errno == EADDRINUSE ? GB_E_CONFLICT : GB_E_USAGE, errno, "cannot listen at %s: %s", listen_address_text(&l->rows[i].address, text),
                                      strerror(errno));
        }
        return r;
}

void listeners_remove(const struct listeners *l)
{
        /* The lock file stays: who has it open must not lock another than the next one does. */
        for (size_t i = 0; i < l->n; i++)
                if (l->rows[i].lock >= 0)
                        (void)unlink(l->rows[i].address.un.sun_path);
}

void listeners_close(struct listeners *l)
{
        listeners_remove(l);
        for (size_t i = 0; i < l->n; i++) {
                struct listener *one = &l->rows[i];
                one->fd = safe_close(one->fd);
                one->lock = safe_close(one->lock);
        }
        l->n = 0;
}
