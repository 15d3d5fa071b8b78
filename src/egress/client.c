/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation. There is one proxy for each process. It is started by the first box that needs it, and stays until this process ends: then its socket has an
 * end, and so has it; a process that returns from main() waits for that. Each order is sent and its answer waited for with the lock; a proxy that does not answer in
 * time, or answers something else, is ended.
 *
 * Everything that a proxy is told of a box is kept here, too: where its connections come from, its rules, its ledger. So a proxy that has died is started again and
 * told everything again, by a thread that waits for its death (one for each proxy that was started, known by its number), after a pause that grows, or by the next
 * order, at once. Meanwhile connections wait in the backlog of their listeners, and nobody inside can take the port. When it cannot be started again and again, the
 * listeners are closed: nothing waits for ever. */
#include "egress/client.h"

#include "base/fd.h"
#include "base/message.h"
#include "base/path.h"
#include "base/quote.h"
#include "egress/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "glovebox-egress"
#ifndef ANSWER_USEC /* its test is in more of a hurry */
#define ANSWER_USEC 10000000ULL  /* for an order */
#define PAUSE_MAX_USEC 2000000ULL
#endif
#define HEALTHY_USEC 60000000ULL /* a proxy that lived so long did not die of how it was started */
#define PAUSE_FIRST_USEC 50000ULL
#define FAILURES_MAX 5 /* starts in a row; then listeners are closed */
#define FAULTS_MAX 2   /* of those, for one box */
#define WATCHER_STACK_BYTES (128 * KIB)

struct egress_box {
        uint64_t id;
        int rules_fd, ledger_fd, authority_fd; /* authority_fd -1: none */
        int source_fd;   /* -1: none yet, or closed for good */
        uint64_t given;  /* the number of the proxy that has it */
        unsigned faults; /* proxies that died while they were told of it */
        atomic_bool lost; /* its source was closed, because nobody serves it */
        struct ledger *ledger;
        bool listed;
        LIST_ENTRY(egress_box) entry;
};

/* A file by which it is seen that it is another now. */
struct mark {
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec changed;
};

static const char *const resolver_files[] = {"/etc/resolv.conf", "/etc/hosts"};

LIST_HEAD(egress_boxes, egress_box);
static struct {
        pthread_mutex_t lock; /* of all that follows */
        pid_t pid;            /* 0: none runs */
        int pidfd;
        pid_t owner;          /* who has started it: a child that was forked is not */
        int socket;
        uint64_t number;      /* of those that were started */
        uint64_t started_usec;
        unsigned deaths;      /* soon after a start */
        unsigned failures;    /* starts in a row */
        bool has_run;         /* one that was told of everything */
        bool has_roots;
        bool told;  /* it was told something, */
        bool owes;  /* and has not answered yet */
        /* Found once, by who needs it first: a thread of ours must not look at the environment, which is the program's to change. */
        char *program;
        int roots_fd;
        struct mark resolver[ARRAY_SIZE(resolver_files)];
        uint64_t last_id;
        unsigned n_boxes;
        struct egress_boxes boxes;
} proxy = {.lock = PTHREAD_MUTEX_INITIALIZER, .socket = -1, .pidfd = -1, .roots_fd = -1};

/* For those who do not wait for the lock. */
static _Atomic int running_pid;
static _Atomic unsigned restarts;

int egress_pid(void)
{
        return atomic_load(&running_pid);
}

unsigned egress_restarts(void)
{
        return atomic_load(&restarts);
}

/* ---- small things ---- */

static int sealed_memory(const char *name, const void *bytes, size_t size)
{
        _cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0)
                return -errno;
        int r = fd_write_all(fd, bytes, size);
        if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
                r = -errno;
        return r < 0 ? r : TAKE_FD(fd);
}

static struct mark mark_of(const char *path)
{
        struct stat st;

        if (stat(path, &st) < 0)
                return (struct mark){0};
        return (struct mark){st.st_dev, st.st_ino, st.st_size, st.st_mtim};
}

