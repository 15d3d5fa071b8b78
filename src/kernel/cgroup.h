/* SPDX-License-Identifier: Apache-2.0
 *
 * Control groups, v1, hybrid and v2.
 *
 * Two sides use this. The front finds the places where a box's groups may be made (it parses
 * mountinfo and /proc/self/cgroup and opens directories); the warden gets those directories as
 * descriptors, makes one group below each, sets limits, reads counters, kills and removes. The
 * warden therefore parses no path.
 *
 * v1 and hybrid: the program joins the groups of its controllers itself, by writing "0" to `tasks`
 * through descriptors the warden opened: moving only the calling thread skips the lock whose
 * grace period costs 7 to 15 ms after idle. v2: the first process is born in the group
 * (CLONE_INTO_CGROUP), which has no such wait either. In hybrid mode the v2 tree has no
 * controllers and is left alone.
 *
 * A group's directory is locked (flock) by the warden that made it for as long as that lives, so a
 * sweep can tell a left-over from a living one, across pid namespaces. */
#ifndef KERNEL_CGROUP_H
#define KERNEL_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum cgroup_kind {
        CGROUP_UNIFIED, /* the v2 tree, with or without controllers */
        CGROUP_MEMORY,  /* v1 from here on */
        CGROUP_PIDS,
        CGROUP_CPU,
        CGROUP_CPUACCT, /* only where there is no unified tree to read cpu time from */
        CGROUP_KIND_COUNT
};

enum cgroup_mode { CGROUP_MODE_NONE, CGROUP_MODE_V1, CGROUP_MODE_HYBRID, CGROUP_MODE_V2 };

const char *cgroup_mode_name(enum cgroup_mode mode);

/* Where groups can be made. */
struct cgroup_host {
        enum cgroup_mode mode;
        int parent[CGROUP_KIND_COUNT]; /* O_PATH|O_DIRECTORY, writable by us; -1: none */
        bool unified_controllers;      /* true in v2 mode: for cgroup_box_create() */
        bool memory, pids, cpu, swap;  /* enforceable */
        char why_not[256];             /* when one of them is not: the reason, for people */
};

/* Finds it for the calling process. Returns 0 also when nothing is usable (mode and why_not say so).
 * On v2 a group's controllers may first have to be enabled for its children: that is done only
 * with may_change; without, nothing is written and the answer is whether it could be done.
 * GLOVEBOX_CGROUP in the environment names the parent group instead of a search. */
int cgroup_find(bool may_change, struct cgroup_host *ret);
void cgroup_host_done(struct cgroup_host *h);

/* For a service: when our own v2 group was delegated to us and nobody else is in it, moves this process to a group below it. 1: it did; 0: there was nothing to
 * do. Before any thread. */
#define CGROUP_ROOM_NAME "main"
int cgroup_make_room(void);
int cgroup_make_room_in(int group); /* the same for the group at this descriptor, in which we are */

struct cgroup_limits {
        uint64_t memory_bytes; /* 0: no limit, for each of these */
        uint64_t pids;
        uint64_t cpu_milli;
        uint64_t keep_others; /* not 0, v2: what is killed for memory is one task, not the whole group */
};

struct cgroup_stats {
        uint64_t memory_peak_bytes, memory_bytes;
        uint64_t pids_peak, pids;
        uint64_t cpu_usec;
        uint64_t oom_kills;
        uint64_t pids_refused;
};

/* A box's groups: one directory of the same name below each parent. */
struct cgroup_box {
        char name[64];
        int parent[CGROUP_KIND_COUNT]; /* borrowed */
        int dir[CGROUP_KIND_COUNT];    /* O_RDONLY|O_DIRECTORY, flocked; -1: none */
        bool unified_controllers;      /* the v2 directory carries the limits */
};

#define CGROUP_NAME_PREFIX "glovebox-"
/* Only such names are made, and only such names are swept. */
bool cgroup_name_is_ours(const char *name);

