/* SPDX-License-Identifier: Apache-2.0
 *
 * What a box sees as its root. It is a private tmpfs; on it, bound read-only, either the host's /usr
 * with a made-up /etc, or every entry of an image's root. An image's own /proc, /sys, /dev, /tmp, /run
 * and workspace are left out and ours stand there, so whatever they are in the image (links, say)
 * cannot matter. */
#include "backend/native/root.h"

#include "base/fd.h"
#include "base/path.h"
#include "kernel/sys.h"
#include "policy/network.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define SHM_SIZE_MAX (64 * MIB)
#define CODE_SIZE_BYTES (2 * CODE_BYTES_MAX) /* of the place for code in a session */
#define CODE_INODES 1024
#define ETC_COPY_MAX (256 * KIB) /* larger files of /etc are bound, not copied */

/* What all programs need of the host's /etc, and nobody's secret; languages name what else they need. The certificates are there whatever the network is: a
 * template's root is the same for all its sessions, and a box from a template the same as one without. */
static const char *const host_etc[] = {"alternatives", "ld.so.cache", "localtime", "ssl/openssl.cnf", "ssl/certs"};

/* Only with the host's network: who gives names to addresses. With an allowlist the proxy does that. */
static const char *const host_network_etc[] = {"gai.conf", "hosts", "protocols", "resolv.conf", "services"};

/* Never taken from an image: these are ours. */
static const char *const own_entries[] = {"proc", "sys", "dev", "tmp", "run", "sandbox", "workspace", "lost+found"};

static const struct {
        const char *name;
        unsigned major, minor;
} devices[] = {{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}};

static int plan_devices(struct box_plan *p, gb_error *err)
{
        static const char *const links[][2] = {
                {"/dev/fd", "/proc/self/fd"}, {"/dev/stdin", "/proc/self/fd/0"}, {"/dev/stdout", "/proc/self/fd/1"},
                {"/dev/stderr", "/proc/self/fd/2"}, {"/dev/ptmx", "pts/ptmx"},
        };
        char path[64];
        int r = plan_dir(p, "/dev", 0755, BOX_OP_LANDLOCK_DEVICE, err);

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(devices); i++) {
                struct stat st;
                snprintf(path, sizeof(path), "/dev/%s", devices[i].name);
                _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
                if (fd < 0 || fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) ||
                    st.st_rdev != makedev(devices[i].major, devices[i].minor))
                        return error_set(err, GB_E_UNENFORCEABLE, ENODEV,
                                         "%s of this host is missing or not the device it should be; restore it (mknod -m 666 %s "
                                         "c %u %u)", path, path, devices[i].major, devices[i].minor);
                r = plan_bind(p, path, TAKE_FD(fd), BOX_SOURCE_DEVICE | BOX_SOURCE_WRITABLE, true, err);
                if (r == 0)
                        p->ops[p->n_ops - 1].flags &= ~(unsigned)BOX_OP_LANDLOCK_WRITE; /* the rule on /dev covers it */
        }
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(links); i++)
                r = plan_symlink(p, links[i][0], links[i][1], err);
        if (r == 0)
                r = plan_special(p, BOX_OP_DEVPTS, "/dev/pts", err);
        return r;
}

static bool is_planned(const struct box_plan *p, const char *path)
{
        for (uint32_t i = 0; i < p->n_ops; i++)
                if (strcmp(p->ops[i].path, path) == 0)
                        return true;
        return false;
}

/* One entry of the host's /etc: copied when it is a small file, bound when not, skipped when absent, or when somebody has named it already. */
static int plan_etc_entry(struct box_plan *p, const char *name, gb_error *err)
{
        char path[PATH_MAX];
        struct stat st;

        snprintf(path, sizeof(path), "/etc/%s", name);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0 || is_planned(p, path))
                return 0;
        if (S_ISREG(st.st_mode) && st.st_size <= (off_t)ETC_COPY_MAX)
                return plan_file_from(p, path, fd, (size_t)st.st_size, err);
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
                return 0;
        return plan_bind(p, path, TAKE_FD(fd), 0, S_ISREG(st.st_mode), err);
}

static int plan_etc_entries(struct box_plan *p, const char *const *names, size_t n, gb_error *err)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < n; i++)
                r = plan_etc_entry(p, names[i], err);
        return r;
}

