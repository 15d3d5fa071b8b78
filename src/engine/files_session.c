/* SPDX-License-Identifier: Apache-2.0
 *
 * The workspace of a session: its files, and how much room it has. */
#include "engine/session_state.h"

#include "base/fd.h"
#include "engine/growth.h"

#include <errno.h>
#include <string.h>
#include <sys/statfs.h>

#define BLOCK_BYTES 4096ULL /* what a directory takes, and the last part of a file */
#define LOOK_PERIOD_USEC 1000000ULL /* a workspace of the host is not walked more often for numbers */

static int dial(void *data, gb_error *err)
{
        struct session *s = data;

        return s->backend->session_dial(s->box, err);
}

void session_files_init(struct session *s)
{
        s->remote = (struct files_remote){
                .dial = dial, .data = s, .bytes_max = s->policy->disk_limit_bytes, .entries_max = s->policy->inode_limit,
        };
}

/* By its directory where there is one; else by the server of files inside. */
int session_files(struct session *s, struct files *ret, gb_error *err)
{
        const struct backend *b = s->backend;
        gb_error refused = {.code = GB_E_UNENFORCEABLE};

        *ret = (struct files){.root_fd = -1};
        int r = b->session_files ? b->session_files(s->box, &ret->root_fd, &ret->uid, &ret->gid, &refused) : -ENOSYS;
        if (r < 0 && refused.code == GB_E_UNENFORCEABLE && b->session_dial) {
                *ret = (struct files){.root_fd = -1, .remote = &s->remote};
                return 0;
        }
        if (r < 0 && !b->session_files)
                return error_set(err, GB_E_INTERNAL, ENOSYS, "the backend %s has no files", b->name);
        if (r < 0 && err)
                *err = refused;
        return r;
}

static bool is_private(const struct session *s)
{
        return s->places.workspace_fd < 0;
}

static int full(gb_error *err, uint64_t bytes, uint64_t inodes)
{
        return error_set(err, GB_E_DISK_FULL, ENOSPC, "the workspace is full: it has no room for %llu bytes in %llu files",
                         (unsigned long long)bytes, (unsigned long long)inodes);
}

/* Of a workspace that only the backend can look at. */
static int counted_room(struct session *s, uint64_t bytes, uint64_t inodes, gb_error *err)
{
        uint64_t bytes_max = s->policy->disk_limit_bytes, inodes_max = s->policy->inode_limit;
        struct box_usage usage = {0};

        int r = session_usage(s, &usage, err);
        if (r < 0)
                return r;
        if (usage.disk_unknown)
                return error_set(err, GB_E_LOST, EIO,
                        "the room in the workspace cannot be measured, so nothing is written there");
        bool room = usage.disk_bytes <= bytes_max && bytes <= bytes_max - usage.disk_bytes;
        bool nodes = usage.inodes <= inodes_max && inodes <= inodes_max - usage.inodes;
        return room && nodes ? 0 : full(err, bytes, inodes);
}

static int private_room(struct session *s, uint64_t bytes, uint64_t inodes, gb_error *err)
{
        struct statfs st;

        int fd = s->backend->session_workspace(s->box);
        if (fd < 0)
                return counted_room(s, bytes, inodes, err);
        if (fstatfs(fd, &st) < 0)
                return error_set(err, GB_E_LOST, errno, "the session is gone: its workspace cannot be read");
        bool room = st.f_blocks == 0 || bytes <= (uint64_t)st.f_bavail * (uint64_t)st.f_bsize;
        bool nodes = st.f_files == 0 || inodes <= (uint64_t)st.f_ffree;
        return room && nodes ? 0 : full(err, bytes, inodes);
}

int session_room(struct session *s, uint64_t bytes, uint64_t inodes, uint64_t directories, gb_error *err)
{
        struct disk_watch *w = &s->places.disk;

        if (is_private(s))
                return private_room(s, bytes, inodes, err);
        if (session_is_gone(s))
                return error_set(err, GB_E_LOST, ESRCH, "the session has ended: open a new one");
        pthread_mutex_lock(&s->disk_lock);
        growth_judge(s);
        enum disk_state state = disk_watch_look(w);
        int error = w->error;
        bool room = bytes <= w->limit_bytes && w->bytes <= w->limit_bytes - bytes && inodes <= w->limit_inodes && w->inodes <= w->limit_inodes - inodes;
        bool free = w->free[0] >= w->floors[0] && bytes <= w->free[0] - w->floors[0];
        bool fits = room && free && state == DISK_FINE;
        if (fits)
                growth_reserve(&s->places, bytes + (inodes + directories) * BLOCK_BYTES, inodes + directories);
        pthread_mutex_unlock(&s->disk_lock);
        if (state == DISK_HIDDEN)
                return error_set(err, GB_E_DISK_FULL, error > 0 ? error : EACCES,
                        "the room in the workspace cannot be measured (%s), so nothing is written there",
                                 error > 0 ? strerror(error) : "a directory is closed or too deep");
        return fits ? 0 : full(err, bytes, inodes);
}

static void host_disk(struct session *s, struct box_usage *usage)
{
        struct disk_watch *w = &s->places.disk;

        if (is_private(s))
                return; /* the backend has counted */
        pthread_mutex_lock(&s->disk_lock);
        if (monotonic_usec() - w->looked_usec >= MAX(w->took_usec * 10, (uint64_t)LOOK_PERIOD_USEC))
                (void)disk_watch_look(w); /* whether it is too much is for runs to find */
        usage->disk_unknown = !w->whole;
        usage->disk_bytes = w->bytes;
        usage->inodes = w->inodes;
        pthread_mutex_unlock(&s->disk_lock);
}

int session_sample(struct session *s, struct box_usage *ret, gb_error *err)
{
        int r = session_usage(s, ret, err);

        if (r == 0)
                host_disk(s, ret);
        return r;
}
