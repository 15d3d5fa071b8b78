/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that builds a box. The warden cloned it into fresh user, mount, net, ipc and uts
 * namespaces; it has every capability there and none outside. Its life:
 *
 *   waits until the warden has written the uid and gid map, takes that identity
 *   unshares the pid and cgroup namespaces, clones init, which mounts /proc and locks itself in
 *   builds the root directory, pivots into it (and init with it)
 *   gives up: keyring, limits, capabilities, new privileges, and writes by Landlock
 *   waits until init is locked in, clones the program and ends
 *
 * Init and the program are cloned as children of the warden (CLONE_PARENT), which gets their pidfds.
 *
 * Should: check the payload's bounds before using it. Mustn't: still hold a capability when the
 * program is cloned. No user code runs before the last step, so whatever it reports is true. */
#include "warden/setup.h"

#include "base/fd.h"
#include "kernel/landlock.h"
#include "kernel/mount.h"
#include "kernel/privilege.h"
#include "kernel/sys.h"
#include "runner/runner.h"
#include "warden/payload.h"

#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define ROOT_SIZE_BYTES (BOX_PAYLOAD_MAX + 1 * MIB)
#define ROOT_INODES 1024

static _noreturn_ void _printf_(4, 5) fail(const struct setup *s, int code, int errnum, const char *format, ...)
{
        struct setup_frame frame = {.kind = SETUP_FAILED, .error = {.code = code, .errnum = errnum}};

        va_list ap;
        va_start(ap, format);
        vsnprintf(frame.error.message, sizeof(frame.error.message), format, ap);
        va_end(ap);
        runner_send(s->socket, &frame, NULL, 0);
        _exit(1);
}

/* A step that failed for a reason no policy can change. */
static void check(const struct setup *s, int r, const char *what)
{
        if (r < 0)
                fail(s, GB_E_UNENFORCEABLE, -r, "cannot %s: %s", what, strerror(-r));
}

static int negative(int r)
{
        return r < 0 ? -errno : 0;
}

static void take_identity(const struct setup *s)
{
        char go;

        /* The warden writes our maps, then one byte; it closes the socket when it could not. */
        if (read(s->socket, &go, 1) != 1)
                _exit(1);
        check(s, negative(setresgid(s->spec->gid, s->spec->gid, s->spec->gid)), "take the box's group");
        check(s, negative(setresuid(s->spec->uid, s->spec->uid, s->spec->uid)), "take the box's user");
        check(s, negative(unshare(CLONE_NEWPID | CLONE_NEWCGROUP)), "make a pid namespace");
        check(s, negative(sethostname("glovebox", 8)), "set the box's host name");
}

static void raise_loopback(const struct setup *s)
{
        struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

        if (s->spec->flags & BOX_NETWORK_HOST || s->spec->layers_off & BOX_LAYER_NETWORK)
                return;
        _cleanup_close_ int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (sock >= 0) /* a kernel without IPv4 has no 127.0.0.1 to raise */
                check(s, negative(ioctl(sock, SIOCSIFFLAGS, &request)), "raise the box's loopback");
}

static const struct payload *map_payload(const struct setup *s)
{
        struct stat st;

        if (fstat(s->payload, &st) < 0 || st.st_size <= 0 || st.st_size > (off_t)BOX_PAYLOAD_MAX)
                fail(s, GB_E_INTERNAL, EINVAL, "the box's payload has a wrong size");
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, s->payload, 0);
        if (p == MAP_FAILED)
                fail(s, GB_E_INTERNAL, errno, "cannot map the box's payload: %s", strerror(errno));
        if (!payload_valid(p, (size_t)st.st_size))
                fail(s, GB_E_INTERNAL, EINVAL, "the box's payload is malformed");
        return p;
}

static const char *op_hint(const struct box_op *op, int errnum)
{
        if (op->kind == BOX_OP_BIND && errnum == EACCES)
                return " (a directory on the way to its source cannot be entered by this user)";
        if (op->kind == BOX_OP_BIND && (errnum == ELOOP || errnum == ENOTDIR))
                return " (a link or a file is in the way)";
        if (op->kind == BOX_OP_BIND && errnum == ESTALE)
                return " (its source was replaced while the box was built)";
        return "";
}

