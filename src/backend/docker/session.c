/* SPDX-License-Identifier: Apache-2.0
 *
 * A session is a container with our agent as process 1, and the line to it. It is made, looked at, attached to and only then started, so that no word of the agent
 * is lost; what the engine says about it and what the agent sees from inside must both be what the policy asks for. */
#include "backend/docker/session.h"

#include "backend/docker/plan.h"
#include "backend/docker/session_state.h"
#include "base/fd.h"
#include "egress/protocol.h"
#include "kernel/sys.h"
#include "policy/place.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEATH_MSEC 2000 /* from SIGKILL to the end of process 1 */
#define STATS_AGE_USEC 1000000ULL /* numbers of the engine are as old as this at most; asking for them takes long */
#define EARLY_BYTES_MAX (64 * KIB)

/* ---- what the line asks of us ---- */

static bool has_pulse(void *data)
{
        return engine_answers(&((struct backend_session *)data)->engine);
}

/* By the kernel, where the engine cannot or will not. */
static int kill_directly(struct backend_session *s)
{
        struct pollfd end = {s->pidfd, POLLIN, 0};

        if (s->pidfd < 0 || (sys_pidfd_send_signal(s->pidfd, SIGKILL) < 0 && errno != ESRCH))
                return -EPERM;
        return poll(&end, 1, DEATH_MSEC) == 1 ? 0 : -ETIMEDOUT;
}

/* The kernel first, where it lets us: that takes microseconds, an engine may take as long as it likes. What is left of the container is the engine's to remove. */
static int end_container(void *data)
{
        struct backend_session *s = data;
        int direct = kill_directly(s);
        /* An engine that did not answer is not asked again: what is left of the container is swept when it is back. */
        if (s->engine_lost)
                return direct;
        int r = container_remove(&s->engine, &s->container, NULL);

        return r == 0 || direct == 0 ? 0 : r;
}

static int read_counters(struct backend_session *s, struct box_usage *ret);

/* The last reading is kept: when memory ends the container, its counters are gone. */
static int read_and_keep(struct backend_session *s, struct box_usage *ret)
{
        int r = s->counted ? read_counters(s, ret) : -ENOENT;

        if (r < 0)
                return r;
        pthread_mutex_lock(&s->stats_lock);
        s->last = *ret;
        pthread_mutex_unlock(&s->stats_lock);
        return 0;
}

static bool memory_ran_out(void *data)
{
        struct backend_session *s = data;
        struct box_usage now;

        if (read_and_keep(s, &now) < 0)
                return false;
        bool more = now.oom_kills > atomic_load(&s->oom_kills);
        if (more)
                atomic_store(&s->oom_kills, now.oom_kills);
        return more;
}

static enum line_end explain_end(void *data, bool engine_lost, gb_error *why)
{
        struct backend_session *s = data;
        struct container_end end = {0};
        struct box_usage last;

        s->last_is_end = read_and_keep(s, &last) == 0;
        bool oom = s->last_is_end && last.oom_kills > atomic_load(&s->oom_kills);
        if (engine_lost) {
                s->engine_lost = true;
                (void)kill_directly(s);
                return LINE_END_OTHER;
        }
        gb_error unknown = {0};
        int r = container_ended(&s->engine, &s->container, &end, &unknown);
        /* The engine knows nothing about one that is already gone, and remembers each time that memory ran out: that
         * may have been in an earlier run. */
        oom = oom || (end.oom && atomic_load(&s->oom_kills) == 0);
        /* Process 1 is watched from here, where that is possible: its end is known without the engine. */
        struct pollfd first = {s->pidfd, POLLIN, 0};
        bool gone = (r == 0 && !end.running) || (s->pidfd >= 0 && poll(&first, 1, 0) == 1);
        if (r < 0)
                (void)kill_directly(s); /* whoever is to blame: what broke a rule does not run on */
        if (r < 0 && unknown.code == GB_E_UNAVAILABLE && !engine_answers(&s->engine)) {
                s->engine_lost = true;
                error_set(why, GB_E_LOST, EPIPE, "the engine has gone: %.300s", unknown.message);
        } else if (r < 0 && !gone) {
                error_set(why, GB_E_LOST, EPIPE,
                          "the engine ended the connection to the container, and cannot say what became of it: %.200s",
                          unknown.message);
        } else if (r == 0 && end.running && !gone) {
                int ended = end_container(s);
                error_set(why, GB_E_LOST, EPIPE,
                          "the engine ended the connection to the container, which still ran: it %s",
                          ended == 0 ? "was ended" : "could not be ended");
        } else if (r == 0 && end.exit_code > 0 && !oom) {
                error_set(why, GB_E_LOST, EPIPE, "the container has ended with status %d%s%s", end.exit_code,
                          s->line.last_words[0] ? ": " : "", s->line.last_words);
        }
        return !gone ? LINE_END_OTHER : oom ? LINE_END_MEMORY : LINE_END_GONE;
}

