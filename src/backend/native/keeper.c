/* SPDX-License-Identifier: Apache-2.0
 *
 *   front (root)  --fork-->  keeper (root)  --posix_spawn-->  warden (root), glovebox-hide (root until it has mounted)
 *        |                        ^
 *        | privilege_become()     | one request, one answer: a socket to a new one, and its pidfd
 *        v                        |
 *   front (ordinary) -------------'
 *
 * The keeper.
 * Should: start a warden or glovebox-hide for the front when that asks, not too many at a time; when the front is gone, remove what the front itself could not (its
 * sockets), and end.
 * Mustn't: read anything but one number from the front, open a path that came from it, outlive it, or hold any descriptor of it but the locks.
 *
 * It is forked before the front has threads and reads no configuration. A warden, as glovebox-hide, learns from its socket whom it works for: the keeper makes the
 * pair of sockets as the front's user, which the kernel notes. */
#include "backend/native/keeper.h"

#include "backend/native/admit.h"
#include "backend/native/warden.h"
#include "base/fd.h"
#include "base/message.h"
#include "hide/hide.h"
#include "kernel/privilege.h"
#include "kernel/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The requests. */
#define KEEPER_WARDEN 0x6762786bU
#define KEEPER_HIDE 0x6762786cU
#define KEEPER_MAGIC KEEPER_WARDEN /* of the answer */
#define ANSWER_MSEC 10000
#define SOCKET_FD 3 /* where the keeper has its own; what it keeps of the front's comes after it */

struct keeper_answer {
        uint32_t magic;
        int32_t errnum; /* 0: with two descriptors */
};

static int keeper_socket = -1;
static pid_t keeper_pid, keeper_owner;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- in the keeper ---- */

struct keeper {
        uid_t uid;
        gid_t gid;
        /* pidfds of live processes; fd -1 marks a free slot. One warden serves; others may be ending. */
        struct pollfd wardens[KEEPER_WARDENS_MAX], hides[KEEPER_HIDES_MAX];
};

/* A place for one more; -EAGAIN: as many as there may be live. One by one: poll() fails for more entries than RLIMIT_NOFILE, used or not. */
static int free_place(struct pollfd *all, size_t n, struct pollfd **ret)
{
        struct pollfd *place = NULL;

        for (size_t i = 0; i < n; i++) {
                if (all[i].fd >= 0 && poll(&all[i], 1, 0) < 0)
                        return -errno;
                if (all[i].fd >= 0 && all[i].revents)
                        all[i].fd = safe_close(all[i].fd);
                if (all[i].fd < 0)
                        place = &all[i];
        }
        if (!place)
                return -EAGAIN;
        *ret = place;
        return 0;
}

/* A pair of which the kernel says that the front's user made it. */
static int make_pair(const struct keeper *k, int pair[static 2])
{
        if (setegid(k->gid) < 0 || seteuid(k->uid) < 0)
                _exit(1);
        int r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ? -errno : 0;
        if (seteuid(0) < 0 || setegid(0) < 0)
                _exit(1);
        return r;
}

/* The socket is closed. */
static int spawn_hide(int socket, pid_t *ret)
{
        _cleanup_close_ int theirs = socket;
        struct helper helper;

        int r = hide_spawn(&helper, theirs, NULL);
        if (r == 0) {
                *ret = helper.pid;
                safe_close(helper.fd); /* it writes nothing */
        }
        return r;
}

static int start(struct keeper *k, uint32_t request, int *ret_socket, int *ret_pidfd)
{
        bool is_warden = request == KEEPER_WARDEN;
        struct pollfd *place;
        int pair[2];
        pid_t pid;

        int r = is_warden ? free_place(k->wardens, KEEPER_WARDENS_MAX, &place) : free_place(k->hides, KEEPER_HIDES_MAX, &place);
        if (r == 0)
                r = make_pair(k, pair);
        if (r < 0)
                return r;
        _cleanup_close_ int ours = pair[0];
        r = is_warden ? warden_spawn_at(pair[1], -1, &pid, NULL) : spawn_hide(pair[1], &pid);
        if (r < 0)
                return r;
        place->fd = (int)syscall(SYS_pidfd_open, pid, 0); /* our child keeps its number until it ends; then this call fails */
        if (place->fd < 0)
                return -errno;
        *ret_socket = TAKE_FD(ours);
        *ret_pidfd = place->fd;
        return 0;
}

