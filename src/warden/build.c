/* SPDX-License-Identifier: Apache-2.0
 *
 * How a box comes to be, seen from outside: an identity on the host, cgroups with limits, detached
 * mounts, a setup process in fresh namespaces (setup.c), and the order it gets. The first and the
 * last but one need not know what will run and are done ahead, as a shell (box.h). */
#include "warden/box.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/message.h"
#include "kernel/landlock.h"
#include "kernel/mount.h"
#include "kernel/privilege.h"
#include "kernel/sys.h"
#include "warden/channel.h"
#include "warden/loop.h"
#include "warden/session.h"
#include "warden/setup.h"
#include "warden/template.h"

#include <errno.h>
#include <linux/magic.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Host uids of boxes, when the warden is root: far from what systems hand out. Those of templates and their sessions
 * come in blocks, of which the part that is mapped begins with the template's own. */
#define BOX_UID_BASE 0x40000000U
#define BOX_UID_MASK 0x1fffffffU
#define TEMPLATE_UID_BASE 0x60000000U
#define TEMPLATE_UID_MASK 0x1fff0000U

/* The box's user on the host. Without root there is only one choice: the caller. */
static int choose_identity(struct box *b, uint32_t uid, uint32_t gid, bool is_template, gb_error *err)
{
        b->identity = (struct userns_map){
                .uid_inside = uid, .gid_inside = gid, .uid_outside = geteuid(), .gid_outside = getegid(),
        };
        if (privilege_is_host_root()) {
                uint32_t random;
                if (getrandom(&random, sizeof(random), 0) != sizeof(random))
                        return error_set(err, GB_E_INTERNAL, EIO, "cannot get random bytes for the box's user");
                b->identity.uid_outside = b->identity.gid_outside =
                        is_template ? TEMPLATE_UID_BASE + (random & TEMPLATE_UID_MASK) + uid : BOX_UID_BASE + (random & BOX_UID_MASK);
                b->identity.more = is_template ? TEMPLATE_UIDS_MAX : 0;
        } else if (geteuid() == 0 && userns_is_initial()) {
                return error_set(err, GB_E_UNENFORCEABLE, EPERM,
                                 "running as root without CAP_SYS_ADMIN (inside a container?): the box's user would be the "
                                 "host's root; run glovebox as an ordinary user, or with --cap-add SYS_ADMIN");
        }
        b->host_uid = b->identity.uid_outside;
        b->host_gid = b->identity.gid_outside;
        return 0;
}

static int create_cgroup(struct box *b, gb_error *err)
{
        bool unified = b->spec.flags & BOX_UNIFIED_CONTROLLERS, any = false;
        struct cgroup_limits limits = b->spec.cgroup;
        char name[64];
        uint64_t random;

        for (int i = 0; i < CGROUP_KIND_COUNT; i++)
                any = any || b->cgroup_parents[i] >= 0;
        if (b->spec.layers_off & BOX_LAYER_CGROUP)
                return 0;
        if (!any)
                return !limits.memory_bytes && !limits.pids && !limits.cpu_milli ? 0
                       : error_set(err, GB_E_INTERNAL, EBADF, "the cgroups for the policy's limits did not come along");
        limits.keep_others = b->session; /* init is in a v2 group, and the workspace lives as long as init */
        if (unified && limits.pids > 0)
                limits.pids += 2; /* init, and the setup process while it lives */

        for (int attempt = 0; attempt < 4; attempt++) {
                if (getrandom(&random, sizeof(random), 0) != sizeof(random))
                        return error_set(err, GB_E_INTERNAL, EIO, "cannot get random bytes for the cgroup's name");
                snprintf(name, sizeof(name), CGROUP_NAME_PREFIX "%016llx", (unsigned long long)random);
                int r = cgroup_box_create(&b->cgroup, b->cgroup_parents, unified, name, &limits);
                if (r == 0) {
                        b->has_cgroup = true;
                        return 0;
                }
                if (r != -EEXIST)
                        return error_set(err, GB_E_UNENFORCEABLE, -r, "cannot make a cgroup with the policy's limits: %s",
                                         strerror(-r));
        }
        return error_set(err, GB_E_INTERNAL, EEXIST, "cannot find an unused name for a cgroup");
}

/* The request's descriptors, by what they are for. */
struct sorted_fds {
        struct setup_fds to; /* payload, standard streams, listener, sources */
        const struct box_fd *rows[BOX_FDS_MAX]; /* of the sources */
        int n_sources;
};

