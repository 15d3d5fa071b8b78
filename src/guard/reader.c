/* SPDX-License-Identifier: Apache-2.0
 *
 * One master for the process, started when it is first needed. What it has sent and nobody has taken yet waits in its socket: those are the readers
 * ahead. Who has taken one orders the next when it has its answer.
 *
 * A fork has none: it would share the socket, and take the sockets that others wait for. */
#include "guard/reader.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/quote.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "glovebox-reader"
#define INPUT_BYTES (64u << 10) /* to begin with; it grows for a larger item. Below what malloc() asks the kernel for each time */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned wanted_ahead = 1;
static bool asked_before; /* who asks twice asks again: only then others are made ready in advance */
static struct {
        pid_t pid; /* 0: none */
        pid_t owner;
        int fd;
        uint64_t generation;
        unsigned ahead; /* ordered, and not taken yet */
} master = {.fd = -1};

/* ---- the master ---- */

static void before_fork(void)
{
        pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
        pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
        master.fd = safe_close(master.fd);
        master.pid = 0; /* not ours to reap */
        pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
        (void)pthread_atfork(before_fork, after_fork, in_child);
}

static void lock_master(void)
{
        pthread_once(&once, watch_forks);
        pthread_mutex_lock(&lock);
        if (master.pid > 0 && master.owner != getpid()) { /* a fork that libc knows nothing of */
                master.fd = safe_close(master.fd);
                master.pid = 0;
        }
}

