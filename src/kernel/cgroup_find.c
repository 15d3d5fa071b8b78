/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a box's groups can be made.
 *
 * mountinfo names the control group file systems, /proc/self/cgroup our own group in each. Boxes are
 * made directly below a group that already is there, so nothing is left behind:
 *
 *  - v1: below our own group of each controller, so that the limits of whoever started us still bind.
 *  - v2: a group with processes in it cannot pass controllers on to its children (but the real root),
 *    and ours has at least us. So: our own group or the nearest above it that we may write to and
 *    that passes memory, pids and cpu on, or can be made to.
 *  - hybrid (v1 controllers, and a v2 tree without): as v1; the v2 tree only where cpuacct is missing.
 *
 * GLOVEBOX_CGROUP names the group instead, as /proc/self/cgroup spells it, in every hierarchy; on v2
 * the full path works too. */
#include "kernel/cgroup.h"

#include "base/fd.h"
#include "base/limits.h"
#include "kernel/mountinfo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DELEGATE_ADVICE "`systemd-run --user --scope -p Delegate=yes glovebox ...`"

static const char *const controller_name[CGROUP_KIND_COUNT] = {
        [CGROUP_UNIFIED] = "",
        [CGROUP_MEMORY] = "memory",
        [CGROUP_PIDS] = "pids",
        [CGROUP_CPU] = "cpu",
        [CGROUP_CPUACCT] = "cpuacct",
};

/* The search: what it looks at, and what it has found up to now. */
struct finder {
        const struct cgroup_sources *s;
        struct cgroup_host *host;
        bool seen[CGROUP_KIND_COUNT]; /* such a hierarchy is mounted */
        int unified_mount;            /* the v2 tree: its mount, and our group below that */
        char unified_path[HOST_PATH_MAX];
};

/* The first reason is the one that people see. */
_printf_(2, 3) static void set_why(struct cgroup_host *h, const char *format, ...)
{
        va_list args;

        if (h->why_not[0])
                return;
        va_start(args, format);
        vsnprintf(h->why_not, sizeof(h->why_not), format, args);
        va_end(args);
}

/* ---- /proc/self/cgroup ---- */

/* "4:cpu,cpuacct:/path" or "0::/path"; only the path may have further colons. */
static const char *line_path(const char *line, const char *end, const char *controller)
{
        const char *list = memchr(line, ':', (size_t)(end - line));
        if (!list)
                return NULL;
        list++;
        const char *stop = memchr(list, ':', (size_t)(end - list));
        if (!stop || stop + 1 == end || stop[1] != '/')
                return NULL;
        if (!*controller)
                return stop == list && list - line == 2 && line[0] == '0' ? stop + 1 : NULL;

        size_t size = strlen(controller);
        for (const char *p = list; p < stop; p++) {
                const char *comma = memchr(p, ',', (size_t)(stop - p));
                const char *word_end = comma ? comma : stop;
                if ((size_t)(word_end - p) == size && memcmp(p, controller, size) == 0)
                        return stop + 1;
                p = word_end;
        }
        return NULL;
}

int cgroup_parse_self(const char *text, const char *controller, char *ret, size_t size)
{
        while (*text) {
                const char *end = strchrnul(text, '\n');
                const char *path = line_path(text, end, controller);
                if (path) {
                        size_t length = (size_t)(end - path);
                        if (length >= size)
                                return -ENAMETOOLONG;
                        memcpy(ret, path, length);
                        ret[length] = '\0';
                        return 0;
                }
                text = *end ? end + 1 : end;
        }
        return -ENOENT;
}

/* ---- opening groups ---- */

/* What is left of path below the mounted directory root; NULL when it is not below. */
static const char *below(const char *path, const char *root)
{
        size_t size = strlen(root);

        if (strcmp(root, "/") == 0)
                return path;
        if (strncmp(path, root, size) != 0 || (path[size] != '/' && path[size] != '\0'))
                return NULL;
        return path + size;
}

static int open_beneath(int dirfd, const char *path)
{
        struct open_how how = {
                .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
        };

        path += strspn(path, "/");
        int fd = (int)syscall(SYS_openat2, dirfd, *path ? path : ".", &how, sizeof(how));
        return fd < 0 ? -errno : fd;
}