static bool is_same(const struct mark *a, const struct mark *b)
{
        return a->device == b->device && a->inode == b->inode && a->size == b->size && a->changed.tv_sec == b->changed.tv_sec &&
               a->changed.tv_nsec == b->changed.tv_nsec;
}

/* ---- the process; all of this with the lock ---- */

/* One that died soon makes the next pause longer. */
static void count_death(void)
{
        bool healthy = proxy.started_usec > 0 && monotonic_usec() - proxy.started_usec >= HEALTHY_USEC;

        proxy.deaths = healthy ? 1 : proxy.deaths + 1;
}

static void end_process(void)
{
        if (proxy.pid == 0)
                return;
        atomic_store(&running_pid, 0);
        (void)syscall(SYS_pidfd_send_signal, proxy.pidfd, SIGKILL, NULL, 0); /* not by its number: somebody else in this program may have reaped it */
        proxy.pidfd = safe_close(proxy.pidfd);
        while (waitpid(proxy.pid, NULL, 0) < 0 && errno == EINTR)
                ;
        proxy.pid = 0;
        proxy.socket = safe_close(proxy.socket);
        count_death();
}

/* It would end by itself, but the process that then reaps it may be one that never does. The lock stays: nobody starts another. */
__attribute__((destructor)) static void end_at_exit(void)
{
        if (proxy.owner == getpid() && pthread_mutex_trylock(&proxy.lock) == 0)
                end_process();
}