static void sorted_fds_done(struct sorted_fds *s)
{
        safe_close(s->to.payload);
        for (int i = 0; i < 3; i++)
                safe_close(s->to.stdio[i]);
        safe_close(s->to.listener);
        safe_close(s->to.foreman);
        safe_close(s->to.orders);
        for (int i = 0; i < s->n_sources; i++)
                safe_close(s->to.sources[i]);
}

/* Remembers where on the host the box can write. */
static void note_device(struct box *b, const struct box_fd *row, int fd)
{
        struct stat st;

        if (!(row->flags & BOX_SOURCE_WRITABLE) || row->flags & BOX_SOURCE_DEVICE || fstat(fd, &st) < 0)
                return;
        for (size_t i = 0; i < b->n_devices; i++)
                if (b->devices[i] == st.st_dev)
                        return;
        if (b->n_devices < ARRAY_SIZE(b->devices))
                b->devices[b->n_devices++] = st.st_dev;
}

static int sort_descriptor(struct box *b, const struct box_fd *row, int *fd, struct sorted_fds *s, gb_error *err)
{
        int *place = row->role == BOX_FD_PAYLOAD ? &s->to.payload : row->role == BOX_FD_LISTENER ? &s->to.listener
                   : row->role >= BOX_FD_STDIN && row->role <= BOX_FD_STDERR ? &s->to.stdio[row->role - BOX_FD_STDIN] : NULL;
        struct statfs fs;

        if (row->role == BOX_FD_SOURCE) {
                note_device(b, row, *fd);
                s->rows[s->n_sources] = row;
                place = &s->to.sources[s->n_sources++];
                *place = -1;
        } else if (row->role == BOX_FD_CGROUP && row->index < CGROUP_KIND_COUNT) {
                place = &b->cgroup_parents[row->index];
        }
        /* What we would make and write there, as root, is nothing anywhere else. */
        if (row->role == BOX_FD_CGROUP && (fstatfs(*fd, &fs) < 0 || (fs.f_type != CGROUP_SUPER_MAGIC && fs.f_type != CGROUP2_SUPER_MAGIC)))
                place = NULL;
        if (!place || *place >= 0)
                return error_set(err, GB_E_INTERNAL, EPROTO, "the request has a descriptor that has no place");
        *place = TAKE_FD(*fd);
        return 0;
}

/* Takes from fds[] what it has a place for; the rest stays the caller's. */
static int sort_descriptors(struct box *b, int *fds, struct sorted_fds *s, gb_error *err)
{
        int r = 0;

        for (uint32_t i = 0; r == 0 && i < b->spec.n_fds; i++)
                r = sort_descriptor(b, &b->spec.fds[i], &fds[i], s, err);
        bool streams = s->to.stdio[0] >= 0 && s->to.stdio[1] >= 0 && s->to.stdio[2] >= 0;
        if (r == 0 && (s->to.payload < 0 || (!b->session && !streams)))
                return error_set(err, GB_E_INTERNAL, EPROTO, "the request lacks a descriptor");
        return r;
}

/* As root: a source becomes a detached mount here, so that the box need not reach it by path, and
 * the owner of what belongs to the caller becomes the box's user. */
static int detach_source(const struct box *b, const struct box_fd *row, int *fd, gb_error *err)
{
        _cleanup_close_ int idmap = -1;
        bool is_theirs = warden_front.uid == 0 || (row->owner_uid == warden_front.uid && row->owner_gid == warden_front.gid);

        if (row->flags & BOX_SOURCE_DETACHED)
                return 0;
        if (row->flags & BOX_SOURCE_OWNED && !is_theirs)
                return error_set(err, GB_E_INTERNAL, EPERM, "the request wants files of user %u for the box of user %u", row->owner_uid, warden_front.uid);
        if (row->flags & BOX_SOURCE_OWNED) {
                struct userns_map map = {
                        .uid_inside = row->owner_uid, .uid_outside = b->host_uid,
                        .gid_inside = row->owner_gid, .gid_outside = b->host_gid,
                };
                idmap = userns_open(&map);
                if (idmap < 0)
                        return error_set(err, GB_E_UNENFORCEABLE, -idmap, "cannot make a user namespace for a mount: %s",
                                         strerror(-idmap));
        }
        int tree = mount_clone_tree(*fd, row->flags, idmap);
        if (tree < 0)
                return error_set(err, GB_E_UNENFORCEABLE, -tree, "cannot mount a directory into the box: %s%s", strerror(-tree),
                                 idmap >= 0 && tree == -EINVAL ? " (its file system, or one mounted below it, has no idmapped mounts: "
                                                                 "use a directory on ext4, xfs or btrfs; tmpfs has them since Linux 6.3)" : "");
        safe_close(*fd);
        *fd = tree;
        return 0;
}

