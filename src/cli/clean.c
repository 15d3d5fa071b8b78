/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox clean: takes away what processes of glovebox have left that were killed. Whether a maker lives is never guessed: he holds
 * a lock on what he made for as long as he lives, and what is not locked is nobody's. Files of users are not touched. */
#include "cli/command.h"
#include "cli/output.h"

#include "backend/backend.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
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
        json_t *found; /* {"kind", "name"} */
};

static void note(void *data, const char *kind, const char *name)
{
        struct clean *c = data;

        json_array_append_new(c->found, json_pack("{s:s, s:s}", "kind", kind, "name", name));
}

/* ---- control groups ---- */

static bool is_ours(const char *name)
{
        size_t prefix = strlen(CGROUP_NAME_PREFIX), n = strlen(name);

        return strncmp(name, CGROUP_NAME_PREFIX, prefix) == 0 && n >= prefix + 8 && strspn(name + prefix, "0123456789abcdef") == n - prefix;
}

static bool is_left(int parent, const char *name)
{
        _cleanup_close_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static void look_at_groups(struct clean *c, int parent)
{
        int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (!dir) {
                safe_close(fd);
                return;
        }
        for (struct dirent *e; (e = readdir(dir));)
                if (is_ours(e->d_name) && is_left(parent, e->d_name))
                        note(c, "cgroup", e->d_name);
        closedir(dir);
}

static int clean_groups(struct clean *c, gb_error *err)
{
        struct cgroup_host host;

        int r = cgroup_find(false, &host);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot find the control groups: %s", strerror(-r));
        for (int i = 0; i < CGROUP_KIND_COUNT; i++)
                if (host.parent[i] >= 0)
                        look_at_groups(c, host.parent[i]);
        if (!c->dry_run)
                (void)cgroup_sweep(host.parent);
        cgroup_host_done(&host);
        return 0;
}

/* ---- sockets ---- */

/* The lock of who serves there, or -1: he lives. */
static int take_lock(int dir, const char *name)
{
        bool itself = strcmp(name, ".") == 0;
        _cleanup_close_ int fd = openat(dir, name, (itself ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT) | O_NOFOLLOW | O_CLOEXEC, 0600);

        return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? TAKE_FD(fd) : -1;
}

static int clean_sockets(struct clean *c, gb_error *err)
{
        _cleanup_free_ char *path = NULL;

        int r = path_runtime("", &path);
        if (r == -EPERM)
                return error_set(err, GB_E_USAGE, EPERM, "the directory for sockets of this user is not his, or others can write to it; nothing in it was touched");
        _cleanup_close_ int dir = r < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; dir >= 0 && i < ARRAY_SIZE(sockets); i++) {
                struct stat st;
                if (fstatat(dir, sockets[i].name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode) || (st.st_uid != geteuid() && geteuid() != 0))
                        continue;
                _cleanup_close_ int lock = take_lock(dir, sockets[i].lock);
                if (lock < 0 || (!c->dry_run && unlinkat(dir, sockets[i].name, 0) < 0))
                        continue;
                note(c, "socket", sockets[i].name);
        }
        return 0;
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
        if (r == 0 && i == 0)
                r = buffer_add_string(out, "nothing was left behind\n");
        return r;
}

int command_clean(const struct command *command, const struct arguments *arguments)
{
        _cleanup_json_ json_t *found = json_array();
        _cleanup_buffer_ struct buffer text;
        struct clean c = {.dry_run = arguments_has(arguments, OPT_DRY_RUN), .found = found};
        struct backend_sweep sweep = {.only_look = c.dry_run, .found = note, .data = &c};
        gb_error err = {.code = GB_E_INTERNAL, .message = "out of memory"};

        buffer_init(&text, TEXT_BYTES_MAX);
        int r = clean_groups(&c, &err);
        if (r == 0)
                r = clean_sockets(&c, &err);
        if (r == 0)
                r = backends_sweep(&sweep, &err);
        if (r == 0 && arguments_has(arguments, OPT_JSON)) {
                _cleanup_json_ json_t *whole = json_pack("{s:b, s:O}", "dry_run", c.dry_run, c.dry_run ? "found" : "removed", found);
                return output_json(whole);
        }
        if (r == 0 || json_array_size(found) > 0) {
                int said = write_text(&c, &text);
                r = r < 0 ? r : said;
        }
        if (r == 0)
                return output_text(&text);
        if (text.size > 0 && !arguments_has(arguments, OPT_JSON))
                (void)output_text(&text); /* what was removed all the same */
        return command_fail(arguments, &err);
}