/* The mount point; -ESTALE when something else was mounted over it. */
static int open_mount(const struct finder *f, const struct mountinfo *m)
{
        const char *target = m->target + strspn(m->target, "/");
        _cleanup_close_ int fd =
                openat(f->s->rootfd, *target ? target : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        return st.st_dev == m->dev ? TAKE_FD(fd) : -ESTALE;
}

/* Our group, or the named one, as a path below the mount m. */
static int group_path(const struct finder *f, int kind, const struct mountinfo *m, char ret[HOST_PATH_MAX])
{
        const char *path;
        char self[HOST_PATH_MAX];

        if (f->s->named) {
                path = kind == CGROUP_UNIFIED ? below(f->s->named, m->target) : NULL;
                if (!path)
                        path = f->s->named;
        } else {
                int r = cgroup_parse_self(f->s->self, controller_name[kind], self, sizeof(self));
                if (r < 0)
                        return r;
                path = below(self, m->root);
                if (!path)
                        return -EXDEV;
        }
        if (strlen(path) >= HOST_PATH_MAX)
                return -ENAMETOOLONG;
        memmove(ret, path, strlen(path) + 1);
        return 0;
}

/* May we make groups in it, and move processes into those? */
static int check_writable(int fd)
{
        if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0 || faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) < 0)
                return -errno;
        return 0;
}

/* ---- v1 ---- */

static void explain_v1(struct finder *f, int kind, int r)
{
        const char *name = controller_name[kind];

        if (kind == CGROUP_CPUACCT)
                return; /* only a counter */
        if (r == -EACCES || r == -EPERM)
                set_why(f->host, "cgroup v1 hierarchies belong to root (%s): run glovebox as root, or on a "
                        "cgroup v2 host under " DELEGATE_ADVICE, name);
        else if (r == -EROFS)
                set_why(f->host, "the %s control groups are mounted read-only: run glovebox where they are "
                        "writable (a container needs its own /sys/fs/cgroup mounted rw)", name);
        else if (f->s->named)
                set_why(f->host, "GLOVEBOX_CGROUP: the %s hierarchy has no usable group %.80s: %s; make it, or "
                        "name another", name, f->s->named, strerror(-r));
        else
                set_why(f->host, "our own %s control group cannot be opened: %s; name a writable one in "
                        "GLOVEBOX_CGROUP", name, strerror(-r));
}

static int open_v1(const struct finder *f, int kind, const struct mountinfo *m)
{
        char path[HOST_PATH_MAX];

        int r = group_path(f, kind, m, path);
        if (r < 0)
                return r;
        _cleanup_close_ int mount = open_mount(f, m);
        if (mount < 0)
                return mount;
        _cleanup_close_ int fd = open_beneath(mount, path);
        if (fd < 0)
                return fd;
        r = check_writable(fd);
        return r < 0 ? r : TAKE_FD(fd);
}

static void look_at_v1(struct finder *f, const struct mountinfo *m)
{
        for (int kind = CGROUP_MEMORY; kind < CGROUP_KIND_COUNT; kind++) {
                if (f->host->parent[kind] >= 0 || !mountinfo_has_option(m->super_options, controller_name[kind]))
                        continue;
                f->seen[kind] = true;
                int fd = open_v1(f, kind, m);
                if (fd < 0)
                        explain_v1(f, kind, fd); /* another mount of it may still do */
                else
                        f->host->parent[kind] = fd;
        }
}

/* ---- v2 ---- */

static void look_at_v2(struct finder *f, const struct mountinfo *m)
{
        if (f->unified_mount >= 0)
                return;
        f->seen[CGROUP_UNIFIED] = true;
        int r = group_path(f, CGROUP_UNIFIED, m, f->unified_path);
        if (r >= 0)
                r = f->unified_mount = open_mount(f, m);
        if (r < 0)
                f->unified_mount = -1;
}

static bool has_word(const char *text, const char *word)
{
        size_t size = strlen(word);

        for (const char *p = text; (p = strstr(p, word)); p += size)
                if ((p == text || p[-1] == ' ') && (p[size] == ' ' || p[size] == '\0'))
                        return true;
        return false;
}

static bool has_controllers(int fd, const char *file, bool cpu)
{
        char text[1024];

        return file_read_at(fd, file, text, sizeof(text)) >= 0 && has_word(text, "memory") &&
               has_word(text, "pids") && (!cpu || has_word(text, "cpu"));
}

/* Would the kernel let this group pass controllers on? Not when it has processes of its own; the
 * real root, the only one without cgroup.type, is free of that rule. */
static int could_enable(int fd)
{
        char text[16];

        if (faccessat(fd, "cgroup.subtree_control", W_OK, AT_EACCESS) < 0)
                return -errno;
        if (faccessat(fd, "cgroup.type", F_OK, 0) < 0)
                return errno == ENOENT ? 0 : -errno;
        int r = file_read_at(fd, "cgroup.procs", text, sizeof(text));
        if (r > 0 || r == -EFBIG)
                return -EBUSY;
        return r;
}