/* Until the front is gone, or says something that it should not. */
static void serve(struct keeper *k)
{
        int fds[BOX_FDS_MAX], n_fds;
        uint32_t request;

        for (;;) {
                ssize_t n = message_receive(SOCKET_FD, 0, &request, sizeof(request), fds, &n_fds);
                if (n == -EINTR)
                        continue;
                for (int i = 0; n >= 0 && i < n_fds; i++)
                        safe_close(fds[i]);
                if (n != sizeof(request) || (request != KEEPER_WARDEN && request != KEEPER_HIDE) || n_fds > 0)
                        return;
                int given[2] = {-1, -1};
                struct keeper_answer answer = {.magic = KEEPER_MAGIC, .errnum = -start(k, request, &given[0], &given[1])};
                (void)message_send(SOCKET_FD, &answer, sizeof(answer), given, answer.errnum == 0 ? 2 : 0);
                safe_close(given[0]); /* the pidfd stays */
        }
}

_noreturn_ static void keeper_main(const struct separation *s, int socket)
{
        static struct keeper k;
        static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2};
        int kept[SEPARATION_FDS_MAX];
        sigset_t none;

        k.uid = s->uid;
        k.gid = s->gid;
        for (int i = 0; i < KEEPER_WARDENS_MAX; i++)
                k.wardens[i] = (struct pollfd){.fd = -1, .events = POLLIN};
        for (int i = 0; i < KEEPER_HIDES_MAX; i++)
                k.hides[i] = (struct pollfd){.fd = -1, .events = POLLIN};
        /* First above all numbers they shall get, then to those. */
        int fd = fcntl(socket, F_DUPFD, 64);
        for (size_t i = 0; i < s->n_kept; i++)
                kept[i] = fcntl(s->kept[i], F_DUPFD, 64);
        if (fd < 0 || dup3(fd, SOCKET_FD, O_CLOEXEC) < 0)
                _exit(1);
        for (size_t i = 0; i < s->n_kept; i++)
                if (kept[i] < 0 || dup3(kept[i], SOCKET_FD + 1 + (int)i, O_CLOEXEC) < 0)
                        _exit(1);
        sys_close_range(SOCKET_FD + 1 + (unsigned)s->n_kept, ~0U, 0);
        for (int i = 0; i <= STDERR_FILENO; i++) {
                int null = open("/dev/null", O_RDWR | O_CLOEXEC);
                if (null < 0 || dup2(null, i) < 0)
                        _exit(1);
                safe_close(null);
        }
        umask(0022); /* the front reads the counters of the groups that wardens make */
        setsid();
        prctl(PR_SET_NAME, "glovebox-keeper");
        prctl(PR_SET_DUMPABLE, 0);
        for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
                signal(ignored[i], SIG_IGN); /* the front judges what a signal means; its end is ours */
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (chdir("/") == 0)
                serve(&k);
        if (s->at_end)
                s->at_end(s->data);
        _exit(0);
}

/* ---- in the front ---- */

bool keeper_is_used(void)
{
        return keeper_socket >= 0;
}

int native_separated_fd(void)
{
        return keeper_socket;
}

static int start_keeper(const struct separation *s, gb_error *err)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket pair: %s", strerror(errno));
        pid_t pid = fork();
        if (pid == 0)
                keeper_main(s, pair[1]);
        safe_close(pair[1]);
        if (pid < 0) {
                safe_close(pair[0]);
                return error_set(err, GB_E_INTERNAL, errno, "cannot start the keeper: %s", strerror(errno));
        }
        keeper_socket = pair[0];
        keeper_pid = pid;
        keeper_owner = getpid();
        return 0;
}