static void end_master(void)
{
        master.fd = safe_close(master.fd);
        if (master.pid <= 0)
                return;
        /* By itself it takes its readers along, and leaves no orphan. */
        uint64_t end = monotonic_usec() + READER_END_USEC;
        pid_t pid;
        while ((pid = waitpid(master.pid, NULL, WNOHANG)) == 0 && monotonic_usec() < end)
                usleep(READER_END_USEC / 500);
        if (pid == 0) { /* else it has ended, or somebody else has reaped it and the number is another's */
                kill(master.pid, SIGKILL);
                while (waitpid(master.pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        master.pid = 0;
}

static int spawn(const char *program, int socket, pid_t *ret)
{
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        char name[] = PROGRAM, *argv[] = {name, NULL}, *environment[] = {NULL};
        sigset_t none, all;

        sigemptyset(&none);
        sigfillset(&all);
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
        /* A group of its own: Ctrl-C is for us, and it ends with us. */
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        /* The socket first: it may be one of the three that follow. */
        int e = posix_spawn_file_actions_adddup2(&actions, socket, READER_FD);
        for (int fd = 0; e == 0 && fd < 3; fd++)
                e = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
        if (e == 0)
                e = posix_spawn(ret, program, &actions, &attributes, argv, environment);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
        return -e;
}

static int order(unsigned n)
{
        char bytes[READER_AHEAD_MAX] = {0};
        ssize_t k;

        do
                k = send(master.fd, bytes, MIN(n, READER_AHEAD_MAX), MSG_NOSIGNAL | MSG_DONTWAIT);
        while (k < 0 && errno == EINTR);
        master.ahead += k > 0 ? (unsigned)k : 0;
        return k < 0 ? -errno : 0;
}

static int start_master(gb_error *err)
{
        _cleanup_free_ char *program = NULL;
        int pair[2];

        int r = path_libexec(PROGRAM, &program);
        if (r == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                r = -errno;
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot start " PROGRAM ": %s", strerror(-r));
        master.fd = pair[0];
        r = spawn(program, pair[1], &master.pid);
        safe_close(pair[1]);
        if (r < 0) {
                master.pid = 0;
                master.fd = safe_close(master.fd);
                return error_set(err, GB_E_INTERNAL, -r, "cannot start %s: %s; it belongs to the installation (GLOVEBOX_LIBEXEC_DIR says where that is)",
                                 quote(program).text, strerror(-r));
        }
        master.owner = getpid();
        master.generation++;
        master.ahead = 0;
        (void)order(wanted_ahead);
        return 0;
}

/* Whether it has ended; then it is no more. A reader that it was just making may hold its socket open a little longer, so both are looked at. */
static bool master_is_dead(void)
{
        struct pollfd p = {.fd = master.fd};
        siginfo_t info = {0};

        bool closed = master.fd < 0 || poll(&p, 1, 0) < 0 || p.revents & (POLLHUP | POLLERR);
        if (!closed && waitid(P_PID, (id_t)master.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0)
                return false;
        end_master();
        return true;
}

/* The next socket that it sends. -EPIPE: it is gone; -ETIMEDOUT. */
static int receive_socket(uint64_t usec)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control;
        char byte;
        struct iovec iov = {.iov_base = &byte, .iov_len = 1};
        uint64_t end = monotonic_usec() + usec;

        for (;;) {
                struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
                ssize_t n = recvmsg(master.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
                const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
                int fd = -1;
                if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
                        memcpy(&fd, CMSG_DATA(c), sizeof(int));
                if (n > 0)
                        return fd >= 0 ? fd : msg.msg_flags & MSG_CTRUNC ? -EMFILE /* our own table was full */ : -EBADMSG;
                if (n == 0 || (errno != EAGAIN && errno != EINTR))
                        return -EPIPE;
                uint64_t now = monotonic_usec();
                struct pollfd p = {.fd = master.fd, .events = POLLIN};
                if (now >= end)
                        return -ETIMEDOUT;
                (void)poll(&p, 1, (int)((end - now) / 1000) + 1);
        }
}

/* A reader's socket, and which master it is of. */
static int take_reader(uint64_t *ret_generation, gb_error *err)
{
        int fd = -EPIPE, r = 0;

        lock_master();
        for (int i = 0; i < 2 && fd == -EPIPE && r == 0; i++) {
                /* Mostly one waits, and nothing else has to be looked at: if its master is gone, it is gone as well, and that shows. */
                fd = master.pid > 0 && master.ahead > 0 ? receive_socket(0) : -ETIMEDOUT;
                if (fd == -ETIMEDOUT || fd == -EPIPE) {
                        if (master_is_dead())
                                r = start_master(err);
                        if (r < 0)
                                break;
                        if (master.ahead == 0)
                                (void)order(1);
                        fd = receive_socket(READER_READY_USEC);
                }
                if (fd == -EPIPE || fd == -ETIMEDOUT)
                        end_master(); /* gone, or of no use to anybody */
                else if (fd >= 0 || fd == -EMFILE)
                        master.ahead -= master.ahead > 0;
        }
        *ret_generation = master.generation;
        pthread_mutex_unlock(&lock);
        if (r == 0 && fd < 0)
                return error_set(err, fd == -EMFILE ? GB_E_UNAVAILABLE : GB_E_INTERNAL, -fd, "no reader for the code could be had: %s", strerror(-fd));
        return r < 0 ? r : fd;
}

/* For the next who asks; behind an answer, so that it takes no processor from who gives one. Most commands ask once: the master then ends while the code runs, and
 * nobody waits for it later. */
static void order_next(void)
{
        lock_master();
        bool single = !asked_before && wanted_ahead == 1;
        if (single)
                master.fd = safe_close(master.fd);
        else if (master.pid > 0 && master.ahead < wanted_ahead)
                (void)order(wanted_ahead - master.ahead);
        asked_before = true;
        pthread_mutex_unlock(&lock);
}

void reader_prepare(unsigned ahead)
{
        lock_master();
        if (master.fd < 0) {
                end_master();
                wanted_ahead = ahead < 1 ? 1 : MIN(ahead, READER_AHEAD_MAX);
                (void)start_master(NULL); /* who asks is told */
        }
        pthread_mutex_unlock(&lock);
}

void reader_forget(void)
{
        lock_master();
        end_master();
        pthread_mutex_unlock(&lock);
}

/* It would end by itself, but as an orphan. */
static __attribute__((destructor)) void at_exit(void)
{
        reader_forget();
}

/* ---- a question ---- */

struct question {
        int fd;
        uint64_t end_usec;
        struct reader_request request;
        const char *code;
        size_t sent, to_send; /* of request and code together */
        char *input;
        size_t used, allocated;
        uint32_t n_items;
        uint64_t bytes;
        bool heard; /* anything at all */
        void (*take)(void *data, const struct reader_item *item);
        void (*meanwhile)(void *data); /* NULL: done */
        void *data;
};

/* 0, or a negative errno when it goes no further. */
static int send_some(struct question *q)
{
        size_t head = sizeof(q->request), from = q->sent < head ? head : q->sent, done = q->sent < head ? q->sent : head;
        struct iovec iov[2] = {
                {.iov_base = (char *)&q->request + done, .iov_len = head - done},
                {.iov_base = (char *)(uintptr_t)q->code + (from - head), .iov_len = q->to_send - from},
        };
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

        ssize_t n = sendmsg(q->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        q->sent += (size_t)n;
        return 0;
}

static bool is_sound(const struct question *q, const struct reader_answer *a)
{
        if (a->kind == READER_END)
                return a->size <= 1;
        return a->kind <= READER_CALL && a->line > 0 && a->column > 0 && a->size > 0 && q->n_items < READER_ITEMS_MAX &&
               q->bytes + a->size <= READER_ANSWER_BYTES_MAX;
}

/* Items that have come as a whole. -EAGAIN: more must come; 0 or 1: the end; -EBADMSG. *need: bytes of the next. */
static int take_items(struct question *q, size_t *need)
{
        size_t at = 0;
        int r = -EAGAIN;

        *need = sizeof(struct reader_answer);
        while (r == -EAGAIN && q->used - at >= sizeof(struct reader_answer)) {
                struct reader_answer a;
                memcpy(&a, q->input + at, sizeof(a));
                if (!is_sound(q, &a)) {
                        r = -EBADMSG;
                } else if (a.kind == READER_END) {
                        r = (int)a.size;
                } else if (q->used - at - sizeof(a) < a.size) {
                        *need = sizeof(a) + a.size;
                        break;
                } else {
                        struct reader_item item = {.kind = (enum reader_kind)a.kind, .line = a.line, .column = a.column};
                        item.text = q->input + at + sizeof(a);
                        item.size = a.size;
                        q->n_items++;
                        q->bytes += a.size;
                        q->take(q->data, &item);
                        at += sizeof(a) + a.size;
                }
        }
        memmove(q->input, q->input + at, q->used - at);
        q->used -= at;
        return r;
}

static int receive_some(struct question *q)
{
        size_t need;

        ssize_t n = recv(q->fd, q->input + q->used, q->allocated - q->used, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return -EAGAIN;
        if (n <= 0)
                return -EPIPE;
        q->heard = true;
        q->used += (size_t)n;
        int r = take_items(q, &need);
        if (r == -EAGAIN && need > q->allocated) {
                char *grown = realloc(q->input, need);
                if (!grown)
                        return -ENOMEM;
                q->input = grown;
                q->allocated = need;
        }
        return r;
}

static void do_meanwhile(struct question *q)
{
        if (q->meanwhile)
                q->meanwhile(q->data);
        q->meanwhile = NULL;
}

/* Most answers are there sooner than a sleeper could be woken: so we look for a moment, and let others run who want to. -EAGAIN: it takes longer. */
static int look_out(struct question *q)
{
        uint64_t end = monotonic_usec() + READER_LOOK_USEC;
        int r;

        while ((r = receive_some(q)) == -EAGAIN && monotonic_usec() < end)
                sched_yield();
        return r;
}

/* 0 or 1 as the reader says; negative: it did not come to its end. */
static int talk(struct question *q)
{
        for (;;) {
                uint64_t now = monotonic_usec();
                int r = q->sent < q->to_send ? send_some(q) : 0;
                struct pollfd p = {.fd = q->fd, .events = (short)(POLLIN | (q->sent < q->to_send ? POLLOUT : 0))};

                if (now >= q->end_usec)
                        return -ETIMEDOUT;
                if (r < 0)
                        return r;
                do_meanwhile(q);
                if (q->sent == q->to_send && (r = look_out(q)) != -EAGAIN)
                        return r;
                if (poll(&p, 1, (int)((q->end_usec - now) / 1000) + 1) < 0 && errno != EINTR)
                        return -errno;
                r = p.revents & (POLLIN | POLLHUP | POLLERR) ? receive_some(q) : -EAGAIN;
                if (r != -EAGAIN)
                        return r;
        }
}

/* Whether that reader ended because its master has: readers are ended first, so that may show a moment later. */
static bool has_lost_master(uint64_t generation)
{
        uint64_t end = monotonic_usec() + READER_LOST_USEC;
        bool lost;

        do {
                lock_master();
                lost = master.generation != generation || master_is_dead();
                pthread_mutex_unlock(&lock);
                if (!lost)
                        usleep(READER_LOST_USEC / 10);
        } while (!lost && monotonic_usec() < end);
        return lost;
}

int reader_ask_meanwhile(const char *code, size_t size, void (*take)(void *data, const struct reader_item *item), void (*meanwhile)(void *data), void *data,
                         gb_error *err)
{
        struct question q = {.code = code, .take = take, .meanwhile = meanwhile, .data = data, .allocated = INPUT_BYTES};
        bool lost = true;
        int r = -EPIPE;

        if (size > READER_CODE_BYTES_MAX) {
                do_meanwhile(&q);
                return 1;
        }
        q.end_usec = monotonic_usec() + READER_ANSWER_USEC;
        q.request = (struct reader_request){.magic = READER_MAGIC, .size = (uint32_t)size};
        q.to_send = sizeof(q.request) + size;
        _cleanup_free_ char *input = malloc(INPUT_BYTES);
        if (!input)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot look at the code: out of memory");
        for (int i = 0; i < 2 && lost; i++) {
                uint64_t generation;
                _cleanup_close_ int fd = take_reader(&generation, err);
                if (fd < 0)
                        return fd;
                q.fd = fd;
                q.input = TAKE_PTR(input);
                q.sent = q.used = 0;
                r = talk(&q);
                input = q.input;
                /* Nothing was heard, so nothing is told twice. */
                lost = r < 0 && r != -ETIMEDOUT && !q.heard && has_lost_master(generation);
        }
        do_meanwhile(&q);
        order_next();
        if (lost)
                return error_set(err, GB_E_UNAVAILABLE, EAGAIN, "no reader for the code stays alive: there are too many processes, or too little memory");
        if (r == -ENOMEM) /* ours: that says nothing about the code */
                return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot look at the code: out of memory");
        return r == 0 ? 0 : 1;
}

int reader_ask(const char *code, size_t size, void (*take)(void *data, const struct reader_item *item), void *data, gb_error *err)
{
        return reader_ask_meanwhile(code, size, take, NULL, data, err);
}