static int clone_error(int errnum, gb_error *err)
{
        const char *remedy = "";

        if (errnum == EPERM || errnum == EACCES)
                remedy = ": user namespaces are forbidden for this user; allow them (sysctl kernel.unprivileged_userns_clone=1 or "
                         "kernel.apparmor_restrict_unprivileged_userns=0), or run glovebox as root; inside a container, start that "
                         "with --security-opt seccomp=unconfined";
        else if (errnum == ENOSPC || errnum == EUSERS)
                remedy = ": the limit of namespaces is reached (sysctl user.max_user_namespaces and its kin; 0 forbids them)";
        else if (errnum == ENOSYS)
                remedy = ": clone3 is not there; inside a container its filter hides it (start that with --security-opt "
                         "seccomp=unconfined), otherwise the kernel is too old: glovebox needs Linux 5.12 or later";
        else if (errnum == EINVAL)
                remedy = ": this kernel is too old or was built without namespaces; glovebox needs Linux 5.12 or later";
        return error_set(err, GB_E_UNENFORCEABLE, errnum, "cannot make the box's namespaces: %s%s", strerror(errnum), remedy);
}

/* As root: with the box's own uid for the moment of the clone. The kernel counts what a user namespace uses
 * (inotify instances, for one) to the user who made it, and that shall not be root. */
static pid_t clone_as(const struct box *b, struct clone_args *args)
{
        bool changed = privilege_is_host_root() && prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) == 0 &&
                       setresuid((uid_t)-1, b->identity.uid_outside, (uid_t)-1) == 0;
        pid_t pid = sys_clone3(args);

        if (pid != 0 && changed) {
                int saved = errno;
                if (setresuid((uid_t)-1, 0, (uid_t)-1) < 0)
                        _exit(1);
                errno = saved;
        }
        return pid;
}

/* Clones the setup process into its namespaces and gives it its identity. */
static int clone_setup(struct box *b, bool host_network, uint32_t layers_off, bool is_template, gb_error *err)
{
        _cleanup_close_ int ours = -1, theirs = -1;
        int pair[2], pidfd = -1;
        struct setup setup = {
                .uid = b->identity.uid_inside, .gid = b->identity.gid_inside, .host_network = host_network, .layers_off = layers_off,
                .is_template = is_template, .warden = getpid(),
        };
        struct clone_args args = {
                .flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD,
                .pidfd = (uint64_t)(uintptr_t)&pidfd,
                .exit_signal = SIGCHLD,
        };

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket pair: %s", strerror(errno));
        ours = pair[0];
        setup.socket = theirs = pair[1];
        if (!host_network && !(layers_off & BOX_LAYER_NETWORK))
                args.flags |= CLONE_NEWNET;
        if (b->has_cgroup && b->cgroup.dir[CGROUP_UNIFIED] >= 0) {
                args.flags |= CLONE_INTO_CGROUP;
                args.cgroup = (uint64_t)b->cgroup.dir[CGROUP_UNIFIED];
        }
        pid_t pid = clone_as(b, &args);
        if (pid < 0)
                return clone_error(errno, err);
        if (pid == 0)
                setup_main(&setup);

        child_own(&b->setup, pid, pidfd);
        b->socket = TAKE_FD(ours);
        loop_watch(b->socket, LOOP_BOX_FRAME, b);
        loop_watch(b->setup.pidfd, LOOP_BOX_END, b);
        int r = userns_write_map(pid, &b->identity);
        if (r < 0)
                return error_set(err, GB_E_UNENFORCEABLE, -r, "cannot map the box's user: %s%s", strerror(-r),
                                 r == -EPERM ? " (user namespaces are restricted on this host; `glovebox doctor` says how)" : "");
        if (write(b->socket, "g", 1) != 1)
                return error_set(err, GB_E_INTERNAL, errno, "the box's setup process died at once");
        return 0;
}

static struct box *shell; /* made ahead; NULL: none */

void box_make_shell(void)
{
        gb_error err;
        struct statfs st;

        /* On a v2 host the first process must be born in its cgroup, which only a request brings; and the
         * escape tests want their layers off from the start. */
        bool v2 = statfs("/sys/fs/cgroup", &st) == 0 && st.f_type == CGROUP2_SUPER_MAGIC;
        struct box *b = GLOVEBOX_TEST_LAYERS || v2 ? NULL : box_new();
        if (!b)
                return;
        /* When this cannot be done here, a run will find out again and tell. */
        if (choose_identity(b, BOX_UID_DEFAULT, BOX_UID_DEFAULT, false, &err) == 0 && clone_setup(b, false, 0, false, &err) == 0) {
                b->state = BOX_SHELL;
                shell = b;
                return;
        }
        box_kill(b);
        box_done(b);
}

