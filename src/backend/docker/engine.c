/* SPDX-License-Identifier: Apache-2.0
 *
 * Who the engine is and what it can do, asked once. Nothing that it says is taken for more than a text or a number of the expected kind. */
#include "backend/docker/exchange.h"
#include "backend/docker/version.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/quote.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* What is asked is written for API_WANTED; engines of 2025 refuse what is older than 1.44, and for them the same questions are asked in the oldest
 * version they know, up to API_NEWEST. */
#define API_OLDEST ((struct api_version){1, 40})
#define API_WANTED ((struct api_version){1, 41})
#define API_NEWEST ((struct api_version){1, 55})

/* ---- texts and numbers of an answer ---- */

/* A short printable text; anything else is none. */
static bool take_text(const char *text, size_t length, char *out, size_t size)
{
        out[0] = '\0';
        if (!text || length == 0 || length >= size)
                return false;
        for (size_t i = 0; i < length; i++)
                if (text[i] < ' ' || text[i] > '~')
                        return false;
        memcpy(out, text, length);
        out[length] = '\0';
        return true;
}

static bool take_string(const json_t *object, const char *key, char *out, size_t size)
{
        const char *text = json_string_value(json_object_get(object, key));

        return take_text(text, text ? strlen(text) : 0, out, size);
}

static bool is_true(const json_t *object, const char *key)
{
        return json_is_true(json_object_get(object, key));
}

static const char *base_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

