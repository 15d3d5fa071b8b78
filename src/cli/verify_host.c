/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify_host.h"

#include "base/fd.h"
#include "kernel/cgroup.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define DIRECTORY_NAME "glovebox-verify-XXXXXX"
#define REMOVE_FDS 16

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
        (void)remove(path); /* what stays makes the directory stay, and that is told */
        return 0;
}

/* Only after the box is dead: nobody else can change what is below. */
static int remove_tree(const char *path)
{
        struct stat st;

        nftw(path, remove_entry, REMOVE_FDS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
        return lstat(path, &st) < 0 && errno == ENOENT ? 0 : -ENOTEMPTY;
}

static int make_token(char ret[33])
{
        unsigned char bytes[16];

        if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                return -EIO;
        for (size_t i = 0; i < sizeof(bytes); i++)
                snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
        return 0;
}

/* First of all, so that it holds no descriptor of anything that is opened later. */
static int start_bystander(struct verify_host *h)
{
        pid_t parent = getpid(), pid = fork();

        if (pid == 0) {
                signal(SIGINT, SIG_IGN); /* Ctrl-C goes to us all; this one is ended by us */
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                while (getppid() == parent)
                        pause();
                _exit(0);
        }
        h->bystander = MAX(pid, 0);
        return pid < 0 ? -errno : 0;
}

static int listen_at(int family, const void *address, socklen_t size, int *ret)
{
        int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        *ret = fd;
        return bind(fd, address, size) < 0 || listen(fd, 8) < 0 ? -errno : 0;
}

static socklen_t unix_address(const char *name, bool abstract, struct sockaddr_un *ret)
{
        *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
        size_t n = MIN(strlen(name), sizeof(ret->sun_path) - 2);
        memcpy(ret->sun_path + abstract, name, n);
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
}

static int open_listeners(struct verify_host *h)
{
        struct sockaddr_in loop = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(loop);
        struct sockaddr_un address;

        int r = listen_at(AF_INET, &loop, size, &h->listeners[0]);
        if (r == 0 && getsockname(h->listeners[0], (struct sockaddr *)&loop, &size) < 0)
                r = -errno;
        h->port = ntohs(loop.sin_port);
        if (r == 0) {
                size = unix_address(h->socket_name, true, &address);
                r = listen_at(AF_UNIX, &address, size, &h->listeners[1]);
        }
        if (r == 0) {
                size = unix_address(h->socket_path, false, &address);
                r = listen_at(AF_UNIX, &address, size, &h->listeners[2]);
        }
        return r;
}

static int make_directory(struct verify_host *h, gb_error *err)
{
        const char *base = getenv("TMPDIR");
        struct sockaddr_un address;

        base = base && *base == '/' ? base : "/tmp";
        if ((size_t)snprintf(h->directory, sizeof(h->directory), "%s/" DIRECTORY_NAME, base) >= sizeof(h->directory) ||
            strlen(h->directory) + 16 > sizeof(address.sun_path)) {
                h->directory[0] = '\0';
                return error_set(err, GB_E_USAGE, ENAMETOOLONG, "TMPDIR is too long; unset it");
        }
        if (!mkdtemp(h->directory)) {
                int e = errno;
                h->directory[0] = '\0';
                return error_set(err, GB_E_INTERNAL, e, "cannot make a directory in %s: %s; set TMPDIR to a place for temporary files",
                                 base, strerror(e));
        }
        snprintf(h->workspace, sizeof(h->workspace), "%s/workspace", h->directory);
        snprintf(h->file, sizeof(h->file), "%s/file-of-the-host", h->directory);
        snprintf(h->socket_path, sizeof(h->socket_path), "%s/socket", h->directory);
        return 0;
}

int verify_host_init(struct verify_host *h, gb_error *err)
{
        int r = start_bystander(h);
        if (r == 0)
                r = make_token(h->token);
        if (r == 0)
                r = make_token(h->secret);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot start a process: %s", strerror(-r));
        snprintf(h->socket_name, sizeof(h->socket_name), "glovebox-verify-%s", h->secret);
        r = make_directory(h, err);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = open(h->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make %s: %s", h->file, strerror(errno));
        r = open_listeners(h);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot listen on this host: %s", strerror(-r));
        if (setenv("GLOVEBOX_VERIFY_SECRET", h->secret, 1) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        return 0;
}

void verify_host_done(struct verify_host *h)
{
        for (size_t i = 0; i < ARRAY_SIZE(h->listeners); i++)
                h->listeners[i] = safe_close(h->listeners[i]);
        if (h->directory[0])
                (void)remove_tree(h->directory);
        if (h->bystander > 0) {
                kill(h->bystander, SIGKILL);
                while (waitpid(h->bystander, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        unsetenv("GLOVEBOX_VERIFY_SECRET");
}

int verify_host_clear(struct verify_host *h, gb_error *err)
{
        int r = remove_tree(h->workspace);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot remove %s", h->workspace);
        if (mkdir(h->workspace, 0755) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make %s: %s", h->workspace, strerror(errno));
        return 0;
}

bool verify_host_was_reached(struct verify_host *h)
{
        bool reached = false;

        for (size_t i = 0; i < ARRAY_SIZE(h->listeners); i++)
                for (int fd; (fd = accept4(h->listeners[i], NULL, NULL, SOCK_CLOEXEC)) >= 0; safe_close(fd))
                        reached = true;
        return reached;
}

static bool can_connect(int family, const void *address, socklen_t size)
{
        _cleanup_close_ int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        return fd >= 0 && connect(fd, address, size) == 0;
}

bool verify_host_can_be_reached(struct verify_host *h)
{
        struct sockaddr_in loop = {.sin_family = AF_INET, .sin_port = htons(h->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct sockaddr_un abstract, by_path;
        socklen_t n_abstract = unix_address(h->socket_name, true, &abstract);
        socklen_t n_by_path = unix_address(h->socket_path, false, &by_path);

        return can_connect(AF_INET, &loop, sizeof(loop)) && can_connect(AF_UNIX, &abstract, n_abstract) &&
               can_connect(AF_UNIX, &by_path, n_by_path) && verify_host_was_reached(h);
}

bool verify_host_bystander_lives(const struct verify_host *h)
{
        /* Not reaped: a dead one would be a zombie, for which kill() still works. */
        return waitpid(h->bystander, NULL, WNOHANG) == 0;
}

/* 1, 0, or a negative errno: then nobody knows. */
static int has_argument(int proc, const char *pid, const char *wanted)
{
        char path[300], text[4096];

        snprintf(path, sizeof(path), "%s/cmdline", pid);
        _cleanup_close_ int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
        /* The process has gone meanwhile, or is hidden, as those of other users can be (hidepid). The boxes' processes
         * are this user's, or this is root. */
        if (n < 0)
                return errno == ENOENT || errno == ESRCH || errno == EACCES || errno == EPERM ? 0 : -errno;
        return n > 0 && memmem(text, (size_t)n, wanted, strlen(wanted));
}

static void read_cgroup(int proc, const char *pid, char ret[static VERIFY_CGROUP_MAX])
{
        char path[300], text[8192];

        snprintf(path, sizeof(path), "%s/cgroup", pid);
        if (file_read_at(proc, path, text, sizeof(text)) < 0)
                return;
        const char *name = strstr(text, "/" CGROUP_NAME_PREFIX);
        if (name)
                snprintf(ret, VERIFY_CGROUP_MAX, "%.*s", (int)strcspn(name + 1, "/\n"), name + 1);
}

int verify_host_find(const struct verify_host *h, char cgroup[static VERIFY_CGROUP_MAX])
{
        int found = 0;

        DIR *dir = opendir("/proc");
        if (!dir)
                return -errno;
        int r = 0;
        for (struct dirent *entry; r >= 0;) {
                errno = 0;
                if (!(entry = readdir(dir))) {
                        r = -errno;
                        break;
                }
                if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
                        continue;
                r = has_argument(dirfd(dir), entry->d_name, h->token);
                if (r > 0) {
                        found++;
                        read_cgroup(dirfd(dir), entry->d_name, cgroup);
                }
        }
        closedir(dir);
        return r < 0 ? r : found;
}