/* ---- without a session ---- */

#define ADMITTED_UID 1000 /* for the question only */

int session_docker_admit(const struct policy *policy, struct controls *ret, gb_error *err)
{
        _cleanup_free_ struct container_plan *plan = calloc(1, sizeof(*plan));
        struct engine engine;

        int r = plan ? engine_shared(&engine, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r < 0)
                return r;
        struct container_request request = {
                .engine = &engine, .policy = policy, .image = "", .session = "", .uid = ADMITTED_UID, .gid = ADMITTED_UID,
        };
        plan->apparmor = container_has_apparmor(&engine, policy); /* of a plan this is what controls tell of */
        return container_controls(&request, plan, ret, err);
}

int session_docker_sweep(const struct backend_sweep *sweep, gb_error *err)
{
        struct engine engine;
        gb_error why = {0};

        int r = engine_shared(&engine, &why);
        if (r == 0)
                return container_sweep(&engine, sweep, err);
        if (!engine_is_chosen() && (r == -ENOENT || r == -ENOTDIR || r == -EACCES || r == -EPERM))
                return 0; /* there is none that this user could have used */
        return error_set(err, (gb_error_code)why.code, why.errnum, "containers were not looked at: %s", why.message);
}

/* ---- opening ---- */

static int make_id(char ret[static 33])
{
        uint8_t bytes[16];

        if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                return -errno;
        for (size_t i = 0; i < sizeof(bytes); i++)
                snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
        return 0;
}

/* Engines mount by path. is_ours: a mount made by us is reachable by root only, so nobody can have moved it, and
 * this process cannot stat it. */
static int path_of(int fd, bool is_ours, char **ret, gb_error *err)
{
        char name[32], path[HOST_PATH_MAX];
        struct stat at_path, at_fd;

        snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(name, path, sizeof(path) - 1);
        path[n < 0 ? 0 : n] = '\0';
        bool is_there = n > 0 && path[0] == '/' &&
                        (is_ours || (fstat(fd, &at_fd) == 0 && stat(path, &at_path) == 0 && at_fd.st_ino == at_path.st_ino && at_fd.st_dev == at_path.st_dev));
        if (!is_there)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "a directory of the host that the container is to have is no longer where it was");
        *ret = strdup(path);
        return *ret ? 0 : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

/* As whom its programs run. There is no mapping between an engine's container and the host: who owns the files of a workspace is who writes them. */
static int choose_identity(struct backend_session *s, const struct session_request *q, gb_error *err)
{
        struct stat st;

        s->uid = q->uid;
        s->gid = q->gid;
        if (s->workspace >= 0) {
                if (fstat(s->workspace, &st) < 0)
                        return error_set(err, GB_E_INTERNAL, errno, "cannot look at the workspace: %s", strerror(errno));
                s->uid = st.st_uid;
                s->gid = st.st_gid;
        }
        if (s->uid == 0)
                return error_set(err, GB_E_USAGE, EPERM,
                                 "the workspace belongs to root, and a container never runs as root: give the directory to an ordinary user (chown 1000:1000), or "
                                 "leave --workspace out");
        if (s->gid == 0)
                s->gid = s->uid;
        return 0;
}

