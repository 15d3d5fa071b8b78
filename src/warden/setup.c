/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that builds a box. The warden cloned it into fresh user, mount, net, ipc and uts
 * namespaces; it has every capability there and none outside. Its life:
 *
 *   waits until the warden has written the uid and gid map, takes that identity
 *   unshares the pid and cgroup namespaces
 *   clones init, which mounts /proc and locks itself in, and the program, which locks itself in
 *   attaches an empty root directory                        (all of this may happen ahead)
 *   waits for the order: what to build, what to run
 *   makes the socket that listens for the proxy, when there is one, and sends it out
 *   builds the root directory, pivots into it, and init and the program with it
 *   sets the program's limits, makes its Landlock ruleset, gives up its own capabilities
 *   waits until the warden has claimed the program, tells it to go, and ends
 *
 * Init and the program are cloned as children of the warden (CLONE_PARENT), which gets their pidfds.
 *
 * Should: check the payload's bounds before using it. Mustn't: still hold a capability when the
 * program is told to go. No user code runs before that, so whatever it reports is true. */
#include "warden/setup.h"

#include "base/fd.h"
#include "base/message.h"
#include "kernel/landlock.h"
#include "kernel/mount.h"
#include "kernel/privilege.h"
#include "kernel/sys.h"
#include "runner/runner.h"
#include "warden/payload.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ROOT_SIZE_BYTES (BOX_PAYLOAD_MAX + 1 * MIB)
#define ROOT_INODES 1024
#define SETUP_SOCKET_FD 3 /* in the place of the warden's socket to the front */

_noreturn_ void setup_fail(const struct setup *s, int code, int errnum, const char *format, ...)
{
        struct setup_frame frame = {.kind = SETUP_FAILED, .error = {.code = code, .errnum = errnum}};

        va_list ap;
        va_start(ap, format);
        vsnprintf(frame.error.message, sizeof(frame.error.message), format, ap);
        va_end(ap);
        message_send(s->socket, &frame, sizeof(frame), NULL, 0);
        _exit(1);
}

/* A step that failed for a reason no policy can change. */
void setup_check(const struct setup *s, int r, const char *what)
{
        if (r < 0)
                setup_fail(s, GB_E_UNENFORCEABLE, -r, "cannot %s: %s", what, strerror(-r));
}

static void send_frame(const struct setup *s, uint32_t kind, uint32_t value, const int *fds, int n_fds)
{
        struct setup_frame frame = {.kind = kind, .value = value};

        if (message_send(s->socket, &frame, sizeof(frame), fds, n_fds) < 0)
                _exit(1);
}

/* ---- ahead of any order ---- */

static void take_identity(const struct setup *s)
{
        char go;

        /* The warden writes our maps, then one byte; it closes the socket when it could not. */
        if (read(s->socket, &go, 1) != 1)
                _exit(1);
        setup_check(s, negative(setresgid(s->gid, s->gid, s->gid)), "take the box's group");
        setup_check(s, negative(setresuid(s->uid, s->uid, s->uid)), "take the box's user");
        setup_check(s, negative(sethostname("glovebox", 8)), "set the box's host name");
}

/* Objects that the kernel counts for each user, up to the user who made the namespace: a box must not use
 * up what its maker has. And nobody inside makes further namespaces, whatever the filter lets through: who has no
 * capability needs a user namespace for any other. The
 * files belong to our user namespace; where /proc/sys is read-only (in a container) they stay as they are. */
