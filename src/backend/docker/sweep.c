/* SPDX-License-Identifier: Apache-2.0
 *
 * Who owns a container, its removal, and the removal of those whose owner is gone. A container counts as ours when its labels and its name agree and
 * its owner is of this boot and this pid namespace: what another host, namespace or user made, or an image with our labels in it, is left alone. */
#include "backend/docker/plan.h"

#include "base/fd.h"
#include "base/json.h"
#include "kernel/sys.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define REMOVE_LOOK_USEC 20000
#define BOOT_ID_SIZE 40 /* with its newline and NUL, and a little */
#define SWEEP_TARGET "/containers/json?all=1&filters=%7B%22label%22%3A%5B%22" LABEL_OWNER "%22%5D%7D"

/* Field 22 of /proc/PID/stat; the second may hold anything, so it is counted from its end. */
static int start_time(pid_t pid, uint64_t *ret)
{
        char path[32], text[1024];

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        int r = file_read_at(AT_FDCWD, path, text, sizeof(text));
        if (r < 0)
                return r;
        const char *p = strrchr(text, ')');
        for (int field = 2; p && field < 22; field++)
                p = strchr(p + 1, ' ');
        return p && sscanf(p, " %" SCNu64, ret) == 1 ? 0 : -EBADMSG;
}

static int own_place(char boot[static BOOT_ID_SIZE], uint64_t *ret_namespace)
{
        struct stat st;

        int r = file_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, BOOT_ID_SIZE);
        if (r < 0)
                return r;
        if (stat("/proc/self/ns/pid", &st) < 0)
                return -errno;
        *ret_namespace = st.st_ino;
        return 0;
}

int owner_self(char ret[static CONTAINER_OWNER_MAX])
{
        char boot[BOOT_ID_SIZE];
        uint64_t namespace, start;

        int r = own_place(boot, &namespace);
        if (r == 0)
                r = start_time(getpid(), &start);
        if (r == 0)
                snprintf(ret, CONTAINER_OWNER_MAX, "%s:%" PRIu64 ":%d:%" PRIu64, boot, namespace, (int)getpid(), start);
        return r;
}

