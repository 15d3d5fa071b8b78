/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages of a server that root starts.
 *
 * 1. As root, one thread. Should: read configuration, policy and certificate; bind sockets; give the state's directory to the account.
 *    Mustn't: accept a connection, open the journal, follow a link in a directory that somebody else can write to.
 * 2. The drop (backend.h, separate()): the backend looks at the host once more, forks the keeper, and this process becomes the account for good: no groups (but that of an
 *    engine's socket, when boxes may be made there), no capabilities, no new privileges.
 * 3. As the account. Should: everything else. Mustn't: need root again. */
#include "server/privilege.h"

#include "backend/backend.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/quote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

bool privilege_is_to_drop(const struct server_config *config)
{
        return geteuid() == 0 && config->parent_fd < 0;
}

/* ---- who ---- */

static int account_by_name(const char *name, struct account *ret, gb_error *err)
{
        errno = 0;
        /* cppcheck-suppress getpwnamCalled ; there is one thread */
        const struct passwd *p = getpwnam(name);

        if (!p)
                return error_set(err, GB_E_USAGE, errno ? errno : ENOENT, "there is no account %s", quote(name).text);
        if (p->pw_uid == 0 || p->pw_gid == 0)
                return error_set(err, GB_E_USAGE, EPERM, "the account %s is root's: the server needs one without privilege", quote(name).text);
        *ret = (struct account){p->pw_uid, p->pw_gid};
        return 0;
}

int account_find(const char *user, const char *directory, struct account *ret, gb_error *err)
{
        _cleanup_free_ char *real = realpath(directory, NULL);
        uint64_t number;

        if (user && parse_count(user, &number) == 0) {
                if (number == 0 || number >= UINT32_MAX)
                        return error_set(err, GB_E_USAGE, ERANGE, "--user takes the name of an account, or a number from 1 on, not %s", quote(user).text);
                *ret = (struct account){(uid_t)number, (gid_t)number};
                return 0;
        }
        if (user)
                return account_by_name(user, ret, err);
        if (account_by_name(ACCOUNT_NAME, ret, err) == 0)
                return 0;
        if (err && err->errnum == EPERM)
                return -EPERM;
        /* Always the same one for the same directory, so that its files are its own the next time. */
        uint64_t hash = hash_string(HASH_INIT, real ? real : directory);
        number = ACCOUNT_UID_FIRST + hash % (ACCOUNT_UID_LAST - ACCOUNT_UID_FIRST + 1);
        *ret = (struct account){(uid_t)number, (gid_t)number};
        return 0;
}

/* ---- what becomes theirs ---- */

static int cannot(gb_error *err, const char *what, const char *path)
{
        return error_set(err, GB_E_USAGE, errno, "cannot %s %s: %s", what, quote_path(path).text, strerror(errno));
}

/* Files that root has left in it, such as those of `glovebox token create` before the first start. Only in a directory that was root's until now: nobody else has
 * laid out anything there. */
static int give_files(int dir, const char *path, const struct account *a, gb_error *err)
{
        int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *list = fd < 0 ? NULL : fdopendir(fd);
        struct stat st;

        if (!list) {
                safe_close(fd);
                return cannot(err, "list", path);
        }
        for (struct dirent *e; r == 0 && (e = readdir(list));) {
                _cleanup_close_ int file = openat(dir, e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
                if (file < 0 || fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != 0 || st.st_nlink != 1)
                        continue;
                if (fchown(file, a->uid, a->gid) < 0)
                        r = cannot(err, "give away a file in", path);
        }
        closedir(list);
        return r;
}

static int make_parents(const char *path)
{
        _cleanup_free_ char *copy = strdup(path);

        if (!copy)
                return -ENOMEM;
        for (char *p = copy + 1; *p; p++) {
                if (*p != '/')
                        continue;
                *p = '\0';
                if (mkdir(copy, 0755) < 0 && errno != EEXIST)
                        return -errno;
                *p = '/';
        }
        return 0;
}

int privilege_make_directory(const char *path, gb_error *err)
{
        mode_t mask = umask(0022);
        int r = make_parents(path);

        umask(mask);
        if (r == 0 && mkdir(path, 0700) < 0 && errno != EEXIST)
                r = -errno;
        errno = -r;
        return r < 0 ? cannot(err, "make the directory", path) : 0;
}

/* The directory is there afterwards, and the account's. strict: it must be, else it only is when we make it. */
static int give_directory(const char *path, const struct account *a, bool strict, gb_error *err)
{
        struct stat st;
        bool made = lstat(path, &st) < 0 && errno == ENOENT;

        int r = privilege_make_directory(path, err);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return cannot(err, "open the directory", path);
        if (st.st_uid == a->uid || (!made && !strict))
                return 0;
        if (st.st_uid != 0)
                return error_set(err, GB_E_USAGE, EPERM, "the directory %s belongs to user %u, and the server is to run as user %u: chown it, or use --user",
                                 quote_path(path).text, (unsigned)st.st_uid, (unsigned)a->uid);
        if (st.st_mode & 022)
                return error_set(err, GB_E_USAGE, EPERM, "others can write to the directory %s: chmod go-w it, or use another", quote_path(path).text);
        r = give_files(fd, path, a, err);
        if (r == 0 && (fchown(fd, a->uid, a->gid) < 0 || fchmod(fd, 0700) < 0))
                r = cannot(err, "give away", path);
        return r;
}

int privilege_hand_over(const struct server_config *config, struct listeners *listeners, const struct account *account, gb_error *err)
{
        int r = give_directory(config->directory, account, true, err);

        if (r == 0 && config->workspaces)
                r = give_directory(config->workspaces, account, false, err);
        return r < 0 ? r : listeners_give(listeners, account->uid, account->gid, err);
}

/* ---- the drop ---- */

static void at_end(void *data)
{
        const struct privilege_drop *drop = data;

        listeners_remove(drop->listeners);
}

static int between(void *data, gb_error *err)
{
        const struct privilege_drop *drop = data;

        return drop->last ? drop->last(drop->data, err) : 0;
}

int privilege_drop(const struct privilege_drop *drop, const struct account *account, gb_error *err)
{
        const struct server_config *config = drop->config;
        const struct listeners *listeners = drop->listeners;
        struct separation s = {.uid = account->uid, .gid = account->gid, .between = between, .at_end = at_end, .data = (void *)(uintptr_t)drop};

        _Static_assert(sizeof(s.groups) == sizeof(drop->groups), "the same ones");
        memcpy(s.groups, drop->groups, sizeof(s.groups));
        s.n_groups = drop->n_groups;
        for (size_t i = 0; i < listeners->n; i++)
                if (listeners->rows[i].lock >= 0)
                        s.kept[s.n_kept++] = listeners->rows[i].lock;
        _Static_assert(SEPARATION_FDS_MAX >= SERVER_LISTEN_MAX, "a place for each lock");
        int r = backend_native.separate(&s, err);
        if (r < 0)
                return r;
        const char *places[] = {config->directory, config->workspaces};
        for (size_t i = 0; i < ARRAY_SIZE(places); i++)
                if (places[i] && access(places[i], R_OK | W_OK | X_OK) < 0)
                        return error_set(err, GB_E_USAGE, errno, "the server's user %u cannot use the directory %s: %s (it must be his, and those above it must let others through)",
                                         (unsigned)account->uid, quote_path(places[i]).text, strerror(errno));
        return 0;
}

/* The way to the directory may be closed to its owner: systemd keeps those of dynamic users below one of root's. So the right to search stays. */
static int keep_search(void)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

        if (syscall(SYS_capget, &header, data) < 0)
                return -1;
        data[0].effective = data[0].permitted & (1U << CAP_DAC_READ_SEARCH);
        data[1].effective = 0;
        return (int)syscall(SYS_capset, &header, data);
}

int privilege_become_owner(const char *directory, gb_error *err)
{
        struct stat st;

        if (geteuid() != 0 || stat(directory, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid == 0)
                return 0;
        if (setgroups(0, NULL) < 0 || setegid(st.st_gid) < 0 || seteuid(st.st_uid) < 0 || keep_search() < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot become user %u, to whom %s belongs: %s", (unsigned)st.st_uid, quote_path(directory).text,
                                 strerror(errno));
        return 0;
}
