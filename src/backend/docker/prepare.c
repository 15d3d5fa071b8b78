/* SPDX-License-Identifier: Apache-2.0
 *
 * An image with our layer on it. Nothing of the image is run for that: a container is made, never started, gets our files, and is committed. Two who do
 * this at the same time make two images alike, and the name goes to the later one. What the image wants to be run with (user, entrypoint, health check,
 * stop signal, variables) is replaced here and again by each container; its volumes stay and get a tmpfs each. */
#include "backend/docker/container.h"

#include "agent/wire.h"
#include "backend/docker/plan.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/quote.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define ID_PREFIX "sha256:"
#define ID_DIGITS 64
#define REPOSITORY "glovebox-box"
#define PREPARE_USEC 120000000ULL /* for each step: committing may have to write much */
#define VARIABLES_MAX 256         /* of an image */
#define VARIABLE_BYTES_MAX 131072 /* of one, with its name */

struct prepared {
        const struct engine *engine;
        char base[IMAGE_ID_MAX];
        char runner[17]; /* hash of our files */
        char tag[13];
};

/* Names of callers are data: they become part of a target of a request. */
static int check_name(const char *name, gb_error *err)
{
        size_t n = strlen(name);
        bool good = n > 0 && n < IMAGE_NAME_MAX && (isalnum((unsigned char)name[0]));

        for (size_t i = 0; good && i < n; i++)
                good = isalnum((unsigned char)name[i]) || strchr("._/:@-", name[i]);
        if (!good || strstr(name, "..") || strstr(name, "//") || name[n - 1] == '/')
                return error_set(err, GB_E_USAGE, EINVAL, "%s is no name of an image: letters, digits and . _ / : @ - are, beginning with a letter or digit", quote(name).text);
        return 0;
}

/* Always with "sha256:", which Podman leaves out when it commits. */
static bool copy_image_id(const json_t *value, char ret[static IMAGE_ID_MAX])
{
        const char *id = json_string_value(value);

        if (!id)
                return false;
        if (strncmp(id, ID_PREFIX, strlen(ID_PREFIX)) == 0)
                id += strlen(ID_PREFIX);
        if (strlen(id) != ID_DIGITS || strspn(id, "0123456789abcdef") != ID_DIGITS)
                return false;
        snprintf(ret, IMAGE_ID_MAX, ID_PREFIX "%s", id);
        return true;
}

/* Ours can be built; whatever else it is, only its owner knows where it comes from. */
static int not_found(const struct engine *e, const char *name, gb_error *err)
{
        const char *ours = "glovebox-python";

        if (strncmp(name, ours, strlen(ours)) == 0)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "image not found: %s at %s %s; build it: glovebox image build %s --backend docker", name, e->name,
                                 e->version, name);
        return error_set(err, GB_E_NOT_FOUND, ENOENT, "image not found: %s at %s %s; glovebox pulls none: docker pull %s, docker load, or glovebox image build "
                         "glovebox-python --backend docker for one of ours", name, e->name, e->version, name);
}

static int look_at_image(const struct engine *e, const char *name, json_t **ret, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;
        char target[IMAGE_NAME_MAX + 32];
        int status;

        snprintf(target, sizeof(target), "/images/%s/json", name);
        int r = engine_call(e, "GET", target, NULL, 0, &status, &answer, err);
        if (r < 0)
                return r;
        if (status == 404)
                return not_found(e, name, err);
        if (status != 200 || !json_is_object(answer))
                return engine_refusal(e, status, answer, "cannot look at the image", err);
        *ret = TAKE_PTR(answer);
        return 0;
}

/* ---- volumes of the image ---- */

static void free_list(char ***list)
{
        for (char **p = *list; p && *p; p++)
                free(*p);
        free(*list);
}

