/* SPDX-License-Identifier: Apache-2.0
 *
 * A front that was root, and what it can still get from root's processes. There is no way back for it, so each test has a process of its own. */
#include "backend/native/admit.h"
#include "backend/native/keeper.h"
#include "backend/native/payload.h"
#include "backend/native/root.h"
#include "backend/native/session.h"
#include "backend/native/warden.h"
#include "base/fd.h"
#include "base/message.h"
#include "kernel/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ACCOUNT 61200
#define WAIT_USEC 30000000ULL

/* In the process of a test: says what was not as it should be, and ends it. */
#define want(condition)                                                               \
        do {                                                                          \
                if (!(condition)) {                                                   \
                        fprintf(stderr, "%s:%d: %s (%m)\n", __FILE__, __LINE__, #condition); \
                        exit(1);                                                      \
                }                                                                     \
        } while (0)

static struct native_host host;
static struct policy policy;


static void separate(void)
{
        struct separation s = {.uid = ACCOUNT, .gid = ACCOUNT};
        gb_error err = {0};

        want(native_separate(&s, &err) == 0);
        (void)native_host_probe(&host, true);
        policy = (struct policy){
                .cpu_milli = 1000, .mem_limit_bytes = 256 * MIB, .timeout_usec = 10000000, .pids_limit = 64, .tmp_size_bytes = MIB, .disk_limit_bytes = MIB,
                .inode_limit = 64, .nofile = 128, .read_only = true, .allow_weaker = UINT32_MAX,
        };
}

/* ---- a front that does not keep to what ours does ---- */

struct session {
        int channel, workspace;
        struct warden_event event;
};

typedef void tamper_function(struct box_plan *plan);

static void send_open(int channel, int workspace_fd, tamper_function *tamper)
{
        struct warden_request *m = calloc(1, sizeof(*m));
        struct box_plan *plan = plan_new();
        static const struct language no_language;
        struct box_request request = {.policy = &policy, .language = &no_language, .workspace_fd = workspace_fd, .uid = 1000, .gid = 1000};
        struct controls controls;
        gb_error err = {0};

        want(m && plan);
        m->version = WARDEN_PROTOCOL_VERSION;
        m->kind = WARDEN_OPEN;
        plan->cwd = BOX_WORKSPACE;
        want(native_admit(&host, &request, &m->spec, &controls, &err) == 0);
        want(root_plan_session(plan, &request, &err) == 0);
        want(plan_descriptors(plan, &host, NULL, &err) == 0);
        if (tamper)
                tamper(plan);
        m->spec.n_fds = plan->n_fds;
        memcpy(m->spec.fds, plan->fds, sizeof(plan->fds));
        want(message_send(channel, m, sizeof(*m), plan->fd_values, (int)plan->n_fds) == 0);
        plan_free(plan);
        free(m);
}

static int open_session(struct session *s, int workspace_fd, tamper_function *tamper, gb_error *err)
{
        int fds[8], n = 8;

        want(warden_channel(&s->channel, err) == 0);
        send_open(s->channel, workspace_fd, tamper);
        int r = warden_wait(s->channel, WAIT_USEC, &s->event, fds, &n, err);
        if (r < 0)
                return r;
        want(s->event.kind == WARDEN_OPENED && n >= 1);
        s->workspace = fds[0];
        while (n > 1)
                safe_close(fds[--n]);
        return 0;
}

/* The directory, or a negative errno: WARDEN_FILES with whatever descriptor. */
static int borrow(const struct session *s, int fd, gb_error *err)
{
        static struct warden_request m;
        struct warden_event event;
        int pair[2], got = -1, n = 1;

        m = (struct warden_request){.version = WARDEN_PROTOCOL_VERSION, .kind = WARDEN_FILES};
        m.spec.n_fds = 2;
        m.spec.fds[0].role = BOX_FD_SOURCE;
        m.spec.fds[1].role = BOX_FD_CHANNEL;
        want(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
        want(message_send(s->channel, &m, sizeof(m), (int[]){fd, pair[1]}, 2) == 0);
        safe_close(pair[1]);
        int r = warden_wait(pair[0], WAIT_USEC, &event, &got, &n, err);
        safe_close(pair[0]);
        want(r < 0 || (event.kind == WARDEN_LENT && n == 1));
        want(r == 0 || n == 0);
        return r < 0 ? r : got;
}

/* ---- the tests, each in its process ---- */

static bool has_line(const char *file, const char *line)
{
        char text[8192];

        return file_read_at(AT_FDCWD, file, text, sizeof(text)) > 0 && strstr(text, line);
}

static void test_nothing_is_left(void)
{
        separate();
        want(getuid() == ACCOUNT && geteuid() == ACCOUNT && getgid() == ACCOUNT && getegid() == ACCOUNT && getgroups(0, NULL) == 0);
        want(has_line("/proc/self/status", "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1"));
        want(setresuid(0, 0, 0) < 0 && setresuid(-1, 0, -1) < 0 && setresgid(0, 0, 0) < 0);
        want(open("/etc/shadow", O_RDONLY) < 0 && errno == EACCES);
}

static void test_keeper_is_bounded(void)
{
        int sockets[8], pidfds[8], n = 0;
        gb_error err = {0};

        separate();
        while (n < 8 && keeper_start_warden(&sockets[n], &pidfds[n], &err) == 0)
                n++;
        want(n == 4 && err.errnum == EAGAIN && err.code == GB_E_UNAVAILABLE);
        /* One that has ended makes room. */
        struct pollfd end = {.fd = pidfds[0], .events = POLLIN};
        safe_close(sockets[0]);
        want(poll(&end, 1, 20000) == 1);
        want(keeper_start_warden(&sockets[0], &pidfds[0], &err) == 0);
}

/* With fewer descriptors than it has entries for: that is not to say that all of them are used. */
static void test_keeper_with_few_descriptors(void)
{
        const struct rlimit few = {200, 200};
        int socket, pidfd;
        gb_error err = {0};

        _Static_assert(KEEPER_HIDES_MAX > 200, "poll() must fail for all entries");
        want(setrlimit(RLIMIT_NOFILE, &few) == 0);
        separate();
        want(keeper_start_hide(&socket, &pidfd, &err) == 0);
        want(keeper_start_warden(&socket, &pidfd, &err) == 0);
}

static void test_keeper_ends_at_nonsense(void)
{
        struct pollfd end = {.fd = -1};
        int socket, pidfd;
        gb_error err = {0};

        separate();
        end.fd = native_separated_fd();
        want(poll(&end, 1, 0) == 0);
        want(send(end.fd, "start a shell", 13, MSG_NOSIGNAL) == 13);
        want(poll(&end, 1, 20000) == 1 && end.revents & POLLHUP);
        want(keeper_start_warden(&socket, &pidfd, &err) < 0 && err.code == GB_E_UNAVAILABLE && strstr(err.message, "keeper"));
}

static void test_what_the_front_is_lent(void)
{
        struct session s;
        struct statvfs fs;
        struct stat st;
        gb_error err = {0};

        separate();
        want(open_session(&s, -1, NULL, &err) == 0);
        want(openat(s.workspace, "before", O_CREAT | O_WRONLY, 0600) < 0); /* it is the box's */
        int dir = borrow(&s, s.workspace, &err);
        want(dir >= 0);
        want(fstat(dir, &st) == 0 && st.st_uid == ACCOUNT && st.st_gid == ACCOUNT);
        int fd = openat(dir, "file", O_CREAT | O_RDWR | O_CLOEXEC, 06755);
        want(fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == ACCOUNT);
        want(fstatat(s.workspace, "file", &st, 0) == 0 && st.st_uid == s.event.host_uid && st.st_gid == s.event.host_gid);
        want(fstatvfs(dir, &fs) == 0 && (fs.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC)) == (ST_NOSUID | ST_NODEV | ST_NOEXEC));
        want(mknodat(dir, "null", S_IFCHR | 0666, 0x103) < 0);
        want(symlinkat("/etc/passwd", dir, "link") == 0);
        want(openat(dir, "link", O_RDONLY | O_CLOEXEC) < 0 && errno == ELOOP);
        want(openat(dir, "..", O_PATH | O_CLOEXEC) < 0 || (fstatat(dir, "..", &st, 0) == 0 && st.st_uid == ACCOUNT)); /* it is a root of its own */
}

static void test_what_the_front_is_not_lent(void)
{
        struct session a, b;
        gb_error err = {0};

        separate();
        want(open_session(&a, -1, NULL, &err) == 0);
        want(open_session(&b, -1, NULL, &err) == 0);
        want(borrow(&a, b.workspace, &err) < 0); /* another session's */
        static const char *const places[] = {"/", "/root", "/tmp", "/dev/shm", "/proc/self", "/sys", "/dev/null"};
        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                int fd = open(places[i], O_PATH | O_CLOEXEC);
                want(fd < 0 || borrow(&a, fd, &err) < 0);
                safe_close(fd);
        }
        int dir = borrow(&a, a.workspace, &err); /* nothing of that has harmed it */
        want(dir >= 0);
        want(borrow(&a, dir, &err) < 0); /* and not what it has been lent */
}

