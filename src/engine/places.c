/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/places.h"

#include "backend/backend.h"
#include "base/fd.h"
#include "engine/place.h"
#include "guard/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINK_OF_ANOTHER " (a symbolic link on the way belongs to another user, who could lead it anywhere; give the real path)"

void places_init(struct places *p, const struct policy *policy)
{
        *p = (struct places){.workspace_fd = -1};
        for (size_t i = 0; i < ARRAY_SIZE(p->mount_fds); i++) {
                p->mount_fds[i] = -1;
                p->hides[i] = (struct hide)HIDE_NONE;
        }
        disk_watch_init(&p->disk, policy->disk_limit_bytes, policy->inode_limit);
}

void places_end_hides(struct places *p)
{
        for (size_t i = 0; i < ARRAY_SIZE(p->hides); i++)
                hide_close(&p->hides[i]);
}

void places_done(struct places *p)
{
        places_end_hides(p);
        p->workspace_fd = safe_close(p->workspace_fd);
        for (size_t i = 0; i < ARRAY_SIZE(p->mount_fds); i++)
                p->mount_fds[i] = safe_close(p->mount_fds[i]);
}

/* Whether this is a server that root started, and that runs as an ordinary user. */
static bool is_separated(void)
{
        return backend_native.separated_fd() >= 0;
}

/* Adds a writable place to what is watched. */
static int watch_place(struct places *p, int fd, const char *path, gb_error *err)
{
        int e = disk_watch_add(&p->disk, fd);

        if (e < 0)
                return error_set(err, GB_E_USAGE, -e, "cannot measure what is in %s: %s", path, strerror(-e));
        if (p->disk.before.hidden > 0)
                return error_set(err, GB_E_USAGE, EACCES, "%s holds a directory that cannot be looked into (closed, or more than %d deep), so "
                                 "what is written there could not be measured: open it (chmod u+rx), or use another directory", path, DISK_DEPTH_MAX);
        /* Its content could be changed through a mapping, which leaves the bit as it is. */
        if (p->disk.before.set_id > 0)
                return error_set(err, GB_E_USAGE, EPERM, "%s holds a file with a set-user-id or set-group-id bit, which code in a box "
                                 "could rewrite: take the bit away (find . -perm /6000), or mount it read-only", path);
        return 0;
}

/* A directory that this process may not use. A server that root started is another user than its caller expects. */
static int workspace_denied(const char *verb, const char *path, int errnum, gb_error *err)
{
        unsigned uid = (unsigned)geteuid();

        if (is_separated())
                return error_set(err, GB_E_DENIED, errnum, "cannot %s the workspace %s: this server was started by root and runs as user %u: chown the directory to that "
                                 "user and make its parents accessible, or use a server started by the directory's owner", verb, path, uid);
        return error_set(err, GB_E_DENIED, errnum, "cannot %s the workspace %s: user %u has no permission: chown or chmod the directory, or use another one", verb, path, uid);
}

static int open_workspace(struct places *p, const struct policy *policy, const char *path, gb_error *err)
{
        struct stat st;

        if (!path)
                return 0;
        p->workspace_fd = place_open(path, O_RDONLY | O_DIRECTORY);
        if (p->workspace_fd < 0 && (errno == EACCES || errno == EPERM))
                return workspace_denied("open", path, errno, err);
        if (p->workspace_fd < 0)
                return error_set(err, errno == ENOTDIR ? GB_E_USAGE : GB_E_NOT_FOUND, errno, "cannot open the workspace %s: %s%s", path, strerror(errno),
                                 errno == ENOENT ? "; make the directory first" : errno == EXDEV ? LINK_OF_ANOTHER : "");
        int e = faccessat(p->workspace_fd, "", W_OK | X_OK, AT_EACCESS | AT_EMPTY_PATH) < 0 ? errno : 0;
        if (e == EACCES || e == EPERM)
                return workspace_denied("write to", path, e, err);
        if (e != 0) /* a disk that is mounted read-only, say: no permission helps there */
                return error_set(err, GB_E_USAGE, e, "cannot write to the workspace %s: %s", path, strerror(e));
        /* The warden of such a server gives a box only what is the server's own. */
        if (is_separated() && policy->backend == BACKEND_NATIVE && fstat(p->workspace_fd, &st) == 0 && st.st_uid != geteuid())
                return workspace_denied("give a box", path, EPERM, err);
        return watch_place(p, p->workspace_fd, path, err);
}