static void enter_root(struct setup *s, const struct payload *payload, int *watch, int *n_watch)
{
        struct mount_tmpfs_options options = {
                .size_bytes = ROOT_SIZE_BYTES, .inodes = ROOT_INODES, .mode = 0755, .uid = s->spec->uid, .gid = s->spec->gid,
        };
        const struct box_op *failed = NULL;
        _cleanup_close_ int above = -1, root = mount_new_tmpfs(&options);

        check(s, root, "make the box's root directory");
        above = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        check(s, negative(above), "open the root directory");
        check(s, mount_attach(root, above), "attach the box's root directory");

        umask(0);
        int r = root_build(payload, s, root, watch, n_watch, &failed);
        if (r < 0)
                fail(s, GB_E_UNENFORCEABLE, -r, "cannot set up %s in the box: %s%s", failed ? failed->path : "the root",
                     strerror(-r), failed ? op_hint(failed, -r) : "");
        check(s, mount_pivot(root), "enter the box's root directory");
        if (!(s->spec->flags & BOX_ROOT_WRITABLE))
                check(s, mount_make_read_only(root), "make the box's root read-only");
}

static void set_limits(const struct setup *s)
{
        const struct {
                int resource;
                uint64_t value;
                bool set;
        } limits[] = {
                {RLIMIT_CORE, 1, true}, /* 0 would still start a piped crash handler on the host */
                {RLIMIT_NOFILE, s->spec->nofile, true},
                {RLIMIT_MEMLOCK, 64 * KIB, true},
                {RLIMIT_MSGQUEUE, 0, true},
                {RLIMIT_RTPRIO, 0, true},
                {RLIMIT_NICE, 0, true},
                {RLIMIT_SIGPENDING, 1024, true},
                {RLIMIT_FSIZE, s->spec->file_bytes, s->spec->file_bytes > 0},
                {RLIMIT_AS, s->spec->address_bytes, s->spec->address_bytes > 0},
                {RLIMIT_NPROC, s->spec->processes, s->spec->processes > 0},
        };

        if (s->spec->layers_off & BOX_LAYER_RLIMITS)
                return;
        for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
                if (limits[i].set)
                        check(s, rlimit_lower(limits[i].resource, limits[i].value), "set the resource limits");
}

/* Leaves the first `cpus` processors of our mask. The filter refuses sched_setaffinity, so this
 * holds; it is what is left where no cgroup shares the cpu. */
static void set_affinity(const struct setup *s)
{
        cpu_set_t have, want;
        uint32_t n = 0;

        if (s->spec->cpus == 0)
                return;
        check(s, negative(sched_getaffinity(0, sizeof(have), &have)), "read the cpu affinity");
        CPU_ZERO(&want);
        for (int cpu = 0; cpu < CPU_SETSIZE && n < s->spec->cpus; cpu++)
                if (CPU_ISSET(cpu, &have)) {
                        CPU_SET(cpu, &want);
                        n++;
                }
        check(s, negative(sched_setaffinity(0, sizeof(want), &want)), "set the cpu affinity");
}