static void take_roots(struct box_plan *plan)
{
        for (uint32_t i = 0; i < plan->n_fds; i++)
                if (plan->fds[i].flags & BOX_SOURCE_OWNED)
                        plan->fds[i].owner_uid = plan->fds[i].owner_gid = 0;
}

static void take_roots_group(struct box_plan *plan)
{
        for (uint32_t i = 0; i < plan->n_fds; i++)
                if (plan->fds[i].flags & BOX_SOURCE_OWNED)
                        plan->fds[i].owner_gid = 0;
}

static void take_roots_root(struct box_plan *plan)
{
        for (uint32_t i = 0; i < plan->n_fds; i++)
                if (plan->fds[i].role == BOX_FD_SOURCE) {
                        plan->fds[i].flags |= BOX_SOURCE_OWNED | BOX_SOURCE_WRITABLE;
                        plan->fds[i].owner_uid = plan->fds[i].owner_gid = 0;
                }
}

static void name_another_group(struct box_plan *plan)
{
        for (uint32_t i = 0; i < plan->n_fds; i++)
                if (plan->fds[i].role == BOX_FD_CGROUP)
                        plan->fd_values[i] = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC); /* the one before is borrowed */
}

/* Root's warden gives a box what is the front's, and nothing else. */
static void test_files_of_others(void)
{
        char own[] = "/tmp/keeper-test-XXXXXX";
        static tamper_function *const tricks[] = {take_roots, take_roots_group, take_roots_root};
        struct session s;
        gb_error err = {0};

        want(mkdtemp(own) && chown(own, ACCOUNT, ACCOUNT) == 0);
        separate();
        int fd = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        want(fd >= 0);
        bool ok = open_session(&s, fd, NULL, &err) == 0;
        bool maps = ok || err.errnum != EINVAL; /* its file system has idmapped mounts */
        bool refused = true;
        for (size_t i = 0; i < ARRAY_SIZE(tricks); i++)
                refused = refused && open_session(&s, fd, tricks[i], &err) < 0 && err.errnum == EPERM;
        want(rmdir(own) == 0);
        want((ok || !maps) && refused);
}

