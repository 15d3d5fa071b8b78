/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40 /* as the kernel */

/* The way that is left, and the directory it begins in. */
struct walk {
        int dir;
        char rest[HOST_PATH_MAX];
        int links;
};

static int fail(int errnum)
{
        errno = errnum;
        return -1;
}

/* Takes the first part off the rest. Empty when there is none. */
static int next_part(struct walk *w, char part[static HOST_PATH_MAX])
{
        char *at = w->rest + strspn(w->rest, "/");
        size_t size = strcspn(at, "/");

        memcpy(part, at, size);
        part[size] = '\0';
        memmove(w->rest, at + size, strlen(at + size) + 1);
        return (int)size;
}

static int follow(struct walk *w, int link)
{
        char target[HOST_PATH_MAX], joined[HOST_PATH_MAX];
        struct stat st;

        if (fstat(link, &st) < 0)
                return -1;
        if (st.st_uid != 0 && st.st_uid != geteuid())
                return fail(EXDEV);
        if (++w->links > LINKS_MAX)
                return fail(ELOOP);
        ssize_t n = readlinkat(link, "", target, sizeof(target) - 1);
        if (n < 0)
                return -1;
        target[n] = '\0';
        if ((size_t)snprintf(joined, sizeof(joined), "%s/%s", target, w->rest) >= sizeof(joined))
                return fail(ENAMETOOLONG);
        strcpy(w->rest, joined);
        if (target[0] != '/')
                return 0;
        int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return -1;
        safe_close(w->dir);
        w->dir = root;
        return 0;
}

/* One step: into a directory, through a link, or to the file at the end. */
static int step(struct walk *w, const char *part)
{
        struct stat st;
        _cleanup_close_ int next = openat(w->dir, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);

        if (next < 0 || fstat(next, &st) < 0)
                return -1;
        if (S_ISLNK(st.st_mode))
                return follow(w, next);
        safe_close(w->dir);
        w->dir = TAKE_FD(next);
        return 0;
}

int place_open(const char *path, int flags)
{
        char part[HOST_PATH_MAX], name[32];
        struct walk w = {.dir = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC)};
        _cleanup_close_ int dir = -1;

        if (w.dir < 0)
                return -1;
        int r = path[0] == '\0' ? fail(ENOENT) : strlen(path) < sizeof(w.rest) ? 0 : fail(ENAMETOOLONG);
        if (r == 0)
                strcpy(w.rest, path);
        while (r == 0 && next_part(&w, part) > 0)
                r = step(&w, part);
        dir = w.dir;
        if (r < 0)
                return -1;
        /* The same inode again, with the rights that are wanted: a descriptor's own name cannot be changed. */
        if (flags & O_PATH)
                return fcntl(dir, F_DUPFD_CLOEXEC, 3);
        snprintf(name, sizeof(name), "/proc/self/fd/%d", dir);
        return open(name, flags | O_CLOEXEC);
}