void setup_lower_user_limits(int proc)
{
        static const char *const limits[][2] = {
                {"max_inotify_instances", "16"}, {"max_inotify_watches", "16384"}, {"max_fanotify_groups", "0"}, {"max_user_namespaces", "0"},
        };
        _cleanup_close_ int dir = openat(proc, "sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC);

        for (size_t i = 0; dir >= 0 && i < ARRAY_SIZE(limits); i++)
                (void)file_write_at(dir, limits[i][0], limits[i][1]);
}

static int namespaces[FORK_NAMESPACE_COUNT] = {-1, -1, -1, -1, -1, -1, -1};

void setup_open_namespaces(int proc, const char *pid_name)
{
        static const char *const names[] = {
#define NAME(name, number) name,
                FORK_NAMESPACES(NAME)
#undef NAME
        };
        char path[64];

        for (int i = 0; i < FORK_NAMESPACE_COUNT; i++) {
                snprintf(path, sizeof(path), "self/ns/%s", strcmp(names[i], "pid") == 0 ? pid_name : names[i]);
                namespaces[i] = openat(proc, path, O_RDONLY | O_CLOEXEC);
        }
}

void setup_raise_loopback(const struct setup *s)
{
        struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

        if (s->host_network || s->layers_off & BOX_LAYER_NETWORK)
                return;
        _cleanup_close_ int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (sock >= 0) /* a kernel without IPv4 has no 127.0.0.1 to raise */
                setup_check(s, negative(ioctl(sock, SIOCSIFFLAGS, &request)), "raise the box's loopback");
}

/* A sibling of ours: its parent is the warden. Returns like fork(); the parent's end of a socket to
 * the child, or the child's, is in *ret_socket. ret_pidfd: for the parent; NULL: it wants none. */
static pid_t clone_sibling(const struct setup *s, uint32_t frame_kind, int *ret_socket, int *ret_pidfd)
{
        int pair[2], pidfd = -1;
        struct clone_args args = {
                .flags = CLONE_PARENT | CLONE_PIDFD,
                .pidfd = (uint64_t)(uintptr_t)&pidfd,
        };

        setup_check(s, negative(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)), "make a socket pair");
        pid_t pid = sys_clone3(&args);
        setup_check(s, negative(pid), "start a process in the box");
        *ret_socket = pair[pid == 0 ? 1 : 0];
        safe_close(pair[pid == 0 ? 0 : 1]);
        if (pid > 0) {
                send_frame(s, frame_kind, (uint32_t)pid, &pidfd, 1);
                if (ret_pidfd)
                        *ret_pidfd = pidfd;
                else
                        safe_close(pidfd);
                /* Only now does it have a keeper: should we die before, it ends at the end of its socket. */
                setup_check(s, negative((int)write(*ret_socket, "k", 1)), "hand over a process of the box");
        }
        return pid;
}

/* What init or the program say before they are locked in can only be why they cannot be. */
static _noreturn_ void pass_on_failure(const struct setup *s, const struct setup_frame *frame, ssize_t size)
{
        if (size == sizeof(*frame) && frame->kind == SETUP_FAILED)
                message_send(s->socket, frame, sizeof(*frame), NULL, 0);
        _exit(1);
}

/* Starts init; returns a socket through which its /proc comes, and which ends when it is locked in. */
static int start_init(const struct setup *s, int *ret_pidfd)
{
        int socket;

        if (clone_sibling(s, SETUP_INIT, &socket, ret_pidfd) == 0)
                runner_init(socket, s->socket, !(s->layers_off & BOX_LAYER_SECCOMP));
        return socket;
}

static int receive_proc(const struct setup *s, int init)
{
        struct setup_frame frame = {0};
        int fds[BOX_FDS_MAX], n_fds;

        ssize_t n = message_receive(init, 0, &frame, sizeof(frame), fds, &n_fds);
        if (n != sizeof(frame) || frame.kind != SETUP_INIT || n_fds != 1)
                pass_on_failure(s, &frame, n);
        return fds[0];
}

static pid_t start_program(const struct setup *s, bool entering, int *ret_socket)
{
        struct program_layers layers = {
                .seccomp = !(s->layers_off & BOX_LAYER_SECCOMP), .capabilities = !(s->layers_off & BOX_LAYER_CAPABILITIES),
                .template = s->is_template, .files = entering,
        };
        pid_t pid = clone_sibling(s, SETUP_PROGRAM, ret_socket, NULL);

        if (pid == 0)
                runner_program(*ret_socket, layers);
        return pid;
}

