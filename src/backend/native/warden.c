/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/warden.h"

#include "backend/native/keeper.h"
#include "base/fd.h"
#include "base/message.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- starting one ---- */

/* The warden's descriptors: nothing of ours but its end of the socket. */
static int spawn_actions(posix_spawn_file_actions_t *actions, int socket, int listen_fd)
{
        int r = posix_spawn_file_actions_adddup2(actions, socket, WARDEN_SOCKET_FD);

        if (r == 0 && listen_fd >= 0)
                r = posix_spawn_file_actions_adddup2(actions, listen_fd, WARDEN_LISTEN_FD);

        for (int fd = 0; r == 0 && fd < (GLOVEBOX_SANITIZED ? 2 : 3); fd++)
                r = posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0);
        return r;
}

/* posix_spawn and not fork: the caller may be large, or have threads. Returns a positive errno. */
static int spawn(const char *path, int socket, int listen_fd, pid_t *ret_pid)
{
        static char *const argv[] = {(char *)(uintptr_t)"glovebox-warden", NULL}, *const env[] = {NULL};
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t none;

        int r = posix_spawn_file_actions_init(&actions);
        if (r != 0)
                return r;
        r = posix_spawnattr_init(&attributes);
        if (r == 0) {
                sigemptyset(&none);
                r = posix_spawnattr_setsigmask(&attributes, &none);
                if (r == 0)
                        r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
                if (r == 0)
                        r = spawn_actions(&actions, socket, listen_fd);
                if (r == 0)
                        r = posix_spawn(ret_pid, path, &actions, &attributes, argv, env);
                posix_spawnattr_destroy(&attributes);
        }
        posix_spawn_file_actions_destroy(&actions);
        return r;
}

static char *program_path;

void warden_find_program(void)
{
        if (!program_path)
                (void)path_libexec("glovebox-warden", &program_path); /* who starts it tries again and tells */
}

int warden_spawn_at(int socket, int listen_fd, pid_t *ret_pid, gb_error *err)
{
        _cleanup_free_ char *found = NULL;

        /* Above the numbers it gets in the warden, so that no dup2 closes another's source. */
        _cleanup_close_ int theirs = fcntl(socket, F_DUPFD_CLOEXEC, 64);
        int r = program_path ? 0 : path_libexec("glovebox-warden", &found);
        const char *path = program_path ? program_path : found;

        safe_close(socket);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot find the warden: %s", strerror(-r));
        if (theirs < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket pair: %s", strerror(errno));
        r = spawn(path, theirs, listen_fd, ret_pid);
        if (r != 0)
                return error_set(err, GB_E_INTERNAL, r, "cannot start the warden %s: %s; reinstall glovebox, or set GLOVEBOX_LIBEXEC_DIR",
                                 path, strerror(r));
        /* It was born on our processor and would wait there for us. What it does now takes longer than
         * what we have left to do, so it goes first. */
        sched_yield();
        return 0;
}

int warden_spawn(int listen_fd, int *ret_socket, struct warden_process *ret, gb_error *err)
{
        int pair[2];

        *ret = WARDEN_NOBODY;
        if (keeper_is_used())
                return keeper_start_warden(ret_socket, &ret->pidfd, err);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket pair: %s", strerror(errno));
        int r = warden_spawn_at(pair[1], listen_fd, &ret->pid, err);
        if (r < 0)
                safe_close(pair[0]);
        else
                *ret_socket = pair[0];
        return r;
}

/* The end of its socket tells a warden to end its box and itself. It is waited for, so that nothing
 * is left to whoever inherits our orphans. */
void warden_end(int *socket, struct warden_process *process)
{
        struct pollfd p = {.fd = process->pidfd, .events = POLLIN};

        *socket = safe_close(*socket);
        while (process->pid > 0 && waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        while (process->pidfd >= 0 && poll(&p, 1, -1) < 0 && errno == EINTR)
                ;
        safe_close(process->pidfd);
        *process = WARDEN_NOBODY;
}

static bool is_ours(const struct warden_process *p)
{
        return p->pid > 0 || p->pidfd >= 0;
}

/* Whether one of ours has ended; our child is reaped then. */
static bool has_ended(const struct warden_process *p)
{
        struct pollfd end = {.fd = p->pidfd, .events = POLLIN};

        return p->pidfd >= 0 ? poll(&end, 1, 0) == 1 : waitpid(p->pid, NULL, WNOHANG) == p->pid;
}

/* The escape tests switch off one layer at a time, in a build made for that. */
uint32_t warden_layers_off(void)
{
#if GLOVEBOX_TEST_LAYERS
        static const struct {
                const char *name;
                uint32_t layer;
        } layers[] = {
                {"seccomp", BOX_LAYER_SECCOMP}, {"landlock", BOX_LAYER_LANDLOCK}, {"capabilities", BOX_LAYER_CAPABILITIES},
                {"cgroup", BOX_LAYER_CGROUP},   {"rlimits", BOX_LAYER_RLIMITS},   {"network", BOX_LAYER_NETWORK},
        };
        const char *off = getenv("GLOVEBOX_TEST_LAYER_OFF");
        for (size_t i = 0; off && i < ARRAY_SIZE(layers); i++)
                if (strcmp(off, layers[i].name) == 0)
                        return layers[i].layer;
#endif
        return 0;
}

/* ---- the one that sessions share ---- */

static struct {
        pthread_mutex_t mutex;
        int socket;
        struct warden_process process; /* nobody: somebody else's */
        pid_t owner; /* the process that started it: a fork of ours has no say */
        bool own;    /* it is never somebody else's */
        bool serves; /* it listens: one that does not is no substitute */
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER, .socket = -1, .process = {.pidfd = -1}};

/* Connects to the warden that `glovebox warm` keeps for this user. Whose socket it is was settled by the directory it is
 * in; that the other end is of our own user is asked of the kernel. */
static int connect_shared(void)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        struct ucred peer;
        socklen_t size = sizeof(peer);
        _cleanup_free_ char *path = NULL;

        if (shared.own || warden_layers_off() != 0 || path_runtime("warm.sock", &path) < 0 || strlen(path) >= sizeof(address.sun_path))
                return -1;
        strcpy(address.sun_path, path);
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return -1;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != geteuid())
                return -1;
        return TAKE_FD(fd);
}

