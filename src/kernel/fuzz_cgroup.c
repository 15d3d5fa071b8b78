/* SPDX-License-Identifier: Apache-2.0
 *
 * The readers of /proc/self/cgroup, of the counter files and of cgroup.procs. */
#include "base/limits.h"
#include "base/macro.h"
#include "kernel/cgroup.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void feed_self(const char *text)
{
        static const char *const controllers[] = { "", "memory", "pids", "cpu", "cpuacct" };
        char path[HOST_PATH_MAX], small[4];

        for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
                if (cgroup_parse_self(text, controllers[i], path, sizeof(path)) == 0 &&
                    (path[0] != '/' || strchr(path, '\n')))
                        abort();
                (void)cgroup_parse_self(text, controllers[i], small, sizeof(small));
        }
}

static void feed_counters(const char *text)
{
        static const char *const keys[] = { "oom_kill", "max", "usage_usec" };
        uint64_t value;

        (void)cgroup_parse_counter(text, &value);
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                (void)cgroup_parse_key(text, keys[i], &value);
}

/* Never a pid that kill() would take for more than one process. */
static void feed_pids(const char *p, const char *end)
{
        pid_t pid;

        for (const char *next; (next = cgroup_next_pid(p, end, &pid)); p = next)
                if (pid < 0 || next <= p || next > end)
                        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = malloc(size + 1);
        if (!text)
                return 0;
        if (size > 0)
                memcpy(text, data, size);
        text[size] = '\0';

        feed_self(text);
        feed_counters(text);
        feed_pids(text, text + size);
        free(text);
        return 0;
}