int setup_attach_root(const struct setup *s)
{
        struct mount_tmpfs_options options = {
                .size_bytes = ROOT_SIZE_BYTES, .inodes = ROOT_INODES, .mode = 0755, .uid = s->uid, .gid = s->gid,
        };
        int root = mount_new_tmpfs(&options);
        setup_check(s, root, "make the box's root directory");

        _cleanup_close_ int above = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        setup_check(s, negative(above), "open the root directory");
        setup_check(s, mount_attach(root, above), "attach the box's root directory");
        return root;
}

/* ---- the order ---- */

const struct payload *setup_map_payload(const struct setup *s, int fd)
{
        struct stat st;

        if (fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > (off_t)BOX_PAYLOAD_MAX)
                setup_fail(s, GB_E_INTERNAL, EINVAL, "the box's payload has a wrong size");
        int seals = fcntl(fd, F_GET_SEALS);
        if (seals < 0 || !(seals & F_SEAL_WRITE) || !(seals & F_SEAL_SHRINK))
                setup_fail(s, GB_E_INTERNAL, EINVAL, "the box's payload is not sealed");
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
                setup_fail(s, GB_E_INTERNAL, errno, "cannot map the box's payload: %s", strerror(errno));
        if (!payload_valid(p, (size_t)st.st_size))
                setup_fail(s, GB_E_INTERNAL, EINVAL, "the box's payload is malformed");
        return p;
}

static const char *op_hint(const struct box_op *op, int errnum)
{
        if (op->kind == BOX_OP_BIND && errnum == EACCES)
                return " (a directory on the way to its source cannot be entered by this user)";
        if (op->kind == BOX_OP_BIND && (errnum == ELOOP || errnum == ENOTDIR || errnum == EEXIST))
                return " (a link or a file is in the way)";
        if (op->kind == BOX_OP_BIND && errnum == ESTALE)
                return " (its source was replaced while the box was built)";
        return "";
}

