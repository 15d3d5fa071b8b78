/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox-hide: serves a directory without its credential files. It is started with a socket as its standard input, and works for the user who made that socket:
 * the front. Its life:
 *
 *   takes the order
 *   makes the mount: as root in the host's user namespace, else in one of its own
 *   gives away what it does not need: it becomes the front's user (for root: the owner of the directory), and can read nothing but what is below it
 *   answers requests until the front, or the last process that uses the mount, is gone
 *
 * An attached mount has to be taken off again, which takes root: a parent waits for that, and its child does the rest.
 *
 * As root it should: mount, and become somebody else. It mustn't: take a path from the front, read one of its texts, or serve as a user that the front names,
 * unless the front is root. */
#include "base/fd.h"
#include "base/message.h"
#include "base/quote.h"
#include "hide/hide.h"
#include "hide/serve.h"
#include "hide/wire.h"
#include "kernel/landlock.h"
#include "kernel/mount.h"
#include "kernel/privilege.h"
#include "kernel/sys.h"
#include "kernel/userns.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SOCKET_FD STDIN_FILENO
#define NOBODY 65534
#define VIEWS "views"
#define HIDE_FILES_MAX 65536            /* that the box has open */
#define HIDE_MEMORY_BYTES_MAX (256 * MIB) /* libfuse has about 200 bytes for each name that the kernel knows */
#define MOUNT_DIR "m"

static struct hide_order order;
static struct hide_answer answer;
static const char *runtime_path; /* where engines find mounts, in a directory of ours; NULL: nothing can be attached */
static uid_t uid;              /* the user it serves as */
static gid_t gid;
static bool is_root;           /* in the host's user namespace */

static _noreturn_ void fail(int code, int errnum, const char *what, const char *remedy)
{
        answer.error.code = code;
        answer.error.errnum = errnum;
        snprintf(answer.error.message, sizeof(answer.error.message), "cannot hide the credential files of a mount: %s: %s%s", what, strerror(errnum), remedy);
        message_send(SOCKET_FD, &answer, sizeof(answer), NULL, 0);
        _exit(1);
}

/* An ordinary user may mount in a user namespace of his own, in which he is himself. */
static void enter_namespaces(void)
{
        struct userns_map map = {.uid_inside = geteuid(), .uid_outside = geteuid(), .gid_inside = getegid(), .gid_outside = getegid()};

        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                fail(GB_E_UNENFORCEABLE, errno, "a user namespace", "; `glovebox doctor` says how to allow them");
        int r = userns_write_map(getpid(), &map);
        if (r < 0)
                fail(GB_E_UNENFORCEABLE, -r, "the map of a user namespace", "");
}

static int make_mount(int *ret_device)
{
        int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        if (device < 0)
                fail(GB_E_UNENFORCEABLE, errno, "/dev/fuse", errno == ENOENT || errno == ENODEV ? "; load the kernel's module (modprobe fuse)"
                                                                                                : "; allow this user to open it (chmod 666 /dev/fuse)");
        int mount = mount_new_fuse(device, geteuid(), getegid(), is_root);
        if (mount < 0)
                fail(GB_E_UNENFORCEABLE, -mount, "a FUSE file system", "");
        *ret_device = device;
        return mount;
}

/* The box may hold many files open, and each is one of ours. Our memory is not in the box's control group, so it has a
 * limit of its own; beyond it, requests fail. */
static void lower_limits(void)
{
        struct rlimit files, memory = {HIDE_MEMORY_BYTES_MAX, HIDE_MEMORY_BYTES_MAX};

        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max = MIN(files.rlim_max, (rlim_t)HIDE_FILES_MAX);
                (void)setrlimit(RLIMIT_NOFILE, &files);
        }
        if (!GLOVEBOX_SANITIZED && setrlimit(RLIMIT_DATA, &memory) < 0)
                fail(GB_E_UNENFORCEABLE, errno, "a limit of its memory", "");
}