/* Makes and locks the directories and sets the limits; on failure nothing is left. name is
 * CGROUP_NAME_PREFIX and 8 to 32 lower-case hex digits, and must be unused: -EEXIST otherwise (try
 * another). -EOPNOTSUPP when a limit is asked for that none of the parents can carry.
 * parents[] are borrowed and must outlive the box.
 *
 * The lock lives as long as any copy of the descriptors: a child must not keep them. */
int cgroup_box_create(struct cgroup_box *ret, const int parents[CGROUP_KIND_COUNT], bool unified_controllers,
                      const char *name, const struct cgroup_limits *limits);
/* Opens for writing the files through which a process joins by writing "0" (v1 `tasks`, for every
 * v1 directory); fills ret_fds[], returns their number. Only the writing thread moves, so it must
 * still be the only one. */
int cgroup_box_open_join(const struct cgroup_box *b, int ret_fds[CGROUP_KIND_COUNT]);
/* The same for a process that was not born in the group of a v2 box: `cgroup.procs`; -ENOENT where the v2 tree has no
 * controllers. The kernel judges the move by who opened the file. */
int cgroup_box_open_procs(const struct cgroup_box *b);
int cgroup_box_read(const struct cgroup_box *b, struct cgroup_stats *ret);
/* SIGKILL to everything inside: cgroup.kill, or the tasks one by one until none is left. A v2 group
 * that was killed must not be used for CLONE_INTO_CGROUP again. */
int cgroup_box_kill(const struct cgroup_box *b);
/* The same for all but those that spare() names: stops them first, so that none forks meanwhile. Returns how many there were
 * when all have ended. A negative errno: some may live on, -EBUSY when they cannot be ended in a tenth of a second; whatever could be
 * reached has had its SIGKILL. For a box whose tasks are counted. */
int cgroup_box_clear(const struct cgroup_box *b, bool (*spare)(const void *data, pid_t pid), const void *data);
/* Removes the directories, waiting up to timeout_usec for the last task to be gone. Closes all, also
 * on failure: what could not be removed is then left for a sweep. */
int cgroup_box_remove(struct cgroup_box *b, uint64_t timeout_usec);

/* Kills and removes groups of ours below these parents whose maker is gone. Returns how many
 * directories (a box has one in each hierarchy). */
int cgroup_sweep(const int parents[CGROUP_KIND_COUNT]);

/* How many tasks there are; in a v1 pids group, or a v2 group. */
int cgroup_read_tasks(int dirfd, uint64_t *ret);

/* The readers. Text is NUL-terminated. */
/* A counter file: one decimal number, or "max" (UINT64_MAX). */
int cgroup_parse_counter(const char *text, uint64_t *ret);
/* The number of the line "key number"; -ENOENT when there is none. */
int cgroup_parse_key(const char *text, const char *key, uint64_t *ret);
/* The first line of cgroup.procs in [p, end): returns what follows it and the pid in *ret (0 when it
 * names no process we can see), or NULL when no whole line is left. */
const char *cgroup_next_pid(const char *p, const char *end, pid_t *ret);
/* Our path in the hierarchy of this v1 controller ("" for the v2 tree) from the text of
 * /proc/self/cgroup. -ENOENT, or -ENAMETOOLONG. */
int cgroup_parse_self(const char *text, const char *controller, char *ret, size_t size);

/* What cgroup_find() looks at; a test gives its own. */
struct cgroup_sources {
        int rootfd;            /* the directory that is "/" in mountinfo's paths */
        const char *mountinfo; /* the texts of these files of /proc/self */
        const char *self;
        const char *swaps;     /* /proc/swaps; NULL: the kernel has no swap */
        const char *named;     /* GLOVEBOX_CGROUP, or NULL */
        bool may_change;
};
int cgroup_find_from(const struct cgroup_sources *s, struct cgroup_host *ret);

/* Testable on a plain directory: */
int cgroup_apply_limits(int dirfd, enum cgroup_kind kind, const struct cgroup_limits *limits);
int cgroup_read_stats(int dirfd, enum cgroup_kind kind, bool unified_controllers, struct cgroup_stats *stats);

#endif
