/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/usage.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNTER_BYTES_MAX 1024
#define PROCESSES_BYTES_MAX 2048 /* of the list: the first few hundred */
#define IO_STAT_BYTES_MAX 16384 /* some hundred devices */

static const struct {
        enum cgroup_kind kind;
        bool controllers; /* only in a v2 tree that has them */
        const char *file;
        const char *key; /* NULL: the file is one number */
        size_t offset;   /* in struct cgroup_stats */
        unsigned divisor;
} counters[USAGE_COUNTERS] = {
#define FIELD(name) offsetof(struct cgroup_stats, name)
        {CGROUP_MEMORY, false, "memory.usage_in_bytes", NULL, FIELD(memory_bytes), 1},
        {CGROUP_MEMORY, false, "memory.max_usage_in_bytes", NULL, FIELD(memory_peak_bytes), 1},
        {CGROUP_MEMORY, false, "memory.oom_control", "oom_kill", FIELD(oom_kills), 1},
        {CGROUP_PIDS, false, "pids.current", NULL, FIELD(pids), 1},
        {CGROUP_PIDS, false, "pids.peak", NULL, FIELD(pids_peak), 1},
        {CGROUP_PIDS, false, "pids.events", "max", FIELD(pids_refused), 1},
        {CGROUP_CPUACCT, false, "cpuacct.usage", NULL, FIELD(cpu_usec), 1000},
        {CGROUP_UNIFIED, false, "cpu.stat", "usage_usec", FIELD(cpu_usec), 1},
        {CGROUP_UNIFIED, true, "memory.current", NULL, FIELD(memory_bytes), 1},
        {CGROUP_UNIFIED, true, "memory.peak", NULL, FIELD(memory_peak_bytes), 1},
        {CGROUP_UNIFIED, true, "memory.events", "oom_kill", FIELD(oom_kills), 1},
        {CGROUP_UNIFIED, true, "pids.current", NULL, FIELD(pids), 1},
        {CGROUP_UNIFIED, true, "pids.peak", NULL, FIELD(pids_peak), 1},
        {CGROUP_UNIFIED, true, "pids.events", "max", FIELD(pids_refused), 1},
#undef FIELD
};