bool owner_is_dead(const char *owner)
{
        char boot[BOOT_ID_SIZE], prefix[64], copy[CONTAINER_OWNER_MAX];
        uint64_t namespace, was, is;
        unsigned pid;

        if (own_place(boot, &namespace) < 0)
                return false;
        size_t n = (size_t)snprintf(prefix, sizeof(prefix), "%s:%" PRIu64 ":", boot, namespace);
        if (strncmp(owner, prefix, n) != 0 || sscanf(owner + n, "%u:%" SCNu64, &pid, &was) != 2 || pid == 0 || pid > INT32_MAX)
                return false;
        /* Exactly as it is written, and nothing behind it. */
        snprintf(copy, sizeof(copy), "%s%u:%" PRIu64, prefix, pid, was);
        if (strcmp(owner, copy) != 0)
                return false;
        int r = start_time((pid_t)pid, &is);
        if (r == 0)
                return is != was;
        /* A /proc may hide the processes of others: those live all the same. */
        return (r == -ENOENT || r == -ESRCH) && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

/* ---- those of this process ---- */

struct used {
        struct used *next;
        char session[];
};

static pthread_mutex_t used_lock = PTHREAD_MUTEX_INITIALIZER;
static struct used *all_used;

int container_use(struct container *c, const char *session)
{
        struct used *u = malloc(sizeof(*u) + strlen(session) + 1);

        if (!u)
                return -ENOMEM;
        strcpy(u->session, session);
        pthread_mutex_lock(&used_lock);
        u->next = all_used;
        all_used = c->used = u;
        pthread_mutex_unlock(&used_lock);
        return 0;
}

void container_give_up(struct container *c)
{
        pthread_mutex_lock(&used_lock);
        for (struct used **at = &all_used; c->used && *at; at = &(*at)->next)
                if (*at == c->used) {
                        *at = c->used->next;
                        break;
                }
        free(TAKE_PTR(c->used));
        pthread_mutex_unlock(&used_lock);
}

static bool is_used(const char *session)
{
        bool found = false;

        pthread_mutex_lock(&used_lock);
        for (const struct used *u = all_used; u && !found; u = u->next)
                found = strcmp(u->session, session) == 0;
        pthread_mutex_unlock(&used_lock);
        return found;
}

/* Whether nobody will remove it: its owner is dead, or is this process and could not, because the engine did not answer then. */
static bool is_left(const char *owner, const char *session)
{
        char self[CONTAINER_OWNER_MAX];

        return owner_is_dead(owner) || (owner_self(self) == 0 && strcmp(owner, self) == 0 && !is_used(session));
}

/* ---- removal ---- */

static void rest(uint64_t usec)
{
        nanosleep(&(struct timespec){.tv_nsec = (long)usec * 1000}, NULL);
}

/* 0: it is not there any more. */
static int look_gone(const struct engine *e, const struct container *c, gb_error *err)
{
        char target[CONTAINER_ID_MAX + 32];
        int status;

        snprintf(target, sizeof(target), "/containers/%s/json", c->id);
        int r = engine_call(e, "GET", target, NULL, 0, &status, NULL, err);
        return r < 0 ? r : status != 404;
}

/* An engine may hang over a container that resists; where we may, its processes die all the same. That the number is still the container's process 1
 * its cgroup tells, which has the id in its name. */
static void kill_directly(const struct container *c)
{
        char path[40];
        _cleanup_free_ char *text = NULL;
        size_t size;

        if (c->pid <= 1 || strlen(c->id) < CONTAINER_ID_MAX - 1)
                return;
        _cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
        snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)c->pid);
        _cleanup_close_ int fd = pidfd < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && fd_read_all(fd, KERNEL_FILE_BYTES_MAX, &text, &size) == 0 && strstr(text, c->id))
                (void)sys_pidfd_send_signal(pidfd, SIGKILL);
}

int container_remove(const struct engine *e, const struct container *c, gb_error *err)
{
        uint64_t until = monotonic_usec() + ENGINE_ANSWER_USEC;
        char target[CONTAINER_ID_MAX + 48];

        if (!c->id[0])
                return 0;
        snprintf(target, sizeof(target), "/containers/%s?force=1&v=1", c->id);
        while (true) {
                _cleanup_json_ json_t *answer = NULL;
                int status;
                int r = engine_call(e, "DELETE", target, NULL, 0, &status, &answer, err);
                if (r < 0 || (status >= 300 && status != 404 && status != 409))
                        kill_directly(c);
                if (r < 0)
                        return r;
                if (status == 404)
                        return 0;
                /* 409: it is being removed, by the engine itself (AutoRemove) or by somebody else; Podman says 500. */
                bool under_way = status == 409 || (e->podman && status == 500);
                if (status >= 300 && !under_way)
                        return engine_refusal(e, status, answer, "cannot remove the container", err);
                r = look_gone(e, c, err);
                if (r <= 0)
                        return r;
                if (monotonic_usec() > until)
                        return under_way && answer ? engine_refusal(e, status, answer, "cannot remove the container", err)
                                                   : error_set(err, GB_E_LOST, ETIMEDOUT, "%s did not remove the container %.12s in %llu s; its label has it removed later",
                                                               e->name, c->id, ENGINE_ANSWER_USEC / 1000000);
                rest(REMOVE_LOOK_USEC);
        }
}

/* Its name is made of its label, so that a container that has our labels from its image is not taken for one of ours. */
static bool is_named_so(const json_t *item, const char *session)
{
        const json_t *names = json_object_get(item, "Names");
        char wanted[CONTAINER_NAME_MAX + 1];
        size_t i;
        json_t *name;

        if ((size_t)snprintf(wanted, sizeof(wanted), "/" CONTAINER_NAME_PREFIX "%s", session) >= sizeof(wanted))
                return false;
        json_array_foreach(names, i, name)
                if (json_is_string(name) && strcmp(json_string_value(name), wanted) == 0)
                        return true;
        return false;
}

