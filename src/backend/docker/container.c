/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a container: made, looked at, started, asked how it is. Its end is in sweep.c. */
#include "backend/docker/container.h"

#include "backend/docker/plan.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/quote.h"
#include "kernel/seccomp.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROFILE_DIR "glovebox-seccomp-XXXXXX"
#define PROFILE_NAME "profile.json"

/* ---- the seccomp profile: Docker takes its text, Podman the path of a file ---- */

static void profile_remove(struct container *c)
{
        char *slash = strrchr(c->seccomp_file, '/');

        if (!slash)
                return;
        (void)unlink(c->seccomp_file);
        *slash = '\0';
        (void)rmdir(c->seccomp_file);
        c->seccomp_file[0] = '\0';
}

/* In a directory that nobody else can write to, since the service reads it by its path. */
static int profile_write(struct container *c, gb_error *err)
{
        const char *runtime_dir = getenv("XDG_RUNTIME_DIR");
        const char *places[] = {runtime_dir && runtime_dir[0] == '/' ? runtime_dir : NULL, geteuid() == 0 ? "/run" : NULL, "/tmp"};
        char dir[sizeof(c->seccomp_file)];

        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                if (!places[i] || strlen(places[i]) + sizeof("/" PROFILE_DIR "/" PROFILE_NAME) > sizeof(dir))
                        continue;
                snprintf(dir, sizeof(dir), "%s/" PROFILE_DIR, places[i]);
                if (!mkdtemp(dir))
                        continue;
                if ((size_t)snprintf(c->seccomp_file, sizeof(c->seccomp_file), "%s/" PROFILE_NAME, dir) >= sizeof(c->seccomp_file)) {
                        c->seccomp_file[0] = '\0';
                        (void)rmdir(dir);
                        continue;
                }
                _cleanup_close_ int fd = open(c->seccomp_file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
                int r = fd < 0 ? -errno : fd_write_all(fd, seccomp_docker_profile, strlen(seccomp_docker_profile));
                if (r == 0)
                        return 0;
                profile_remove(c);
                return error_set(err, GB_E_INTERNAL, -r, "cannot write the system call filter to %s: %s", dir, strerror(-r));
        }
        return error_set(err, GB_E_INTERNAL, EACCES, "there is no directory for the system call filter that Podman is to read: set XDG_RUNTIME_DIR, or make /tmp writable");
}

/* ---- made and looked at ---- */

static int take_id(const json_t *answer, struct container *c, gb_error *err)
{
        const char *id = json_string_value(json_object_get(answer, "Id"));
        size_t n = id ? strlen(id) : 0;

        for (size_t i = 0; i < n; i++)
                if (!isxdigit((unsigned char)id[i]))
                        n = 0;
        if (n == 0 || n >= sizeof(c->id))
                return error_set(err, GB_E_LOST, EBADMSG, "the engine made a container, but what it says is no id: %s", quote(id ? id : "").text);
        memcpy(c->id, id, n + 1);
        return 0;
}

static int inspect(const struct engine *e, const struct container *c, int *ret_status, json_t **ret, gb_error *err)
{
        char target[CONTAINER_ID_MAX + 32];

        snprintf(target, sizeof(target), "/containers/%s/json", c->id);
        return engine_call(e, "GET", target, NULL, 0, ret_status, ret, err);
}

static int make(const struct container_request *request, const struct container_plan *plan, json_t *body, struct container *c, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;
        char target[CONTAINER_NAME_MAX + 32];
        int status;

        snprintf(target, sizeof(target), "/containers/create?name=%s", plan->name);
        int r = engine_call(request->engine, "POST", target, body, CONTAINER_START_USEC, &status, &answer, err);
        if (r < 0)
                return r;
        if (status != 201)
                return engine_refusal(request->engine, status, answer, "cannot make the container", err);
        return take_id(answer, c, err);
}

static int look_at_new(const struct container_request *request, const struct container_plan *plan, const json_t *body, const struct container *c, gb_error *err)
{
        _cleanup_json_ json_t *seen = NULL;
        int status;

        int r = inspect(request->engine, c, &status, &seen, err);
        if (r < 0)
                return r;
        if (status != 200)
                return engine_refusal(request->engine, status, seen, "cannot look at the container", err);
        return plan_compare(request, plan, body, seen, err);
}

