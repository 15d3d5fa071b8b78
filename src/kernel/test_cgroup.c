/* SPDX-License-Identifier: Apache-2.0
 *
 * The readers and the limits on plain directories with made-up files, then the life of a box in
 * the control groups of the machine itself. */
#include "kernel/cgroup.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the readers ---- */

static void test_parse_counter(void **state)
{
        uint64_t v = 7;

        assert_int_equal(cgroup_parse_counter("0", &v), 0);
        assert_int_equal(v, 0);
        assert_int_equal(cgroup_parse_counter("123456\n", &v), 0);
        assert_int_equal(v, 123456);
        assert_int_equal(cgroup_parse_counter("18446744073709551615", &v), 0);
        assert_true(v == UINT64_MAX);
        assert_int_equal(cgroup_parse_counter("max\n", &v), 0);
        assert_true(v == UINT64_MAX);

        v = 7;
        assert_int_equal(cgroup_parse_counter("18446744073709551616", &v), -ERANGE);
        assert_int_equal(cgroup_parse_counter("", &v), -EINVAL);
        assert_int_equal(cgroup_parse_counter("-1", &v), -EINVAL);
        assert_int_equal(cgroup_parse_counter("1 2", &v), -EINVAL);
        assert_int_equal(cgroup_parse_counter("maximum", &v), -EINVAL);
        assert_int_equal(v, 7);
}

static void test_parse_key(void **state)
{
        const char *text = "oom_kill_disable 0\nunder_oom 1\noom_kill 12\n";
        uint64_t v = 7;

        assert_int_equal(cgroup_parse_key(text, "oom_kill", &v), 0);
        assert_int_equal(v, 12);
        assert_int_equal(cgroup_parse_key(text, "oom", &v), -ENOENT);
        assert_int_equal(cgroup_parse_key("", "oom", &v), -ENOENT);
        assert_int_equal(cgroup_parse_key("max x", "max", &v), -EINVAL);
        assert_int_equal(cgroup_parse_key("max 1x", "max", &v), -EINVAL);
        assert_int_equal(cgroup_parse_key("max ", "max", &v), -EINVAL);
        assert_int_equal(v, 12);
}

static void test_next_pid(void **state)
{
        const char text[] = "17\n0\n-1\n\n4294967297\n2147483648\n2147483647\n5";
        const char *p = text, *end = text + strlen(text);
        const pid_t expected[] = { 17, 0, 0, 0, 0, 0, 2147483647 };
        pid_t pid;

        for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
                p = cgroup_next_pid(p, end, &pid);
                assert_non_null(p);
                assert_int_equal(pid, expected[i]);
        }
        assert_null(cgroup_next_pid(p, end, &pid)); /* not a whole line */
}

static void test_parse_self(void **state)
{
        const char *text = "9:name=systemd:/init\n8:pids:/\n4:memory:/a/b:c d\n3:cpu,cpuacct:/x\n0::/user.slice/s";
        char path[64] = "untouched", small[4];

        assert_int_equal(cgroup_parse_self(text, "memory", path, sizeof(path)), 0);
        assert_string_equal(path, "/a/b:c d");
        assert_int_equal(cgroup_parse_self(text, "cpuacct", path, sizeof(path)), 0);
        assert_string_equal(path, "/x");
        assert_int_equal(cgroup_parse_self(text, "cpu", path, sizeof(path)), 0);
        assert_string_equal(path, "/x");
        assert_int_equal(cgroup_parse_self(text, "", path, sizeof(path)), 0);
        assert_string_equal(path, "/user.slice/s");
        assert_int_equal(cgroup_parse_self(text, "acct", path, sizeof(path)), -ENOENT);
        assert_int_equal(cgroup_parse_self(text, "memory", small, sizeof(small)), -ENAMETOOLONG);
        assert_int_equal(cgroup_parse_self("4:memory\n4:memory:x\n0:", "memory", path, sizeof(path)), -ENOENT);
        assert_int_equal(cgroup_parse_self("4:memory:/", "", path, sizeof(path)), -ENOENT);
        assert_string_equal(path, "/user.slice/s");
}

/* ---- limits and counters on a plain directory ---- */

struct plain {
        char path[64];
        int fd;
};

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        return remove(path);
}