static bool is_id(const char *id)
{
        size_t n = id ? strlen(id) : 0;

        if (n == 0 || n >= CONTAINER_ID_MAX)
                return false;
        for (; *id; id++)
                if (!isxdigit((unsigned char)*id))
                        return false;
        return true;
}

/* Its id, when it is ours and was left behind; else NULL. */
static const char *orphan(const json_t *item)
{
        const json_t *labels = json_object_get(item, "Labels");
        const char *owner = json_string_value(json_object_get(labels, LABEL_OWNER)), *session = json_string_value(json_object_get(labels, LABEL_SESSION));
        const char *id = json_string_value(json_object_get(item, "Id"));

        return owner && session && is_id(id) && is_named_so(item, session) && is_left(owner, session) ? id : NULL;
}

/* The ids of those that are left, as the engine lists them now. */
static int list_left(const struct engine *e, json_t **ret, gb_error *err)
{
        _cleanup_json_ json_t *list = NULL, *left = json_array();
        int status;
        size_t i;
        json_t *item;

        int r = engine_call(e, "GET", SWEEP_TARGET, NULL, 0, &status, &list, err);
        if (r < 0)
                return r;
        if (status != 200)
                return engine_refusal(e, status, list, "cannot list the containers", err);
        if (!json_is_array(list))
                return error_set(err, GB_E_LOST, EBADMSG, "cannot list the containers: the answer of %s is no list",
                                 e->name);
        json_array_foreach(list, i, item) {
                const char *id = orphan(item);
                if (id && json_array_append_new(left, json_string(id)) < 0)
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        *ret = TAKE_PTR(left);
        return 0;
}

static bool has_id(const json_t *ids, const char *id)
{
        size_t i;
        json_t *one;

        json_array_foreach(ids, i, one)
                if (strcmp(json_string_value(one), id) == 0)
                        return true;
        return false;
}

static void report(const struct backend_sweep *sweep, const json_t *ids, const json_t *still)
{
        size_t i;
        json_t *id;

        json_array_foreach(ids, i, id)
                if (sweep->found && !has_id(still, json_string_value(id)))
                        sweep->found(sweep->data, "container", json_string_value(id));
}

static int remove_all(const struct engine *e, const json_t *ids, gb_error *err)
{
        int failed = 0;
        size_t i;
        json_t *id;

        json_array_foreach(ids, i, id) {
                struct container c = {0};

                snprintf(c.id, sizeof(c.id), "%s", json_string_value(id));
                int r = container_remove(e, &c, failed < 0 ? NULL : err);
                failed = failed < 0 ? failed : r; /* the others all the same */
                if (r < 0 && !engine_answers(e))
                        break; /* each would take as long */
        }
        return failed;
}

/* Docker lists a container some time before it finds it by its id. Until then it answers 404 to a removal, and still
 * makes the container. So only what is no longer listed counts as removed. */
int container_sweep(const struct engine *e, const struct backend_sweep *sweep, gb_error *err)
{
        uint64_t until = monotonic_usec() + ENGINE_ANSWER_USEC;
        _cleanup_json_ json_t *left = NULL;

        int r = list_left(e, &left, err);
        if (r == 0 && sweep->only_look)
                report(sweep, left, NULL);
        while (r == 0 && !sweep->only_look && json_array_size(left) > 0) {
                _cleanup_json_ json_t *still = NULL;

                r = remove_all(e, left, err);
                int listed = list_left(e, &still, r < 0 ? NULL : err);
                if (listed < 0)
                        return r < 0 ? r : listed;
                report(sweep, left, still);
                if (r == 0 && json_array_size(still) > 0 && monotonic_usec() > until)
                        return error_set(err, GB_E_LOST, ETIMEDOUT,
                                         "%s still lists the container %.12s, whose removal it has confirmed", e->name,
                                         json_string_value(json_array_get(still, 0)));
                if (json_array_size(still) > 0)
                        rest(REMOVE_LOOK_USEC);
                json_decref(left);
                left = TAKE_PTR(still);
        }
        return r;
}
