/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/template.h"

#include "backend/native/command.h"
#include "backend/native/payload.h"
#include "backend/native/root.h"
#include "backend/native/warden.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/message.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct entry {
        struct template_key key;
        int channel; /* readable when it has ended */
        bool starting; /* somebody does that just now, without the lock: its imports may take seconds, and others want other templates */
        char note[TEMPLATE_WHY_MAX];
        uint64_t again_usec; /* it could not be started: not tried before this */
        char why[TEMPLATE_WHY_MAX];
};

/* One that could not be started is not tried with every session when its imports take long to fail: for so many times as long
 * as that took sessions do without. */
#define AGAIN_AFTER_TIMES 10

static struct {
        pthread_mutex_t mutex;
        pthread_cond_t started; /* one of them, or not */
        struct entry entries[TEMPLATES_MAX];
        size_t n;
} known = {.mutex = PTHREAD_MUTEX_INITIALIZER, .started = PTHREAD_COND_INITIALIZER};

/* Two fronts that mean the same template have the same key: its name and a hash of all that makes it. */
void template_make_key(const struct template *t, struct template_key *ret)
{
        uint64_t hash = HASH_INIT;

        memset(ret, 0, sizeof(*ret));
        hash = hash_string(hash, t->python);
        hash = hash_string(hash, t->rootfs ? t->rootfs : "");
        for (size_t i = 0; t->modules[i]; i++)
                hash = hash_string(hash, t->modules[i]);
        memcpy(ret->bytes, &hash, sizeof(hash));
        size_t room = sizeof(ret->bytes) - sizeof(hash);
        memcpy(ret->bytes + sizeof(hash), t->name, MIN(strlen(t->name), room));
}

#define TEMPLATE_NOFILE 1048576 /* the most that a policy may give: its children can only lower it */

/* What a template may use while it imports and forks. It is not the policy of anybody's code. */
static void fill_policy(struct policy *p)
{
        *p = (struct policy){
                .cpu_milli = 1024 * 1000, .mem_limit_bytes = TEMPLATE_MEMORY_BYTES, .timeout_usec = UINT64_MAX / 4, .pids_limit = TEMPLATE_TASKS_MAX,
                .tmp_size_bytes = 64 * MIB, .disk_limit_bytes = 1 * MIB, .inode_limit = 1024, .nofile = TEMPLATE_NOFILE, .read_only = true,
        };
}

/* Imports are written for a Python that starts as others do. */
static const struct language python = {
        .env = {(char *)(uintptr_t)"PYTHONDONTWRITEBYTECODE=1", (char *)(uintptr_t)"PYTHONPATH=/sandbox",
                (char *)(uintptr_t)"PYTHONSAFEPATH=1", NULL},
        .etc = {(char *)(uintptr_t)"fonts", (char *)(uintptr_t)"matplotlibrc", NULL},
};

static int send_request(const struct template *t, const struct native_host *host, int channel, int stdio[static 3],
                        const struct template_key *key, gb_error *err)
{
        _cleanup_free_ struct policy *policy = calloc(1, sizeof(*policy));
        _cleanup_free_ struct warden_request *message = calloc(1, sizeof(*message));
        _cleanup_plan_ struct box_plan *plan = plan_new();
        struct controls controls = {0};

        if (!policy || !message || !plan)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        fill_policy(policy);
        struct box_request request = {
                .policy = policy, .language = &python, .workspace_fd = -1, .rootfs = t->rootfs, .uid = BOX_UID_DEFAULT, .gid = BOX_UID_DEFAULT,
                .stdio = {stdio[0], stdio[1], stdio[2]},
        };
        int r = native_admit(host, &request, &message->spec, &controls, err);
        if (r == 0)
                r = root_plan_template(plan, &request, err);
        if (r == 0)
                r = command_plan_template(plan, &request, t, err);
        if (r == 0)
                r = plan_descriptors(plan, host, request.stdio, err);
        if (r < 0)
                return r;
        message->version = WARDEN_PROTOCOL_VERSION;
        message->kind = WARDEN_TEMPLATE;
        message->spec.template = *key;
        message->spec.pool = t->pool;
        message->spec.cgroup.cpu_milli = 0;
        /* Its children would inherit the ruleset, which knows only the template's own places. Theirs is their own. And under the AppArmor
         * profile it could not join their namespaces: they change to it themselves. */
        message->spec.flags &= ~(uint32_t)(BOX_LANDLOCK | BOX_APPARMOR);
        message->spec.n_fds = plan->n_fds;
        memcpy(message->spec.fds, plan->fds, sizeof(plan->fds));
        r = message_send(channel, message, sizeof(*message), plan->fd_values, (int)plan->n_fds);
        return r < 0 ? error_set(err, GB_E_LOST, -r, "the warden is gone") : 0;
}

/* The last line that it wrote, when it failed: what Python says is best. */
static void read_complaint(int fd, char *why)
{
        char text[4096];
        ssize_t n = read(fd, text, sizeof(text) - 1);

        if (n <= 0)
                return;
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
                n--;
        text[n] = '\0';
        /* An image may have written it: nothing of it shall drive a terminal, or break a message. */
        for (char *c = text; *c; c++)
                if ((*c < ' ' || *c > '~') && *c != '\n')
                        *c = '?';
        const char *line = strrchr(text, '\n');
        snprintf(why, TEMPLATE_WHY_MAX, "%.*s", TEMPLATE_WHY_MAX - 1, line ? line + 1 : text);
}

