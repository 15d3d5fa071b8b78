/* SPDX-License-Identifier: Apache-2.0
 *
 * The search, in a made-up file system: a plain directory plays "/", and the mountinfo texts name
 * its device number, since the search checks that a mount point is what its line says. */
#include "kernel/cgroup.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#define SWAP_HEADING "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
#define SWAP_ON SWAP_HEADING "/swapfile file\t\t1048572\t0\t-2\n"
#define NOBODY 65534

struct tree {
        char path[64];
        int fd;
        dev_t dev;
        char mountinfo[4096];
        struct cgroup_sources s;
};

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        return remove(path);
}

static int setup(void **state)
{
        static struct tree t;
        struct stat st;

        memset(&t, 0, sizeof(t));
        strcpy(t.path, "/tmp/test-cgroup-find-XXXXXX");
        if (!mkdtemp(t.path) || chmod(t.path, 0755) < 0)
                return -1;
        t.fd = open(t.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (t.fd < 0 || fstat(t.fd, &st) < 0)
                return -1;
        t.dev = st.st_dev;
        t.s = (struct cgroup_sources){ .rootfd = t.fd, .mountinfo = t.mountinfo, .swaps = SWAP_HEADING };
        *state = &t;
        return 0;
}

static int teardown(void **state)
{
        struct tree *t = *state;

        safe_close(t->fd);
        return nftw(t->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void put(struct tree *t, const char *dir, const char *name, const char *text)
{
        char path[256];

        snprintf(path, sizeof(path), "%s/%s", dir, name);
        _cleanup_close_ int fd = openat(t->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
        assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void add_dir(struct tree *t, const char *dir)
{
        char path[256];

        snprintf(path, sizeof(path), "%s", dir);
        for (char *p = path; (p = strchr(p, '/')); *p++ = '/') {
                *p = '\0';
                assert_true(mkdirat(t->fd, path, 0755) == 0 || errno == EEXIST);
        }
        assert_true(mkdirat(t->fd, path, 0755) == 0 || errno == EEXIST);
}

static void add_mount(struct tree *t, const char *root, const char *target, const char *type, const char *options)
{
        size_t used = strlen(t->mountinfo);

        snprintf(t->mountinfo + used, sizeof(t->mountinfo) - used, "31 23 %u:%u %s /%s rw shared:7 - %s none rw%s\n",
                 major(t->dev), minor(t->dev), root, target, type, options);
}

static void add_v1(struct tree *t, const char *controllers, const char *group)
{
        char target[64], dir[128], options[64];

        snprintf(target, sizeof(target), "cg/%s", controllers);
        snprintf(dir, sizeof(dir), "%s%s", target, group);
        snprintf(options, sizeof(options), ",%s", controllers);
        add_dir(t, dir);
        put(t, dir, "cgroup.procs", "");
        put(t, dir, "cpu.cfs_quota_us", "-1\n");
        add_mount(t, "/", target, "cgroup", options);
}

static void add_v2(struct tree *t, const char *group, const char *controllers, const char *enabled, const char *procs)
{
        char dir[128];

        snprintf(dir, sizeof(dir), "cg%s", group);
        add_dir(t, dir);
        put(t, dir, "cgroup.controllers", controllers);
        put(t, dir, "cgroup.subtree_control", enabled);
        put(t, dir, "cgroup.procs", procs);
        if (*group)
                put(t, dir, "cgroup.type", "domain\n");
}

static void assert_parent(struct tree *t, const struct cgroup_host *h, int kind, const char *dir)
{
        struct stat a, b;

        if (!dir) {
                assert_int_equal(h->parent[kind], -1);
                return;
        }
        assert_true(h->parent[kind] >= 0);
        assert_int_equal(fstat(h->parent[kind], &a), 0);
        assert_int_equal(fstatat(t->fd, dir, &b, 0), 0);
        assert_true(a.st_ino == b.st_ino);
}

static void assert_says(const struct cgroup_host *h, const char *part)
{
        if (!strstr(h->why_not, part))
                fail_msg("\"%s\" is not in \"%s\"", part, h->why_not);
        assert_true(strlen(h->why_not) < sizeof(h->why_not) - 1); /* not cut off */
}

static void test_nothing(void **state)
{
        struct tree *t = *state;
        struct cgroup_host h;

        t->s.self = "";
        strcpy(t->mountinfo, "garbage\n1 2 0:3 / / rw - tmpfs tmpfs rw\n");
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_int_equal(h.mode, CGROUP_MODE_NONE);
        assert_false(h.memory || h.pids || h.cpu || h.swap);
        assert_says(&h, "mount -t cgroup2");
        cgroup_host_done(&h);
}

static void test_v1(void **state)
{
        struct tree *t = *state;
        struct cgroup_host h;

        add_v1(t, "memory", "/job/1");
        add_v1(t, "pids", "/");
        add_v1(t, "cpu,cpuacct", "/");
        t->s.self = "4:memory:/job/1\n3:pids:/\n2:cpu,cpuacct:/\n1:name=systemd:/x\n";
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_int_equal(h.mode, CGROUP_MODE_V1);
        assert_true(h.memory && h.pids && h.cpu && h.swap);
        assert_false(h.unified_controllers);
        assert_string_equal(h.why_not, "");
        assert_parent(t, &h, CGROUP_MEMORY, "cg/memory/job/1");
        assert_parent(t, &h, CGROUP_PIDS, "cg/pids");
        assert_parent(t, &h, CGROUP_CPU, "cg/cpu,cpuacct");
        assert_parent(t, &h, CGROUP_CPUACCT, "cg/cpu,cpuacct");
        assert_parent(t, &h, CGROUP_UNIFIED, NULL);
        cgroup_host_done(&h);

        t->s.swaps = SWAP_ON;
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_true(h.memory && !h.swap);
        assert_says(&h, "swapaccount=1");
        cgroup_host_done(&h);
        put(t, "cg/memory/job/1", "memory.memsw.limit_in_bytes", "9223372036854771712\n");
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_true(h.swap);
        cgroup_host_done(&h);
}

/* The v2 tree counts cpu time: cpuacct is not joined. */
static void test_hybrid(void **state)
{
        struct tree *t = *state;
        struct cgroup_host h;

        add_v1(t, "memory", "/");
        add_v1(t, "cpu", "/");
        add_v1(t, "cpuacct", "/");
        add_v2(t, "/unified", "", "", "");
        add_mount(t, "/", "cg/unified", "cgroup2", "");
        t->s.self = "4:memory:/\n3:pids:/\n2:cpu:/\n1:cpuacct:/\n0::/\n";
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_int_equal(h.mode, CGROUP_MODE_HYBRID);
        assert_true(h.memory && h.cpu && !h.pids);
        assert_says(&h, "pids controller");
        cgroup_host_done(&h);

        add_v1(t, "pids", "/");
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_true(h.memory && h.cpu && h.pids && !h.unified_controllers);
        assert_parent(t, &h, CGROUP_UNIFIED, NULL);
        assert_parent(t, &h, CGROUP_CPUACCT, "cg/cpuacct");
        assert_string_equal(h.why_not, "");
        cgroup_host_done(&h);
}

/* A container sees only its own part of the tree, mounted as the whole. */
static void test_mount_root(void **state)
{
        struct tree *t = *state;
        struct cgroup_host h;

        add_dir(t, "outside");
        add_dir(t, "inside/sub");
        put(t, "inside/sub", "cgroup.procs", "");
        add_mount(t, "/docker/12", "outside", "cgroup", ",memory");
        add_mount(t, "/docker/1", "inside", "cgroup", ",memory");
        t->s.self = "4:memory:/docker/1/sub\n";
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_parent(t, &h, CGROUP_MEMORY, "inside/sub");
        cgroup_host_done(&h);

        t->s.self = "4:memory:/docker/1/../../outside\n"; /* never above the mount */
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_int_equal(h.mode, CGROUP_MODE_NONE);
        assert_says(&h, "GLOVEBOX_CGROUP");
        cgroup_host_done(&h);
}

/* What is not on the device its line names was mounted over. */
static void test_mounted_over(void **state)
{
        struct tree *t = *state;
        struct cgroup_host h;

        add_v1(t, "memory", "/");
        snprintf(t->mountinfo, sizeof(t->mountinfo), "1 2 0:999999 / /cg/memory rw - cgroup cgroup rw,memory\n");
        t->s.self = "4:memory:/\n";
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_false(h.memory);
        cgroup_host_done(&h);
}

static void test_v1_not_ours(void **state)
{
        struct tree *t = *state;
        struct cgroup_host h;

        if (geteuid() != 0) {
                print_message("skipped: only root can become another user\n");
                skip();
        }
        add_v1(t, "memory", "/");
        add_v1(t, "pids", "/");
        add_v1(t, "cpu", "/");
        t->s.self = "4:memory:/\n3:pids:/\n2:cpu:/\n";
        assert_int_equal(seteuid(NOBODY), 0);
        int r = cgroup_find_from(&t->s, &h);
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(r, 0);
        assert_int_equal(h.mode, CGROUP_MODE_NONE);
        assert_says(&h, "run glovebox as root");
        assert_says(&h, "systemd-run --user --scope -p Delegate=yes");
        cgroup_host_done(&h);
}

/* Our own group has us in it; the one above already passes its controllers on. */
static void test_v2_walk(void **state)
{
        struct tree *t = *state;
        struct cgroup_host h;

        add_v2(t, "", "cpuset cpu io memory pids\n", "cpu memory pids\n", "1\n");
        add_v2(t, "/a", "cpu memory pids\n", "cpu memory pids\n", "");
        add_v2(t, "/a/b", "cpu memory pids\n", "memory pids\n", "17\n");
        add_mount(t, "/", "cg", "cgroup2", ",nsdelegate");
        t->s.self = "0::/a/b\n";
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_int_equal(h.mode, CGROUP_MODE_V2);
        assert_true(h.unified_controllers && h.memory && h.pids && h.cpu && h.swap);
        assert_string_equal(h.why_not, "");
        assert_parent(t, &h, CGROUP_UNIFIED, "cg/a");
        cgroup_host_done(&h);

        t->s.swaps = SWAP_ON;
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_false(h.swap);
        cgroup_host_done(&h);
        put(t, "cg/a", "memory.swap.max", "max\n");
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_true(h.swap);
        cgroup_host_done(&h);
}

static void test_v2_enable(void **state)
{
        struct tree *t = *state;
        struct cgroup_host h;
        char text[64];

        add_v2(t, "", "cpu memory pids\n", "", "1\n");
        add_v2(t, "/a", "cpu memory pids\n", "", "");
        add_v2(t, "/a/b", "cpu memory pids\n", "", "17\n");
        add_mount(t, "/", "cg", "cgroup2", "");
        t->s.self = "0::/a/b\n";
        assert_int_equal(cgroup_find_from(&t->s, &h), 0); /* asking changes nothing */
        assert_parent(t, &h, CGROUP_UNIFIED, "cg/a");
        assert_int_equal(file_read_at(t->fd, "cg/a/cgroup.subtree_control", text, sizeof(text)), 0);
        cgroup_host_done(&h);

        /* The kernel refuses our own group; here a directory in the place of the file does. */
        assert_int_equal(unlinkat(t->fd, "cg/a/b/cgroup.subtree_control", 0), 0);
        add_dir(t, "cg/a/b/cgroup.subtree_control");
        t->s.may_change = true;
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_parent(t, &h, CGROUP_UNIFIED, "cg/a");
        assert_true(file_read_at(t->fd, "cg/a/cgroup.subtree_control", text, sizeof(text)) > 0);
        assert_string_equal(text, "+memory +pids +cpu");
        cgroup_host_done(&h);
}

/* The real root may pass controllers on though processes live in it. */
static void test_v2_root(void **state)
{
        struct tree *t = *state;
        struct cgroup_host h;

        add_v2(t, "", "cpu memory pids\n", "", "1\n17\n");
        add_mount(t, "/", "cg", "cgroup2", "");
        t->s.self = "0::/\n";
        t->s.swaps = SWAP_ON;
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_parent(t, &h, CGROUP_UNIFIED, "cg");
        assert_false(h.swap); /* the root has no such file, and no group tells */
        cgroup_host_done(&h);

        add_v2(t, "/other", "", "", "");
        put(t, "cg/other", "memory.swap.max", "max\n");
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_true(h.swap);
        cgroup_host_done(&h);

        put(t, "cg", "cgroup.type", "domain\n"); /* a container's root is no real one */
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_int_equal(h.mode, CGROUP_MODE_NONE);
        assert_says(&h, "processes of its own");
        cgroup_host_done(&h);
}

static void test_v2_missing_controllers(void **state)
{
        struct tree *t = *state;
        struct cgroup_host h;

        add_v2(t, "", "cpuset memory pids\n", "", "");
        add_mount(t, "/", "cg", "cgroup2", "");
        t->s.self = "0::/\n";
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_int_equal(h.mode, CGROUP_MODE_V2);
        assert_true(h.memory && h.pids && !h.cpu);
        assert_says(&h, "cpu controller");
        cgroup_host_done(&h);

        put(t, "cg", "cgroup.controllers", "memory\n");
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_int_equal(h.mode, CGROUP_MODE_NONE);
        assert_says(&h, "memory and pids");
        cgroup_host_done(&h);
}

static void test_v2_not_ours(void **state)
{
        struct tree *t = *state;
        struct cgroup_host h;

        if (geteuid() != 0) {
                print_message("skipped: only root can become another user\n");
                skip();
        }
        add_v2(t, "", "cpu memory pids\n", "cpu memory pids\n", "");
        add_v2(t, "/a", "cpu memory pids\n", "cpu memory pids\n", "");
        add_mount(t, "/", "cg", "cgroup2", "");
        t->s.self = "0::/a\n";
        t->s.may_change = true;
        assert_int_equal(seteuid(NOBODY), 0);
        int r = cgroup_find_from(&t->s, &h);
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(r, 0);
        assert_int_equal(h.mode, CGROUP_MODE_NONE);
        assert_says(&h, "Delegate=yes");
        cgroup_host_done(&h);
}

static void test_named(void **state)
{
        struct tree *t = *state;
        struct cgroup_host h;

        add_v2(t, "", "cpu memory pids\n", "cpu memory pids\n", "");
        add_v2(t, "/boxes", "cpu memory pids\n", "cpu memory pids\n", "");
        add_v2(t, "/busy", "cpu memory pids\n", "", "17\n");
        add_mount(t, "/", "cg", "cgroup2", "");
        t->s.self = "0::/\n";
        t->s.named = "/boxes";
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_parent(t, &h, CGROUP_UNIFIED, "cg/boxes");
        cgroup_host_done(&h);
        t->s.named = "/cg/boxes"; /* the full path */
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_parent(t, &h, CGROUP_UNIFIED, "cg/boxes");
        cgroup_host_done(&h);

        static const char *const bad[] = { "/busy", "/none", "/../cg/boxes" }; /* no search upward then */
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                t->s.named = bad[i];
                assert_int_equal(cgroup_find_from(&t->s, &h), 0);
                assert_int_equal(h.mode, CGROUP_MODE_NONE);
                assert_says(&h, bad[i]);
                cgroup_host_done(&h);
        }
}

static void test_named_v1(void **state)
{
        struct tree *t = *state;
        struct cgroup_host h;

        add_v1(t, "memory", "/boxes");
        add_v1(t, "pids", "/boxes");
        add_v1(t, "cpu", "/");
        t->s.self = "4:memory:/\n3:pids:/\n2:cpu:/\n";
        t->s.named = "/boxes";
        assert_int_equal(cgroup_find_from(&t->s, &h), 0);
        assert_parent(t, &h, CGROUP_MEMORY, "cg/memory/boxes");
        assert_parent(t, &h, CGROUP_PIDS, "cg/pids/boxes");
        assert_true(h.memory && h.pids && !h.cpu);
        assert_says(&h, "the cpu hierarchy has no usable group /boxes");
        cgroup_host_done(&h);
}

/* The machine itself: whatever it has, the answer is whole. */
static void test_this_host(void **state)
{
        struct cgroup_host h;

        assert_int_equal(cgroup_find(false, &h), 0);
        print_message("mode %s memory %d pids %d cpu %d swap %d: %s\n", cgroup_mode_name(h.mode), h.memory, h.pids,
                      h.cpu, h.swap, h.why_not);
        assert_true((h.memory && h.pids && h.cpu && h.swap) == (h.why_not[0] == '\0'));
        assert_true(h.unified_controllers == (h.mode == CGROUP_MODE_V2));
        cgroup_host_done(&h);
        assert_int_equal(h.parent[CGROUP_MEMORY], -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_nothing, setup, teardown),
                cmocka_unit_test_setup_teardown(test_v1, setup, teardown),
                cmocka_unit_test_setup_teardown(test_hybrid, setup, teardown),
                cmocka_unit_test_setup_teardown(test_mount_root, setup, teardown),
                cmocka_unit_test_setup_teardown(test_mounted_over, setup, teardown),
                cmocka_unit_test_setup_teardown(test_v1_not_ours, setup, teardown),
                cmocka_unit_test_setup_teardown(test_v2_walk, setup, teardown),
                cmocka_unit_test_setup_teardown(test_v2_enable, setup, teardown),
                cmocka_unit_test_setup_teardown(test_v2_root, setup, teardown),
                cmocka_unit_test_setup_teardown(test_v2_missing_controllers, setup, teardown),
                cmocka_unit_test_setup_teardown(test_v2_not_ours, setup, teardown),
                cmocka_unit_test_setup_teardown(test_named, setup, teardown),
                cmocka_unit_test_setup_teardown(test_named_v1, setup, teardown),
                cmocka_unit_test(test_this_host),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