static int plain_setup(void **state)
{
        static struct plain p;

        strcpy(p.path, "/tmp/test-cgroup-XXXXXX");
        if (!mkdtemp(p.path))
                return -1;
        p.fd = open(p.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        *state = &p;
        return p.fd < 0 ? -1 : 0;
}

static int plain_teardown(void **state)
{
        struct plain *p = *state;

        safe_close(p->fd);
        return nftw(p->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void put(struct plain *p, const char *name, const char *text)
{
        _cleanup_close_ int fd = openat(p->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        assert_true(fd >= 0);
        assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void assert_file(struct plain *p, const char *name, const char *text)
{
        char got[256];

        assert_true(file_read_at(p->fd, name, got, sizeof(got)) >= 0);
        assert_string_equal(got, text);
}

static void test_limits_v1(void **state)
{
        struct plain *p = *state;
        const struct cgroup_limits limits = { .memory_bytes = 268435456, .pids = 64, .cpu_milli = 1500 };
        const struct cgroup_limits small = { .cpu_milli = 1 }, none = { 0 };

        assert_int_equal(cgroup_apply_limits(p->fd, CGROUP_MEMORY, &limits), -ENOENT);
        put(p, "memory.limit_in_bytes", "");
        assert_int_equal(cgroup_apply_limits(p->fd, CGROUP_MEMORY, &limits), 0); /* no swap accounting */
        put(p, "memory.memsw.limit_in_bytes", "");
        put(p, "memory.swappiness", "");
        assert_int_equal(cgroup_apply_limits(p->fd, CGROUP_MEMORY, &limits), 0);
        assert_file(p, "memory.limit_in_bytes", "268435456");
        assert_file(p, "memory.memsw.limit_in_bytes", "268435456");
        assert_file(p, "memory.swappiness", "0");

        assert_int_equal(cgroup_apply_limits(p->fd, CGROUP_PIDS, &limits), -ENOENT);
        put(p, "pids.max", "");
        assert_int_equal(cgroup_apply_limits(p->fd, CGROUP_PIDS, &limits), 0);
        assert_file(p, "pids.max", "64");

        assert_int_equal(cgroup_apply_limits(p->fd, CGROUP_CPU, &none), 0);
        assert_int_equal(cgroup_apply_limits(p->fd, CGROUP_CPU, &limits), -ENOENT);
        put(p, "cpu.cfs_quota_us", "");
        assert_int_equal(cgroup_apply_limits(p->fd, CGROUP_CPU, &limits), 0);
        assert_file(p, "cpu.cfs_quota_us", "150000");
        put(p, "cpu.cfs_quota_us", "");
        assert_int_equal(cgroup_apply_limits(p->fd, CGROUP_CPU, &small), 0);
        assert_file(p, "cpu.cfs_quota_us", "1000");
        assert_int_equal(cgroup_apply_limits(p->fd, CGROUP_CPUACCT, &limits), 0);
}

static void test_limits_v2(void **state)
{
        struct plain *p = *state;
        const struct cgroup_limits limits = { .memory_bytes = 1048576, .pids = 3, .cpu_milli = 500 };
        const struct cgroup_limits none = { 0 };

        assert_int_equal(cgroup_apply_limits(p->fd, CGROUP_UNIFIED, &none), 0);
        assert_int_equal(cgroup_apply_limits(p->fd, CGROUP_UNIFIED, &limits), -ENOENT);
        put(p, "memory.max", "");
        put(p, "pids.max", "");
        put(p, "cpu.max", "");
        assert_int_equal(cgroup_apply_limits(p->fd, CGROUP_UNIFIED, &limits), 0);
        assert_file(p, "memory.max", "1048576");
        assert_file(p, "pids.max", "3");
        assert_file(p, "cpu.max", "50000 100000");
        put(p, "memory.swap.max", "");
        put(p, "memory.oom.group", "");
        assert_int_equal(cgroup_apply_limits(p->fd, CGROUP_UNIFIED, &limits), 0);
        assert_file(p, "memory.swap.max", "0");
        assert_file(p, "memory.oom.group", "1");
}

static void test_stats_v1(void **state)
{
        struct plain *p = *state;
        struct cgroup_stats s = { 0 };

        assert_int_equal(cgroup_read_stats(p->fd, CGROUP_MEMORY, false, &s), -ENOENT);
        put(p, "memory.usage_in_bytes", "4096\n");
        put(p, "memory.max_usage_in_bytes", "8192\n");
        put(p, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
        assert_int_equal(cgroup_read_stats(p->fd, CGROUP_MEMORY, false, &s), 0);
        assert_int_equal(s.memory_bytes, 4096);
        assert_int_equal(s.memory_peak_bytes, 8192);
        assert_int_equal(s.oom_kills, 2);

        put(p, "pids.current", "5\n");
        put(p, "pids.events", "max 9\n");
        assert_int_equal(cgroup_read_stats(p->fd, CGROUP_PIDS, false, &s), 0);
        assert_int_equal(s.pids, 5);
        assert_int_equal(s.pids_peak, 0);
        assert_int_equal(s.pids_refused, 9);
        put(p, "pids.peak", "6\n");
        assert_int_equal(cgroup_read_stats(p->fd, CGROUP_PIDS, false, &s), 0);
        assert_int_equal(s.pids_peak, 6);

        put(p, "cpuacct.usage", "1234567890\n");
        assert_int_equal(cgroup_read_stats(p->fd, CGROUP_CPUACCT, false, &s), 0);
        assert_int_equal(s.cpu_usec, 1234567);
        assert_int_equal(cgroup_read_stats(p->fd, CGROUP_CPU, false, &s), 0);
        put(p, "pids.current", "many\n");
        assert_int_equal(cgroup_read_stats(p->fd, CGROUP_PIDS, false, &s), -EINVAL);
}

static void test_stats_v2(void **state)
{
        struct plain *p = *state;
        struct cgroup_stats s = { 0 };

        put(p, "cpu.stat", "usage_usec 71085242\nuser_usec 42152245\nsystem_usec 28932997\nnr_periods 0\n");
        assert_int_equal(cgroup_read_stats(p->fd, CGROUP_UNIFIED, false, &s), 0);
        assert_int_equal(s.cpu_usec, 71085242);
        assert_int_equal(cgroup_read_stats(p->fd, CGROUP_UNIFIED, true, &s), -ENOENT);

        put(p, "memory.current", "12288\n");
        put(p, "memory.events", "low 0\nhigh 0\nmax 31\noom 1\noom_kill 4\noom_group_kill 1\n");
        put(p, "pids.current", "2\n");
        put(p, "pids.events", "max 1\n");
        assert_int_equal(cgroup_read_stats(p->fd, CGROUP_UNIFIED, true, &s), 0);
        assert_int_equal(s.memory_bytes, 12288);
        assert_int_equal(s.memory_peak_bytes, 12288); /* a kernel before 5.19 */
        assert_int_equal(s.oom_kills, 4);
        assert_int_equal(s.pids_refused, 1);
        put(p, "memory.peak", "20480\n");
        put(p, "pids.peak", "3\n");
        assert_int_equal(cgroup_read_stats(p->fd, CGROUP_UNIFIED, true, &s), 0);
        assert_int_equal(s.memory_peak_bytes, 20480);
        assert_int_equal(s.pids_peak, 3);
}

/* Nothing but directories with our kind of name is touched, and a left-over goes. */
static void test_plain_box(void **state)
{
        struct plain *p = *state;
        static const char *const others[] = { "glovebox-", "glovebox-1234567", "glovebox-0123456G",
                                              "other-0123456789abcdef", "glovebox-0123456789abcdef.x" };
        int parents[CGROUP_KIND_COUNT] = { p->fd, -1, -1, -1, -1 };
        const struct cgroup_limits none = { 0 }, memory = { .memory_bytes = 4096 };
        struct cgroup_box b, second;

        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                assert_int_equal(cgroup_box_create(&b, parents, false, others[i], &none), -EINVAL);
                assert_int_equal(mkdirat(p->fd, others[i], 0755), 0);
        }
        put(p, "glovebox-0123456789abcdee", "a file");
        assert_int_equal(symlinkat(others[0], p->fd, "glovebox-0123456789abcded"), 0);

        assert_int_equal(cgroup_box_create(&b, parents, false, "glovebox-00000001", &memory), -EOPNOTSUPP);
        assert_int_equal(cgroup_box_create(&b, parents, true, "glovebox-00000001", &memory), -ENOENT);
        assert_int_equal(faccessat(p->fd, "glovebox-00000001", F_OK, 0), -1); /* undone */
        assert_int_equal(cgroup_box_create(&b, parents, false, "glovebox-00000001", &none), 0);
        assert_int_equal(cgroup_box_create(&second, parents, false, "glovebox-00000001", &none), -EEXIST);
        assert_int_equal(mkdirat(p->fd, "glovebox-00000002", 0755), 0);
        assert_int_equal(cgroup_sweep(parents), 1);
        assert_int_equal(faccessat(p->fd, "glovebox-00000001", F_OK, 0), 0);
        assert_int_equal(cgroup_box_remove(&b, 0), 0);
        assert_int_equal(b.dir[CGROUP_UNIFIED], -1);
        assert_int_equal(cgroup_sweep(parents), 0);
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                assert_int_equal(faccessat(p->fd, others[i], F_OK, 0), 0);
        assert_file(p, "glovebox-0123456789abcdee", "a file");
}

/* cpu and cpuacct in one hierarchy: one directory, made and removed once. */
static void test_shared_hierarchy(void **state)
{
        struct plain *p = *state;
        _cleanup_close_ int again = open(p->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        int parents[CGROUP_KIND_COUNT] = { -1, -1, -1, p->fd, again };
        const struct cgroup_limits none = { 0 };
        struct cgroup_box b;

        assert_int_equal(cgroup_box_create(&b, parents, false, "glovebox-00000003", &none), 0);
        assert_true(b.dir[CGROUP_CPU] >= 0 && b.dir[CGROUP_CPUACCT] >= 0);
        assert_int_equal(cgroup_sweep(parents), 0);
        assert_int_equal(cgroup_box_remove(&b, 0), 0);
        assert_int_equal(faccessat(p->fd, "glovebox-00000003", F_OK, 0), -1);
}

/* ---- the machine's own control groups ---- */

static void assert_killed(pid_t pid)
{
        int status;

        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Boxes are made below groups of the test's own, so that others' boxes are not swept by it, and
 * whatever a failed test leaves is. */
struct real {
        struct cgroup_host host;
        int top[CGROUP_KIND_COUNT]; /* the parents that were found; host.parent are the test's own */
        char own[40], name[32];
        struct cgroup_box box;
        int started[2], go[2]; /* pipes to and from a child */
};

/* It can be there already: two kinds may share a hierarchy. */
static int make_own_parent(struct real *t, int kind)
{
        int fd;

        t->top[kind] = t->host.parent[kind];
        t->host.parent[kind] = -1;
        if (t->top[kind] < 0)
                return 0;
        if (mkdirat(t->top[kind], t->own, 0755) < 0 && errno != EEXIST)
                return -errno;
        fd = t->host.parent[kind] = openat(t->top[kind], t->own, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        if (!t->host.unified_controllers)
                return 0;
        return file_write_at(fd, "cgroup.subtree_control", t->host.cpu ? "+memory +pids +cpu" : "+memory +pids");
}

static int real_setup(void **state)
{
        static struct real t;
        uint64_t id;

        *state = &t;
        if (cgroup_find(true, &t.host) < 0 || getrandom(&id, sizeof(id), 0) != sizeof(id))
                return -1;
        snprintf(t.name, sizeof(t.name), "%s%016llx", CGROUP_NAME_PREFIX, (unsigned long long)id);
        snprintf(t.own, sizeof(t.own), "test-%s", t.name);
        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++)
                t.box.dir[kind] = -1;
        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++)
                if (make_own_parent(&t, kind) < 0)
                        return -1;
        return pipe2(t.started, O_CLOEXEC) < 0 || pipe2(t.go, O_CLOEXEC) < 0 ? -1 : 0;
}

static int real_teardown(void **state)
{
        struct real *t = *state;

        for (int i = 0; i < 2; i++) {
                safe_close(t->started[i]);
                safe_close(t->go[i]);
        }
        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++)
                safe_close(t->box.dir[kind]); /* of a test that failed */
        (void)cgroup_sweep(t->host.parent);
        cgroup_host_done(&t->host);
        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++) {
                if (t->top[kind] >= 0 && unlinkat(t->top[kind], t->own, AT_REMOVEDIR) < 0 && errno != ENOENT)
                        return -1;
                safe_close(t->top[kind]);
        }
        return 0;
}

static void skip_unless_usable(struct real *t)
{
        if (t->host.memory && t->host.pids && t->host.cpu)
                return;
        print_message("skipped: %s\n", t->host.why_not);
        skip();
}

static int create(struct real *t, struct cgroup_box *b, const struct cgroup_limits *limits)
{
        return cgroup_box_create(b, t->host.parent, t->host.unified_controllers, t->name, limits);
}

static size_t count_dirs(const struct real *t)
{
        size_t n = 0;

        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++)
                if (t->host.parent[kind] >= 0 && faccessat(t->host.parent[kind], t->name, F_OK, 0) == 0)
                        n++;
        return n;
}

/* v1 by `tasks`, the v2 tree by cgroup.procs (its clone flag is the warden's affair). */
static bool join(const struct cgroup_box *b)
{
        int fds[CGROUP_KIND_COUNT];
        int n = cgroup_box_open_join(b, fds);

        if (n < 0)
                return false;
        for (int i = 0; i < n; i++) {
                if (write(fds[i], "0", 1) != 1)
                        return false;
                close(fds[i]);
        }
        return b->dir[CGROUP_UNIFIED] < 0 || file_write_at(b->dir[CGROUP_UNIFIED], "cgroup.procs", "0") == 0;
}

/* Lives in the box: 16 MiB and some cpu time, then waits to be killed. */
static _noreturn_ void inmate(const struct real *t, const struct cgroup_box *b)
{
        bool joined = join(b);

        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++)
                safe_close(b->dir[kind]);
        char *memory = malloc(16 << 20);
        if (!joined || !memory)
                _exit(1);
        uint64_t end = monotonic_usec() + 20000;
        do
                for (size_t i = 0; i < 16 << 20; i += 4096)
                        ((volatile char *)memory)[i] = 1;
        while (monotonic_usec() < end);
        if (write(t->started[1], "x", 1) != 1)
                _exit(1);
        for (;;)
                pause();
}

static pid_t start_inmate(const struct real *t, const struct cgroup_box *b)
{
        pid_t pid = fork();
        char c;

        assert_true(pid >= 0);
        if (pid == 0)
                inmate(t, b);
        assert_int_equal(read(t->started[0], &c, 1), 1);
        return pid;
}

static void test_real_box(void **state)
{
        struct real *t = *state;
        const struct cgroup_limits limits = { .memory_bytes = 64 << 20, .pids = 8, .cpu_milli = 1000 };
        struct cgroup_box other;
        struct cgroup_stats s;

        skip_unless_usable(t);
        assert_int_equal(create(t, &t->box, &limits), 0);
        assert_int_equal(create(t, &other, &limits), -EEXIST);
        assert_int_equal(cgroup_box_read(&t->box, &s), 0);
        assert_int_equal(s.pids, 0);
        assert_int_equal(s.oom_kills, 0);

        pid_t pid = start_inmate(t, &t->box);
        assert_int_equal(cgroup_box_read(&t->box, &s), 0);
        assert_int_equal(s.pids, 1);
        assert_in_range(s.memory_peak_bytes, 16 << 20, 64 << 20);
        assert_in_range(s.memory_bytes, 16 << 20, 64 << 20);
        assert_in_range(s.cpu_usec, 1000, 10000000);
        assert_int_equal(cgroup_sweep(t->host.parent), 0); /* its maker lives: it stays */
        assert_true(count_dirs(t) > 0);
        assert_int_equal(kill(pid, 0), 0);

        assert_int_equal(cgroup_box_kill(&t->box), 0);
        assert_killed(pid);
        assert_int_equal(cgroup_box_remove(&t->box, 10000000), 0);
        assert_int_equal(count_dirs(t), 0);
}

/* Without cgroup.kill, as on v1 alone. */
static void test_real_kill_one_by_one(void **state)
{
        struct real *t = *state;
        const struct cgroup_limits limits = { .memory_bytes = 64 << 20, .pids = 8 };

        skip_unless_usable(t);
        if (t->host.unified_controllers) {
                print_message("skipped: no cgroup v1 on this host\n");
                skip();
        }
        int parents[CGROUP_KIND_COUNT] = { -1, t->host.parent[CGROUP_MEMORY], t->host.parent[CGROUP_PIDS], -1, -1 };
        assert_int_equal(cgroup_box_create(&t->box, parents, false, t->name, &limits), 0);
        pid_t one = start_inmate(t, &t->box), two = start_inmate(t, &t->box);
        assert_int_equal(cgroup_box_kill(&t->box), 0); /* though nobody has waited for them yet */
        assert_killed(one);
        assert_killed(two);
        assert_int_equal(cgroup_box_remove(&t->box, 10000000), 0);
        assert_int_equal(count_dirs(t), 0);
}

/* The limits bind: memory kills, pids refuse. */
static void test_real_limits(void **state)
{
        struct real *t = *state;
        const struct cgroup_limits limits = { .memory_bytes = 8 << 20, .pids = 1 };
        struct cgroup_stats s;

        skip_unless_usable(t);
        assert_int_equal(create(t, &t->box, &limits), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                if (!join(&t->box) || fork() >= 0)
                        _exit(1);
                char *memory = malloc(32 << 20);
                for (size_t i = 0; memory && i < 32 << 20; i += 4096)
                        ((volatile char *)memory)[i] = 1;
                _exit(2);
        }
        assert_killed(pid);
        assert_int_equal(cgroup_box_read(&t->box, &s), 0);
        assert_true(s.oom_kills >= 1);
        assert_true(s.pids_refused >= 1);
        assert_in_range(s.memory_peak_bytes, 4 << 20, 8 << 20);
        assert_int_equal(cgroup_box_remove(&t->box, 10000000), 0);
}

/* Time to leave is limited, and what stays is left to the next sweep. */
static void test_real_remove_timeout(void **state)
{
        struct real *t = *state;
        const struct cgroup_limits none = { 0 };

        skip_unless_usable(t);
        assert_int_equal(create(t, &t->box, &none), 0);
        pid_t pid = start_inmate(t, &t->box);
        uint64_t start = monotonic_usec();
        assert_int_equal(cgroup_box_remove(&t->box, 20000), -EBUSY);
        assert_in_range(monotonic_usec() - start, 20000, 20000000);
        assert_true(count_dirs(t) > 0);
        assert_true(cgroup_sweep(t->host.parent) > 0);
        assert_killed(pid);
        assert_int_equal(count_dirs(t), 0);
}

/* The maker is killed while its box runs: the sweep ends the box. */
static void test_real_sweep(void **state)
{
        struct real *t = *state;
        const struct cgroup_limits limits = { .pids = 8 };
        char c;

        skip_unless_usable(t);
        pid_t maker = fork();
        assert_true(maker >= 0);
        if (maker == 0) {
                if (create(t, &t->box, &limits) < 0)
                        _exit(1);
                pid_t pid = fork();
                if (pid == 0) {
                        close(t->go[0]); /* so that its end is seen as the end of that pipe */
                        inmate(t, &t->box);
                }
                for (;;)
                        pause();
        }
        t->go[1] = safe_close(t->go[1]);
        assert_int_equal(read(t->started[0], &c, 1), 1);
        size_t dirs = count_dirs(t);
        assert_true(dirs > 0);
        assert_int_equal(cgroup_sweep(t->host.parent), 0);

        assert_int_equal(kill(maker, SIGKILL), 0);
        assert_killed(maker);
        assert_int_equal(count_dirs(t), dirs);
        assert_int_equal(cgroup_sweep(t->host.parent), dirs);
        assert_int_equal(count_dirs(t), 0);
        assert_int_equal(read(t->go[0], &c, 1), 0); /* nobody is left to hold the other end */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parse_counter),
                cmocka_unit_test(test_parse_key),
                cmocka_unit_test(test_next_pid),
                cmocka_unit_test(test_parse_self),
                cmocka_unit_test_setup_teardown(test_limits_v1, plain_setup, plain_teardown),
                cmocka_unit_test_setup_teardown(test_limits_v2, plain_setup, plain_teardown),
                cmocka_unit_test_setup_teardown(test_stats_v1, plain_setup, plain_teardown),
                cmocka_unit_test_setup_teardown(test_stats_v2, plain_setup, plain_teardown),
                cmocka_unit_test_setup_teardown(test_plain_box, plain_setup, plain_teardown),
                cmocka_unit_test_setup_teardown(test_shared_hierarchy, plain_setup, plain_teardown),
                cmocka_unit_test_setup_teardown(test_real_box, real_setup, real_teardown),
                cmocka_unit_test_setup_teardown(test_real_kill_one_by_one, real_setup, real_teardown),
                cmocka_unit_test_setup_teardown(test_real_limits, real_setup, real_teardown),
                cmocka_unit_test_setup_teardown(test_real_remove_timeout, real_setup, real_teardown),
                cmocka_unit_test_setup_teardown(test_real_sweep, real_setup, real_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
