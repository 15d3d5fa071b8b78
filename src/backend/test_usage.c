/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_io(void **state)
{
        static const struct {
                const char *text;
                int r;
                uint64_t read, written;
        } rows[] = {
                {"", 0, 0, 0},
                {"8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n", 0, 4096, 8192},
                {"8:0 rbytes=1 wbytes=2\n254:0 rbytes=10 wbytes=20 rios=1\n9:1 wbytes=200\n", 0, 11, 222},
                {"8:0 \n8:16 rbytes=7", 0, 7, 0},
                {"8:0 rbytes=18446744073709551615 wbytes=0\n", 0, UINT64_MAX, 0},
                {"8:0 rbytes=18446744073709551615\n8:1 rbytes=1\n", -EINVAL, 0, 0},
                {"8:0 rbytes=99999999999999999999\n", -EINVAL, 0, 0},
                {"8:0 rbytes=-1\n", -EINVAL, 0, 0},
                {"8:0 rbytes=\n", -EINVAL, 0, 0},
                {"8:0 rbytes=1x\n", -EINVAL, 0, 0},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                uint64_t read = 0, written = 0;
                if (usage_parse_io(rows[i].text, &read, &written) != rows[i].r || read != rows[i].read || written != rows[i].written)
                        fail_msg("\"%s\"", rows[i].text);
        }
}

static void put(int dir, const char *name, const char *text)
{
        int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        close(fd);
}

static struct box_usage fill(int dir)
{
        int dirs[CGROUP_KIND_COUNT];
        struct usage_files files;
        struct box_usage usage;

        memset(dirs, -1, sizeof(dirs));
        dirs[CGROUP_UNIFIED] = dir;
        usage_open(&files, dirs, true);
        assert_int_equal(usage_fill(&files, &usage), 0);
        usage_close(&files);
        return usage;
}

/* As Linux 5.15 has them, then as 6.1 has: what is in use now is no peak. */
static void test_a_kernel_without_peaks(void **state)
{
        static const char *const names[] = {"memory.current", "memory.events", "pids.current", "memory.peak", "pids.peak"};
        char path[] = "/tmp/test-usage-XXXXXX";

        assert_non_null(mkdtemp(path));
        int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(dir >= 0);
        put(dir, "memory.current", "5000000\n");
        put(dir, "memory.events", "low 0\noom 1\noom_kill 1\n");
        put(dir, "pids.current", "3\n");
        struct box_usage u = fill(dir);
        assert_true(u.memory_known && u.pids_known && u.kills_known);
        assert_false(u.memory_peak_known || u.pids_peak_known || u.cpu_known || u.io_known);
        assert_int_equal(u.oom_kills, 1);

        put(dir, "memory.peak", "268435456\n");
        put(dir, "pids.peak", "40\n");
        u = fill(dir);
        assert_true(u.memory_peak_known && u.pids_peak_known);
        assert_int_equal(u.memory_peak_bytes, 268435456);
        assert_int_equal(u.pids_peak, 40);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                unlinkat(dir, names[i], 0);
        close(dir);
        rmdir(path);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_io), cmocka_unit_test(test_a_kernel_without_peaks)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