/* Leaves nothing useful to an attacker who takes over this process. */
static void seal(int directory)
{
        int abi = landlock_abi(), r = 0;

        lower_limits();
        if (is_root && uid != 0)
                r = privilege_become(uid, gid ? gid : NOBODY, NULL, 0);
        else
                r = is_root ? privilege_drop_capabilities() : privilege_clear_capabilities();
        if (r == 0)
                r = privilege_no_new();
        if (r == 0 && abi > 0)
                r = landlock_allow_reading(abi, directory);
        if (r < 0)
                fail(GB_E_UNENFORCEABLE, -r, "giving up privileges", "");
        (void)prctl(PR_SET_DUMPABLE, 0);
}

/* The path of the directory is judged as the names below it are: a mount of .aws would show the credentials in it. The
 * kernel's path counts, not the one that the front used. */
static void judge_place(struct hide_tree *tree)
{
        char path[HOST_PATH_MAX], link[32];

        int r = hide_names_parse(&tree->names, order.names, strnlen(order.names, sizeof(order.names)));
        if (r < 0)
                fail(GB_E_INTERNAL, -r, "the names of credential files", "");
        snprintf(link, sizeof(link), "/proc/self/fd/%d", tree->root);
        ssize_t n = readlink(link, path, sizeof(path) - 1);
        if (n < 0)
                fail(GB_E_INTERNAL, errno, "the path of the directory", "");
        path[n] = '\0';
        if (hide_walk_path(&tree->names, &tree->start, path) != HIDE_ALWAYS)
                return;
        answer.error.code = GB_E_USAGE;
        answer.error.errnum = EINVAL;
        snprintf(answer.error.message, sizeof(answer.error.message), "cannot mount %s with \"hide\": %s in its path is itself hidden, with everything in it; mount it "
                 "without \"hide\" if the code may read everything in it, or mount another directory", quote(path).text, quote(tree->start.parent).text);
        message_send(SOCKET_FD, &answer, sizeof(answer), NULL, 0);
        _exit(1);
}

/* Sends the mount to the front and closes it; -1: the parent has attached it and answers. */
static _noreturn_ void serve(struct hide_tree *tree, int device, int mount)
{
        seal(tree->root);
        if (mount >= 0 && message_send(SOCKET_FD, &answer, sizeof(answer), &mount, 1) < 0)
                _exit(1);
        safe_close(mount);
        _exit(hide_serve(tree, device, SOCKET_FD) < 0 ? 1 : 0);
}

/* ---- attached ---- */

static _noreturn_ void cannot_attach(int errnum)
{
        fail(GB_E_UNENFORCEABLE, errnum, runtime_path, "");
}

