/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/facts.h"

#include "agent/program.h"
#include "agent/tree.h"
#include "base/fd.h"
#include "base/full_place.h"
#include "kernel/landlock.h"
#include "kernel/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#define TASKS_LOOK_USEC 50000ULL /* processes are counted this often, unless somebody asks */
#define LOG_READ_ALL 3           /* SYSLOG_ACTION_READ_ALL */

/* ---- hello ---- */

/* NULL: it has none of that name. */
static const char *status_field(const char *text, const char *name)
{
        const char *at = strstr(text, name);

        return at ? at + strlen(name) : NULL;
}

static int read_status(struct wire_hello *h)
{
        /* gVisor's file lacks the last set, which can only have what is in the first two as well. */
        static const char *const sets[] = {"\nCapInh:", "\nCapPrm:", "\nCapEff:", "\nCapBnd:", "\nCapAmb:"};
        char text[8192];

        int n = file_read_at(AT_FDCWD, "/proc/self/status", text, sizeof(text));
        if (n < 0)
                return n;
        h->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1; /* gVisor's file does not say it */
        const char *field = status_field(text, "\nSeccomp:");
        h->seccomp = field ? (uint32_t)strtoul(field, NULL, 10) : 0; /* 0 is none */
        for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
                field = status_field(text, sets[i]);
                if (!field && i + 1 < ARRAY_SIZE(sets))
                        return -ENODATA;
                h->capabilities |= field ? strtoull(field, NULL, 16) : 0;
        }
        return 0;
}

static bool is_up(int sock, const char *name)
{
        struct ifreq request = {0};

        snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
        return ioctl(sock, SIOCGIFFLAGS, &request) < 0 || request.ifr_flags & IFF_UP;
}

/* Kernels put tunnels that are down into every network namespace. */
static uint32_t count_interfaces(void)
{
        _cleanup_close_ int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        char text[16384];
        uint32_t count = 0;

        int r = file_read_at(AT_FDCWD, "/proc/net/dev", text, sizeof(text));
        if (r < 0)
                return 1; /* not known to be none; and a list that is too long is not that of a box */
        for (char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                char *name = line + strspn(line, " "), *colon = strchr(name, ':');
                if (!colon || memchr(name, '\n', (size_t)(colon - name)))
                        continue; /* the two lines of the head */
                *colon = '\0';
                count += strcmp(name, "lo") != 0 && is_up(sock, name);
                line = colon + 1;
        }
        return count;
}

static bool gvisor;

bool facts_count_for_host(void)
{
        return gvisor;
}

static bool is_gvisor(void)
{
        static char text[65536];
        int n = klogctl(LOG_READ_ALL, text, sizeof(text) - 1);

        if (n < 0)
                return false;
        text[n] = '\0';
        return strstr(text, "gVisor");
}

static bool is_root_writable(void)
{
        _cleanup_free_ char *text = NULL;
        struct mountinfo m;
        bool writable = true;
        int r;

        if (mountinfo_load(&text) < 0)
                return true;
        char *cursor = text;
        while ((r = mountinfo_next(&cursor, &m)) != 0)
                if (r > 0 && strcmp(m.target, "/") == 0) /* the last one is what is seen */
                        writable = !mountinfo_has_option(m.options, "ro") && !mountinfo_has_option(m.super_options, "ro");
        return writable;
}

static bool has_working_directory(void)
{
        char path[16];

        return !getcwd(path, sizeof(path)) || strcmp(path, "/") != 0;
}

int facts_hello(struct wire_hello *ret)
{
        struct wire_hello h = {
                .version = WIRE_VERSION, .uid = geteuid(), .gid = getegid(), .pid = (uint32_t)getpid(),
                .interfaces = count_interfaces(), .root_writable = is_root_writable(), .is_gvisor = is_gvisor(),
                .landlock_abi = (uint32_t)landlock_abi(),
        };
        struct utsname names;
        struct stat st;

        gvisor = h.is_gvisor;
        int r = read_status(&h);
        if (r < 0)
                return r;
        if (uname(&names) < 0)
                return -errno;
        snprintf(h.release, sizeof(h.release), "%s", names.release);
        snprintf(h.version_text, sizeof(h.version_text), "%s", names.version);
        if (file_read_at(AT_FDCWD, "/proc/self/attr/current", h.apparmor, sizeof(h.apparmor)) < 0)
                h.apparmor[0] = '\0';
        if (stat(has_working_directory() ? "." : AGENT_WORKSPACE, &st) == 0) {
                h.workspace_dev = st.st_dev;
                h.workspace_ino = st.st_ino;
        }
        *ret = h;
        return 0;
}

/* ---- usage ---- */

static const char *const places[] = {AGENT_WORKSPACE, "/tmp", "/dev/shm", AGENT_CODE_DIR, AGENT_SCRATCH};
static const unsigned full[] = {FULL_WORKSPACE, FULL_TMP, FULL_SHM, FULL_CODE, FULL_WORKSPACE};