struct box *box_take_shell(void)
{
        struct box *b = shell;

        shell = NULL;
        return b && b->state == BOX_SHELL ? b : box_new();
}

static bool shell_fits(const struct box *b, const struct box_spec *spec)
{
        /* Into a v2 group one can only be born. */
        for (uint32_t i = 0; i < spec->n_fds; i++)
                if (spec->fds[i].role == BOX_FD_CGROUP && spec->fds[i].index == CGROUP_UNIFIED)
                        return false;
        return b->state == BOX_SHELL && !b->failed && (b->session || !b->program_ended) &&
               spec->uid == b->identity.uid_inside && spec->gid == b->identity.gid_inside &&
               !(spec->flags & BOX_NETWORK_HOST) && spec->layers_off == 0;
}

static int send_order(struct box *b, struct sorted_fds *sorted, gb_error *err)
{
        static struct setup_order order;
        int n_join = 0, r;

        if (b->has_cgroup && !b->session)
                n_join = cgroup_box_open_join(&b->cgroup, sorted->to.join);
        if (n_join < 0)
                return error_set(err, GB_E_UNENFORCEABLE, -n_join, "cannot open the box's cgroup: %s", strerror(-n_join));
        order = (struct setup_order){
                .spec = b->spec, .has_stdio = !b->session, .has_listener = sorted->to.listener >= 0, .is_template = sorted->to.foreman >= 0, .session = b->session,
                .wants_namespaces = !b->host_root,
                .n_join = (uint32_t)n_join, .n_sources = (uint32_t)sorted->n_sources,
                .detached = b->host_root, .landlock_abi = (uint32_t)landlock_abi(),
        };
        for (int i = 0; i < sorted->n_sources; i++)
                order.mount_flags[i] = sorted->rows[i]->flags;
        r = setup_order_send(b->socket, &order, &sorted->to);
        for (int i = 0; i < n_join; i++)
                safe_close(sorted->to.join[i]);
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "the box's setup process is gone") : 0;
}

/* The two sockets of a template: their ends go into its box, ours into the template. */
static int make_template_sockets(struct template *t, struct sorted_fds *sorted, gb_error *err)
{
        int *const ends[][2] = {{&t->foreman, &sorted->to.foreman}, {&t->orders, &sorted->to.orders}};
        int pair[2];

        for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
                if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                        return error_set(err, GB_E_INTERNAL, errno, "cannot make a socket pair: %s", strerror(errno));
                *ends[i][0] = pair[0];
                *ends[i][1] = pair[1];
        }
        return 0;
}

/* Namespaces of its own, or the shell that fits. */
static int make_namespaces(struct box *b, const struct box_spec *spec, struct template *is_template, gb_error *err)
{
        if (b->template)
                return template_make_shell(b->template, b, err);
        if (!is_template && shell_fits(b, spec)) {
                if (b->session) /* its frame came before anybody knew what it was for */
                        loop_watch(b->init.pidfd, LOOP_BOX_END, b);
                return 0;
        }
        int r = choose_identity(b, spec->uid, spec->gid, is_template, err);
        return r < 0 ? r : clone_setup(b, spec->flags & BOX_NETWORK_HOST, spec->layers_off, is_template, err);
}

static int build(struct box *b, const struct box_spec *spec, struct template *is_template, struct sorted_fds *sorted, gb_error *err)
{
        int r = create_cgroup(b, err);

        if (r == 0 && is_template)
                r = make_template_sockets(is_template, sorted, err);
        if (r == 0)
                r = make_namespaces(b, spec, is_template, err);
        for (int i = 0; r == 0 && b->host_root && i < sorted->n_sources; i++)
                r = detach_source(b, sorted->rows[i], &sorted->to.sources[i], err);
        return r < 0 ? r : send_order(b, sorted, err);
}

int box_create(struct box *b, const struct box_spec *spec, struct template *is_template, int *fds, gb_error *err)
{
        static struct sorted_fds sorted;

        if (b->state == BOX_SHELL && (is_template || b->template || !shell_fits(b, spec))) {
                const struct box was = *b;
                box_kill(b);
                box_done(b);
                box_init(b);
                b->channel = was.channel;
                b->template = was.template;
                b->session = was.session;
        }
        memset(&sorted.to, -1, sizeof(sorted.to));
        sorted.n_sources = 0;
        b->spec = *spec;
        b->asked_usec = monotonic_usec();
        b->host_root = privilege_is_host_root();
        int r = sort_descriptors(b, fds, &sorted, err);
        if (r == 0)
                r = build(b, spec, is_template, &sorted, err);
        sorted_fds_done(&sorted);
        b->state = BOX_BUILDING;
        return r;
}