/* Does, or can, this group pass memory and pids (and cpu) on to its children? */
static int check_v2(const struct finder *f, int fd, bool cpu)
{
        int r = check_writable(fd);
        if (r < 0)
                return r;
        if (!has_controllers(fd, "cgroup.controllers", cpu))
                return -ENODEV;
        if (has_controllers(fd, "cgroup.subtree_control", cpu))
                return 0;
        if (!f->s->may_change)
                return could_enable(fd);
        r = file_write_at(fd, "cgroup.subtree_control", cpu ? "+memory +pids +cpu" : "+memory +pids");
        /* That one limits nothing, it only counts: statistics have it or not. */
        char text[1024];
        if (r == 0 && file_read_at(fd, "cgroup.controllers", text, sizeof(text)) >= 0 && has_word(text, "io"))
                (void)file_write_at(fd, "cgroup.subtree_control", "+io");
        return r;
}

static void explain_v2(struct finder *f, int r)
{
        if (f->s->named)
                set_why(f->host, "GLOVEBOX_CGROUP: %.80s cannot hold boxes: %s; it must be writable, without "
                        "processes of its own, and have memory, pids and cpu in cgroup.controllers",
                        f->s->named, strerror(-r));
        else if (r == -EROFS)
                set_why(f->host, "/sys/fs/cgroup is mounted read-only: run glovebox where it is writable, or name "
                        "a writable group in GLOVEBOX_CGROUP");
        else if (r == -ENODEV)
                set_why(f->host, "no control group of ours has the controllers memory and pids: run glovebox as "
                        "root or under " DELEGATE_ADVICE);
        else if (r == -EBUSY)
                set_why(f->host, "our control group has processes of its own and none above it may be divided: use "
                        DELEGATE_ADVICE "; in a container first move all processes to a group below "
                        "(mkdir /sys/fs/cgroup/main)");
        else
                set_why(f->host, "no control group may be divided by this user (%s): run glovebox as root or under "
                        DELEGATE_ADVICE ", or set GLOVEBOX_CGROUP", strerror(-r));
}

/* The nearest group upward that will do; or -errno of the most telling failure. */
static int walk_v2(const struct finder *f, bool cpu)
{
        char path[HOST_PATH_MAX];
        int result = 0;

        snprintf(path, sizeof(path), "%s", f->unified_path);
        for (;;) {
                _cleanup_close_ int fd = open_beneath(f->unified_mount, path);
                int r = fd < 0 ? fd : check_v2(f, fd, cpu);
                if (r >= 0)
                        return TAKE_FD(fd);
                /* That groups further up belong to others is what people need least to know. */
                if (result == 0 || (r != -EACCES && r != -EPERM))
                        result = r;

                char *slash = strrchr(path, '/');
                if (f->s->named || !slash || path[strspn(path, "/")] == '\0')
                        return result;
                *slash = '\0';
        }
}

static void settle_v2(struct finder *f)
{
        struct cgroup_host *h = f->host;

        h->cpu = true;
        int fd = walk_v2(f, true);
        if (fd < 0) {
                h->cpu = false;
                int r = walk_v2(f, false);
                if (r < 0) {
                        explain_v2(f, r);
                        return;
                }
                fd = r;
                set_why(h, "no control group of ours has the cpu controller: run glovebox as root, or let systemd "
                        "delegate cpu too (Delegate=cpu memory pids in user@.service)");
        }
        h->parent[CGROUP_UNIFIED] = fd;
        h->unified_controllers = true;
        h->memory = h->pids = true;
        h->mode = CGROUP_MODE_V2;
}

/* ---- swap ---- */

static bool swap_is_on(const char *swaps)
{
        const char *entries = swaps ? strchr(swaps, '\n') : NULL; /* the first line is a heading */

        return entries && entries[1];
}

static void closedir_ptr(DIR **d)
{
        if (*d)
                closedir(*d);
}

/* The root of a tree has no limits itself: then a group in it tells. */
static bool has_file_or_child_has(int parent, const char *name)
{
        if (faccessat(parent, name, F_OK, 0) == 0)
                return true;

        _cleanup_close_ int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_(closedir_ptr) DIR *d = fd < 0 ? NULL : fdopendir(fd);
        if (!d)
                return false;
        (void)TAKE_FD(fd);
        for (struct dirent *e; (e = readdir(d));) {
                char path[sizeof(e->d_name) + 64];
                if (e->d_name[0] == '.' || e->d_type != DT_DIR)
                        continue;
                snprintf(path, sizeof(path), "%s/%s", e->d_name, name);
                if (faccessat(parent, path, F_OK, 0) == 0)
                        return true;
        }
        return false;
}

static void settle_swap(struct finder *f)
{
        struct cgroup_host *h = f->host;

        if (!h->memory)
                return;
        h->swap = !swap_is_on(f->s->swaps) ||
                  (h->unified_controllers
                           ? has_file_or_child_has(h->parent[CGROUP_UNIFIED], "memory.swap.max")
                           : faccessat(h->parent[CGROUP_MEMORY], "memory.memsw.limit_in_bytes", F_OK, 0) == 0);
        if (!h->swap)
                set_why(h, "swap is on and this kernel does not account it to control groups: boot with "
                        "swapaccount=1, or switch swap off");
}

