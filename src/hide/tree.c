/* SPDX-License-Identifier: Apache-2.0
 *
 * A path is judged part by part, then walked from the root's descriptor by the kernel, which neither follows a link nor leaves the root.
 *
 * Mustn't: open a file before it was judged, or show a byte of a file that is judged by its content before all of it was read. */
#include "hide/tree.h"

#include "base/fd.h"
#include "base/limits.h"
#include "hide/content.h"
#include "hide/spelling.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEY_FILE_BYTES_MAX (1 * MIB) /* a file with a name of keys that is larger is hidden */
#define KEY_FILE_HEAD_BYTES (64 * KIB) /* mostly this much of it is enough */
#define JUDGED_MAX 1024

/* A file of which the content was judged, as it was then. */
static struct judged {
        dev_t dev;
        ino_t ino;
        off_t size;
        struct timespec modified, changed;
        enum hide_content kind;
        bool is_key;
} judged[JUDGED_MAX];
static size_t n_judged;

static bool same_time(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static const char *last_part(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

static const struct judged *find_judged(const struct stat *st, enum hide_content kind)
{
        for (size_t i = 0; i < MIN(n_judged, (size_t)JUDGED_MAX); i++)
                if (judged[i].ino == st->st_ino && judged[i].dev == st->st_dev && judged[i].size == st->st_size && same_time(&judged[i].modified, &st->st_mtim) &&
                    same_time(&judged[i].changed, &st->st_ctim) && judged[i].kind == kind)
                        return &judged[i];
        return NULL;
}

/* Whether the beginning of a file says that it is hidden. */
static bool head_is_key(int fd, enum hide_content kind)
{
        static char head[KEY_FILE_HEAD_BYTES];
        ssize_t n = pread(fd, head, sizeof(head), 0);

        return n < 0 || hide_is_key(kind, head, (size_t)n, false);
}

/* What a hidden file holds is not kept. */
static int read_whole(int fd, enum hide_content kind, char **ret, size_t *ret_size)
{
        _cleanup_free_ char *content = NULL;
        size_t size;

        if (head_is_key(fd, kind))
                return -ENOENT;
        int r = fd_read_all(fd, KEY_FILE_BYTES_MAX, &content, &size);
        if (r < 0)
                return r == -ENOMEM ? r : -ENOENT;
        if (hide_is_key(kind, content, size, true))
                return -ENOENT;
        /* It was read into more than it needs. */
        char *small = realloc(content, size + 1);
        if (small)
                content = small;
        *ret = TAKE_PTR(content);
        *ret_size = size;
        return 0;
}

int tree_read(int fd, const char *path, char **ret, size_t *ret_size)
{
        enum hide_content kind = hide_content_of(last_part(path));
        struct stat st;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > (off_t)KEY_FILE_BYTES_MAX)
                return -ENOENT;
        int r = read_whole(fd, kind, ret, ret_size);
        if (r != -ENOMEM)
                judged[n_judged++ % JUDGED_MAX] = (struct judged){st.st_dev, st.st_ino, st.st_size, st.st_mtim, st.st_ctim, kind, r < 0};
        return r;
}

int tree_open(const struct hide_tree *t, const char *path, uint64_t flags)
{
        struct open_how how = {
                .flags = flags | O_CLOEXEC | O_NOFOLLOW, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };
        int fd = (int)syscall(SYS_openat2, t->root, path[1] ? path + 1 : ".", &how, sizeof(how));

        return fd < 0 ? -errno : fd;
}

enum hide_verdict tree_judge(const struct hide_tree *t, const char *path, struct hide_walk *ret)
{
        struct hide_walk walk = t->start;
        enum hide_verdict verdict = hide_walk_path(&t->names, &walk, path);

        if (verdict != HIDE_ALWAYS && !spelling_is_listed(t, path))
                verdict = HIDE_ALWAYS;
        if (ret)
                *ret = walk;
        return verdict;
}

/* Whether the file fd at path, which may only be O_PATH, is hidden for its content. */
static bool holds_key(const struct hide_tree *t, int fd, const char *path)
{
        _cleanup_free_ char *content = NULL;
        struct stat st;
        size_t size;

        if (fstat(fd, &st) < 0)
                return true;
        if (!S_ISREG(st.st_mode))
                return false;
        const struct judged *known = find_judged(&st, hide_content_of(last_part(path)));
        if (known)
                return known->is_key;
        _cleanup_close_ int file = tree_open(t, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        return file < 0 || tree_read(file, path, &content, &size) < 0;
}

static int find(const struct hide_tree *t, const char *path, enum hide_verdict verdict)
{
        if (verdict == HIDE_ALWAYS)
                return -ENOENT;
        int fd = tree_open(t, path, O_PATH);
        if (fd >= 0 && verdict == HIDE_IF_KEY && holds_key(t, fd, path)) {
                safe_close(fd);
                return -ENOENT;
        }
        return fd;
}

int tree_find(const struct hide_tree *t, const char *path)
{
        return find(t, path, tree_judge(t, path, NULL));
}

bool tree_shows(const struct hide_tree *t, const char *path, enum hide_verdict verdict)
{
        if (verdict != HIDE_IF_KEY)
                return verdict == HIDE_NOTHING;
        _cleanup_close_ int fd = find(t, path, verdict);
        return fd >= 0;
}