static int refuse_what_it_cannot(const struct session_request *q, gb_error *err)
{
        if (q->only_warm)
                return error_set(err, GB_E_NOT_FOUND, ENOTSUP, "the docker backend has no templates");
        if (q->rootfs)
                return error_set(err, GB_E_USAGE, EINVAL, "--rootfs is a directory for the native backend: with docker name an image of the engine, --image");
        return 0;
}

struct session_paths {
        char *workspace;
        char *mounts[MOUNT_COUNT_MAX];
        char **volumes;
};

static void paths_done(struct session_paths *p)
{
        free(p->workspace);
        for (size_t i = 0; i < MOUNT_COUNT_MAX; i++)
                free(p->mounts[i]);
        for (size_t i = 0; p->volumes && p->volumes[i]; i++)
                free(p->volumes[i]);
        free(p->volumes);
}

static int find_paths(const struct session_request *q, struct session_paths *ret, gb_error *err)
{
        int r = q->workspace_fd >= 0 ? path_of(q->workspace_fd, false, &ret->workspace, err) : 0;

        for (size_t i = 0; r == 0 && i < q->policy->n_mounts; i++)
                r = path_of(q->mount_fds[i], q->policy->mounts[i].hides, &ret->mounts[i], err);
        return r;
}

static int attach(struct backend_session *s, struct buffer *early, int *ret_fd, gb_error *err)
{
        char target[CONTAINER_ID_MAX + 96];

        snprintf(target, sizeof(target), "/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1", s->container.id);
        return engine_hijack(&s->engine, target, ret_fd, early, err);
}

static int open_line(struct backend_session *s, gb_error *err)
{
        struct line_owner owner = {.engine_answers = has_pulse, .memory_ran_out = memory_ran_out, .kill = end_container, .explain = explain_end, .data = s};
        _cleanup_buffer_ struct buffer early;
        int fd = -1;

        buffer_init(&early, EARLY_BYTES_MAX);
        int r = attach(s, &early, &fd, err);
        if (r == 0)
                r = container_start(&s->engine, &s->container, err);
        if (r < 0) {
                safe_close(fd);
                return r;
        }
        s->has_line = true;
        return line_open(&s->line, fd, &early, &owner, err);
}

/* An engine mounts by path: whether that was still the directory we have open, only the inside can tell. gVisor's numbers are its own. */
static int check_workspace(const struct backend_session *s, gb_error *err)
{
        const struct wire_hello *hello = &s->line.hello;
        struct stat st;

        if (s->workspace < 0 || hello->is_gvisor)
                return 0;
        if (fstat(s->workspace, &st) == 0 && st.st_ino == hello->workspace_ino && st.st_dev == hello->workspace_dev)
                return 0;
        return error_set(err, GB_E_UNENFORCEABLE, ESTALE, "the workspace in the container is not the directory that was named: somebody has moved it meanwhile, or the "
                                                          "engine sees other directories than this process");
}

static void watch_process(struct backend_session *s)
{
        /* Held before it is looked at: the number may be another's a moment later. */
        _cleanup_close_ int pidfd = s->container.pid > 0 ? (int)syscall(SYS_pidfd_open, s->container.pid, 0) : -1;
        s->counted = counters_open(&s->counters, s->container.pid, s->container.id) == 0;
        /* Only then is the number that of the container's process here, and may be killed by others. */
        if (s->counted)
                s->pidfd = TAKE_FD(pidfd);
        struct box_usage now;
        if (read_and_keep(s, &now) == 0)
                atomic_store(&s->oom_kills, now.oom_kills);
}

