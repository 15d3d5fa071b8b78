/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox clean: takes away what processes of glovebox have left that were killed. Whether a maker lives is never guessed: he holds
 * a lock on what he made for as long as he lives, and what is not locked is nobody's. Files of users are not touched. */
#include "cli/command.h"
#include "cli/events.h"
#include "cli/output.h"

#include "backend/backend.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "base/quote.h"
#include "kernel/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Sockets in the runtime directory, and what their owner has locked: a file beside it, or the directory itself. */
static const struct {
        const char *name, *lock;
} sockets[] = {{"glovebox.sock", "glovebox.sock.lock"}, {"warm.sock", "."}};

struct clean {
        bool dry_run;
        json_t *found;  /* {"kind", "name"} */
        gb_error first; /* of the failures, each of which is told as it comes */
};

static void note(void *data, const char *kind, const char *name)
{
        struct clean *c = data;

        json_array_append_new(c->found, json_pack("{s:s, s:s}", "kind", kind, "name", name));
}

static void fail(struct clean *c, const gb_error *err)
{
        message_print(MESSAGE_ERROR, "%s", err->message);
        if (c->first.code == GB_E_NONE)
                c->first = *err;
}

/* What was tried, on what, and why it did not work. */
static void fail_errno(struct clean *c, int errnum, const char *what, const char *name)
{
        gb_error err = {0};

        error_set(&err, GB_E_INTERNAL, errnum, "cannot %s %s: %s", what, quote_path(name).text, strerror(errnum));
        fail(c, &err);
}

/* ---- control groups ---- */

static int lock_group(int parent, const char *name)
{
        _cleanup_close_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? TAKE_FD(fd) : -errno;
}

static bool is_of_another(int parent, const char *name)
{
        struct stat st;

        return geteuid() != 0 && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid != geteuid();
}

static void look_at_group(struct clean *c, int parent, const char *name, json_t *left)
{
        _cleanup_close_ int lock = lock_group(parent, name);

        if (lock >= 0)
                (void)json_object_set_new(left, name, json_true());
        else if (lock != -EWOULDBLOCK && lock != -ENOENT && !(lock == -EACCES && is_of_another(parent, name)))
                fail_errno(c, -lock, "look at the control group", name);
}

static void look_at_groups(struct clean *c, int parent, json_t *left)
{
        int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (!dir) {
                int errnum = errno;
                safe_close(fd);
                /* Who may not write there has made nothing there. */
                if (errnum != EACCES || faccessat(parent, ".", W_OK, AT_EACCESS) == 0)
                        fail_errno(c, errnum, "list", "control groups");
                return;
        }
        errno = 0;
        for (struct dirent *e; (e = readdir(dir)); errno = 0)
                if (cgroup_name_is_ours(e->d_name))
                        look_at_group(c, parent, e->d_name, left);
        if (errno != 0)
                fail_errno(c, errno, "list", "control groups");
        closedir(dir);
}

/* After the sweep: a group is removed when no hierarchy has it. */
static void tell_group(struct clean *c, const struct cgroup_host *host, const char *name)
{
        for (int i = 0; i < CGROUP_KIND_COUNT; i++) {
                if (host->parent[i] < 0)
                        continue;
                _cleanup_close_ int lock = lock_group(host->parent[i], name);
                if (lock == -ENOENT)
                        continue;
                if (lock == -EWOULDBLOCK)
                        return; /* its maker was about to lock it, and lives */
                if (lock < 0 || (unlinkat(host->parent[i], name, AT_REMOVEDIR) < 0 && errno != ENOENT)) {
                        fail_errno(c, lock < 0 ? -lock : errno, "remove the control group", name);
                        return;
                }
        }
        note(c, "cgroup", name);
}

static void clean_groups(struct clean *c)
{
        _cleanup_json_ json_t *left = json_object();
        struct cgroup_host host;
        const char *name;
        json_t *value;

        int r = cgroup_find(false, &host);
        if (r < 0) {
                fail_errno(c, -r, "find", "control groups");
                return;
        }
        for (int i = 0; i < CGROUP_KIND_COUNT; i++)
                if (host.parent[i] >= 0)
                        look_at_groups(c, host.parent[i], left);
        if (!c->dry_run)
                (void)cgroup_sweep(host.parent); /* what came of it is looked at */
        json_object_foreach(left, name, value) {
                if (c->dry_run)
                        note(c, "cgroup", name);
                else
                        tell_group(c, &host, name);
        }
        cgroup_host_done(&host);
}