/* The mount of what place is, without its credential files, takes its place. Which they are the guard's rules say, whether or not it looks at code. */
static int hide_files(struct hide *h, const struct policy *policy, int *place, gb_error *err)
{
        const struct rules *rules;
        _cleanup_free_ char *names = NULL;
        int mount = -1;

        int r = rules_get(&rules, err);
        if (r == 0 && rules_file_names(rules, &names) < 0)
                r = error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r == 0)
                r = hide_open(h, policy->backend == BACKEND_NATIVE ? HIDE_DETACHED : HIDE_ATTACHED,
                              is_separated() ? backend_native.separated_hide : NULL, *place, names, &mount, err);
        if (r < 0)
                return r;
        safe_close(*place);
        *place = mount;
        return 0;
}

static int open_mounts(struct places *p, const struct policy *policy, gb_error *err)
{
        for (size_t i = 0; i < policy->n_mounts; i++) {
                const struct policy_mount *m = &policy->mounts[i];
                struct stat st;
                int fd = p->mount_fds[i] = place_open(m->source, O_PATH);
                int e = fd < 0 || fstat(fd, &st) < 0 ? errno : 0;
                if (e == EACCES || e == EPERM)
                        return error_set(err, GB_E_DENIED, e, "cannot mount %s: user %u%s has no permission to enter a directory of its path: give it that permission "
                                         "(chmod +x), or mount another directory", m->source, (unsigned)geteuid(), is_separated() ? " (the user of this server)" : "");
                if (e != 0)
                        return error_set(err, GB_E_NOT_FOUND, e, "cannot mount %s: %s%s", m->source, strerror(e), e == EXDEV ? LINK_OF_ANOTHER : "");
                if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
                        return error_set(err, GB_E_USAGE, EINVAL, "cannot mount %s: only directories and regular files can be mounted",
                                         m->source);
                if (m->hides && !S_ISDIR(st.st_mode))
                        return error_set(err, GB_E_USAGE, ENOTDIR, "cannot mount %s with \"hide\": it is not a directory; mount the directory that it is in", m->source);
                e = m->writable ? watch_place(p, fd, m->source, err) : m->hides ? hide_files(&p->hides[i], policy, &p->mount_fds[i], err) : 0;
                if (e < 0)
                        return e;
        }
        return 0;
}

int places_open(struct places *p, const struct policy *policy, const char *workspace, gb_error *err)
{
        int e = open_workspace(p, policy, workspace, err);

        if (e == 0)
                e = open_mounts(p, policy, err);
        p->mark.is_whole = true;
        p->mark.bytes = p->mark.judged_bytes = p->disk.before.bytes;
        p->mark.held_bytes = p->disk.before.held_bytes;
        p->mark.inodes = p->disk.before.inodes;
        return e;
}

bool places_are_watched(const struct places *p)
{
        return p->disk.n > 0;
}

bool places_look(struct places *p, struct run_facts *facts)
{
        enum disk_state state = p->disk.n > 0 ? disk_watch_look(&p->disk) : DISK_FINE;

        facts->disk_hidden = state == DISK_HIDDEN;
        facts->disk_error = state == DISK_HIDDEN ? p->disk.error : 0;
        facts->host_full = state == DISK_HOST_FULL;
        p->next_usec = p->disk.looked_usec + p->disk.took_usec * 9;
        return state != DISK_FINE;
}

/* A tenth of one core, unless a glance at the file system says that it is time. */
bool places_are_due(struct places *p)
{
        return disk_watch_glance(&p->disk) != DISK_FINE || monotonic_usec() >= p->next_usec;
}

bool places_look_if_due(struct places *p, struct run_facts *facts)
{
        return places_are_due(p) && places_look(p, facts);
}

void places_add_peaks(const struct places *p, struct run_facts *facts)
{
        if (p->disk.n == 0)
                return;
        facts->disk_peak_bytes += p->disk.peak_bytes;
        facts->inodes_peak += p->disk.peak_inodes;
        facts->known.disk = facts->known.disk && p->disk.whole;
}
