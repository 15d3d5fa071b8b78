/* SPDX-License-Identifier: Apache-2.0
 *
 * The look at a container after it was made: engines ignore fields that they do not know, and have defaults of their own. What was asked
 * is read from the body that was sent, so that the two cannot come apart. */
#include "backend/docker/plan.h"

#include "agent/wire.h"
#include "base/json.h"
#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const json_t *json_below(const json_t *value, const char *path)
{
        while (value && *path) {
                char key[64];
                size_t n = strcspn(path, ".");
                if (n >= sizeof(key))
                        return NULL;
                memcpy(key, path, n);
                key[n] = '\0';
                value = json_object_get(value, key);
                path += n + (path[n] == '.');
        }
        return value;
}

enum look { LOOK_SAME, LOOK_EMPTY, LOOK_OFF, LOOK_PRIVATE };

/* podman: why its inspection is not asked; what is told instead by the agent is in hello.c. */
static const struct {
        const char *path;
        enum look look;
        const char *podman;
} rows[] = {
        {"HostConfig.NetworkMode", LOOK_SAME, NULL},
        {"HostConfig.ReadonlyRootfs", LOOK_SAME, NULL},
        {"HostConfig.Privileged", LOOK_OFF, NULL},
        {"HostConfig.Memory", LOOK_SAME, NULL},
        {"HostConfig.MemorySwap", LOOK_SAME, NULL},
        {"HostConfig.MemorySwappiness", LOOK_SAME, NULL},
        {"HostConfig.OomKillDisable", LOOK_OFF, NULL},
        {"HostConfig.PidsLimit", LOOK_SAME, NULL},
        {"HostConfig.NanoCpus", LOOK_SAME, NULL},
        {"HostConfig.ShmSize", LOOK_SAME, NULL},
        {"HostConfig.IpcMode", LOOK_SAME, "says shareable whatever was asked; nobody of ours shares it"},
        {"HostConfig.CgroupnsMode", LOOK_SAME, "is empty, and the field is ignored: what it hides are paths of cgroups"},
        {"HostConfig.PidMode", LOOK_PRIVATE, NULL},
        {"HostConfig.UTSMode", LOOK_PRIVATE, NULL},
        {"HostConfig.UsernsMode", LOOK_PRIVATE, NULL},
        {"HostConfig.LogConfig.Type", LOOK_SAME, NULL},
        {"HostConfig.AutoRemove", LOOK_SAME, NULL},
        {"HostConfig.RestartPolicy.Name", LOOK_SAME, NULL},
        {"HostConfig.PublishAllPorts", LOOK_OFF, NULL},
        {"HostConfig.PortBindings", LOOK_EMPTY, NULL},
        {"HostConfig.CapAdd", LOOK_EMPTY, NULL},
        {"HostConfig.Devices", LOOK_EMPTY, NULL},
        {"HostConfig.DeviceRequests", LOOK_EMPTY, NULL},
        {"HostConfig.DeviceCgroupRules", LOOK_EMPTY, NULL},
        {"HostConfig.GroupAdd", LOOK_EMPTY, NULL},
        {"HostConfig.VolumesFrom", LOOK_EMPTY, NULL},
        {"HostConfig.Links", LOOK_EMPTY, NULL},
        {"HostConfig.ExtraHosts", LOOK_EMPTY, NULL},
        {"HostConfig.CgroupParent", LOOK_EMPTY, NULL},
        {"HostConfig.Sysctls", LOOK_EMPTY, NULL},
        {"HostConfig.Binds", LOOK_EMPTY, "repeats the mounts there: see mounts_compare()"},
        {"HostConfig.Mounts", LOOK_SAME, "are told as Binds"},
        {"HostConfig.Dns", LOOK_SAME, NULL},
        {"HostConfig.DnsSearch", LOOK_SAME, NULL},
        {"HostConfig.MaskedPaths", LOOK_SAME, "takes them as an option, and does not tell"},
        {"HostConfig.ReadonlyPaths", LOOK_SAME, "has its own, and does not tell"},
        {"Config.User", LOOK_SAME, NULL},
        {"Config.Entrypoint", LOOK_SAME, NULL},
        {"Config.Cmd", LOOK_EMPTY, NULL},
        {"Config.WorkingDir", LOOK_SAME, NULL},
        {"Config.Hostname", LOOK_SAME, NULL},
        {"Config.Tty", LOOK_OFF, NULL},
        {"Config.OpenStdin", LOOK_SAME, NULL},
        {"Config.StdinOnce", LOOK_SAME, "says false whatever was asked; the agent ends with its stream"},
        {"Config.Healthcheck.Test", LOOK_SAME, NULL},
        {"Config.StopSignal", LOOK_SAME, "says a number"},
};