static int plan_made_up_etc(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        char passwd[256], group[128];
        int r;

        snprintf(passwd, sizeof(passwd),
                 "sandbox:x:%u:%u:sandbox:%s:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
                 request->uid, request->gid, policy_tmp(request->policy));
        snprintf(group, sizeof(group), "sandbox:x:%u:\nnogroup:x:65534:\n", request->gid);
        const char *const files[][2] = {
                {"/etc/passwd", passwd},
                {"/etc/group", group},
                {"/etc/hostname", "glovebox\n"},
                {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
        };
        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
                if ((r = plan_text(p, files[i][0], files[i][1], err)) < 0)
                        return r;
        r = plan_etc_entries(p, host_etc, ARRAY_SIZE(host_etc), err);
        for (size_t i = 0; r == 0 && request->language && request->language->etc[i]; i++)
                r = plan_etc_entry(p, request->language->etc[i], err);
        if (r < 0)
                return r;
        return request->policy->network_mode == NETWORK_HOST ? plan_etc_entries(p, host_network_etc, ARRAY_SIZE(host_network_etc), err)
                                                             : plan_text(p, "/etc/hosts", "127.0.0.1 localhost glovebox\n::1 localhost\n", err);
}

/* A link is made again, anything else is bound. */
static int plan_entry(struct box_plan *p, int dirfd, const char *name, bool must_exist, gb_error *err)
{
        char path[BOX_PATH_MAX], target[PATH_MAX];
        struct stat st;

        if ((size_t)snprintf(path, sizeof(path), "/%s", name) >= sizeof(path))
                return error_set(err, GB_E_LIMIT, ENAMETOOLONG, "the image has a too long name in its root: %.64s...", name);
        int fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return must_exist ? error_set(err, GB_E_NOT_FOUND, errno, "cannot open /%s of the root: %s", name, strerror(errno)) : 0;
        if (fstat(fd, &st) < 0 || S_ISLNK(st.st_mode)) {
                ssize_t n = readlinkat(fd, "", target, sizeof(target) - 1);
                safe_close(fd);
                if (n <= 0)
                        return error_set(err, GB_E_NOT_FOUND, errno, "cannot read the link /%s: %s", name, strerror(errno));
                target[n] = '\0';
                return plan_symlink(p, path, target, err);
        }
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
                safe_close(fd);
                return 0; /* devices, sockets and pipes in an image's root have no use in a box */
        }
        return plan_bind(p, path, fd, 0, S_ISREG(st.st_mode), err);
}

static int plan_host_root(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        static const char *const names[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};
        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (root < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot open /: %s", strerror(errno));
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                int r = plan_entry(p, root, names[i], i == 0, err);
                if (r < 0)
                        return r;
        }
        return plan_made_up_etc(p, request, err);
}

static bool is_own_entry(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(own_entries); i++)
                if (strcmp(name, own_entries[i]) == 0)
                        return true;
        return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void close_dir(DIR **dir)
{
        if (*dir)
                closedir(*dir);
}