int container_create(const struct container_request *request, struct container *ret, struct controls *ret_controls, gb_error *err)
{
        _cleanup_free_ struct container_plan *plan = malloc(sizeof(*plan));
        struct container c = {0};
        struct controls controls;
        gb_error unused;

        if (!plan)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = plan_container(request, plan, err);
        if (r == 0)
                r = container_controls(request, plan, &controls, err);
        if (r == 0 && request->engine->podman)
                r = profile_write(&c, err);
        if (r < 0)
                return r;
        /* A body that lacks a part would be compared with itself. */
        (void)json_lacked_memory();
        _cleanup_json_ json_t *body = plan_body(request, plan, request->engine->podman ? c.seccomp_file : seccomp_docker_profile);
        r = body && !json_lacked_memory() && container_use(&c, request->session) == 0 ? make(request, plan, body, &c, err)
                                                                                      : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        profile_remove(&c); /* it is read when the container is made */
        if (r == 0)
                r = look_at_new(request, plan, body, &c, err);
        if (r < 0) {
                /* One whose id did not come back goes with the next sweep. */
                (void)container_remove(request->engine, &c, &unused);
                container_give_up(&c);
                return r;
        }
        *ret = c;
        *ret_controls = controls;
        return 0;
}

int container_start(const struct engine *e, const struct container *c, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;
        char target[CONTAINER_ID_MAX + 32];
        int status;

        snprintf(target, sizeof(target), "/containers/%s/start", c->id);
        int r = engine_call(e, "POST", target, NULL, CONTAINER_START_USEC, &status, &answer, err);
        if (r < 0)
                return r;
        return status == 204 || status == 304 ? 0 : engine_refusal(e, status, answer, "cannot start the container", err);
}

int container_look(const struct engine *e, const struct policy *policy, struct container *c, struct controls *controls, gb_error *err)
{
        _cleanup_json_ json_t *seen = NULL;
        int status;

        int r = inspect(e, c, &status, &seen, err);
        if (r < 0)
                return r;
        if (status != 200)
                return engine_refusal(e, status, seen, "cannot look at the container", err);
        const json_t *pid = json_below(seen, "State.Pid");
        const char *runtime = json_string_value(json_below(seen, "HostConfig.Runtime"));
        c->pid = json_is_integer(pid) && json_integer_value(pid) > 1 && json_integer_value(pid) <= INT32_MAX ? (pid_t)json_integer_value(pid) : 0;
        if (policy->runtime && !e->podman && (!runtime || strcmp(runtime, policy->runtime) != 0))
                return error_set(err, GB_E_UNENFORCEABLE, ENOTSUP, "%s %s runs the container with the runtime %s, not %s", e->name, e->version,
                                 quote(runtime ? runtime : "").text, policy->runtime);
        return controls_check(e, policy, controls, err);
}

int container_ended(const struct engine *e, const struct container *c, struct container_end *ret, gb_error *err)
{
        _cleanup_json_ json_t *seen = NULL;
        int status;

        int r = inspect(e, c, &status, &seen, err);
        if (r < 0)
                return r;
        if (status != 200 && status != 404)
                return engine_refusal(e, status, seen, "cannot look at the container", err);
        *ret = (struct container_end){.exit_code = -1};
        /* One that has ended is removed at once: then nothing is known of its end. */
        if (status == 404)
                return 0;
        const json_t *code = json_below(seen, "State.ExitCode"), *running = json_below(seen, "State.Running");
        if (!json_is_boolean(running))
                return error_set(err, GB_E_LOST, EBADMSG, "%s does not say whether the container runs", e->name);
        ret->running = json_is_true(running);
        ret->oom = json_is_true(json_below(seen, "State.OOMKilled"));
        if (!ret->running && json_is_integer(code) && json_integer_value(code) >= 0 && json_integer_value(code) <= 0xff)
                ret->exit_code = (int)json_integer_value(code);
        return 0;
}