static bool is_alive(int socket)
{
        struct pollfd p = {.fd = socket};

        return socket >= 0 && poll(&p, 1, 0) == 0;
}

static int find_shared(gb_error *err)
{
        if (is_alive(shared.socket))
                return 0;
        if (shared.serves)
                return error_set(err, GB_E_LOST, EPIPE, "the warden that serves the templates has ended");
        if (shared.socket >= 0 && is_ours(&shared.process))
                warden_end(&shared.socket, &shared.process);
        shared.socket = safe_close(shared.socket);
        shared.socket = connect_shared();
        shared.owner = getpid();
        return shared.socket >= 0 ? 0 : warden_spawn(-1, &shared.socket, &shared.process, err);
}

int warden_own(gb_error *err)
{
        pthread_mutex_lock(&shared.mutex);
        shared.own = true;
        if (!is_ours(&shared.process))
                shared.socket = safe_close(shared.socket);
        int r = find_shared(err);
        pthread_mutex_unlock(&shared.mutex);
        return r;
}

bool warden_is_shared(void)
{
        pthread_mutex_lock(&shared.mutex);
        int r = find_shared(NULL);
        bool yes = r == 0 && !is_ours(&shared.process);
        pthread_mutex_unlock(&shared.mutex);
        return yes;
}