struct place_use {
        bool known, full; /* known: it is a tmpfs, and was looked at */
        uint64_t bytes, inodes;
};

static struct place_use at_start[ARRAY_SIZE(places)];

static struct place_use look_at(const char *path)
{
        struct place_use use = {0};
        struct statfs fs;
        int r;

        while ((r = statfs(path, &fs)) < 0 && errno == EINTR)
                ;
        if (r < 0 || fs.f_type != TMPFS_MAGIC)
                return use;
        use.known = true;
        if (fs.f_blocks > 0) {
                use.bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
                use.full = fs.f_bavail == 0;
        }
        if (fs.f_files > 0) {
                use.inodes = fs.f_files - fs.f_ffree;
                use.full |= fs.f_ffree == 0;
        }
        return use;
}

/* A place that is only a directory of another place's file system is not counted twice. */
static bool is_place_of_its_own(size_t i)
{
        struct stat st, other;

        if (stat(places[i], &st) < 0)
                return false;
        for (size_t j = 0; j < i; j++)
                if (at_start[j].known && stat(places[j], &other) == 0 && other.st_dev == st.st_dev)
                        return false;
        return true;
}

void facts_note_start(void)
{
        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                at_start[i] = look_at(places[i]);
                at_start[i].known = at_start[i].known && is_place_of_its_own(i);
        }
}

static bool is_own(const pid_t *own, pid_t pid)
{
        for (; *own > 0; own++)
                if (*own == pid)
                        return true;
        return false;
}

/* Whether they could be counted. */
static bool count_tasks(const pid_t *own, uint32_t *ret)
{
        struct tree *t = program_tree();
        uint32_t count = 0;

        if (tree_read(t) < 0 || tree_is_cut(t))
                return false;
        for (size_t i = 0; i < t->n; i++)
                if (task_is_alive(&t->tasks[i]) && !is_own(own, t->tasks[i].pid))
                        count += t->tasks[i].threads;
        *ret = count;
        return true;
}

/* All places or none: the sum of some of them is the size of nothing. */
static void look_at_places(struct wire_usage *usage)
{
        struct wire_usage sum = *usage;

        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                if (!at_start[i].known)
                        continue;
                struct place_use use = look_at(places[i]);
                if (!use.known)
                        return;
                sum.disk_bytes += use.bytes > at_start[i].bytes ? use.bytes - at_start[i].bytes : 0;
                sum.inodes += use.inodes > at_start[i].inodes ? use.inodes - at_start[i].inodes : 0;
                sum.disk_full |= use.full ? full[i] : 0;
        }
        sum.known |= WIRE_USAGE_DISK;
        *usage = sum;
}

void facts_usage(struct wire_usage *ret, const pid_t *own, int exact)
{
        static uint64_t counted_usec;
        static uint32_t tasks;
        static bool counted;
        uint64_t now = monotonic_usec();
        struct wire_usage usage = {0};

        look_at_places(&usage);
        if (exact || now - counted_usec >= TASKS_LOOK_USEC) {
                counted = count_tasks(own, &tasks);
                counted_usec = now;
        }
        usage.known |= counted ? WIRE_USAGE_TASKS : 0;
        usage.tasks = counted ? tasks : 0;
        *ret = usage;
}

/* ---- Landlock ---- */

static bool is_below(const char *path, const char *directory)
{
        size_t n = strlen(directory);

        return strncmp(path, directory, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static int allow_mount(int ruleset, int abi, const struct mountinfo *m)
{
        if (mountinfo_has_option(m->options, "ro") || mountinfo_has_option(m->super_options, "ro"))
                return 0;
        if (is_below(m->target, "/proc") || is_below(m->target, "/sys") || (is_below(m->target, "/dev") && strcmp(m->target, "/dev/shm") != 0))
                return 0;
        _cleanup_close_ int fd = open(m->target, O_PATH | O_CLOEXEC);
        return fd < 0 ? 0 : landlock_allow_all(ruleset, abi, fd); /* what we cannot see the program cannot either */
}

static int allow_mounts(int ruleset, int abi)
{
        _cleanup_free_ char *text = NULL;
        struct mountinfo m;
        int r = mountinfo_load(&text);

        if (r < 0)
                return r;
        char *cursor = text;
        while ((r = mountinfo_next(&cursor, &m)) != 0)
                if (r > 0 && (r = allow_mount(ruleset, abi, &m)) < 0)
                        return r;
        _cleanup_close_ int dev = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
        return dev < 0 ? -errno : landlock_allow_devices(ruleset, abi, dev);
}

int facts_ruleset(int *ret)
{
        int abi = landlock_abi();

        *ret = -1;
        if (abi == 0)
                return 0;
        _cleanup_close_ int ruleset = landlock_ruleset_new(abi);
        if (ruleset < 0)
                return ruleset;
        int r = allow_mounts(ruleset, abi);
        if (r < 0)
                return r;
        *ret = TAKE_FD(ruleset);
        return 0;
}
