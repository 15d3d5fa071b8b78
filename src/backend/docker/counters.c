/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/docker/counters.h"

#include "base/fd.h"
#include "base/limits.h"
#include "kernel/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CGROUP_TEXT_MAX 8192
#define ID_SHOWN 12 /* what an engine puts into the name of a cgroup is at least so much of its id */

static const struct {
        enum cgroup_kind kind;
        const char *controller; /* "" : the v2 tree */
} kinds[] = {
        {CGROUP_UNIFIED, ""}, {CGROUP_MEMORY, "memory"}, {CGROUP_PIDS, "pids"}, {CGROUP_CPU, "cpu"}, {CGROUP_CPUACCT, "cpuacct"},
};

static bool is_mount_of(const struct mountinfo *m, const char *controller)
{
        return controller[0] == '\0' ? strcmp(m->type, "cgroup2") == 0
                                     : strcmp(m->type, "cgroup") == 0 && mountinfo_has_option(m->super_options, controller);
}

/* The directory of a cgroup below the mount; -1: it is not there. */
static int open_below(int root, const struct mountinfo *m, const char *path)
{
        char full[HOST_PATH_MAX];
        size_t prefix = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root);

        if (prefix > 0 && (strncmp(path, m->root, prefix) != 0 || (path[prefix] != '/' && path[prefix] != '\0')))
                return -1;
        if ((size_t)snprintf(full, sizeof(full), "%s%s", m->target + 1, path + prefix) >= sizeof(full) || strstr(full, ".."))
                return -1;
        return openat(root, full, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

int counters_open_from(struct usage_files *ret, int root, char *mountinfo, const char *cgroup, const char *id)
{
        char paths[ARRAY_SIZE(kinds)][HOST_PATH_MAX], shown[ID_SHOWN + 1];
        int dirs[CGROUP_KIND_COUNT] = {-1, -1, -1, -1, -1}, found = 0;
        struct mountinfo m;

        snprintf(shown, sizeof(shown), "%.*s", ID_SHOWN, id);
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                if (cgroup_parse_self(cgroup, kinds[i].controller, paths[i], sizeof(paths[i])) < 0 || strlen(shown) < ID_SHOWN || !strstr(paths[i], shown))
                        paths[i][0] = '\0'; /* none, or not the container's */
        for (int r; (r = mountinfo_next(&mountinfo, &m)) != 0;)
                for (size_t i = 0; r == 1 && i < ARRAY_SIZE(kinds); i++)
                        if (paths[i][0] && dirs[kinds[i].kind] < 0 && is_mount_of(&m, kinds[i].controller)) {
                                dirs[kinds[i].kind] = open_below(root, &m, paths[i]);
                                found += dirs[kinds[i].kind] >= 0;
                        }
        bool unified = dirs[CGROUP_MEMORY] < 0 && dirs[CGROUP_UNIFIED] >= 0;
        usage_open(ret, dirs, unified);
        for (int i = 0; i < CGROUP_KIND_COUNT; i++)
                safe_close(dirs[i]);
        return found > 0 ? 0 : -ENOENT;
}

int counters_open(struct usage_files *ret, pid_t pid, const char *id)
{
        char name[64], text[CGROUP_TEXT_MAX];
        _cleanup_free_ char *mountinfo = NULL;
        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        memset(ret, -1, sizeof(*ret));
        snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
        if (pid <= 0 || root < 0 || file_read_at(AT_FDCWD, name, text, sizeof(text)) < 0 || mountinfo_load(&mountinfo) < 0)
                return -ENOENT;
        return counters_open_from(ret, root, mountinfo, text, id);
}