int warden_serve(int listen_fd, gb_error *err)
{
        /* Above the numbers that descriptors get in the warden. */
        _cleanup_close_ int fd = fcntl(listen_fd, F_DUPFD_CLOEXEC, 64);

        if (fd < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot duplicate a descriptor: %s", strerror(errno));
        warden_forget();
        pthread_mutex_lock(&shared.mutex);
        shared.owner = getpid();
        int r = warden_spawn(fd, &shared.socket, &shared.process, err);
        shared.serves = r == 0;
        pthread_mutex_unlock(&shared.mutex);
        return r;
}

bool warden_find_served(void)
{
        pthread_mutex_lock(&shared.mutex);
        if (!is_ours(&shared.process) && !is_alive(shared.socket)) {
                shared.socket = safe_close(shared.socket);
                shared.socket = connect_shared();
                shared.owner = getpid();
        }
        bool yes = !is_ours(&shared.process) && shared.socket >= 0;
        pthread_mutex_unlock(&shared.mutex);
        return yes;
}

bool warden_serves(void)
{
        pthread_mutex_lock(&shared.mutex);
        bool yes = is_ours(&shared.process) && is_alive(shared.socket);
        pthread_mutex_unlock(&shared.mutex);
        return yes;
}

int warden_channel(int *ret, gb_error *err)
{
        struct warden_request *request = calloc(1, sizeof(*request));
        int pair[2];

        if (!request || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
                free(request);
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket pair: %s", strerror(errno));
        }
        request->version = WARDEN_PROTOCOL_VERSION;
        request->kind = WARDEN_CHANNEL;
        request->spec.n_fds = 1;
        request->spec.fds[0].role = BOX_FD_CHANNEL;
        pthread_mutex_lock(&shared.mutex);
        int r = find_shared(err);
        if (r == 0) {
                r = message_send(shared.socket, request, sizeof(*request), &pair[1], 1);
                if (r < 0)
                        error_set(err, GB_E_LOST, -r, "the warden is gone: %s", strerror(-r));
        }
        pthread_mutex_unlock(&shared.mutex);
        free(request);
        safe_close(pair[1]);
        if (r < 0) {
                safe_close(pair[0]);
                return r;
        }
        *ret = pair[0];
        return 0;
}

bool warden_bury(void)
{
        pthread_mutex_lock(&shared.mutex);
        bool dead = shared.socket >= 0 && (!is_ours(&shared.process) || has_ended(&shared.process));
        if (dead) {
                shared.socket = safe_close(shared.socket);
                safe_close(shared.process.pidfd);
                shared.process = WARDEN_NOBODY;
        }
        pthread_mutex_unlock(&shared.mutex);
        return dead;
}

void warden_forget(void)
{
        pthread_mutex_lock(&shared.mutex);
        if (is_ours(&shared.process) && shared.owner == getpid())
                warden_end(&shared.socket, &shared.process);
        shared.socket = safe_close(shared.socket);
        shared.process = WARDEN_NOBODY;
        shared.serves = false;
        pthread_mutex_unlock(&shared.mutex);
}

/* When the process ends nothing of ours shall be left to whoever inherits its orphans. */
static __attribute__((destructor)) void forget_at_exit(void)
{
        if (shared.owner == getpid())
                warden_forget();
        keeper_end();
}

int warden_wait(int channel, uint64_t timeout_usec, struct warden_event *ret, int *fds, int *n_fds, gb_error *err)
{
        struct pollfd p = {.fd = channel, .events = POLLIN};
        uint64_t end = monotonic_usec() + timeout_usec;
        int received[BOX_FDS_MAX], n = 0, room = n_fds ? *n_fds : 0;

        for (;;) {
                uint64_t now = monotonic_usec();
                int r = now >= end ? 0 : poll(&p, 1, (int)((end - now + 999) / 1000));
                if (r < 0 && errno == EINTR)
                        continue;
                if (r <= 0)
                        return error_set(err, GB_E_LOST, ETIMEDOUT, "the warden does not answer");
                break;
        }
        ssize_t size = message_receive(channel, 0, ret, sizeof(*ret), received, &n);
        for (int i = 0; i < n; i++) {
                if (i < room)
                        fds[i] = received[i];
                else
                        safe_close(received[i]);
        }
        if (n_fds)
                *n_fds = MIN(n, room);
        if (size == -EMSGSIZE)
                return error_set(err, GB_E_UNAVAILABLE, EMFILE,
                                 "this process has no descriptors left: close sessions, or raise the limit (ulimit -n)");
        if (size != (ssize_t)sizeof(*ret) || ret->version != WARDEN_PROTOCOL_VERSION)
                return error_set(err, GB_E_LOST, EPIPE, "the warden died; what it ran is dead too, its outcome is not known");
        if (ret->kind != WARDEN_FAILED)
                return 0;
        if (err)
                *err = ret->error;
        return ret->error.errnum > 0 ? -ret->error.errnum : -EINVAL;
}