static int differ(const struct container_request *request, const char *field, const char *wanted, const char *got, gb_error *err)
{
        return error_set(err, GB_E_UNENFORCEABLE, ENOTSUP, "%s %s made the container weaker than asked: %s is %s, not %s", request->engine->name,
                         request->engine->version, field, got ? quote(got).text : "not there", wanted);
}

static int differ_json(const struct container_request *request, const char *field, const json_t *wanted, const json_t *got, gb_error *err)
{
        _cleanup_free_ char *a = wanted ? json_dumps(wanted, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        _cleanup_free_ char *b = got ? json_dumps(got, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

        return differ(request, field, a ? quote(a).text : "empty", b, err);
}

static bool is_empty(const json_t *v)
{
        return !v || json_is_null(v) || (json_is_string(v) && json_string_length(v) == 0) || (json_is_array(v) && json_array_size(v) == 0) ||
               (json_is_object(v) && json_object_size(v) == 0);
}

static bool is_private(const json_t *v)
{
        return is_empty(v) || (json_is_string(v) && strcmp(json_string_value(v), "private") == 0);
}

static int rows_compare(const struct container_request *request, const json_t *body, const json_t *seen, gb_error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                /* What is under "Config" in an answer stands at the top of what was sent. */
                const char *sent = strncmp(rows[i].path, "Config.", 7) == 0 ? rows[i].path + 7 : rows[i].path;
                const json_t *wanted = json_below(body, sent), *got = json_below(seen, rows[i].path);
                bool good;

                if (rows[i].podman && request->engine->podman)
                        continue;
                switch (rows[i].look) {
                case LOOK_SAME:
                        good = !wanted || json_equal(wanted, got) || (is_empty(wanted) && is_empty(got)); /* not asked for: this engine cannot, as its control says */
                        break;
                case LOOK_EMPTY:
                        good = is_empty(got);
                        break;
                case LOOK_OFF:
                        good = !got || json_is_null(got) || json_is_false(got);
                        break;
                case LOOK_PRIVATE:
                default:
                        good = is_private(got);
                        break;
                }
                if (!good)
                        return differ_json(request, rows[i].path, rows[i].look == LOOK_SAME ? wanted : NULL, got, err);
        }
        return 0;
}

/* Podman names each one of its default set, Docker says ALL; that there is none at all the agent tells. */
static int capabilities_compare(const struct container_request *request, const json_t *seen, gb_error *err)
{
        const json_t *dropped = json_below(seen, "HostConfig.CapDrop");
        size_t i, n = 0;
        json_t *item;

        json_array_foreach(dropped, i, item)
                if (json_is_string(item) && strcmp(json_string_value(item), "ALL") == 0)
                        return 0;
                else
                        n += json_is_string(item) && strncmp(json_string_value(item), "CAP_", 4) != 0;
        if (request->engine->podman && n >= 10)
                return 0;
        return differ_json(request, "HostConfig.CapDrop", json_below(seen, "HostConfig.Nothing"), dropped, err);
}

/* The same options in any order and no other, but that Podman does not tell what it masks; a label of SELinux that the engine adds makes nothing weaker unless it switches it off. */
static int security_compare(const struct container_request *request, const json_t *body, const json_t *seen, gb_error *err)
{
        const json_t *wanted = json_below(body, "HostConfig.SecurityOpt"), *got = json_below(seen, "HostConfig.SecurityOpt");
        size_t i, k;
        json_t *a, *b;

        json_array_foreach(wanted, i, a) {
                bool found = request->engine->podman && strncmp(json_string_value(a), MASK_OPTION, strlen(MASK_OPTION)) == 0;
                json_array_foreach(got, k, b)
                        found = found || json_equal(a, b);
                if (!found)
                        return differ(request, "HostConfig.SecurityOpt", quote(json_string_value(a)).text, NULL, err);
        }
        json_array_foreach(got, i, b) {
                bool found = json_is_string(b) && strncmp(json_string_value(b), "label=", 6) == 0 && !strstr(json_string_value(b), "disable");
                json_array_foreach(wanted, k, a)
                        found = found || json_equal(a, b);
                if (!found)
                        return differ_json(request, "HostConfig.SecurityOpt", wanted, b, err);
        }
        return 0;
}

/* "nofile" of Docker is "RLIMIT_NOFILE" of Podman. */
static bool is_limit(const json_t *item, const char *name)
{
        const char *have = json_string_value(json_object_get(item, "Name"));

        if (have && strncmp(have, "RLIMIT_", 7) == 0)
                have += 7;
        return have && strcasecmp(have, name) == 0;
}

static int ulimits_compare(const struct container_request *request, const json_t *body, const json_t *seen, gb_error *err)
{
        const json_t *wanted = json_below(body, "HostConfig.Ulimits"), *got = json_below(seen, "HostConfig.Ulimits");
        size_t i, k;
        json_t *a, *b;

        json_array_foreach(wanted, i, a) {
                bool found = false;
                json_array_foreach(got, k, b)
                        found = found || (is_limit(b, json_string_value(json_object_get(a, "Name"))) &&
                                          json_equal(json_object_get(a, "Soft"), json_object_get(b, "Soft")) &&
                                          json_equal(json_object_get(a, "Hard"), json_object_get(b, "Hard")));
                if (!found)
                        return differ_json(request, "HostConfig.Ulimits", a, got, err);
        }
        return 0;
}

/* Podman keeps one word for itself and adds another. */
static bool is_same_tmpfs(const struct container_request *request, const char *wanted, const char *got)
{
        size_t n = strlen(wanted);

        if (!request->engine->podman)
                return got && strcmp(wanted, got) == 0;
        if (n > strlen(PODMAN_NO_COPY) && strcmp(wanted + n - strlen(PODMAN_NO_COPY), PODMAN_NO_COPY) == 0)
                n -= strlen(PODMAN_NO_COPY);
        return got && strncmp(wanted, got, n) == 0 && strcmp(got + n, ",rprivate") == 0;
}

static int tmpfs_compare(const struct container_request *request, const struct container_plan *plan, const json_t *seen, gb_error *err)
{
        const json_t *got = json_below(seen, "HostConfig.Tmpfs");

        for (size_t i = 0; i < plan->n_tmpfs; i++) {
                const char *options = json_string_value(json_object_get(got, plan->tmpfs[i].path));
                if (!is_same_tmpfs(request, plan->tmpfs[i].options, options))
                        return differ(request, "HostConfig.Tmpfs", plan->tmpfs[i].options, options, err);
        }
        if (json_object_size(got) != plan->n_tmpfs)
                return differ_json(request, "HostConfig.Tmpfs", NULL, got, err);
        return 0;
}

static bool is_planned_bind(const struct container_plan *plan, const json_t *mount)
{
        const char *type = json_string_value(json_object_get(mount, "Type")), *source = json_string_value(json_object_get(mount, "Source"));
        const char *target = json_string_value(json_object_get(mount, "Destination"));
        const char *propagation = json_string_value(json_object_get(mount, "Propagation"));
        const json_t *writable = json_object_get(mount, "RW");

        if (!type || !source || !target || !propagation || strcmp(type, "bind") != 0 || strcmp(propagation, "rprivate") != 0)
                return false;
        for (size_t i = 0; i < plan->n_binds; i++)
                if (strcmp(plan->binds[i].source, source) == 0 && strcmp(plan->binds[i].target, target) == 0)
                        return plan->binds[i].writable ? json_is_true(writable) : json_is_false(writable);
        return false;
}

/* Exactly ours: no volume that the image asked for, none that an engine adds (Podman's containers.conf can). */
static int mounts_compare(const struct container_request *request, const struct container_plan *plan, const json_t *seen, gb_error *err)
{
        const json_t *got = json_object_get(seen, "Mounts");
        size_t i;
        json_t *mount;

        json_array_foreach(got, i, mount)
                if (!is_planned_bind(plan, mount))
                        return differ_json(request, "Mounts", NULL, mount, err);
        if (json_array_size(got) != plan->n_binds)
                return differ(request, "Mounts", "all that were asked for", "fewer", err);
        got = json_below(seen, "HostConfig.Binds");
        json_array_foreach(got, i, mount)
                if (!json_is_string(mount) || strstr(json_string_value(mount), "rbind"))
                        return differ_json(request, "HostConfig.Binds", NULL, mount, err);
        return 0;
}

static int names_compare(const struct container_request *request, const struct container_plan *plan, const json_t *seen, gb_error *err)
{
        const json_t *labels = json_below(seen, "Config.Labels");
        const char *owner = json_string_value(json_object_get(labels, LABEL_OWNER)), *session = json_string_value(json_object_get(labels, LABEL_SESSION));
        const char *image = json_string_value(json_object_get(seen, "Image")), *path = json_string_value(json_object_get(seen, "Path"));
        const char *runtime = json_string_value(json_below(seen, "HostConfig.Runtime"));
        const char *wanted = request->policy->runtime ? request->policy->runtime : request->engine->default_runtime;

        if (!owner || strcmp(owner, plan->owner) != 0)
                return differ(request, "the label " LABEL_OWNER, plan->owner, owner, err);
        if (!session || strcmp(session, request->session) != 0)
                return differ(request, "the label " LABEL_SESSION, request->session, session, err);
        if (!image || strcmp(image, request->image) != 0)
                return differ(request, "Image", request->image, image, err);
        if (!path || strcmp(path, AGENT_PATH) != 0)
                return differ(request, "Path", AGENT_PATH, path, err);
        /* Podman says "oci" for all of them: the agent tells. */
        if (!request->engine->podman && wanted[0] && (!runtime || strcmp(runtime, wanted) != 0))
                return differ(request, "HostConfig.Runtime", wanted, runtime, err);
        return 0;
}

static int networks_compare(const struct container_request *request, const json_t *body, const json_t *seen, gb_error *err)
{
        const char *wanted = json_string_value(json_below(body, "HostConfig.NetworkMode")), *name;
        json_t *networks = json_object_get(json_object_get(seen, "NetworkSettings"), "Networks"), *unused;

        json_object_foreach(networks, name, unused)
                if (!wanted || strcmp(name, wanted) != 0)
                        return differ(request, "NetworkSettings.Networks", wanted, name, err);
        return 0;
}

int plan_compare(const struct container_request *request, const struct container_plan *plan, const json_t *body, const json_t *seen, gb_error *err)
{
        int r = rows_compare(request, body, seen, err);

        if (r == 0)
                r = capabilities_compare(request, seen, err);
        if (r == 0)
                r = security_compare(request, body, seen, err);
        if (r == 0)
                r = ulimits_compare(request, body, seen, err);
        if (r == 0)
                r = tmpfs_compare(request, plan, seen, err);
        if (r == 0)
                r = mounts_compare(request, plan, seen, err);
        if (r == 0)
                r = names_compare(request, plan, seen, err);
        return r < 0 ? r : networks_compare(request, body, seen, err);
}