/* The ruleset under which programs write only where the policy says; -1: none is wanted. */
static int make_ruleset(const struct setup *s, const struct setup_order *order, const struct payload *payload)
{
        int abi = (int)order->landlock_abi;

        if (!(order->spec.flags & BOX_LANDLOCK) || s->layers_off & BOX_LAYER_LANDLOCK)
                return -1;
        int ruleset = landlock_ruleset_new(abi);
        setup_check(s, ruleset, "make a Landlock ruleset");
        for (uint32_t i = 0; i < payload->n_ops; i++) {
                const struct box_op *op = &payload->ops[i];
                if (!(op->flags & (BOX_OP_LANDLOCK_WRITE | BOX_OP_LANDLOCK_DEVICE)))
                        continue;
                _cleanup_close_ int fd = open(op->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
                setup_check(s, negative(fd), "open a directory for Landlock");
                setup_check(s, op->flags & BOX_OP_LANDLOCK_WRITE ? landlock_allow_all(ruleset, abi, fd)
                                                                 : landlock_allow_devices(ruleset, abi, fd),
                            "add a Landlock rule");
        }
        if (order->spec.flags & BOX_ROOT_WRITABLE) {
                _cleanup_close_ int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
                setup_check(s, landlock_allow_all(ruleset, abi, fd), "add a Landlock rule");
        }
        return ruleset;
}

/* Tells the warden that the root stands, with what it needs of it. */
static void send_built(const struct setup *s, const struct setup_order *order, const struct root_plan *plan, int ruleset,
                       const char *workspace)
{
        int fds[BOX_WRITABLE_MAX + 3 + FORK_NAMESPACE_COUNT], n = 0;
        uint32_t value = (uint32_t)plan->n_watch;

        fds[n++] = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        setup_check(s, negative(fds[0]), "open the box's /proc");
        memcpy(fds + n, plan->watch, sizeof(int) * (size_t)plan->n_watch);
        n += plan->n_watch;
        if (order->session && ruleset >= 0) {
                value |= BUILT_RULESET;
                fds[n++] = ruleset;
        }
        if (order->session) {
                value |= BUILT_WORKSPACE;
                fds[n++] = open(workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
                setup_check(s, negative(fds[n - 1]), "open the workspace");
        }
        if (order->session && order->wants_namespaces) {
                value |= BUILT_NAMESPACES;
                memcpy(fds + n, namespaces, sizeof(namespaces));
                n += FORK_NAMESPACE_COUNT;
        }
        send_frame(s, SETUP_BUILT, value, fds, n);
}

/* Where all that leaves a box with an allowlist begins: a socket that listens in its network namespace goes to the front, which is not in it. Nobody in the
 * box ever has it, and while it listens nobody there can have its port. */
static void send_listener(const struct setup *s, struct setup_fds *fds)
{
        const struct sockaddr_in address = {
                .sin_family = AF_INET, .sin_port = htons(BOX_EGRESS_PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        };

        if (s->host_network || s->layers_off & BOX_LAYER_NETWORK)
                setup_fail(s, GB_E_UNENFORCEABLE, ENOTSUP, "a box without a network namespace of its own cannot have an allowlist");
        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        bool listens = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, SOMAXCONN) == 0;
        setup_check(s, listens ? 0 : -errno, "listen in the box");
        setup_check(s, message_send_now(fds->listener, "l", 1, &fd, 1), "hand over the box's listener");
        fds->listener = safe_close(fds->listener);
}

int setup_build(const struct setup *s, const struct setup_order *order, struct setup_fds *fds, int proc, int root)
{
        const struct payload *payload = setup_map_payload(s, fds->payload);
        struct root_plan plan = {.payload = payload, .order = order, .sources = fds->sources, .proc = proc};

        if (order->has_listener)
                send_listener(s, fds);
        umask(0);
        int r = root_build(&plan, root);
        if (r < 0)
                setup_fail(s, GB_E_UNENFORCEABLE, -r, "cannot set up %s in the box: %s%s", plan.failed ? plan.failed->path : "the root",
                           strerror(-r), plan.failed ? op_hint(plan.failed, -r) : "");
        if (!(order->spec.flags & BOX_ROOT_INHERITED)) {
                setup_check(s, mount_pivot(root), "enter the box's root directory");
                if (!(order->spec.flags & BOX_ROOT_WRITABLE))
                        setup_check(s, mount_make_read_only(root), "make the box's root read-only");
        }
        int ruleset = make_ruleset(s, order, payload);
        send_built(s, order, &plan, ruleset, payload->cwd);
        return ruleset;
}

static void limit_program(const struct setup *s, const struct box_spec *spec, pid_t pid)
{
        const struct {
                int resource;
                uint64_t value;
                bool set;
        } limits[] = {
                {RLIMIT_CORE, 1, true}, /* 0 would still start a piped crash handler on the host */
                {RLIMIT_NOFILE, spec->nofile, true},
                {RLIMIT_MEMLOCK, 64 * KIB, true},
                {RLIMIT_MSGQUEUE, 0, true},
                {RLIMIT_RTPRIO, 0, true},
                {RLIMIT_NICE, 0, true},
                {RLIMIT_SIGPENDING, 1024, true},
                {RLIMIT_FSIZE, spec->file_bytes, spec->file_bytes > 0},
                {RLIMIT_AS, spec->address_bytes, spec->address_bytes > 0},
                {RLIMIT_NPROC, spec->processes, spec->processes > 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
                if (limits[i].set)
                        setup_check(s, rlimit_lower(pid, limits[i].resource, limits[i].value), "set the resource limits");
}

/* Leaves the program the first `cpus` processors of our mask. The filter refuses sched_setaffinity,
 * so this holds; it is what is left where no cgroup shares the cpu. */
static void pin_program(const struct setup *s, const struct box_spec *spec, pid_t pid)
{
        cpu_set_t have, want;
        uint32_t n = 0;

        if (spec->cpus == 0)
                return;
        setup_check(s, negative(sched_getaffinity(pid, sizeof(have), &have)), "read the cpu affinity");
        CPU_ZERO(&want);
        for (int cpu = 0; cpu < CPU_SETSIZE && n < spec->cpus; cpu++)
                if (CPU_ISSET(cpu, &have)) {
                        CPU_SET(cpu, &want);
                        n++;
                }
        setup_check(s, negative(sched_setaffinity(pid, sizeof(want), &want)), "set the cpu affinity");
}

/* Init is tied to the warden from when it is locked in. A warden that died before sends it no signal any more, and a process that the warden was
 * just starting may have held its end of our socket open, so that init saw no end; but whose child we are is certain. */
static void end_orphan(const struct setup *s, int init_pidfd)
{
        if (init_pidfd < 0 || getppid() == s->warden)
                return;
        sys_pidfd_send_signal(init_pidfd, SIGKILL); /* its number may be another's by now: who inherited it reaps it */
        _exit(1);
}

static void wait_for_init(const struct setup *s, int pidfd, int socket)
{
        struct setup_frame frame = {0};
        int fds[BOX_FDS_MAX], n_fds;

        ssize_t n = message_receive(socket, 0, &frame, sizeof(frame), fds, &n_fds);
        if (n != 0)
                pass_on_failure(s, &frame, n);
        end_orphan(s, pidfd);
}

static void order_program(const struct setup *s, const struct setup_order *order, const struct setup_fds *given, int socket, int ruleset)
{
        struct program_order go = {
                .has_ruleset = ruleset >= 0, .has_control = order->has_control, .has_orders = order->is_template, .n_join = order->n_join,
                .apparmor = order->spec.flags & BOX_APPARMOR,
        };
        int fds[BOX_FDS_MAX], n = 0;

        for (int i = 0; i < 3; i++)
                fds[n++] = given->stdio[i];
        fds[n++] = s->socket;
        fds[n++] = given->payload;
        if (ruleset >= 0)
                fds[n++] = ruleset;
        if (go.has_control)
                fds[n++] = given->control;
        if (go.has_orders)
                fds[n++] = given->orders;
        for (uint32_t i = 0; i < order->n_join; i++)
                fds[n++] = given->join[i];
        if (message_send(socket, &go, sizeof(go), fds, n) == 0)
                return;
        /* It could not lock itself in and has said why. */
        struct setup_frame frame = {0};
        ssize_t size = message_receive(socket, 0, &frame, sizeof(frame), fds, &n);
        pass_on_failure(s, &frame, size);
}

static void start_foreman(const struct setup *s, int socket)
{
        int link;

        if (clone_sibling(s, SETUP_FOREMAN, &link, NULL) == 0) {
                char kept;
                if (read(link, &kept, 1) != 1)
                        _exit(1);
                foreman_main(s, socket);
        }
        safe_close(link);
}

/* Of the warden's descriptors we keep one. Above all not the warden's ends of the sockets: that it is
 * gone shows only when nobody else holds them. */
static struct setup keep_socket(const struct setup *given)
{
        struct setup s = *given;

        if (dup3(given->socket, SETUP_SOCKET_FD, O_CLOEXEC) < 0)
                _exit(1);
        sys_close_range(SETUP_SOCKET_FD + 1, ~0U, 0);
        s.socket = SETUP_SOCKET_FD;
        return s;
}

static void receive_order(const struct setup *s, int init_pidfd, struct setup_order *ret, struct setup_fds *ret_fds)
{
        int r = setup_order_receive(s->socket, ret, ret_fds);

        if (r == -EPIPE) {
                end_orphan(s, init_pidfd);
                _exit(0); /* the warden has no use for us */
        }
        if (r < 0)
                setup_fail(s, GB_E_INTERNAL, EPROTO, "the warden's order to build a box is malformed");
}

/* The last steps before user code: the program's limits, our own capabilities, the word to go. */
static _noreturn_ void let_go(const struct setup *s, const struct setup_order *order, const struct setup_fds *fds, pid_t pid, int program,
                              int ruleset)
{
        if (!(s->layers_off & BOX_LAYER_RLIMITS))
                limit_program(s, &order->spec, pid);
        pin_program(s, &order->spec, pid);
        setup_check(s, privilege_clear_capabilities(), "drop the capabilities");
        if (!setup_await_claim(s->socket))
                _exit(1);
        order_program(s, order, fds, program, ruleset);
        _exit(0);
}

/* Uses up number 2 of the pid namespace. That is what a session's first program has, and libraries that watch for forks do so by the
 * process id: the interpreter that it is forked from has another. */
static void skip_number(void)
{
        pid_t pid = fork();

        if (pid == 0)
                _exit(0);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

_noreturn_ void setup_main(const struct setup *given)
{
        static struct setup_order order;
        static struct setup_fds fds;
        const struct setup kept = keep_socket(given), *s = &kept;
        int program;

        take_identity(s);
        setup_check(s, negative(unshare(CLONE_NEWPID | CLONE_NEWCGROUP)), "make a pid namespace");
        int init_pidfd = -1, init = start_init(s, &init_pidfd);
        if (s->is_template)
                skip_number();
        pid_t pid = start_program(s, false, &program);
        setup_raise_loopback(s);
        int above = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC); /* of who made us */
        if (!s->is_template) /* its sessions get theirs */
                setup_lower_user_limits(above);
        setup_open_namespaces(above, "pid_for_children");
        safe_close(above);
        int root = setup_attach_root(s), proc = receive_proc(s, init);

        receive_order(s, init_pidfd, &order, &fds);
        int ruleset = setup_build(s, &order, &fds, proc, root);
        wait_for_init(s, init_pidfd, init);
        if (order.session)
                _exit(0); /* the waiting program sees the end of its socket and ends */
        if (order.is_template)
                start_foreman(s, fds.foreman);
        let_go(s, &order, &fds, pid, program, ruleset);
}

/* Takes the namespaces of a box in which user code may run already. Not dumpable from before the first moment
 * in which somebody inside could see us or our child. */
static void join(const struct setup_door *door)
{
        if (prctl(PR_SET_DUMPABLE, 0) < 0)
                _exit(1);
        if (door->namespaces[0] < 0 && setns(door->init_pidfd, BOX_NAMESPACES) < 0)
                _exit(1);
        for (int i = 0; door->namespaces[0] >= 0 && i < FORK_NAMESPACE_COUNT; i++)
                if (setns(door->namespaces[i], 0) < 0)
                        _exit(1);
}

_noreturn_ void setup_enter(const struct setup *given, const struct setup_door *door)
{
        static struct setup_order order;
        static struct setup_fds fds;
        int program;

        join(door);
        const struct setup kept = keep_socket(given), *s = &kept;
        take_identity(s);
        pid_t pid = start_program(s, true, &program);
        receive_order(s, -1, &order, &fds);
        (void)setup_map_payload(s, fds.payload); /* the program will trust it */
        let_go(s, &order, &fds, pid, program, fds.ruleset);
}

_noreturn_ void setup_kill_all(const struct setup_door *door)
{
        join(door);
        pid_t pid = fork(); /* only a child is inside the pid namespace */
        if (pid == 0) {
                /* All at once: a process that is about to fork gets its signal first. Init and we are left out. */
                kill(-1, SIGKILL);
                _exit(0);
        }
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        _exit(0);
}
