/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of a control group say: limits into them, counters out of them. Works on any
 * directory, allocates nothing. */
#include "kernel/cgroup.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNTER_FILE_BYTES_MAX 4096 /* cpu.stat and memory.events have some hundred bytes */
#define SOCKET_BYTES_MAX (16 * MIB)
#define CPU_PERIOD_USEC 100000
#define CPU_QUOTA_MIN_USEC 1000ULL /* the kernel's own minimum */
#define CPU_MILLI_MAX 100000000ULL

/* ---- limits ---- */

static int write_number(int dirfd, const char *name, uint64_t value)
{
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, value);
        return file_write_at(dirfd, name, text);
}

/* For files that only some kernels or configurations have. */
static int ignore_missing(int r)
{
        return r == -ENOENT ? 0 : r;
}

static uint64_t cpu_quota_usec(uint64_t milli)
{
        uint64_t quota = MIN(milli, CPU_MILLI_MAX) * (CPU_PERIOD_USEC / 1000);

        return MAX(quota, CPU_QUOTA_MIN_USEC);
}

static int limit_v1_memory(int dirfd, uint64_t bytes)
{
        int r = write_number(dirfd, "memory.limit_in_bytes", bytes);
        if (r < 0)
                return r;
        /* Memory and swap together: with the same value there is no room for swap. The kernel wants
         * this order. Without swap accounting the file is missing (cgroup_find() has told so). */
        r = ignore_missing(write_number(dirfd, "memory.memsw.limit_in_bytes", bytes));
        if (r < 0)
                return r;
        (void)write_number(dirfd, "memory.swappiness", 0); /* a help, not a control */
        /* v1 counts the buffers of sockets apart from all other memory: without a limit of their own they
         * would have none. */
        r = ignore_missing(write_number(dirfd, "memory.kmem.tcp.limit_in_bytes", MIN(bytes, SOCKET_BYTES_MAX)));
        if (r < 0)
                return r;
        return 0;
}

static int limit_v1_cpu(int dirfd, uint64_t milli)
{
        /* The period is CPU_PERIOD_USEC in every new group. */
        int r = write_number(dirfd, "cpu.cfs_quota_us", cpu_quota_usec(milli));
        /* v1 refuses a child a larger share than an ancestor has. That ancestor's smaller limit
         * binds us then without our doing. */
        return r == -EINVAL ? 0 : r;
}

static int limit_v2(int dirfd, const struct cgroup_limits *limits)
{
        int r;

        if (limits->memory_bytes > 0) {
                r = write_number(dirfd, "memory.max", limits->memory_bytes);
                if (r < 0)
                        return r;
                r = ignore_missing(write_number(dirfd, "memory.swap.max", 0));
                if (r < 0)
                        return r;
                /* A box dies as a whole: half of it alive helps nobody. Since Linux 4.19. */
                r = ignore_missing(write_number(dirfd, "memory.oom.group", !limits->keep_others));
                if (r < 0)
                        return r;
        }
        if (limits->pids > 0) {
                r = write_number(dirfd, "pids.max", limits->pids);
                if (r < 0)
                        return r;
        }
        if (limits->cpu_milli > 0) {
                char text[48];
                snprintf(text, sizeof(text), "%" PRIu64 " %d", cpu_quota_usec(limits->cpu_milli), CPU_PERIOD_USEC);
                r = file_write_at(dirfd, "cpu.max", text);
                if (r < 0)
                        return r;
        }
        return 0;
}

int cgroup_apply_limits(int dirfd, enum cgroup_kind kind, const struct cgroup_limits *limits)
{
        switch (kind) {
        case CGROUP_UNIFIED:
                return limit_v2(dirfd, limits);
        case CGROUP_MEMORY:
                return limits->memory_bytes > 0 ? limit_v1_memory(dirfd, limits->memory_bytes) : 0;
        case CGROUP_PIDS:
                return limits->pids > 0 ? write_number(dirfd, "pids.max", limits->pids) : 0;
        case CGROUP_CPU:
                return limits->cpu_milli > 0 ? limit_v1_cpu(dirfd, limits->cpu_milli) : 0;
        case CGROUP_CPUACCT:
                return 0;
        case CGROUP_KIND_COUNT:
                break;
        }
        return -EINVAL;
}

/* ---- counters ---- */