void keeper_end(void)
{
        if (keeper_socket < 0 || keeper_owner != getpid())
                return;
        keeper_socket = safe_close(keeper_socket);
        while (waitpid(keeper_pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

int native_separate(const struct separation *s, gb_error *err)
{
        if (!privilege_is_host_root())
                return error_set(err, GB_E_UNENFORCEABLE, EPERM, "running as root without CAP_SYS_ADMIN (inside a container?): run glovebox as an ordinary user, or "
                                 "with --cap-add SYS_ADMIN");
        if (s->n_kept > SEPARATION_FDS_MAX)
                return error_set(err, GB_E_INTERNAL, E2BIG, "too many descriptors for the keeper");
        if (s->n_groups > ARRAY_SIZE(s->groups))
                return error_set(err, GB_E_INTERNAL, E2BIG, "too many groups to keep");
        warden_find_program(); /* while it can still be found */
        int r = native_host_hold();
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot look at what this host can enforce: %s", strerror(-r));
        r = start_keeper(s, err);
        if (r < 0)
                return r;
        /* Of all that runs here the front is to be killed last. Boxes do not inherit that: they come from the keeper. */
        (void)file_write_at(AT_FDCWD, "/proc/self/oom_score_adj", "-500");
        r = s->between ? s->between(s->data, err) : 0;
        if (r < 0)
                return r;
        r = privilege_become(s->uid, s->gid, s->groups, s->n_groups);
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "cannot become user %u: %s", (unsigned)s->uid, strerror(-r)) : 0;
}

static int ask(uint32_t request, int fds[static BOX_FDS_MAX], int *n_fds, struct keeper_answer *answer)
{
        struct pollfd p = {.fd = keeper_socket, .events = POLLIN};

        int r = message_send_now(keeper_socket, &request, sizeof(request), NULL, 0);
        while (r == 0) {
                int n = poll(&p, 1, ANSWER_MSEC);
                if (n > 0)
                        break;
                if (n == 0 || errno != EINTR)
                        r = n == 0 ? -ETIMEDOUT : -errno;
        }
        if (r < 0)
                return r;
        ssize_t size = message_receive(keeper_socket, MSG_DONTWAIT, answer, sizeof(*answer), fds, n_fds);
        if (size == sizeof(*answer) && answer->magic == KEEPER_MAGIC)
                return 0;
        for (int i = 0; size >= 0 && i < *n_fds; i++)
                safe_close(fds[i]);
        return size < 0 ? (int)size : -EPIPE;
}

static int have_started(uint32_t request, const char *name, int *ret_socket, int *ret_pidfd, gb_error *err)
{
        int fds[BOX_FDS_MAX], n_fds = 0;
        struct keeper_answer answer = {0};

        pthread_mutex_lock(&mutex);
        int r = ask(request, fds, &n_fds, &answer);
        pthread_mutex_unlock(&mutex);
        if (r < 0)
                return error_set(err, GB_E_UNAVAILABLE, -r, "the keeper has died (%s), so %s cannot be started: restart the server", strerror(-r), name);
        if (answer.errnum == 0 && n_fds == 2) {
                *ret_socket = fds[0];
                *ret_pidfd = fds[1];
                return 0;
        }
        for (int i = 0; i < n_fds; i++)
                safe_close(fds[i]);
        return error_set(err, GB_E_UNAVAILABLE, answer.errnum > 0 ? answer.errnum : EPROTO, "the keeper cannot start %s: %s", name,
                         answer.errnum == EAGAIN ? "the maximum number is already running" : strerror(answer.errnum > 0 ? answer.errnum : EPROTO));
}

int keeper_start_warden(int *ret_socket, int *ret_pidfd, gb_error *err)
{
        return have_started(KEEPER_WARDEN, "a warden", ret_socket, ret_pidfd, err);
}

int keeper_start_hide(int *ret_socket, int *ret_pidfd, gb_error *err)
{
        return have_started(KEEPER_HIDE, "glovebox-hide", ret_socket, ret_pidfd, err);
}
