/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest of: what the kernel calls available, and of each cgroup that we are in and that has a limit, the room below it. Boxes are made in
 * cgroups below our own (or beside it, then the host's number is what counts). Page cache that nobody used for a while counts as room. */
#include "server/host_memory.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/macro.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CGROUP_ROOT "/sys/fs/cgroup"
#define STAT_BYTES_MAX 8192
#define NO_LIMIT_BYTES (1ULL << 60) /* v1 says "none" by a number about as large as there can be */

static int read_file(const char *directory, const char *name, char *buf, size_t size)
{
        _cleanup_close_ int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? -errno : file_read_at(fd, name, buf, size);
}

/* The number in a file of one word; UINT64_MAX for "max". A negative errno when it cannot be read. */
static int read_number(const char *directory, const char *name, uint64_t *ret)
{
        char text[64];

        int r = read_file(directory, name, text, sizeof(text));
        if (r < 0)
                return r;
        if (strcmp(text, "max") == 0) {
                *ret = UINT64_MAX;
                return 0;
        }
        return parse_count(text, ret) < 0 ? -EBADMSG : 0;
}

/* Whether the next look may succeed. A file that is not there, or closed to us, limits nothing. */
static bool passes(int r)
{
        return r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

/* A line "name value" of a file of such lines. */
static int read_line(const char *text, const char *name, uint64_t *ret)
{
        size_t n = strlen(name);

        for (const char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, name, n) == 0 && (line[n] == ' ' || line[n] == ':')) {
                        char *end;
                        errno = 0;
                        *ret = strtoull(line + n + 1, &end, 10);
                        return end == line + n + 1 || errno != 0 ? -EBADMSG : 0;
                }
                if (*line == '\0')
                        break;
        }
        return -ENOENT;
}

/* ---- which groups ---- */

/* The group's directory and those above it. The root of a mount has no limit files on a host, and has them in a container. */
static void add_groups(struct host_memory *m, const char *mount, const char *path)
{
        _cleanup_free_ char *at = NULL;
        size_t base = strlen(mount);

        if (asprintf(&at, "%s%s", mount, strcmp(path, "/") == 0 ? "" : path) < 0) {
                at = NULL;
                return;
        }
        while (m->n_groups < CGROUP_LEVELS_MAX) {
                const char *limit = m->unified ? "memory.max" : "memory.limit_in_bytes";
                uint64_t n;
                int r = read_number(at, limit, &n);
                /* One whose limit cannot be read now may have one. */
                if (((r == 0 && n < NO_LIMIT_BYTES) || passes(r)) && (m->groups[m->n_groups] = strdup(at)))
                        m->n_groups++;
                char *slash = strrchr(at, '/');
                if (!slash || (size_t)(slash - at) < base)
                        return;
                *slash = '\0';
        }
}

static bool names_memory(const char *controllers)
{
        for (const char *word = controllers; word; word = strchr(word, ',')) {
                word += *word == ',';
                if (strncmp(word, "memory", 6) == 0 && (word[6] == ',' || word[6] == '\0'))
                        return true;
        }
        return false;
}

/* "4:memory:/path" of v1, "0::/path" of v2. */
static void take_line(struct host_memory *m, char *line)
{
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;

        if (!path)
                return;
        *path++ = '\0';
        controllers++;
        if (names_memory(controllers)) {
                add_groups(m, CGROUP_ROOT "/memory", path);
        } else if (controllers[0] == '\0' && access(CGROUP_ROOT "/cgroup.controllers", F_OK) == 0) {
                m->unified = true;
                add_groups(m, CGROUP_ROOT, path);
        }
}

void host_memory_init(struct host_memory *m)
{
        _cleanup_close_ int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
        _cleanup_free_ char *text = NULL;
        char *state = NULL;
        size_t size;

        *m = (struct host_memory){0};
        pthread_mutex_init(&m->lock, NULL);
        if (fd < 0 || fd_read_all(fd, KERNEL_FILE_BYTES_MAX, &text, &size) < 0)
                return;
        for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
                take_line(m, line);
}

void host_memory_done(struct host_memory *m)
{
        for (unsigned i = 0; i < m->n_groups; i++)
                free(m->groups[i]);
        pthread_mutex_destroy(&m->lock);
}

/* ---- how much ---- */

/* UINT64_MAX: it has no limit, or is gone. Negative: it could not be looked at now. */
static int group_room(const struct host_memory *m, const char *group, uint64_t *ret)
{
        uint64_t limit = 0, used = 0, cache = 0;
        char text[STAT_BYTES_MAX];

        *ret = UINT64_MAX;
        int r = read_number(group, m->unified ? "memory.max" : "memory.limit_in_bytes", &limit);
        if (r == 0 && limit >= NO_LIMIT_BYTES)
                return 0;
        if (r == 0)
                r = read_number(group, m->unified ? "memory.current" : "memory.usage_in_bytes", &used);
        if (r < 0)
                return passes(r) ? r : 0;
        /* Without it there seems to be less room than there is. */
        if (read_file(group, "memory.stat", text, sizeof(text)) > 0 &&
            read_line(text, m->unified ? "inactive_file" : "total_inactive_file", &cache) == 0)
                used -= MIN(used, cache);
        *ret = limit > used ? limit - used : 0;
        return 0;
}

static int look(const struct host_memory *m, uint64_t *ret)
{
        char text[STAT_BYTES_MAX];
        uint64_t least = UINT64_MAX;

        int r = read_file("/proc", "meminfo", text, sizeof(text));
        if (r >= 0)
                r = read_line(text, "MemAvailable", &least);
        least = r == 0 ? least * KIB : UINT64_MAX;
        if (passes(r))
                return r;
        for (unsigned i = 0; i < m->n_groups; i++) {
                uint64_t room;
                r = group_room(m, m->groups[i], &room);
                if (r < 0)
                        return r;
                least = MIN(least, room);
        }
        *ret = least;
        return 0;
}

uint64_t host_memory_available(struct host_memory *m)
{
        uint64_t now = monotonic_usec();

        pthread_mutex_lock(&m->lock);
        if (m->looked_usec == 0 || now - m->looked_usec >= HOST_MEMORY_USEC) {
                /* A look that fails (there are no descriptors, say) is no sign of room: what was seen before counts. */
                if (look(m, &m->available_bytes) < 0 && m->looked_usec == 0)
                        m->available_bytes = UINT64_MAX;
                m->looked_usec = now;
        }
        uint64_t available = m->available_bytes;
        pthread_mutex_unlock(&m->lock);
        return available;
}