/* ---- sockets ---- */

/* The lock of who serves there; -EWOULDBLOCK: he lives. */
static int take_lock(int dir, const char *name)
{
        bool itself = strcmp(name, ".") == 0;
        _cleanup_close_ int fd = openat(dir, name, (itself ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT) | O_NOFOLLOW | O_CLOEXEC, 0600);

        return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? TAKE_FD(fd) : -errno;
}

static void clean_socket(struct clean *c, int dir, const char *name, const char *lock_name)
{
        struct stat st;

        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                if (errno != ENOENT)
                        fail_errno(c, errno, "look at the socket", name);
                return;
        }
        if (!S_ISSOCK(st.st_mode) || (st.st_uid != geteuid() && geteuid() != 0))
                return;
        _cleanup_close_ int lock = take_lock(dir, lock_name);
        if (lock < 0) {
                if (lock != -EWOULDBLOCK && lock != -ENOENT)
                        fail_errno(c, -lock, "see whether the server lives: lock", lock_name);
        } else if (c->dry_run || unlinkat(dir, name, 0) == 0)
                note(c, "socket", name);
        else if (errno != ENOENT)
                fail_errno(c, errno, "remove the socket", name);
}

static void clean_sockets(struct clean *c)
{
        _cleanup_free_ char *path = NULL;
        gb_error err = {0};

        int r = path_runtime("", &path);
        if (r == -EPERM) {
                error_set(&err, GB_E_USAGE, EPERM,
                          "the directory for sockets of this user is not his, or others can write to it; nothing in it was "
                          "touched");
                fail(c, &err);
                return;
        }
        if (r < 0) {
                fail_errno(c, -r, "find", "the directory for sockets");
                return;
        }
        _cleanup_close_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0 && errno != ENOENT)
                fail_errno(c, errno, "open the directory for sockets", path);
        if (dir < 0)
                return;
        for (size_t i = 0; i < ARRAY_SIZE(sockets); i++)
                clean_socket(c, dir, sockets[i].name, sockets[i].lock);
}

static void clean_containers(struct clean *c)
{
        struct backend_sweep sweep = {.only_look = c->dry_run, .found = note, .data = c};
        gb_error err = {.code = GB_E_INTERNAL, .message = "out of memory"};

        if (backends_sweep(&sweep, &err) < 0)
                fail(c, &err);
}

/* ---- the verb ---- */

static int write_text(const struct clean *c, struct buffer *out)
{
        const json_t *item;
        size_t i;
        int r = 0;

        json_array_foreach(c->found, i, item) {
                if (r == 0)
                        r = buffer_printf(out, "%s%s %s\n", c->dry_run ? "would remove " : "removed ", json_string_value(json_object_get(item, "kind")),
                                          json_string_value(json_object_get(item, "name")));
        }
        if (r == 0 && i == 0 && c->first.code == GB_E_NONE)
                r = buffer_add_string(out, "nothing was left behind\n");
        return r;
}

static int report_json(const struct clean *c)
{
        _cleanup_json_ json_t *whole = c->first.code == GB_E_NONE ? json_object() : error_to_json(&c->first, false);

        (void)json_object_set_new(whole, "dry_run", json_boolean(c->dry_run));
        (void)json_object_set(whole, c->dry_run ? "found" : "removed", c->found);
        return output_json(whole);
}

static int report_text(const struct arguments *arguments, const struct clean *c)
{
        _cleanup_buffer_ struct buffer text;
        gb_error err = {.code = GB_E_INTERNAL, .message = "out of memory"};

        buffer_init(&text, TEXT_BYTES_MAX);
        return write_text(c, &text) < 0 ? command_fail(arguments, &err) : output_text(&text);
}

int command_clean(const struct command *command, const struct arguments *arguments)
{
        _cleanup_json_ json_t *found = json_array();
        struct clean c = {.dry_run = arguments_has(arguments, OPT_DRY_RUN), .found = found};

        clean_groups(&c);
        clean_sockets(&c);
        clean_containers(&c);
        int written = arguments_has(arguments, OPT_JSON) ? report_json(&c) : report_text(arguments, &c);
        return c.first.code == GB_E_NONE ? written : error_exit_status(c.first.code);
}