static int spawn(int socket, gb_error *err)
{
        char *environment[] = {NULL};
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t none, all;

        int e = proxy.program ? 0 : -path_libexec(PROGRAM, &proxy.program);
        if (e != 0)
                return error_set(err, GB_E_UNENFORCEABLE, e, "cannot start " PROGRAM ": %s", strerror(e));
        sigemptyset(&none);
        sigfillset(&all);
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
        /* A group of its own: Ctrl-C is for us. */
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        e = posix_spawn_file_actions_adddup2(&actions, socket, EGRESS_SOCKET_FD); /* first: it may be one of the others */
        for (int i = 0; e == 0 && i < EGRESS_SOCKET_FD; i++)
                e = posix_spawn_file_actions_addopen(&actions, i, "/dev/null", i == 0 ? O_RDONLY : O_WRONLY, 0);
        if (e == 0)
                e = posix_spawn_file_actions_addclosefrom_np(&actions, EGRESS_SOCKET_FD + 1);
        if (e == 0)
                e = posix_spawn(&proxy.pid, proxy.program, &actions, &attributes, (char *[]){proxy.program, NULL}, environment);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
        if (e == 0) {
                proxy.pidfd = (int)syscall(SYS_pidfd_open, proxy.pid, 0);
                if (proxy.pidfd >= 0)
                        return 0;
                /* Without it neither its end could be seen nor could it be ended later. */
                e = errno;
                kill(proxy.pid, SIGKILL);
                while (waitpid(proxy.pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        proxy.pid = 0;
        return error_set(err, GB_E_UNENFORCEABLE, e, "cannot start %s: %s; it belongs to the installation (GLOVEBOX_LIBEXEC_DIR says where that is)",
                         quote(proxy.program).text, strerror(e));
}

/* ---- orders ---- */

static int wait_for_answer(struct egress_answer *ret)
{
        uint64_t end_usec = monotonic_usec() + ANSWER_USEC;
        int fds[BOX_FDS_MAX], n_fds = 0;

        for (;;) {
                uint64_t now = monotonic_usec();
                struct pollfd ready = {proxy.socket, POLLIN, 0};
                int n = now < end_usec ? poll(&ready, 1, (int)((end_usec - now) / 1000 + 1)) : 0;
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -ETIMEDOUT;
                ssize_t size = message_receive(proxy.socket, MSG_DONTWAIT, ret, sizeof(*ret), fds, &n_fds);
                for (int i = 0; i < n_fds; i++)
                        safe_close(fds[i]);
                if (size == -EAGAIN)
                        continue;
                if (size < 0)
                        return (int)size;
                return size == 0 ? -EPIPE : size == sizeof(*ret) && n_fds == 0 ? 0 : -EBADMSG;
        }
}

/* 0; 1: it was refused, and err says why; or a negative errno: the proxy has been ended. */
static int ask(uint32_t kind, const struct egress_box *b, const int *fds, int n_fds, gb_error *err)
{
        struct egress_order order = {
                .version = EGRESS_PROTOCOL_VERSION, .kind = kind, .box = b ? b->id : 0,
                .flags = kind == EGRESS_ORDER_BOX && b->authority_fd >= 0 ? EGRESS_BOX_AUTHORITY : 0,
        };
        struct egress_answer answer = {0};
        bool at_once = kind == EGRESS_ORDER_RESOLVER && !proxy.told;

        int r = proxy.pid == 0 ? -ESRCH : message_send_now(proxy.socket, &order, sizeof(order), fds, n_fds);
        /* The first one is not waited for: meanwhile the proxy comes up, and the box is built. */
        if (r == 0 && at_once) {
                proxy.told = true;
                proxy.owes = true;
                return 0;
        }
        if (r == 0 && proxy.owes) {
                r = wait_for_answer(&answer);
                if (r == 0 && (answer.kind != EGRESS_ORDER_RESOLVER || answer.error.code != GB_E_NONE))
                        r = -EBADMSG;
                proxy.owes = false;
        }
        if (r == 0)
                r = wait_for_answer(&answer);
        if (r == 0 && (answer.version != order.version || answer.kind != order.kind || answer.box != order.box))
                r = -EBADMSG;
        if (r < 0) {
                end_process();
                return error_set(err, GB_E_UNENFORCEABLE, -r, PROGRAM " does not answer as it should (%s): it was ended, and is started again when it is needed",
                                 strerror(-r));
        }
        if (answer.error.code == GB_E_NONE)
                return 0;
        answer.error.message[sizeof(answer.error.message) - 1] = '\0';
        if (err)
                *err = answer.error;
        return 1;
}

static int send_resolver(gb_error *err)
{
        _cleanup_close_ int config = -1, hosts = -1;
        int *const fds[] = {&config, &hosts};
        struct mark marks[ARRAY_SIZE(resolver_files)];

        for (size_t i = 0; i < ARRAY_SIZE(resolver_files); i++) {
                _cleanup_close_ int fd = open(resolver_files[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
                _cleanup_free_ char *text = NULL;
                size_t size = 0;
                marks[i] = mark_of(resolver_files[i]); /* before it is read: a change meanwhile is seen the next time */
                int r = fd < 0 ? -errno : fd_read_all(fd, EGRESS_RESOLVER_BYTES_MAX, &text, &size);
                /* A host without such a file resolves nothing by it. */
                if (r < 0 && r != -ENOENT)
                        return error_set(err, GB_E_UNENFORCEABLE, -r, "cannot read %s, by which names are resolved: %s", resolver_files[i], strerror(-r));
                *fds[i] = sealed_memory("glovebox-resolver", text ? text : "", size);
                if (*fds[i] < 0)
                        return error_set(err, GB_E_INTERNAL, -*fds[i], "out of memory, or of descriptors");
        }
        int r = ask(EGRESS_ORDER_RESOLVER, NULL, (int[]){config, hosts}, 2, err);
        if (r == 0)
                memcpy(proxy.resolver, marks, sizeof(marks));
        return r;
}

static int refresh_resolver(gb_error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(resolver_files); i++) {
                struct mark now = mark_of(resolver_files[i]);
                if (!is_same(&now, &proxy.resolver[i]))
                        return send_resolver(err);
        }
        return 0;
}

/* 0 or 1: the proxy is as good as it was. */
static int find_roots(gb_error *err)
{
        _cleanup_buffer_ struct buffer roots = {0};

        if (egress_read_roots(&roots, err) < 0)
                return 1;
        int fd = sealed_memory("glovebox-roots", roots.data, roots.size);
        if (fd < 0)
                (void)error_set(err, GB_E_INTERNAL, -fd, "out of memory, or of descriptors");
        proxy.roots_fd = MAX(fd, -1);
        return fd < 0;
}

static int send_roots(gb_error *err)
{
        int r = proxy.roots_fd >= 0 ? 0 : find_roots(err);

        if (r == 0)
                r = ask(EGRESS_ORDER_ROOTS, NULL, &proxy.roots_fd, 1, err);
        proxy.has_roots |= r == 0;
        return r;
}

/* Tells of a box that has a source. */
static int give(struct egress_box *b, gb_error *err)
{
        const int fds[] = {b->rules_fd, b->ledger_fd, b->source_fd, b->authority_fd};

        if (b->source_fd < 0) /* lost when all were told */
                return 1;
        if (b->given == proxy.number && proxy.pid > 0)
                return 0; /* with all the others, when it was started */
        int r = b->authority_fd >= 0 && !proxy.has_roots ? send_roots(err) : 0;
        if (r == 0)
                r = ask(EGRESS_ORDER_BOX, b, fds, b->authority_fd >= 0 ? 4 : 3, err);
        if (r == 0)
                b->given = proxy.number;
        return r;
}

static void lose(struct egress_box *b)
{
        b->source_fd = safe_close(b->source_fd);
        atomic_store(&b->lost, true);
}

/* ---- starting it ---- */

struct watcher {
        int pidfd, socket; /* its own copies: ours may be closed at any time */
        uint64_t number;
};

static void watcher_free(struct watcher *w)
{
        safe_close(w->pidfd);
        safe_close(w->socket);
        free(w);
}
DEFINE_CLEANUP(struct watcher, watcher_free)

static void *watch(void *data);

/* No signal of the program is ever delivered to it. */
static int start_watcher(void)
{
        _cleanup_(watcher_free_ptr) struct watcher *w = calloc(1, sizeof(*w));
        pthread_attr_t attributes;
        sigset_t all, before;
        pthread_t thread;

        if (!w)
                return -ENOMEM;
        *w = (struct watcher){.pidfd = fcntl(proxy.pidfd, F_DUPFD_CLOEXEC, 0), .socket = -1, .number = proxy.number};
        if (w->pidfd < 0)
                return -errno;
        w->socket = fcntl(proxy.socket, F_DUPFD_CLOEXEC, 0);
        if (w->socket < 0)
                return -errno;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attributes, WATCHER_STACK_BYTES);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int e = pthread_create(&thread, &attributes, watch, w);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        if (e == 0)
                (void)TAKE_PTR(w);
        return -e;
}

static int launch(gb_error *err)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, GB_E_UNENFORCEABLE, errno, "cannot make a socket for " PROGRAM ": %s", strerror(errno));
        proxy.started_usec = 0;
        int r = spawn(pair[1], err);
        safe_close(pair[1]);
        if (r < 0) {
                safe_close(pair[0]);
                count_death();
                return r;
        }
        proxy.socket = pair[0];
        proxy.owner = getpid();
        proxy.number++;
        proxy.has_roots = proxy.told = proxy.owes = false;
        proxy.started_usec = monotonic_usec();
        r = start_watcher();
        if (r < 0) {
                end_process();
                return error_set(err, GB_E_UNENFORCEABLE, -r, "cannot watch " PROGRAM ": %s", strerror(-r));
        }
        atomic_store(&running_pid, proxy.pid);
        return 0;
}

/* Tells a new one of everything. What it refuses of a box concerns nobody else. */
static int tell_all(gb_error *err)
{
        struct egress_box *b;

        int r = send_resolver(err);
        if (r != 0)
                return r < 0 ? r : -EIO;
        LIST_FOREACH(b, &proxy.boxes, entry) {
                /* cppcheck-suppress uninitvar */
                r = b->source_fd >= 0 ? give(b, err) : 0;
                /* One by which they die is not to take the others with it. */
                if (r == 1 || (r < 0 && ++b->faults >= FAULTS_MAX))
                        lose(b);
                if (r < 0)
                        return r;
                b->faults = 0;
        }
        return 0;
}

/* Makes sure that one runs, and knows all boxes. */
static int start(gb_error *err)
{
        if (proxy.pid > 0)
                return 0;
        int r = launch(err);
        if (r == 0)
                r = tell_all(err);
        if (r < 0)
                end_process();
        proxy.failures = r < 0 ? proxy.failures + 1 : 0;
        if (r == 0 && proxy.has_run)
                atomic_fetch_add(&restarts, 1);
        proxy.has_run |= r == 0;
        return r;
}

/* ---- starting it again ---- */

static uint64_t pause_usec(void)
{
        uint64_t pause = PAUSE_FIRST_USEC;

        if (proxy.deaths <= 1)
                return 0;
        for (unsigned i = 2; i < proxy.deaths && pause < PAUSE_MAX_USEC; i++)
                pause *= 2;
        return MIN(pause, (uint64_t)PAUSE_MAX_USEC);
}

static bool has_sources(void)
{
        struct egress_box *b;

        LIST_FOREACH(b, &proxy.boxes, entry)
                if (b->source_fd >= 0)
                        return true;
        return false;
}

static void lose_all(void)
{
        struct egress_box *b;

        LIST_FOREACH(b, &proxy.boxes, entry)
                if (b->source_fd >= 0)
                        lose(b);
}

/* After the death of that one, unless there is another meanwhile, which has its own watcher. */
static void revive(uint64_t number)
{
        while (proxy.pid == 0 && proxy.number == number && has_sources()) {
                if (proxy.failures >= FAILURES_MAX) {
                        lose_all();
                        return;
                }
                uint64_t pause = pause_usec();
                struct timespec time = {.tv_sec = (time_t)(pause / 1000000), .tv_nsec = (long)(pause % 1000000) * 1000};
                pthread_mutex_unlock(&proxy.lock);
                (void)nanosleep(&time, NULL);
                pthread_mutex_lock(&proxy.lock);
                if (proxy.pid == 0 && proxy.number == number)
                        (void)start(NULL);
        }
}

static void *watch(void *data)
{
        _cleanup_(watcher_free_ptr) struct watcher *w = data;
        struct pollfd ends[] = {{w->pidfd, POLLIN, 0}, {w->socket, 0, 0}}; /* what can be read there are answers */

        while (poll(ends, ARRAY_SIZE(ends), -1) <= 0)
                ;
        pthread_mutex_lock(&proxy.lock);
        if (proxy.number == w->number) {
                end_process();
                revive(w->number);
        }
        pthread_mutex_unlock(&proxy.lock);
        return NULL;
}

/* ---- boxes ---- */

/* One step for a box, by a proxy that is started for it if there is none, and once more by a new one when that dies meanwhile. 0, or a negative errno. */
static int try_step(int (*step)(struct egress_box *b, gb_error *err), struct egress_box *b, gb_error *err)
{
        int r = -ESRCH;

        for (int i = 0; i < 2 && r < 0 && r != -ETIMEDOUT; i++) {
                r = start(err);
                r = r < 0 ? r : step(b, err);
        }
        return r == 1 ? -EIO : r;
}

/* A proxy that may take boxes: it has the roots, too, should this one need them. */
static int prepare(struct egress_box *b, gb_error *err)
{
        int r = refresh_resolver(err);

        return r == 0 && b->authority_fd >= 0 && !proxy.has_roots ? send_roots(err) : r;
}

static int send_rules(struct egress_box *b, gb_error *err)
{
        return b->source_fd >= 0 ? ask(EGRESS_ORDER_RULES, b, &b->rules_fd, 1, err) : 0;
}

static int enter(struct egress_box *b, gb_error *err)
{
        if (proxy.n_boxes >= EGRESS_BOXES_MAX)
                return error_set(err, GB_E_LIMIT, ENOSPC, "%d boxes with an allowlist are there, which is the most: end one", EGRESS_BOXES_MAX);
        int r = try_step(prepare, b, err);
        if (r < 0)
                return r;
        b->id = ++proxy.last_id;
        b->listed = true;
        LIST_INSERT_HEAD(&proxy.boxes, b, entry);
        proxy.n_boxes++;
        return 0;
}

/* Takes the block: what it holds is then nowhere else in our memory. */
static int take_rules(struct buffer *rules, gb_error *err)
{
        if (!egress_rules_valid(rules->data, rules->size)) {
                buffer_done(rules);
                return error_set(err, GB_E_INTERNAL, EINVAL, "the rules of the network are not valid");
        }
        int fd = sealed_memory("glovebox-rules", rules->data, rules->size);
        buffer_done(rules);
        return fd < 0 ? error_set(err, GB_E_INTERNAL, -fd, "cannot keep the rules of the network: %s", strerror(-fd)) : fd;
}

int egress_box_new(struct buffer *rules, const struct buffer *authority, struct egress_box **ret, gb_error *err)
{
        _cleanup_(egress_box_free_ptr) struct egress_box *b = calloc(1, sizeof(*b));

        if (!b) {
                buffer_done(rules);
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        *b = (struct egress_box){.rules_fd = -1, .ledger_fd = -1, .authority_fd = -1, .source_fd = -1};
        b->rules_fd = take_rules(rules, err);
        if (b->rules_fd < 0)
                return b->rules_fd;
        int r = ledger_new(&b->ledger_fd, &b->ledger);
        if (r == 0 && authority) {
                b->authority_fd = sealed_memory("glovebox-authority", authority->data, authority->size);
                r = MIN(b->authority_fd, 0);
        }
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot make the ledger of a network: %s", strerror(-r));
        pthread_mutex_lock(&proxy.lock);
        r = enter(b, err);
        pthread_mutex_unlock(&proxy.lock);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(b);
        return 0;
}

int egress_box_attach(struct egress_box *b, int source_fd, gb_error *err)
{
        int r;

        pthread_mutex_lock(&proxy.lock);
        if (b->source_fd >= 0 || b->lost || !b->listed) {
                safe_close(source_fd);
                r = error_set(err, GB_E_INTERNAL, EALREADY, "the box has had a source of connections already");
        } else {
                b->source_fd = source_fd;
                r = try_step(give, b, err);
                if (r < 0)
                        lose(b);
        }
        pthread_mutex_unlock(&proxy.lock);
        return r;
}

int egress_box_change(struct egress_box *b, struct buffer *rules, gb_error *err)
{
        int r = 0, fd = take_rules(rules, err);

        if (fd < 0)
                return fd;
        pthread_mutex_lock(&proxy.lock);
        int before = b->rules_fd;
        if (b->lost || !b->listed) {
                r = error_set(err, GB_E_LOST, ENOTCONN, "the box has no network any more, because its proxy could not be started again: open a new session");
        } else {
                b->rules_fd = fd;
                r = try_step(send_rules, b, err);
        }
        /* What was refused is not told to the next one. */
        b->rules_fd = r < 0 ? before : fd;
        safe_close(r < 0 ? fd : before);
        pthread_mutex_unlock(&proxy.lock);
        return r;
}

void egress_refresh(void)
{
        pthread_mutex_lock(&proxy.lock);
        if (proxy.pid > 0)
                (void)refresh_resolver(NULL); /* then it resolves as before */
        pthread_mutex_unlock(&proxy.lock);
}

const struct ledger *egress_box_ledger(const struct egress_box *b)
{
        return b->ledger;
}

bool egress_box_is_served(const struct egress_box *b)
{
        return !atomic_load(&b->lost);
}

void egress_box_end(struct egress_box *b)
{
        pthread_mutex_lock(&proxy.lock);
        if (b->listed) {
                LIST_REMOVE(b, entry);
                proxy.n_boxes--;
                b->listed = false;
                /* One that does not answer is ended, and with it what it had of this box. */
                if (proxy.pid > 0 && b->given == proxy.number)
                        (void)ask(EGRESS_ORDER_GONE, b, NULL, 0, NULL);
        }
        b->source_fd = safe_close(b->source_fd);
        pthread_mutex_unlock(&proxy.lock);
}

void egress_box_free(struct egress_box *b)
{
        if (!b)
                return;
        egress_box_end(b);
        safe_close(b->rules_fd);
        safe_close(b->ledger_fd);
        safe_close(b->authority_fd);
        ledger_unmap(b->ledger);
        free(b);
}
