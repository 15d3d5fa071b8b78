/* SPDX-License-Identifier: Apache-2.0
 *
 * A page of a directory. The whole directory is read for each page, and of its names only the first ones behind the
 * last page are kept: in a heap whose top is the largest. So a page costs the same memory however many entries
 * there are, and what is there all the time comes exactly once, whatever happens to the others meanwhile. (A place in the directory
 * as the kernel counts it would promise neither: it depends on the file system.) */
#include "engine/files_state.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void file_list_free(struct file_list *l)
{
        if (!l)
                return;
        for (size_t i = 0; i < l->n; i++)
                free(l->entries[i].name);
        free(l->entries);
        free(l->last);
        free(l);
}

static int by_name(const void *a, const void *b)
{
        return strcmp(((const struct file_entry *)a)->name, ((const struct file_entry *)b)->name);
}

static void swap(struct file_entry *a, struct file_entry *b)
{
        struct file_entry t = *a;

        *a = *b;
        *b = t;
}

static void sift_up(struct file_list *l, size_t i)
{
        for (; i > 0 && by_name(&l->entries[i], &l->entries[(i - 1) / 2]) > 0; i = (i - 1) / 2)
                swap(&l->entries[i], &l->entries[(i - 1) / 2]);
}

static void sift_down(struct file_list *l)
{
        for (size_t i = 0;;) {
                size_t child = 2 * i + 1;
                if (child + 1 < l->n && by_name(&l->entries[child + 1], &l->entries[child]) > 0)
                        child++;
                if (child >= l->n || by_name(&l->entries[child], &l->entries[i]) <= 0)
                        return;
                swap(&l->entries[i], &l->entries[child]);
                i = child;
        }
}

static int grow(struct file_list *l)
{
        if ((l->n & (l->n + 1)) != 0)
                return 0;
        struct file_entry *grown = realloc(l->entries, (l->n + 1) * 2 * sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        l->entries = grown;
        return 0;
}

/* Only the name: what it is, is looked up for those that stay. */
static int offer(struct file_list *l, const char *name, size_t limit)
{
        if (l->n == limit) {
                l->truncated = true;
                if (strcmp(name, l->entries[0].name) > 0)
                        return 0;
        }
        char *copy = strdup(name);
        if (!copy || grow(l) < 0) {
                free(copy);
                return -ENOMEM;
        }
        if (l->n == limit) {
                free(l->entries[0].name);
                l->entries[0] = (struct file_entry){.name = copy};
                sift_down(l);
        } else {
                l->entries[l->n] = (struct file_entry){.name = copy};
                sift_up(l, l->n++);
        }
        return 0;
}

/* gVisor does not know AT_NO_AUTOMOUNT, and has nothing to be mounted. */
static int look(int dir_fd, const char *name, struct stat *ret)
{
        int r = fstatat(dir_fd, name, ret, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT);

        return r < 0 && errno == EINVAL ? fstatat(dir_fd, name, ret, AT_SYMLINK_NOFOLLOW) : r;
}

/* Entries that are gone again are left out. 0, or a negative errno: an entry exists but cannot be examined. */
static int look_up(struct file_list *l, int dir_fd)
{
        size_t kept = 0;
        struct stat st;
        int r = 0;

        for (size_t i = 0; i < l->n; i++) {
                struct file_entry *e = &l->entries[i];
                if (look(dir_fd, e->name, &st) < 0) {
                        r = r == 0 && errno != ENOENT ? -errno : r;
                        free(e->name);
                        continue;
                }
                e->mode = st.st_mode;
                e->size = (uint64_t)st.st_size;
                e->modified_usec = files_time_usec(&st.st_mtim);
                l->entries[kept++] = *e;
        }
        l->n = kept;
        return r;
}

static void closedir_ptr(DIR **d)
{
        if (*d)
                closedir(*d);
}

static int read_page(DIR *dir, const char *after, size_t limit, struct file_list *l)
{
        struct dirent *entry;
        int r = 0;

        while (r == 0 && (errno = 0, entry = readdir(dir))) {
                const char *name = entry->d_name;
                if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || (after && strcmp(name, after) <= 0))
                        continue;
                r = offer(l, name, limit);
        }
        if (r == 0 && errno != 0)
                r = -errno;
        if (r < 0 || l->n == 0)
                return r;
        qsort(l->entries, l->n, sizeof(l->entries[0]), by_name);
        l->last = l->truncated ? strdup(l->entries[l->n - 1].name) : NULL;
        return l->truncated && !l->last ? -ENOMEM : 0;
}

int files_list_page(const struct files *f, const char *path, const char *after, size_t limit, struct file_list **ret, gb_error *err)
{
        char checked[HOST_PATH_MAX];
        _cleanup_(identity_restore) struct identity identity = {0};
        _cleanup_file_list_ struct file_list *l = f->remote ? NULL : calloc(1, sizeof(*l));
        _cleanup_(closedir_ptr) DIR *dir = NULL;

        if (f->remote)
                return files_remote_list(f, path, after, limit, ret, err);
        int r = l ? files_check_path(path, strlen(path), checked, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r == 0)
                r = identity_take(&identity, f, err);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = files_open_beneath(f->root_fd, checked, O_RDONLY | O_DIRECTORY);
        if (fd >= 0)
                dir = fdopendir(fd);
        if (!dir)
                return files_fail(err, errno, "list", path);
        TAKE_FD(fd);
        r = read_page(dir, after, limit, l);
        if (r == 0)
                r = look_up(l, dirfd(dir));
        if (r < 0)
                return files_fail(err, -r, "list", path);
        *ret = TAKE_PTR(l);
        return 0;
}

int files_list(const struct files *f, const char *path, struct file_list **ret, gb_error *err)
{
        return files_list_page(f, path, NULL, FILE_LIST_MAX, ret, err);
}