static int open_container(struct backend_session *s, const struct session_request *q, struct session_paths *paths, struct controls *controls, gb_error *err)
{
        char id[33], image[IMAGE_ID_MAX];

        int r = image_prepare(&s->engine, q->policy->image ? q->policy->image : IMAGE_DEFAULT, image, &paths->volumes, err);
        if (r == 0 && make_id(id) < 0)
                r = error_set(err, GB_E_INTERNAL, errno, "cannot make an id: %s", strerror(errno));
        if (r < 0)
                return r;
        struct container_request request = {
                .engine = &s->engine, .policy = q->policy, .image = image, .session = id, .uid = s->uid, .gid = s->gid,
                .workspace = paths->workspace, .mount_sources = (const char *const *)paths->mounts, .volumes = paths->volumes, .ca_size = q->ca ? q->ca->size : 0,
        };
        r = container_create(&request, &s->container, controls, err);
        if (r < 0)
                return r;
        s->created = true;
        r = open_line(s, err);
        if (r == 0)
                r = container_look(&s->engine, q->policy, &s->container, controls, err);
        if (r == 0)
                r = line_greet(&s->line, err);
        if (r == 0)
                r = container_check_hello(&request, &s->line.hello, controls, err);
        if (r == 0)
                r = check_workspace(s, err);
        /* Before there is anybody who could take the port. */
        if (r == 0 && q->policy->network_mode == NETWORK_ALLOWLIST)
                r = line_listen(&s->line, EGRESS_PORT, err);
        if (r == 0)
                r = session_docker_put_secrets(s, q->policy, q->ca, err);
        if (r == 0)
                watch_process(s);
        return r;
}

int session_docker_open(const struct session_request *q, struct controls *ret_controls, struct backend_session **ret, gb_error *err)
{
        struct engine engine;
        struct session_paths paths = {0};

        int r = refuse_what_it_cannot(q, err);
        if (r == 0)
                r = engine_shared(&engine, err);
        if (r < 0)
                return r;
        struct backend_session *s = calloc(1, sizeof(*s));
        if (!s)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        *s = (struct backend_session){.engine = engine, .pidfd = -1, .workspace = -1, .cwd = policy_workspace(q->policy), .stats_lock = PTHREAD_MUTEX_INITIALIZER};
        memset(&s->counters, -1, sizeof(s->counters));
        if (q->workspace_fd >= 0)
                s->workspace = fcntl(q->workspace_fd, F_DUPFD_CLOEXEC, 3);
        gb_error why = {0};
        /* Without it the container would have the directory, and nobody would look whose it is. */
        if (q->workspace_fd >= 0 && s->workspace < 0)
                r = error_set(&why, GB_E_INTERNAL, errno, "cannot hold the workspace: %s", strerror(errno));
        if (r == 0)
                r = choose_identity(s, q, &why);
        if (r == 0)
                r = find_paths(q, &paths, &why);
        if (r == 0)
                r = open_container(s, q, &paths, ret_controls, &why);
        paths_done(&paths);
        if (r < 0) {
                if (err)
                        *err = why;
                /* Who waits is told soon: an engine that hangs is not asked to remove what it has made. */
                s->engine_lost = s->engine_lost || ((why.code == GB_E_LOST || why.code == GB_E_UNAVAILABLE) && !engine_answers(&s->engine));
                (void)session_docker_free(s);
                return r;
        }
        *ret = s;
        return 0;
}

bool session_docker_free(struct backend_session *s)
{
        if (!s)
                return true;
        if (s->has_line)
                line_quiet(&s->line);
        bool ended = !s->created || end_container(s) == 0;
        container_give_up(&s->container);
        if (s->has_line)
                line_close(&s->line);
        usage_close(&s->counters);
        safe_close(s->pidfd);
        safe_close(s->workspace);
        free(s);
        return ended;
}

/* ---- what it has and uses ---- */

int session_docker_workspace(const struct backend_session *s)
{
        return s->workspace;
}

int session_docker_files(struct backend_session *s, int *ret_fd, uid_t *ret_uid, gid_t *ret_gid, gb_error *err)
{
        if (s->workspace < 0)
                return error_set(err, GB_E_UNENFORCEABLE, ENOTSUP, "the workspace is inside the container");
        *ret_fd = s->workspace;
        *ret_uid = s->uid;
        *ret_gid = s->gid;
        return 0;
}

int session_docker_listener(struct backend_session *s, gb_error *err)
{
        return line_take_listener(&s->line, err);
}

int session_docker_event_fd(const struct backend_session *s)
{
        return s->line.ended;
}