static int plan_image_root(struct box_plan *p, const char *rootfs, gb_error *err)
{
        _cleanup_(close_dir) DIR *dir = NULL;
        int fd = open(rootfs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return error_set(err, GB_E_NOT_FOUND, errno, "cannot open the root file system %s: %s", rootfs, strerror(errno));
        dir = fdopendir(fd);
        if (!dir) {
                safe_close(fd);
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        for (struct dirent *entry; (entry = readdir(dir));) {
                if (is_own_entry(entry->d_name))
                        continue;
                int r = plan_entry(p, dirfd(dir), entry->d_name, true, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int duplicate(int fd, gb_error *err)
{
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

        return copy < 0 ? error_set(err, GB_E_INTERNAL, errno, "cannot duplicate a descriptor: %s", strerror(errno)) : copy;
}

static int plan_mounts(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        for (size_t i = 0; i < request->policy->n_mounts; i++) {
                const struct policy_mount *m = &request->policy->mounts[i];
                struct stat st;
                int fd = duplicate(request->mount_fds[i], err);
                if (fd < 0)
                        return fd;
                bool is_file = !m->hides && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
                unsigned flags = m->hides ? BOX_SOURCE_DETACHED : BOX_SOURCE_OWNED | (m->writable ? BOX_SOURCE_WRITABLE : 0);
                int r = plan_bind(p, m->target, fd, flags, is_file, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int plan_workspace(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        const struct policy *policy = request->policy;
        int r;

        if (request->workspace_fd < 0) {
                r = plan_tmpfs(p, policy_workspace(policy), policy->disk_limit_bytes, policy->inode_limit, 0755, err);
        } else {
                int fd = duplicate(request->workspace_fd, err);
                if (fd < 0)
                        return fd;
                r = plan_bind(p, policy_workspace(policy), fd, BOX_SOURCE_OWNED | BOX_SOURCE_WRITABLE, false, err);
        }
        return r;
}

/* The file systems of its own that every box has on its root. */
static int plan_private(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        const struct policy *policy = request->policy;

        int r = plan_special(p, BOX_OP_PROC, "/proc", err);
        if (r == 0 && policy->scratch_only)
                r = plan_dir(p, BOX_TMP, 0755, 0, err); /* of the root */
        else if (r == 0)
                r = plan_tmpfs(p, BOX_TMP, policy->tmp_size_bytes, policy->inode_limit, 01777, err);
        if (r == 0)
                r = plan_tmpfs(p, "/dev/shm", MIN(policy->tmp_size_bytes, SHM_SIZE_MAX), policy->inode_limit, 01777, err);
        return r < 0 ? r : plan_workspace(p, request, err);
}

static int plan_root(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        int r = request->rootfs ? plan_image_root(p, request->rootfs, err) : plan_host_root(p, request, err);

        if (r == 0)
                r = plan_devices(p, err);
        if (r == 0)
                r = plan_private(p, request, err);
        if (r == 0 && request->policy->scratch_only)
                r = plan_symlink(p, BOX_WORKSPACE, &BOX_SCRATCH[1], err);
        if (r == 0)
                r = plan_symlink(p, "/workspace", "sandbox", err);
        return r < 0 ? r : plan_mounts(p, request, err);
}

/* On the root, which is read-only when the code starts. It is this box's alone, so anybody in it may read them. */
static int plan_secrets(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        const struct policy *policy = request->policy;
        int r = request->ca ? plan_file(p, NETWORK_CA_PATH, request->ca->bytes, request->ca->size, 0444, err) : 0;

        for (size_t i = 0; r == 0 && i < policy->n_secrets; i++)
                if (policy->secrets[i].path && !network_uses_secret(policy, policy->secrets[i].name))
                        r = plan_file(p, policy->secrets[i].path, policy->secrets[i].value, policy->secrets[i].size, 0444, err);
        return r;
}

int root_plan(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        char code_path[BOX_PATH_MAX];

        int r = plan_root(p, request, err);
        if (r == 0)
                r = plan_secrets(p, request, err);
        if (r < 0)
                return r;
        snprintf(code_path, sizeof(code_path), BOX_CODE_DIR "/%s", request->code_name);
        return plan_file(p, code_path, request->code, request->code_size, 0444, err);
}

/* Puts a file of ours into the box. */
static int plan_runner_file(struct box_plan *p, const char *name, gb_error *err)
{
        _cleanup_free_ char *path = NULL;
        char inside[BOX_PATH_MAX];
        struct stat st;

        int r = path_runner(name, &path);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "out of memory");
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot open %s: %s; reinstall glovebox, or set GLOVEBOX_RUNNER_DIR", path,
                                 strerror(errno));
        snprintf(inside, sizeof(inside), BOX_RUNNER_DIR "/%s", name);
        return plan_file_from(p, inside, fd, (size_t)st.st_size, err);
}

static int plan_runner_files(struct box_plan *p, const char *const *names, gb_error *err)
{
        int r = 0;

        for (; r == 0 && *names; names++)
                r = plan_runner_file(p, *names, err);
        return r;
}

static const char *const python_runner[] = {"glovebox_runner.py", "glovebox_runner_results.py", "glovebox_runner_run.py", NULL};

int root_plan_session(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        static const char *const other_runners[] = {"bash_runner.bash", "node_runner.js", NULL};

        int r = plan_root(p, request, err);
        if (r == 0)
                r = plan_secrets(p, request, err);
        if (r == 0)
                r = plan_runner_files(p, python_runner, err);
        if (r == 0)
                r = plan_runner_files(p, other_runners, err);
        return r < 0 ? r : plan_tmpfs(p, BOX_CODE_DIR, CODE_SIZE_BYTES, CODE_INODES, 0755, err);
}

bool root_is_own(const struct policy *policy)
{
        return policy->n_mounts > 0 || !policy->read_only || policy->scratch_only;
}

int root_plan_inherited(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        int r = plan_dir(p, "/dev", 0755, BOX_OP_LANDLOCK_DEVICE, err);

        if (r == 0)
                r = plan_special(p, BOX_OP_DEVPTS, "/dev/pts", err);
        if (r == 0)
                r = plan_private(p, request, err);
        return r < 0 ? r : plan_tmpfs(p, BOX_CODE_DIR, CODE_SIZE_BYTES, CODE_INODES, 0755, err);
}

int root_plan_template(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        static const char *const own[] = {"glovebox_template.py", "glovebox_runner_warm.py", "_glovebox.abi3.so", NULL};

        int r = root_plan_session(p, request, err);
        return r < 0 ? r : plan_runner_files(p, own, err);
}