/* Digits at *text, which moves behind them. */
static int parse_digits(const char **text, uint64_t *ret)
{
        const char *p = *text;
        uint64_t value = 0;

        if (*p < '0' || *p > '9')
                return -EINVAL;
        for (; *p >= '0' && *p <= '9'; p++)
                if (__builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
                        return -ERANGE;
        *text = p;
        *ret = value;
        return 0;
}

int cgroup_parse_counter(const char *text, uint64_t *ret)
{
        uint64_t value = UINT64_MAX;

        if (strncmp(text, "max", 3) == 0)
                text += 3;
        else {
                int r = parse_digits(&text, &value);
                if (r < 0)
                        return r;
        }
        if (*text == '\n')
                text++;
        if (*text)
                return -EINVAL;
        *ret = value;
        return 0;
}

int cgroup_parse_key(const char *text, const char *key, uint64_t *ret)
{
        size_t size = strlen(key);

        for (const char *line = text; line; line = strchr(line, '\n')) {
                if (*line == '\n')
                        line++;
                if (strncmp(line, key, size) != 0 || line[size] != ' ')
                        continue;

                const char *p = line + size + 1;
                uint64_t value;
                int r = parse_digits(&p, &value);
                if (r < 0)
                        return r;
                if (*p && *p != '\n')
                        return -EINVAL;
                *ret = value;
                return 0;
        }
        return -ENOENT;
}

static int read_counter(int dirfd, const char *name, uint64_t *ret)
{
        char text[COUNTER_FILE_BYTES_MAX];

        int r = file_read_at(dirfd, name, text, sizeof(text));
        return r < 0 ? r : cgroup_parse_counter(text, ret);
}

static int read_key(int dirfd, const char *name, const char *key, uint64_t *ret)
{
        char text[COUNTER_FILE_BYTES_MAX];

        int r = file_read_at(dirfd, name, text, sizeof(text));
        return r < 0 ? r : cgroup_parse_key(text, key, ret);
}

int cgroup_read_tasks(int dirfd, uint64_t *ret)
{
        return read_counter(dirfd, "pids.current", ret);
}

static int read_pids(int dirfd, struct cgroup_stats *stats)
{
        int r = cgroup_read_tasks(dirfd, &stats->pids);
        if (r < 0)
                return r;
        r = ignore_missing(read_counter(dirfd, "pids.peak", &stats->pids_peak)); /* since Linux 6.1 */
        if (r < 0)
                return r;
        return ignore_missing(read_key(dirfd, "pids.events", "max", &stats->pids_refused));
}

static int read_v1_memory(int dirfd, struct cgroup_stats *stats)
{
        int r = read_counter(dirfd, "memory.usage_in_bytes", &stats->memory_bytes);
        if (r < 0)
                return r;
        r = read_counter(dirfd, "memory.max_usage_in_bytes", &stats->memory_peak_bytes);
        if (r < 0)
                return r;
        return ignore_missing(read_key(dirfd, "memory.oom_control", "oom_kill", &stats->oom_kills));
}

static int read_v2(int dirfd, struct cgroup_stats *stats)
{
        int r = read_counter(dirfd, "memory.current", &stats->memory_bytes);
        if (r < 0)
                return r;
        r = read_counter(dirfd, "memory.peak", &stats->memory_peak_bytes); /* since Linux 5.19 */
        if (r == -ENOENT)
                stats->memory_peak_bytes = stats->memory_bytes;
        else if (r < 0)
                return r;
        r = read_key(dirfd, "memory.events", "oom_kill", &stats->oom_kills);
        if (r < 0)
                return r;
        return read_pids(dirfd, stats);
}

int cgroup_read_stats(int dirfd, enum cgroup_kind kind, bool unified_controllers, struct cgroup_stats *stats)
{
        uint64_t nsec;
        int r;

        switch (kind) {
        case CGROUP_UNIFIED: /* cpu time is counted even without the controller */
                r = read_key(dirfd, "cpu.stat", "usage_usec", &stats->cpu_usec);
                if (r < 0 || !unified_controllers)
                        return r;
                return read_v2(dirfd, stats);
        case CGROUP_MEMORY:
                return read_v1_memory(dirfd, stats);
        case CGROUP_PIDS:
                return read_pids(dirfd, stats);
        case CGROUP_CPU:
                return 0;
        case CGROUP_CPUACCT:
                r = read_counter(dirfd, "cpuacct.usage", &nsec);
                if (r < 0)
                        return r;
                stats->cpu_usec = nsec / 1000;
                return 0;
        case CGROUP_KIND_COUNT:
                break;
        }
        return -EINVAL;
}