static int read_counters(struct backend_session *s, struct box_usage *ret)
{
        uint64_t ours = MAX((uint64_t)AGENT_OWN_TASKS, 1 + line_programs(&s->line));

        int r = usage_fill(&s->counters, ret);
        if (r < 0)
                return r;
        ret->pids -= MIN(ret->pids, ours);
        ret->pids_peak -= MIN(ret->pids_peak, ours);
        return 0;
}

static int read_stats(struct backend_session *s, struct box_usage *ret, gb_error *err)
{
        int r = 0;

        pthread_mutex_lock(&s->stats_lock);
        if (s->stats_usec == 0 || monotonic_usec() - s->stats_usec > STATS_AGE_USEC) {
                r = container_stats(&s->engine, &s->container, &s->stats, err);
                s->stats_usec = r < 0 ? 0 : monotonic_usec();
        }
        const struct container_stats *t = &s->stats;
        s->memory_peak_bytes = MAX(s->memory_peak_bytes, t->memory_peak_bytes);
        s->pids_peak = MAX(s->pids_peak, t->pids);
        *ret = (struct box_usage){
                .cpu_usec = t->cpu_usec, .memory_bytes = t->memory_bytes, .memory_peak_bytes = s->memory_peak_bytes,
                .pids = t->pids, .pids_peak = s->pids_peak, .io_read_bytes = t->io_read_bytes,
                .io_write_bytes = t->io_write_bytes, .cpu_known = t->cpu_known, .cpu_is_old = true, .memory_known = t->memory_known,
                .pids_known = t->pids_known, .memory_peak_known = t->memory_peak_known, .io_known = t->io_known,
        };
        if (r == 0)
                s->last = *ret;
        pthread_mutex_unlock(&s->stats_lock);
        return r;
}

/* After an end for memory: the last reading. Unless that was after the end, it is less than was used: not known. */
static void tell_last(struct backend_session *s, struct box_usage *ret)
{
        pthread_mutex_lock(&s->stats_lock);
        *ret = s->last;
        pthread_mutex_unlock(&s->stats_lock);
        ret->disk_unknown = true; /* its places are gone with it */
        if (s->last_is_end)
                return;
        ret->cpu_known = ret->memory_known = ret->pids_known = ret->io_known = false;
        ret->memory_peak_known = ret->pids_peak_known = ret->kills_known = false;
}

int session_docker_clear(struct backend_session *s, unsigned *ret_ended, gb_error *err)
{
        return line_clear(&s->line, ret_ended, err);
}

bool session_docker_is_busy(struct backend_session *s)
{
        return s->counted && usage_is_busy(&s->counters);
}

int session_docker_usage(struct backend_session *s, struct box_usage *ret, gb_error *err)
{
        struct line_usage inside;

        if (line_is_lost(&s->line, err)) {
                if (!s->line.memory_lost)
                        return -EPIPE;
                tell_last(s, ret);
                return 0;
        }
        bool idle = !line_has_runs(&s->line);
        int r = s->counted ? read_and_keep(s, ret) : read_stats(s, ret, err);
        if (r < 0 && s->counted)
                return error_set(err, GB_E_LOST, -r, "the container is gone: its cgroups cannot be read");
        if (r < 0)
                return r;
        /* Asked by who begins a run, for one: whom the kernel killed until now is none of that run's doing, and must not end it. */
        if (idle && s->counted)
                atomic_store(&s->oom_kills, ret->oom_kills);
        line_usage(&s->line, &inside);
        /* What the host counts there are gVisor's own tasks. */
        if (s->line.hello.is_gvisor) {
                ret->pids_known = ret->pids_peak_known = inside.seen.known & WIRE_USAGE_TASKS;
                ret->pids = inside.seen.tasks;
                ret->pids_peak = inside.tasks_peak;
                ret->pids_refused = 0;
        }
        ret->disk_bytes = s->workspace >= 0 ? 0 : inside.seen.disk_bytes;
        ret->inodes = s->workspace >= 0 ? 0 : inside.seen.inodes;
        ret->disk_full = inside.seen.disk_full & FULL_ALL;
        ret->disk_unknown = inside.disk_is_old || !(inside.seen.known & WIRE_USAGE_DISK);
        return 0;
}