static bool is_below(const char *path, const char *dir)
{
        size_t n = strlen(dir);

        return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* A path that can be mounted on, in its one form. */
static bool is_good_volume(const char *path)
{
        static const char *const taken[] = {"/proc", "/sys", "/dev", AGENT_DIR, AGENT_CODE_DIR};
        size_t n = strlen(path);

        if (n < 2 || n >= BOX_PATH_MAX || path[0] != '/' || path[n - 1] == '/' || strstr(path, "//") || strstr(path, "/./") || strstr(path, "/../"))
                return false;
        if (strcmp(path + n - 2, "/.") == 0 || (n > 2 && strcmp(path + n - 3, "/..") == 0))
                return false;
        for (const char *c = path; *c; c++)
                if (iscntrl((unsigned char)*c) || strchr(":,\\\"", *c))
                        return false;
        for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
                if (is_below(path, taken[i]))
                        return false;
        return true;
}

static int take_volumes(const json_t *image, const char *name, char ***ret, gb_error *err)
{
        json_t *volumes = json_object_get(json_object_get(image, "Config"), "Volumes"), *unused;
        size_t n = json_object_size(volumes), i = 0;
        const char *path;

        if (n > IMAGE_VOLUMES_MAX)
                return error_set(err, GB_E_UNENFORCEABLE, E2BIG, "the image %s has %zu volumes; at most %d can be covered", name, n, IMAGE_VOLUMES_MAX);
        _cleanup_(free_list) char **list = calloc(n + 1, sizeof(*list));
        if (!list)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        json_object_foreach(volumes, path, unused) {
                if (!is_good_volume(path))
                        return error_set(err, GB_E_UNENFORCEABLE, EINVAL, "the image %s has a volume at %s, which cannot be covered: use another image", name,
                                         quote(path).text);
                if (!(list[i++] = strdup(path)))
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        *ret = TAKE_PTR(list);
        return 0;
}

/* ---- found ---- */

static int find_prepared(const struct prepared *p, char ret_id[static IMAGE_ID_MAX], bool *ret_found, gb_error *err)
{
        _cleanup_json_ json_t *list = NULL;
        char target[512];
        int status;
        size_t i;
        json_t *item;

        /* Podman finds nothing by two labels: the other one is looked at here. */
        snprintf(target, sizeof(target), "/images/json?filters=%%7B%%22label%%22%%3A%%5B%%22" LABEL_RUNNER "%%3D%s%%22%%5D%%7D", p->runner);
        int r = engine_call(p->engine, "GET", target, NULL, 0, &status, &list, err);
        if (r < 0)
                return r;
        if (status != 200)
                return engine_refusal(p->engine, status, list, "cannot list the images", err);
        *ret_found = false;
        json_array_foreach(list, i, item) {
                const json_t *labels = json_object_get(item, "Labels");
                const char *runner = json_string_value(json_object_get(labels, LABEL_RUNNER)), *base = json_string_value(json_object_get(labels, LABEL_BASE));
                if (runner && base && strcmp(runner, p->runner) == 0 && strcmp(base, p->base) == 0 && copy_image_id(json_object_get(item, "Id"), ret_id)) {
                        *ret_found = true;
                        return 0;
                }
        }
        return 0;
}

/* ---- made ---- */

/* Its variables would reach the agent (GLIBC_TUNABLES means something to every program): each is made empty. */
static json_t *empty_variables(const json_t *image)
{
        const json_t *env = json_object_get(json_object_get(image, "Config"), "Env");
        json_t *list = json_pack("[s]", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        size_t i;
        json_t *item;

        json_array_foreach(env, i, item) {
                const char *text = json_string_value(item);
                size_t n = text ? strcspn(text, "=") : 0;
                if (n > 0 && strncmp(text, "PATH=", 5) != 0)
                        json_array_append_new(list, json_sprintf("%.*s=", (int)n, text));
        }
        return list;
}

/* Nothing of them would be left out. */
static int check_variables(const json_t *image, gb_error *err)
{
        const json_t *env = json_object_get(json_object_get(image, "Config"), "Env");
        bool good = json_array_size(env) <= VARIABLES_MAX;
        size_t i;
        json_t *item;

        json_array_foreach(env, i, item)
                good = good && json_string_length(item) <= VARIABLE_BYTES_MAX;
        return good ? 0 : error_set(err, GB_E_UNENFORCEABLE, E2BIG, "the image has more than %d variables, or one above %d bytes: use another image", VARIABLES_MAX, VARIABLE_BYTES_MAX);
}

static json_t *config_of(const struct prepared *p, const json_t *image, const char *session, const char *owner)
{
        return json_pack("{s:s, s:[s], s:[], s:s, s:s, s:s, s:{s:[s]}, s:[], s:o, s:{s:s, s:s, s:s, s:s}}",
                         "Image", p->base,
                         "Entrypoint", AGENT_PATH,
                         "Cmd",
                         "User", "65534:65534",
                         "WorkingDir", "/",
                         "StopSignal", "SIGKILL",
                         "Healthcheck", "Test", "NONE",
                         "OnBuild",
                         "Env", empty_variables(image),
                         "Labels", LABEL_RUNNER, p->runner, LABEL_BASE, p->base, LABEL_SESSION, session, LABEL_OWNER, owner);
}

/* A container that is never started; its volumes are tmpfs, so that none are left on the disk. */
static int make_stage(const struct prepared *p, const json_t *image, char *const *volumes, struct container *ret, gb_error *err)
{
        char session[64], owner[CONTAINER_OWNER_MAX], target[160];
        _cleanup_json_ json_t *answer = NULL;
        int status;

        snprintf(session, sizeof(session), "prepare-%s-%d-%" PRIx64, p->tag, (int)getpid(), monotonic_usec());
        int r = owner_self(owner);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot read who this process is from /proc: %s", strerror(-r));
        r = check_variables(image, err);
        if (r < 0)
                return r;
        _cleanup_json_ json_t *body = config_of(p, image, session, owner);
        json_t *tmpfs = json_object();
        for (; *volumes; volumes++)
                json_object_set_new(tmpfs, *volumes, json_string("ro,size=4096"));
        json_object_set_new(body, "HostConfig", json_pack("{s:s, s:[s], s:{s:s}, s:o}", "NetworkMode", "none", "CapDrop", "ALL", "LogConfig", "Type", "none", "Tmpfs", tmpfs));
        snprintf(target, sizeof(target), "/containers/create?name=" CONTAINER_NAME_PREFIX "%s", session);
        if (container_use(ret, session) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        r = engine_call(p->engine, "POST", target, body, PREPARE_USEC, &status, &answer, err);
        if (r < 0)
                return r;
        const char *id = json_string_value(json_object_get(answer, "Id"));
        size_t n = id ? strspn(id, "0123456789abcdef") : 0;
        if (status != 201 || n == 0 || n >= sizeof(ret->id) || id[n])
                return engine_refusal(p->engine, status, answer, "cannot make a container of the image", err);
        memcpy(ret->id, id, n + 1);
        return 0;
}

static int ignore_line(void *data, const json_t *value)
{
        (void)data;
        (void)value;
        return 0;
}

static int put_layer(const struct prepared *p, const struct container *stage, gb_error *err)
{
        char target[CONTAINER_ID_MAX + 48];
        const struct itimerspec whole = {.it_value.tv_sec = (time_t)(PREPARE_USEC / 1000000)};
        _cleanup_close_ int fd = -1, end = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
        uint64_t size;
        int status;

        int r = layer_make(&fd, &size, err);
        if (r < 0)
                return r;
        if (end < 0 || timerfd_settime(end, 0, &whole, NULL) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a timer: %s", strerror(errno));
        snprintf(target, sizeof(target), "/containers/%s/archive?path=%%2F", stage->id);
        r = engine_stream(p->engine, "PUT", target, "application/x-tar", fd, size, PREPARE_USEC, end, ignore_line, NULL, &status, err);
        if (r == -ECANCELED) /* it says a little now and then */
                error_set(err, GB_E_UNAVAILABLE, ETIMEDOUT, "%s does not end its answer", p->engine->name);
        return r < 0 ? error_prefix(err, "cannot put our layer into the image") : 0;
}

static int commit(const struct prepared *p, const json_t *image, const struct container *stage, char ret_id[static IMAGE_ID_MAX], gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;
        _cleanup_json_ json_t *body = config_of(p, image, "", "");
        char target[CONTAINER_ID_MAX + 128];
        int status;

        snprintf(target, sizeof(target), "/commit?container=%s&repo=" REPOSITORY "&tag=%s&pause=0", stage->id, p->tag);
        int r = engine_call(p->engine, "POST", target, body, PREPARE_USEC, &status, &answer, err);
        if (r < 0)
                return r;
        if (status != 201 && status != 200)
                return engine_refusal(p->engine, status, answer, "cannot make an image with our layer", err);
        if (!copy_image_id(json_object_get(answer, "Id"), ret_id))
                return error_set(err, GB_E_LOST, EBADMSG, "%s made an image, but what it says is no id", p->engine->name);
        return 0;
}

static int make_prepared(const struct prepared *p, const json_t *image, char *const *volumes, char ret_id[static IMAGE_ID_MAX], gb_error *err)
{
        struct container stage = {0};
        gb_error unused;

        int r = make_stage(p, image, volumes, &stage, err);
        if (r == 0)
                r = put_layer(p, &stage, err);
        if (r == 0)
                r = commit(p, image, &stage, ret_id, err);
        (void)container_remove(p->engine, &stage, &unused);
        container_give_up(&stage);
        return r;
}

int image_prepare(const struct engine *e, const char *name, char ret_id[static IMAGE_ID_MAX], char ***ret_volumes, gb_error *err)
{
        struct prepared p = {.engine = e};
        _cleanup_json_ json_t *image = NULL;
        _cleanup_(free_list) char **volumes = NULL;
        uint64_t hash;
        bool found;

        int r = check_name(name, err);
        if (r == 0)
                r = look_at_image(e, name, &image, err);
        if (r == 0)
                r = layer_hash(&hash, err);
        if (r == 0)
                r = take_volumes(image, name, &volumes, err);
        if (r < 0)
                return r;
        if (!copy_image_id(json_object_get(image, "Id"), p.base))
                return error_set(err, GB_E_LOST, EBADMSG, "what %s says of the image %s is no id", e->name, name);
        snprintf(p.runner, sizeof(p.runner), "%016" PRIx64, hash);
        snprintf(p.tag, sizeof(p.tag), "%012" PRIx64, hash_string(hash, p.base) >> 16);
        r = find_prepared(&p, ret_id, &found, err);
        if (r == 0 && !found)
                r = make_prepared(&p, image, volumes, ret_id, err);
        if (r == 0)
                *ret_volumes = TAKE_PTR(volumes);
        return r;
}