/* Only root looks in there. The last one that takes a mount off removes the directory: then it is made again. */
static int open_views(void)
{
        struct stat st;

        for (;;) {
                if ((mkdir(runtime_path, 0700) < 0 && errno != EEXIST) || chdir(runtime_path) < 0 || (mkdir(VIEWS, 0700) < 0 && errno != EEXIST))
                        cannot_attach(errno);
                int views = open(VIEWS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (views < 0 && errno == ENOENT)
                        continue;
                if (views < 0 || flock(views, LOCK_EX) < 0 || fstat(views, &st) < 0)
                        cannot_attach(errno);
                if (st.st_nlink > 0)
                        return views;
                safe_close(views);
        }
}

static void take_off(int views, const char *name)
{
        char mount[NAME_MAX + sizeof("/" MOUNT_DIR)], path[64 + sizeof(mount)];

        snprintf(mount, sizeof(mount), "%s/" MOUNT_DIR, name);
        snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", views, mount);
        (void)umount2(path, MNT_DETACH);
        (void)unlinkat(views, mount, AT_REMOVEDIR);
        (void)unlinkat(views, name, AT_REMOVEDIR);
}

/* Programs that were killed have left a dead mount. One that lives holds a lock on its directory. */
static void sweep(int views)
{
        int copy = openat(views, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;

        if (!dir)
                return;
        for (const struct dirent *d; (d = readdir(dir));) {
                if (d->d_name[0] == '.')
                        continue;
                _cleanup_close_ int fd = openat(views, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
                        take_off(views, d->d_name);
        }
        closedir(dir);
}

/* Makes a directory and puts the mount there. Returns the directory, with our lock on it. Nobody sweeps between the two: views is locked. */
static int attach(int views, int mount, char *name)
{
        sweep(views);
        snprintf(answer.path, sizeof(answer.path), "%.*s" VIEWS "/XXXXXX", (int)sizeof(answer.path) - 48, runtime_path);
        if (!mkdtemp(answer.path))
                cannot_attach(errno);
        strcpy(name, strrchr(answer.path, '/') + 1);
        int own = openat(views, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (own < 0 || flock(own, LOCK_EX | LOCK_NB) < 0 || mkdirat(own, MOUNT_DIR, 0700) < 0)
                fail(GB_E_INTERNAL, errno, answer.path, "");
        _cleanup_close_ int target = openat(own, MOUNT_DIR, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int r = target < 0 ? -errno : mount_attach(mount, target);
        if (r < 0) {
                take_off(views, name);
                fail(GB_E_UNENFORCEABLE, -r, answer.path, "");
        }
        strcat(answer.path, "/" MOUNT_DIR "/" HIDE_ROOT); /* room for it was left */
        (void)flock(views, LOCK_UN);
        return own;
}

static void serve_attached(struct hide_tree *tree, int mount, int device)
{
        char name[NAME_MAX + 1];
        _cleanup_close_ int views = open_views();

        _cleanup_close_ int own = attach(views, mount, name);
        safe_close(mount);
        pid_t pid = fork();
        if (pid == 0) {
                /* The lock is its parent's, and so are directories of root. */
                safe_close(own);
                safe_close(views);
                if (chdir("/") < 0)
                        _exit(1);
                serve(tree, device, -1);
        }
        safe_close(device);
        tree->root = safe_close(tree->root);
        /* The front may lack permission for the path, so it gets a descriptor. If the child failed, it has already
         * sent the error. */
        _cleanup_close_ int shown = pid > 0 ? open(answer.path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (shown >= 0)
                (void)message_send(SOCKET_FD, &answer, sizeof(answer), &shown, 1);
        while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        (void)flock(views, LOCK_EX);
        take_off(views, name);
        (void)rmdir(VIEWS); /* in our working directory; fails while others have mounts in there */
        if (pid < 0)
                fail(GB_E_INTERNAL, EAGAIN, "a process", "");
}

/* The kernel tells who created the socket. The owner named by the front is used only if the front is root, which
 * could read the directory anyway. */
static bool find_user(void)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (getsockopt(SOCKET_FD, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return false;
        bool for_root = is_root && peer.uid == 0;
        uid = for_root ? order.owner_uid : peer.uid;
        gid = for_root ? order.owner_gid : peer.gid;
        return true;
}

int main(int argc, char **argv)
{
        int fds[BOX_FDS_MAX], n_fds, device;

        is_root = privilege_is_host_root();
        runtime_path = argc == 2 ? argv[1] : NULL;
        if (argc > 2 || sys_close_range(STDERR_FILENO + 1, ~0U, 0) < 0 ||
            message_receive(SOCKET_FD, 0, &order, sizeof(order), fds, &n_fds) != (ssize_t)sizeof(order) || n_fds != 1 || !find_user()) {
                fprintf(stderr, "glovebox-hide: started by glovebox, not by hand\n");
                return 2;
        }
        signal(SIGPIPE, SIG_IGN);
        umask(077);
        if (order.kind == HIDE_ATTACHED && !(is_root && runtime_path))
                fail(GB_E_UNENFORCEABLE, EPERM, "a mount for an engine", "");
        struct hide_tree tree = {.root = fds[0], .owner = uid, .group = gid, .is_below = order.kind == HIDE_ATTACHED};
        judge_place(&tree);
        if (!is_root)
                enter_namespaces();
        int mount = make_mount(&device);
        if (order.kind != HIDE_ATTACHED)
                serve(&tree, device, mount);
        serve_attached(&tree, mount, device);
        return 0;
}