static bool begins(const char *text, const char *prefix)
{
        return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* "runc version 1.1.5+ds1\ncommit: ..." */
static void take_runc_line(const char *text, struct engine *e)
{
        static const char words[] = "runc version ";

        if (begins(text, words)) {
                text += strlen(words);
                take_text(text, strcspn(text, " \n"), e->runc_version, sizeof(e->runc_version));
        }
}

/* ---- /version ---- */

static void take_component(const json_t *component, struct engine *e)
{
        const char *name = json_string_value(json_object_get(component, "Name")), *version = json_string_value(json_object_get(component, "Version"));

        if (!name || !version)
                return;
        if (strcmp(name, "Podman Engine") == 0)
                e->podman = true;
        else if (strcmp(name, "containerd") == 0)
                take_string(component, "Version", e->containerd_version, sizeof(e->containerd_version));
        else if (strcmp(name, "runc") == 0)
                take_string(component, "Version", e->runc_version, sizeof(e->runc_version));
        else if (begins(name, "OCI Runtime ("))
                take_runc_line(version, e);
}

static int too_old(const struct engine *e, const char *api, gb_error *err)
{
        return error_set(err, GB_E_UNAVAILABLE, EPROTONOSUPPORT,
                         "%s speaks version %s of the API, and glovebox needs %u.%u (Docker 19.03, Podman 3.0) or later: update it, or use --backend native", engine_label(e).text,
                         api, API_OLDEST.major, API_OLDEST.minor);
}

/* The version that both know. */
static int negotiate(struct engine *e, const json_t *answer, gb_error *err)
{
        struct api_version newest, oldest = {0, 0}, chosen = API_WANTED;
        char api[sizeof(e->api)], minimum[sizeof(e->api)];

        if (!take_string(answer, "ApiVersion", api, sizeof(api)) || api_parse(api, &newest) < 0)
                return engine_rubbish(e, GB_E_UNAVAILABLE, "it does not say which version of the API it speaks", err);
        if (take_string(answer, "MinAPIVersion", minimum, sizeof(minimum)) && api_parse(minimum, &oldest) < 0)
                return engine_rubbish(e, GB_E_UNAVAILABLE, "it does not say which version of the API it speaks", err);
        if (api_compare(newest, API_OLDEST) < 0)
                return too_old(e, api, err);
        if (api_compare(newest, chosen) < 0)
                chosen = newest;
        if (api_compare(oldest, chosen) > 0)
                chosen = oldest;
        if (api_compare(chosen, API_NEWEST) > 0)
                return error_set(err, GB_E_UNAVAILABLE, EPROTONOSUPPORT,
                                 "%s answers only to version %s of the API and later, which this glovebox does not know (it knows up to %u.%u): update glovebox", engine_label(e).text,
                                 minimum, API_NEWEST.major, API_NEWEST.minor);
        snprintf(e->api, sizeof(e->api), "%u.%u", chosen.major, chosen.minor);
        return 0;
}

static int take_version(struct engine *e, const json_t *answer, gb_error *err)
{
        const json_t *components = json_object_get(answer, "Components");
        size_t i;
        json_t *component;

        json_array_foreach(components, i, component) {
                take_component(component, e);
        }
        snprintf(e->name, sizeof(e->name), "%s", e->podman ? "Podman" : "Docker Engine");
        if (!take_string(answer, "Version", e->version, sizeof(e->version))) {
                e->name[0] = '\0';
                return engine_rubbish(e, GB_E_UNAVAILABLE, "it does not say its version", err);
        }
        return negotiate(e, answer, err);
}

/* ---- /info ---- */

static void take_security(const json_t *options, struct engine *e)
{
        size_t i;
        json_t *option;

        json_array_foreach(options, i, option) {
                const char *text = json_string_value(option);
                if (!text)
                        continue;
                text += begins(text, "name=") ? strlen("name=") : 0;
                size_t length = strcspn(text, ",");
                if (length == strlen("apparmor") && begins(text, "apparmor"))
                        e->apparmor = true;
                else if (length == strlen("seccomp") && begins(text, "seccomp"))
                        e->seccomp = strstr(text, "profile=unconfined") == NULL;
                else if (length == strlen("rootless") && begins(text, "rootless"))
                        e->rootless = true;
        }
}

static void take_runtimes(json_t *runtimes, struct engine *e)
{
        const char *name;
        json_t *runtime;

        json_object_foreach(runtimes, name, runtime)
                if (e->n_runtimes < ENGINE_RUNTIMES_MAX && take_text(name, strlen(name), e->runtimes[e->n_runtimes], ENGINE_NAME_MAX))
                        e->n_runtimes++;
}

/* Podman may name its runtime by a path. */
static void take_default_runtime(const json_t *answer, struct engine *e)
{
        const char *name = json_string_value(json_object_get(answer, "DefaultRuntime"));

        name = name ? base_name(name) : "";
        take_text(name, strlen(name), e->default_runtime, sizeof(e->default_runtime));
        if (strcmp(e->default_runtime, "runc") != 0 && !begins(e->default_runtime, "io.containerd.runc."))
                e->runc_version[0] = '\0';
}

static int take_info(struct engine *e, const json_t *answer, gb_error *err)
{
        char cgroups[8];

        if (!json_is_object(json_object_get(answer, "Runtimes")) || !json_is_string(json_object_get(answer, "DefaultRuntime")))
                return engine_rubbish(e, GB_E_UNAVAILABLE, "it does not say which runtimes it has", err);
        take_runtimes(json_object_get(answer, "Runtimes"), e);
        take_default_runtime(answer, e);
        take_security(json_object_get(answer, "SecurityOptions"), e);
        e->rootless = e->rootless || is_true(answer, "Rootless");
        e->cgroup_v2 = take_string(answer, "CgroupVersion", cgroups, sizeof(cgroups)) && strcmp(cgroups, "2") == 0;
        e->memory = is_true(answer, "MemoryLimit");
        e->swap = is_true(answer, "SwapLimit");
        e->pids = is_true(answer, "PidsLimit");
        e->cpu = is_true(answer, "CpuCfsQuota") && is_true(answer, "CpuCfsPeriod");
        return 0;
}

/* ---- opening ---- */

/* An object, or an error with a remedy: nothing was done, so nothing is lost. */
static int ask(const struct engine *e, const char *target, json_t **ret, gb_error *err)
{
        gb_error failure = {0};
        int status;
        int r = engine_call(e, "GET", target, NULL, 0, &status, ret, &failure);

        if (r < 0) {
                if (failure.code == GB_E_LOST)
                        failure.code = GB_E_UNAVAILABLE;
                if (err)
                        *err = failure;
                return r;
        }
        if (status >= 500)
                return error_set(err, GB_E_UNAVAILABLE, EPROTO, "%s answers %s with the failure %d: look into its log (journalctl -u docker), restart it (systemctl restart docker)",
                                 engine_label(e).text, target, status);
        if (status != 200 || !json_is_object(*ret))
                return engine_rubbish(e, GB_E_UNAVAILABLE, "who it is cannot be learnt from it", err);
        return 0;
}

int engine_open(struct engine *ret, gb_error *err)
{
        _cleanup_json_ json_t *version = NULL, *info = NULL;
        struct engine e;
        int r = engine_address(&e, err);

        if (r == 0)
                r = ask(&e, "/version", &version, err);
        if (r == 0)
                r = take_version(&e, version, err);
        if (r == 0)
                r = ask(&e, "/info", &info, err);
        if (r == 0)
                r = take_info(&e, info, err);
        if (r == 0)
                *ret = e;
        return r;
}

bool engine_has_runtime(const struct engine *e, const char *name)
{
        if (strcmp(name, e->default_runtime) == 0)
                return true;
        for (size_t i = 0; !e->podman && i < e->n_runtimes; i++)
                if (strcmp(name, e->runtimes[i]) == 0)
                        return true;
        return false;
}

/* ---- the one of this process ---- */

static struct {
        pthread_mutex_t lock;
        pthread_cond_t ended; /* an attempt */
        bool is_open, is_opening, has_failed;
        struct engine engine;
        gb_error failure;
        int result;
        uint64_t tried_usec;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

/* The lock is held, but for the attempt itself. */
static void try_open(void)
{
        struct engine e;
        gb_error failure = {0};

        shared.is_opening = true;
        pthread_mutex_unlock(&shared.lock);
        int r = engine_open(&e, &failure);
        pthread_mutex_lock(&shared.lock);
        shared.is_opening = false;
        shared.is_open = r == 0;
        shared.has_failed = r < 0;
        shared.result = r;
        if (r == 0)
                shared.engine = e;
        shared.failure = failure;
        shared.tried_usec = monotonic_usec();
        pthread_cond_broadcast(&shared.ended);
}

int engine_shared(struct engine *ret, gb_error *err)
{
        pthread_mutex_lock(&shared.lock);
        while (!shared.is_open && !shared.has_failed && shared.is_opening)
                pthread_cond_wait(&shared.ended, &shared.lock);
        uint64_t age = monotonic_usec() - shared.tried_usec;
        bool again = shared.is_open ? age >= ENGINE_FACTS_USEC : !shared.has_failed || age >= ENGINE_RETRY_USEC;
        if (again && !shared.is_opening)
                try_open();
        int r = shared.is_open ? 0 : shared.result;
        if (shared.is_open)
                *ret = shared.engine;
        else if (err)
                *err = shared.failure;
        pthread_mutex_unlock(&shared.lock);
        return r;
}