/* ---- all together ---- */

static void settle_v1(struct finder *f)
{
        struct cgroup_host *h = f->host;

        if (f->unified_mount >= 0) {
                _cleanup_close_ int fd = open_beneath(f->unified_mount, f->unified_path);
                if (fd >= 0 && check_writable(fd) >= 0)
                        h->parent[CGROUP_UNIFIED] = TAKE_FD(fd);
        }
        bool hybrid = h->parent[CGROUP_UNIFIED] >= 0;
        /* The v2 tree without controllers could still count cpu time, but a process can only be born
         * into it, before it is known what will run. cpuacct does it as well. */
        if (hybrid && h->parent[CGROUP_CPUACCT] >= 0)
                h->parent[CGROUP_UNIFIED] = safe_close(h->parent[CGROUP_UNIFIED]);

        h->memory = h->parent[CGROUP_MEMORY] >= 0;
        h->pids = h->parent[CGROUP_PIDS] >= 0;
        h->cpu = h->parent[CGROUP_CPU] >= 0 &&
                 faccessat(h->parent[CGROUP_CPU], "cpu.cfs_quota_us", F_OK, 0) == 0;
        if (h->parent[CGROUP_CPU] >= 0 && !h->cpu)
                set_why(h, "this kernel has no cpu quota (CONFIG_CFS_BANDWIDTH)");
        for (int kind = CGROUP_MEMORY; kind <= CGROUP_CPU; kind++)
                if (!f->seen[kind])
                        set_why(h, "the %s controller is in no cgroup v1 hierarchy while others are: mount it, or "
                                "move the host to cgroup v2", controller_name[kind]);

        if (hybrid)
                h->mode = CGROUP_MODE_HYBRID;
        else if (h->memory || h->pids || h->cpu)
                h->mode = CGROUP_MODE_V1;
}

static void finder_done(struct finder *f)
{
        safe_close(f->unified_mount);
}

int cgroup_find_from(const struct cgroup_sources *s, struct cgroup_host *ret)
{
        struct cgroup_host host = { .mode = CGROUP_MODE_NONE };
        _cleanup_(finder_done) struct finder f = { .s = s, .host = &host, .unified_mount = -1 };
        _cleanup_free_ char *text = strdup(s->mountinfo);
        char *cursor = text;
        struct mountinfo m;
        int r;

        if (!text)
                return -ENOMEM;
        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++)
                host.parent[kind] = -1;
        while ((r = mountinfo_next(&cursor, &m)) != 0) {
                if (r < 0)
                        continue;
                if (strcmp(m.type, "cgroup") == 0)
                        look_at_v1(&f, &m);
                else if (strcmp(m.type, "cgroup2") == 0)
                        look_at_v2(&f, &m);
        }

        if (f.seen[CGROUP_MEMORY] || f.seen[CGROUP_PIDS] || f.seen[CGROUP_CPU])
                settle_v1(&f);
        else if (f.unified_mount >= 0)
                settle_v2(&f);
        else if (f.seen[CGROUP_UNIFIED])
                set_why(&host, "our own control group is not below any cgroup2 mount: name one in GLOVEBOX_CGROUP");
        else
                set_why(&host, "no control groups are mounted: mount -t cgroup2 none /sys/fs/cgroup");
        settle_swap(&f);
        if (host.memory && host.pids && host.cpu && host.swap)
                host.why_not[0] = '\0'; /* a second mount made good what a first lacked */
        *ret = host;
        return 0;
}

static int load(const char *path, char **ret)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        return fd_read_all(fd, KERNEL_FILE_BYTES_MAX, ret, NULL);
}

int cgroup_find(bool may_change, struct cgroup_host *ret)
{
        _cleanup_free_ char *mountinfo = NULL, *self = NULL, *swaps = NULL;
        _cleanup_close_ int rootfd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (rootfd < 0)
                return -errno;

        int r = mountinfo_load(&mountinfo);
        if (r < 0)
                return r;
        r = load("/proc/self/cgroup", &self);
        if (r < 0)
                return r;
        r = load("/proc/swaps", &swaps);
        if (r < 0 && r != -ENOENT)
                return r;

        const char *named = secure_getenv("GLOVEBOX_CGROUP");
        struct cgroup_sources s = {
                .rootfd = rootfd,
                .mountinfo = mountinfo,
                .self = self,
                .swaps = swaps,
                .named = named && *named ? named : NULL,
                .may_change = may_change,
        };
        return cgroup_find_from(&s, ret);
}

void cgroup_host_done(struct cgroup_host *h)
{
        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++)
                h->parent[kind] = safe_close(h->parent[kind]);
        h->mode = CGROUP_MODE_NONE;
}
