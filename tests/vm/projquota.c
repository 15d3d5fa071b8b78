/* SPDX-License-Identifier: Apache-2.0
 *
 * A limit on a directory by project quota, with nothing but system calls; and what a process that is
 * bound by it can do about it.
 *
 *   projquota set DIR ID BYTES INODES   as root: give the empty directory the project, set the limits
 *   projquota show DIR ID               as root: the usage, "bytes inodes"
 *   projquota escape DIR ID             as anybody: try to leave the project; prints what came of it
 *
 * How: every new file and directory below DIR takes over its project (FS_XFLAG_PROJINHERIT), and
 * the file system, mounted with prjquota, answers EDQUOT beyond the hard limit of that project. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COMMAND(what) (((what) << SUBCMDSHIFT) | PRJQUOTA)

/* Since Linux 5.14. The older quotactl() wants the path of the block device instead. */
static int quotactl_fd(int fd, unsigned command, unsigned id, void *data)
{
        return (int)syscall(SYS_quotactl_fd, fd, command, id, data);
}

static int fail(const char *what)
{
        fprintf(stderr, "projquota: %s: %s\n", what, strerror(errno));
        return 1;
}

static int set_project(int fd, uint32_t id, bool inherit)
{
        struct fsxattr attributes;

        if (ioctl(fd, FS_IOC_FSGETXATTR, &attributes) < 0)
                return -1;
        attributes.fsx_projid = id;
        attributes.fsx_xflags &= ~(uint32_t)FS_XFLAG_PROJINHERIT;
        if (inherit)
                attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
        return ioctl(fd, FS_IOC_FSSETXATTR, &attributes);
}

static int set(int fd, uint32_t id, const char *bytes, const char *inodes)
{
        struct if_dqblk limits = {
                .dqb_bhardlimit = strtoull(bytes, NULL, 10) / 1024, /* in blocks of 1 KiB, whatever the file system's are */
                .dqb_ihardlimit = strtoull(inodes, NULL, 10),
                .dqb_valid = QIF_LIMITS,
        };

        /* The limit first: no moment without it. */
        if (quotactl_fd(fd, COMMAND(Q_SETQUOTA), id, &limits) < 0)
                return fail("set the limits of the project");
        return set_project(fd, id, true) < 0 ? fail("give the directory its project") : 0;
}

static int show(int fd, uint32_t id)
{
        struct if_dqblk usage = {0};

        if (quotactl_fd(fd, COMMAND(Q_GETQUOTA), id, &usage) < 0)
                return fail("read the usage of the project");
        printf("%llu %llu\n", (unsigned long long)usage.dqb_curspace, (unsigned long long)usage.dqb_curinodes);
        return 0;
}

static void tell(const char *what, int r)
{
        printf("%s=%s\n", what, r < 0 ? strerrorname_np(errno) : "ok");
}

/* Each of these, when it works, takes bytes out of the limit. */
static int escape(int fd, uint32_t id)
{
        struct if_dqblk none = {.dqb_valid = QIF_LIMITS};
        int file = openat(fd, "escape", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        if (file < 0 || mkdirat(fd, "below", 0700) < 0)
                return fail("make a file to try with");
        int below = openat(fd, "below", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        tell("file-project", set_project(file, 0, false));
        tell("directory-inherit", set_project(below, id, false));
        tell("directory-project", set_project(below, id + 1, true));
        tell("raise-limit", quotactl_fd(fd, COMMAND(Q_SETQUOTA), id, &none));
        unlinkat(fd, "below", AT_REMOVEDIR);
        unlinkat(fd, "escape", 0);
        return 0;
}

int main(int argc, char **argv)
{
        int fd = argc < 4 ? -1 : open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (argc < 4) {
                fprintf(stderr, "usage: projquota set DIR ID BYTES INODES | show DIR ID | escape DIR ID\n");
                return 2;
        }
        if (fd < 0)
                return fail(argv[2]);
        uint32_t id = (uint32_t)strtoul(argv[3], NULL, 10);
        if (strcmp(argv[1], "set") == 0 && argc == 6)
                return set(fd, id, argv[4], argv[5]);
        if (strcmp(argv[1], "show") == 0)
                return show(fd, id);
        return escape(fd, id);
}