static int start(const struct template *t, const struct native_host *host, struct entry *e, char *why)
{
        _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC), complaints = -1, theirs = -1;
        struct warden_event event;
        gb_error err = {0};
        int pair[2];

        e->channel = -1;
        int r = warden_channel(&e->channel, &err);
        if (r == 0 && (null < 0 || pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0))
                r = -errno;
        else if (r == 0) {
                complaints = pair[0];
                theirs = pair[1];
                r = send_request(t, host, e->channel, (int[]){null, theirs, theirs}, &e->key, &err);
                theirs = safe_close(theirs);
        }
        while (r == 0) {
                r = warden_wait(e->channel, TEMPLATE_START_USEC, &event, NULL, NULL, &err);
                if (r == 0 && event.kind == WARDEN_READY)
                        break;
                if (r == 0 && event.kind == WARDEN_ENDED)
                        r = -ECHILD;
        }
        if (r == 0) {
                snprintf(e->note, sizeof(e->note), "%.*s", TEMPLATE_WHY_MAX - 1, event.error.message);
                return 0;
        }
        snprintf(why, TEMPLATE_WHY_MAX, "%.*s", TEMPLATE_WHY_MAX - 1, err.message[0] ? err.message : strerror(-r));
        read_complaint(complaints, why);
        e->channel = safe_close(e->channel);
        return r;
}

static bool is_alive(const struct entry *e)
{
        struct pollfd p = {.fd = e->channel, .events = POLLIN}; /* its last word, or its end */

        return e->channel >= 0 && poll(&p, 1, 0) == 0;
}

static struct entry *find(const struct template_key *key)
{
        for (size_t i = 0; i < known.n; i++)
                if (memcmp(&known.entries[i].key, key, sizeof(*key)) == 0)
                        return &known.entries[i];
        return NULL;
}

/* With the lock: that of the key, which nobody starts; a new one when there is none; NULL: there are too many. */
static struct entry *find_settled(const struct template_key *key)
{
        struct entry *e = find(key);

        while (e && e->starting) {
                pthread_cond_wait(&known.started, &known.mutex);
                e = find(key);
        }
        if (!e && known.n < TEMPLATES_MAX) {
                e = &known.entries[known.n++];
                *e = (struct entry){.key = *key, .channel = -1};
        }
        return e;
}

/* With the lock, which is given up meanwhile: the entry may have moved, or been forgotten. */
static int start_entry(const struct template *t, const struct native_host *host, struct entry *e, char *why)
{
        struct entry fresh = {.key = e->key, .channel = -1};

        e->channel = safe_close(e->channel);
        e->starting = true;
        pthread_mutex_unlock(&known.mutex);
        uint64_t began = monotonic_usec();
        int r = start(t, host, &fresh, why);
        uint64_t now = monotonic_usec();
        fresh.again_usec = r < 0 ? now + (now - began) * AGAIN_AFTER_TIMES : 0;
        memcpy(fresh.why, why, TEMPLATE_WHY_MAX);
        pthread_mutex_lock(&known.mutex);
        e = find(&fresh.key);
        if (e)
                *e = fresh;
        else
                safe_close(fresh.channel);
        pthread_cond_broadcast(&known.started);
        return r;
}

int template_ensure(const struct template *t, const struct native_host *host, bool start_it, struct template_key *ret_key,
                    char note[static TEMPLATE_WHY_MAX], char why[static TEMPLATE_WHY_MAX])
{
        int r = 0;

        template_make_key(t, ret_key);
        note[0] = '\0';
        if (!start_it)
                return 0; /* whether it is there shows when a session is asked for */
        pthread_mutex_lock(&known.mutex);
        struct entry *e = find_settled(ret_key);
        if (!e) {
                snprintf(why, TEMPLATE_WHY_MAX, "more than %d templates", TEMPLATES_MAX);
                r = -E2BIG;
        } else if (monotonic_usec() < e->again_usec) {
                memcpy(why, e->why, TEMPLATE_WHY_MAX);
                r = -EAGAIN;
        } else if (!is_alive(e)) {
                r = start_entry(t, host, e, why);
                e = find(ret_key);
        }
        if (r == 0 && e)
                memcpy(note, e->note, TEMPLATE_WHY_MAX);
        pthread_mutex_unlock(&known.mutex);
        return r;
}

int template_event_fd(const struct template *t)
{
        struct template_key key;

        template_make_key(t, &key);
        pthread_mutex_lock(&known.mutex);
        const struct entry *e = find(&key);
        int fd = e ? e->channel : -1;
        pthread_mutex_unlock(&known.mutex);
        return fd;
}

void template_forget_all(void)
{
        pthread_mutex_lock(&known.mutex);
        for (size_t i = 0; i < known.n; i++)
                safe_close(known.entries[i].channel);
        known.n = 0;
        pthread_mutex_unlock(&known.mutex);
}