static void restrict_writes(const struct setup *s, const struct payload *payload)
{
        int abi = s->landlock_abi;

        if (!(s->spec->flags & BOX_LANDLOCK) || s->spec->layers_off & BOX_LAYER_LANDLOCK)
                return;
        _cleanup_close_ int ruleset = landlock_ruleset_new(abi);
        check(s, ruleset, "make a Landlock ruleset");
        for (uint32_t i = 0; i < payload->n_ops; i++) {
                const struct box_op *op = &payload->ops[i];
                if (!(op->flags & (BOX_OP_LANDLOCK_WRITE | BOX_OP_LANDLOCK_DEVICE)))
                        continue;
                _cleanup_close_ int fd = open(op->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
                check(s, negative(fd), "open a directory for Landlock");
                check(s, op->flags & BOX_OP_LANDLOCK_WRITE ? landlock_allow_all(ruleset, abi, fd)
                                                           : landlock_allow_devices(ruleset, abi, fd),
                      "add a Landlock rule");
        }
        if (s->spec->flags & BOX_ROOT_WRITABLE) {
                _cleanup_close_ int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
                check(s, landlock_allow_all(ruleset, abi, fd), "add a Landlock rule");
        }
        check(s, landlock_enforce(ruleset), "enforce the Landlock ruleset");
}

static void give_up(const struct setup *s, const struct payload *payload)
{
        check(s, privilege_new_keyring(), "make a session keyring");
        set_limits(s);
        set_affinity(s);
        if (!(s->spec->layers_off & BOX_LAYER_CAPABILITIES))
                check(s, privilege_drop_capabilities(), "drop the capabilities");
        check(s, privilege_no_new(), "give up new privileges");
        check(s, negative(prctl(PR_SET_DUMPABLE, 0)), "forbid dumps");
        restrict_writes(s, payload);
}

/* A sibling of ours: its parent is the warden. */
static pid_t clone_sibling(const struct setup *s, int *ret_pidfd)
{
        struct clone_args args = {
                .flags = CLONE_PARENT | CLONE_PIDFD,
                .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
        };
        pid_t pid = sys_clone3(&args);

        if (pid < 0)
                fail(s, GB_E_UNENFORCEABLE, errno, "cannot start a process in the box: %s", strerror(errno));
        return pid;
}

/* Starts init and takes its /proc; returns the socket that ends when init is locked in. */
static int start_init(struct setup *s, bool seccomp)
{
        struct setup_frame frame = {0};
        int pair[2], pidfd = -1, n_fds;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                fail(s, GB_E_INTERNAL, errno, "cannot make a socket pair: %s", strerror(errno));
        if (clone_sibling(s, &pidfd) == 0)
                runner_init(pair[1], seccomp);
        safe_close(pair[1]);
        runner_send(s->socket, &(struct setup_frame){.kind = SETUP_INIT}, &pidfd, 1);
        safe_close(pidfd);

        ssize_t n = runner_receive(pair[0], 0, &frame, &s->proc, 1, &n_fds);
        if (n == sizeof(frame) && frame.kind == SETUP_FAILED)
                runner_send(s->socket, &frame, NULL, 0);
        if (n != sizeof(frame) || frame.kind != SETUP_INIT || n_fds != 1)
                _exit(1);
        return pair[0];
}

static void wait_for_init(const struct setup *s, int socket)
{
        struct setup_frame frame = {0};
        int n_fds;

        if (runner_receive(socket, 0, &frame, NULL, 0, &n_fds) == sizeof(frame)) {
                runner_send(s->socket, &frame, NULL, 0);
                _exit(1);
        }
}

_noreturn_ void setup_main(struct setup *s)
{
        int fds[BOX_WRITABLE_MAX + 2], n_watch = 0; /* the program's pidfd, /proc, what to watch */
        bool seccomp = !(s->spec->layers_off & BOX_LAYER_SECCOMP);

        take_identity(s);
        int init = start_init(s, seccomp);
        raise_loopback(s);
        const struct payload *payload = map_payload(s);
        enter_root(s, payload, fds + 2, &n_watch);
        give_up(s, payload);
        wait_for_init(s, init);

        struct runner_program program = {
                .payload = payload, .socket = s->socket, .join = s->join, .n_join = s->n_join, .seccomp = seccomp,
        };
        memcpy(program.stdio, s->stdio, sizeof(program.stdio));
        fds[1] = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check(s, negative(fds[1]), "open the box's /proc");
        pid_t pid = clone_sibling(s, &fds[0]);
        if (pid == 0)
                runner_program(&program);
        runner_send(s->socket, &(struct setup_frame){.kind = SETUP_PROGRAM, .value = (uint32_t)pid}, fds, n_watch + 2);
        _exit(0);
}