void usage_open(struct usage_files *u, const int dirs[static CGROUP_KIND_COUNT], bool unified_controllers)
{
        for (size_t i = 0; i < USAGE_COUNTERS; i++) {
                int dir = dirs[counters[i].kind];
                bool wanted = dir >= 0 && (!counters[i].controllers || unified_controllers);
                u->fds[i] = wanted ? openat(dir, counters[i].file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
        }
        int dir = dirs[unified_controllers ? CGROUP_UNIFIED : CGROUP_PIDS];
        u->directory = dir >= 0 ? fcntl(dir, F_DUPFD_CLOEXEC, 0) : -1;
        dir = dirs[CGROUP_UNIFIED];
        u->io = dir >= 0 && unified_controllers ? openat(dir, "io.stat", O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
}

void usage_close(struct usage_files *u)
{
        for (size_t i = 0; i < USAGE_COUNTERS; i++)
                u->fds[i] = safe_close(u->fds[i]);
        u->directory = safe_close(u->directory);
        u->io = safe_close(u->io);
}

bool usage_counts(const struct usage_files *u, size_t offset)
{
        for (size_t i = 0; i < USAGE_COUNTERS; i++)
                if (u->fds[i] >= 0 && counters[i].offset == offset)
                        return true;
        return false;
}

int usage_read(const struct usage_files *u, struct cgroup_stats *ret)
{
        char text[COUNTER_BYTES_MAX];

        *ret = (struct cgroup_stats){0};
        for (size_t i = 0; i < USAGE_COUNTERS; i++) {
                uint64_t value = 0;
                if (u->fds[i] < 0)
                        continue;
                ssize_t n = pread(u->fds[i], text, sizeof(text) - 1, 0);
                if (n < 0)
                        return -errno;
                while (n > 0 && text[n - 1] == '\n')
                        n--;
                text[n] = '\0';
                int r = counters[i].key ? cgroup_parse_key(text, counters[i].key, &value) : cgroup_parse_counter(text, &value);
                if (r < 0 && r != -ENOENT)
                        return r;
                *(uint64_t *)(void *)((char *)ret + counters[i].offset) = value / counters[i].divisor;
        }
        return 0;
}

/* The state comes after the name, which may hold anything. */
static char state_of(const char *pid)
{
        char path[32], text[512];

        snprintf(path, sizeof(path), "/proc/%.10s/stat", pid);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return '\0';
        text[n] = '\0';
        const char *end = strrchr(text, ')');
        return end && end[1] == ' ' ? end[2] : '\0';
}

bool usage_is_busy(const struct usage_files *u)
{
        char text[PROCESSES_BYTES_MAX], *state = NULL;

        /* Opened each time, since a v1 kernel shows one snapshot for each open file. */
        _cleanup_close_ int list = u->directory < 0 ? -1 : openat(u->directory, "cgroup.procs", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        ssize_t n = list < 0 ? -1 : read(list, text, sizeof(text) - 1);
        if (n <= 0)
                return false;
        text[n] = '\0';
        for (const char *pid = strtok_r(text, "\n", &state); pid; pid = strtok_r(NULL, "\n", &state)) {
                char c = state_of(pid);
                if (c == 'R' || c == 'D')
                        return true;
        }
        return false;
}

#define COUNTS(u, name) usage_counts(u, offsetof(struct cgroup_stats, name))

int usage_fill(const struct usage_files *u, struct box_usage *ret)
{
        struct cgroup_stats stats;

        int r = usage_read(u, &stats);
        if (r < 0)
                return r;
        *ret = (struct box_usage){
                .cpu_usec = stats.cpu_usec, .memory_bytes = stats.memory_bytes,
                .memory_peak_bytes = stats.memory_peak_bytes, .pids = stats.pids, .pids_peak = stats.pids_peak,
                .oom_kills = stats.oom_kills, .pids_refused = stats.pids_refused,
                .cpu_known = COUNTS(u, cpu_usec), .memory_known = COUNTS(u, memory_bytes),
                .pids_known = COUNTS(u, pids), .kills_known = COUNTS(u, oom_kills),
                /* On v2 since Linux 5.19 and 6.1. Before, what is in use after an end is not what the peak was. */
                .memory_peak_known = COUNTS(u, memory_peak_bytes), .pids_peak_known = COUNTS(u, pids_peak),
        };
        /* Each is read at a moment of its own. */
        ret->memory_peak_bytes = MAX(ret->memory_peak_bytes, ret->memory_bytes);
        ret->pids_peak = MAX(ret->pids_peak, ret->pids);
        ret->io_known = usage_read_io(u, &ret->io_read_bytes, &ret->io_write_bytes) == 0;
        return 0;
}

int usage_parse_io(const char *text, uint64_t *ret_read, uint64_t *ret_write)
{
        static const char *const keys[] = {" rbytes=", " wbytes="};
        uint64_t sums[ARRAY_SIZE(keys)] = {0};

        for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
                for (const char *p = text; (p = strstr(p, keys[k]));) {
                        char *end;
                        p += strlen(keys[k]);
                        errno = 0;
                        unsigned long long n = *p >= '0' && *p <= '9' ? strtoull(p, &end, 10) : 0;
                        if (*p < '0' || *p > '9' || errno != 0 || (*end != ' ' && *end != '\n' && *end != '\0') || __builtin_add_overflow(sums[k], n, &sums[k]))
                                return -EINVAL;
                        p = end;
                }
        *ret_read = sums[0];
        *ret_write = sums[1];
        return 0;
}

int usage_read_io(const struct usage_files *u, uint64_t *ret_read, uint64_t *ret_write)
{
        char text[IO_STAT_BYTES_MAX];

        if (u->io < 0)
                return -ENODATA;
        ssize_t n = pread(u->io, text, sizeof(text) - 1, 0);
        if (n < 0)
                return -errno;
        text[n] = '\0';
        return usage_parse_io(text, ret_read, ret_write);
}