static void test_groups_that_are_none(void)
{
        struct session s;
        gb_error err = {0};
        bool any = false;

        separate();
        for (int i = 0; i < CGROUP_KIND_COUNT; i++)
                any = any || host.cgroup.parent[i] >= 0;
        if (any)
                want(open_session(&s, -1, name_another_group, &err) < 0 && err.errnum == EPROTO);
        want(open_session(&s, -1, NULL, &err) == 0); /* and it lives on */
}

/* A policy's mounts of other owners: read-only without being the box's, never writable. */
static void test_mounts_of_others(void)
{
        struct box_plan *plan = plan_new();
        gb_error err = {0};

        separate();
        want(plan);
        want(plan_bind(plan, "/data", open("/usr", O_PATH | O_DIRECTORY | O_CLOEXEC), BOX_SOURCE_OWNED, false, &err) == 0);
        want(!(plan->fds[0].flags & BOX_SOURCE_OWNED));
        want(plan_bind(plan, "/rw", open("/usr", O_PATH | O_DIRECTORY | O_CLOEXEC), BOX_SOURCE_OWNED | BOX_SOURCE_WRITABLE, false, &err) < 0);
        want(err.code == GB_E_DENIED);
        plan_free(plan);
}

/* ---- cmocka ---- */

static void run(void (*test)(void))
{
        int status = -1;

        if (!privilege_is_host_root()) {
                print_message("needs root\n");
                skip();
        }
        pid_t pid = fork();
        if (pid == 0) {
                test();
                exit(0); /* ends wardens and keeper, too */
        }
        assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
        assert_int_equal(status, 0);
}

#define IN_A_PROCESS(name)               \
        static void name##_(void **state) \
        {                                \
                run(name);               \
        }
IN_A_PROCESS(test_nothing_is_left)
IN_A_PROCESS(test_keeper_is_bounded)
IN_A_PROCESS(test_keeper_with_few_descriptors)
IN_A_PROCESS(test_keeper_ends_at_nonsense)
IN_A_PROCESS(test_what_the_front_is_lent)
IN_A_PROCESS(test_what_the_front_is_not_lent)
IN_A_PROCESS(test_files_of_others)
IN_A_PROCESS(test_groups_that_are_none)
IN_A_PROCESS(test_mounts_of_others)

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_is_left_),        cmocka_unit_test(test_keeper_is_bounded_), cmocka_unit_test(test_keeper_ends_at_nonsense_),
                cmocka_unit_test(test_what_the_front_is_lent_), cmocka_unit_test(test_what_the_front_is_not_lent_),
                cmocka_unit_test(test_files_of_others_),        cmocka_unit_test(test_groups_that_are_none_), cmocka_unit_test(test_mounts_of_others_),
                cmocka_unit_test(test_keeper_with_few_descriptors_),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
