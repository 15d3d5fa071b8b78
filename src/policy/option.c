/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/option.h"

#include "base/parse.h"
#include "base/quote.h"
#include "policy/network.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MSEC 1000ULL
#define HOUR (3600ULL * 1000 * MSEC)
#define TIB (1024 * GIB)

/* A limit whose default is this word has no limit of its own; the value is then 0. */
#define NO_LIMIT "none"

#define ROW(key, flag, env, type, field, min, max, fallback, placeholder, help) \
        {key, flag, env, type, offsetof(struct policy, field), min, max, fallback, placeholder, help},

const struct policy_option policy_options[] = {
        ROW("cpu_count", "cpus", "GLOVEBOX_CPUS", OPTION_CPUS, cpu_milli, 10, 1024 * 1000,
            "1", "N", "CPUs it may use, 0.5 for half of one")
        ROW("mem_limit", "memory", "GLOVEBOX_MEMORY", OPTION_SIZE, mem_limit_bytes, 4 * MIB, TIB,
            "512m", "SIZE", "memory of the whole box, without swap")
        ROW("timeout", "timeout", "GLOVEBOX_TIMEOUT", OPTION_DURATION, timeout_usec, 1 * MSEC, 24 * HOUR,
            "30s", "TIME", "wall clock time, at most the policy's timeout_max")
        ROW("timeout_max", NULL, NULL, OPTION_DURATION, timeout_max_usec, 1 * MSEC, 24 * HOUR,
            "300s", "TIME", "the longest timeout that may be asked for")
        ROW("cpu_time", "cpu-time", "GLOVEBOX_CPU_TIME", OPTION_DURATION, cpu_time_usec, 1 * MSEC, 24 * HOUR,
            NO_LIMIT, "TIME", "CPU time of all its processes together")
        ROW("pids_limit", "pids", "GLOVEBOX_PIDS", OPTION_COUNT, pids_limit, 2, 65536,
            "128", "N", "processes and threads at one time")
        ROW("tmp_size", "tmp-size", "GLOVEBOX_TMP_SIZE", OPTION_SIZE, tmp_size_bytes, 64 * KIB, TIB,
            "100m", "SIZE", "size of /tmp, which counts as memory")
        ROW("disk_limit", "disk", "GLOVEBOX_DISK", OPTION_SIZE, disk_limit_bytes, 64 * KIB, TIB,
            "100m", "SIZE", "bytes it may write to the workspace")
        ROW("inode_limit", "inodes", "GLOVEBOX_INODES", OPTION_COUNT, inode_limit, 16, 100000000,
            "65536", "N", "files and directories in each writable place")
        ROW("output_limit", "output-limit", "GLOVEBOX_OUTPUT_LIMIT", OPTION_SIZE, output_limit_bytes, 1 * KIB, GIB,
            "10m", "SIZE", "bytes of stdout and stderr together")
        ROW("result_count", NULL, NULL, OPTION_COUNT, result_count, 1, 4096,
            "64", "N", "results and figures of one run")
        ROW("result_limit", NULL, NULL, OPTION_SIZE, result_limit_bytes, 1 * KIB, GIB,
            "10m", "SIZE", "bytes of all results of one run together")
        ROW("nofile", "nofile", "GLOVEBOX_NOFILE", OPTION_COUNT, nofile, 16, 1048576,
            "1024", "N", "open files of one process")
        ROW("read_only", "read-only", "GLOVEBOX_READ_ONLY", OPTION_BOOL, read_only, 0, 1,
            "true", "BOOL", "the root file system cannot be written to")
        ROW("scratch_only", "scratch-only", "GLOVEBOX_SCRATCH_ONLY", OPTION_BOOL, scratch_only, 0, 1,
            "false", "BOOL", "mount the workspace at /tmp/sandbox; only it and /dev/shm are writable (in sessions also /run/glovebox)")
        ROW("network_mode", "network", "GLOVEBOX_NETWORK", OPTION_NETWORK, network_mode, NETWORK_NONE, NETWORK_HOST,
            "none", "MODE", "no network at all, only what network_allow lists, or the host's")
        ROW("network_bytes", "network-bytes", "GLOVEBOX_NETWORK_BYTES", OPTION_SIZE, network_bytes, 0, 1024 * TIB,
            NO_LIMIT, "SIZE", "bytes that a session may send and receive, of an allowlist")
        ROW("network_requests", "network-requests", "GLOVEBOX_NETWORK_REQUESTS", OPTION_COUNT, network_requests, 0, 1000000000000,
            NO_LIMIT, "N", "connections and requests that a session may make, of an allowlist")
        ROW("network_connections", "network-connections", "GLOVEBOX_NETWORK_CONNECTIONS", OPTION_COUNT, network_connections, 1, 4096,
            "64", "N", "connections at one time, of an allowlist")
        ROW("guard", "guard", "GLOVEBOX_GUARD", OPTION_WATCH, guard, WATCH_OFF, WATCH_STRICT,
            "on", "MODE", "look at code before it runs: off, on, or strict, where a warning refuses it")
        ROW("scrub", "scrub", "GLOVEBOX_SCRUB", OPTION_WATCH, scrub, WATCH_OFF, WATCH_STRICT,
            "on", "MODE", "take secrets out of what comes back: off, on, or strict, where code that carries one is refused")
        ROW("warm", "warm", "GLOVEBOX_WARM", OPTION_BOOL, warm, 0, 1,
            "true", "BOOL", "start from a warmed template when there is one; false gives a fresh exec")
        ROW("backend", "backend", "GLOVEBOX_BACKEND", OPTION_BACKEND, backend, BACKEND_NATIVE, BACKEND_DOCKER,
            "native", "NAME", "who isolates: this host's kernel alone, or a Docker or Podman engine")
        ROW("runtime", "runtime", "GLOVEBOX_RUNTIME", OPTION_NAME, runtime, 1, RUNTIME_NAME_MAX,
            NAME_DEFAULT, "NAME", "the engine's runtime instead of its default, such as runsc for gVisor; only with --backend docker")
        ROW("image", "image", "GLOVEBOX_IMAGE", OPTION_IMAGE, image, 1, IMAGE_REFERENCE_MAX,
            NAME_DEFAULT, "NAME", "the image the box is made of instead of the host's /usr (with docker instead of " IMAGE_DEFAULT ")")
};
#undef ROW

const size_t n_policy_options = ARRAY_SIZE(policy_options);

struct type_row {
        const char *what; /* "... is not a size" */
        const char *example;
        int (*parse)(const char *text, uint64_t *ret);
        char *(*format)(uint64_t value, char buf[static FORMAT_MAX]);
};

static int parse_bool(const char *text, uint64_t *ret)
{
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
                return -EINVAL;
        *ret = text[0] == 't';
        return 0;
}

#define WHITELIST "whitelist" /* an allowlist that names what it lets pass when nobody else does */

static int parse_network(const char *text, uint64_t *ret)
{
        if (strcmp(text, WHITELIST) == 0)
                text = network_mode_name(NETWORK_ALLOWLIST);
        for (uint64_t i = NETWORK_NONE; i <= NETWORK_HOST; i++)
                if (strcmp(text, network_mode_name((enum network_mode)i)) == 0) {
                        *ret = i;
                        return 0;
                }
        return -EINVAL;
}

static int parse_backend(const char *text, uint64_t *ret)
{
        for (uint64_t i = BACKEND_NATIVE; i <= BACKEND_DOCKER; i++)
                if (strcmp(text, backend_kind_name((enum backend_kind)i)) == 0) {
                        *ret = i;
                        return 0;
                }
        return -EINVAL;
}

static const char *const watch_names[] = {[WATCH_OFF] = "off", [WATCH_ON] = "on", [WATCH_STRICT] = "strict"};

const char *watch_mode_name(enum watch_mode mode)
{
        return watch_names[mode];
}

static int parse_watch(const char *text, uint64_t *ret)
{
        for (uint64_t i = 0; i < ARRAY_SIZE(watch_names); i++)
                if (strcmp(text, watch_names[i]) == 0) {
                        *ret = i;
                        return 0;
                }
        return -EINVAL;
}

static char *format_watch(uint64_t value, char buf[static FORMAT_MAX])
{
        return strcpy(buf, watch_names[value]);
}

static char *format_count(uint64_t value, char buf[static FORMAT_MAX])
{
        snprintf(buf, FORMAT_MAX, "%" PRIu64, value);
        return buf;
}

static char *format_bool(uint64_t value, char buf[static FORMAT_MAX])
{
        strcpy(buf, value ? "true" : "false");
        return buf;
}

static char *format_network(uint64_t value, char buf[static FORMAT_MAX])
{
        return strcpy(buf, network_mode_name((enum network_mode)value));
}

const char *backend_kind_name(enum backend_kind kind)
{
        return kind == BACKEND_DOCKER ? "docker" : "native";
}

static char *format_backend(uint64_t value, char buf[static FORMAT_MAX])
{
        return strcpy(buf, backend_kind_name((enum backend_kind)value));
}

static const struct type_row types[] = {
        [OPTION_SIZE] = {"a size", ", such as 512m", parse_size, format_size},
        [OPTION_DURATION] = {"a time", ", such as 30s or 500ms", parse_duration, format_duration},
        [OPTION_COUNT] = {"a whole number", "", parse_count, format_count},
        [OPTION_CPUS] = {"a number of CPUs", ", such as 1 or 0.5", parse_cpus, format_cpus},
        [OPTION_BOOL] = {"a yes or no", "", parse_bool, format_bool},
        [OPTION_NETWORK] = {"a network mode", "", parse_network, format_network},
        [OPTION_BACKEND] = {"a backend", "", parse_backend, format_backend},
        [OPTION_WATCH] = {"a mode", "", parse_watch, format_watch},
};

/* ---- names ---- */

#define ALPHANUMERIC "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static bool is_text(const struct policy_option *o)
{
        return o->type == OPTION_NAME || o->type == OPTION_IMAGE;
}

static bool is_name(const char *text, const char *alphabet, size_t max)
{
        size_t n = strspn(text, alphabet);

        return n > 0 && n <= max && text[n] == '\0' && strchr(ALPHANUMERIC, text[0]);
}

bool runtime_name_is_valid(const char *name)
{
        return is_name(name, ALPHANUMERIC "._-", RUNTIME_NAME_MAX);
}

bool image_name_is_valid(const char *name)
{
        return is_name(name, ALPHANUMERIC "._/:@-", IMAGE_REFERENCE_MAX) && !strstr(name, "..") && !strstr(name, "//");
}

/* The caller's text is not kept when it is refused. */
static int apply_text(const struct policy_option *o, struct policy *p, const char *text, gb_error *err)
{
        char **field = (char **)((char *)p + o->offset), *copy = NULL, range[POLICY_RANGE_MAX];
        bool valid = o->type == OPTION_NAME ? runtime_name_is_valid(text) : image_name_is_valid(text);

        if (!valid && strlen(text) > o->max)
                return error_set(err, GB_E_LIMIT, ERANGE, "%s is too long; at most %" PRIu64 " characters", quote(text).text, o->max);
        if (!valid)
                return error_set(err, GB_E_USAGE, EINVAL, "%s is not the name of %s; allowed: %s, a letter or digit first", quote(text).text,
                                 o->type == OPTION_NAME ? "a runtime" : "an image", policy_option_range(o, range));
        if (strcmp(text, NAME_DEFAULT) != 0) {
                copy = strdup(text);
                if (!copy)
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        free(*field);
        *field = copy;
        return 0;
}

static const char *get_text(const struct policy_option *o, const struct policy *p)
{
        const char *text = *(char *const *)((const char *)p + o->offset);

        return text ? text : NAME_DEFAULT;
}

static int check_text(const struct policy_option *o, const struct policy *p, gb_error *err)
{
        const char *text = get_text(o, p);

        if (o->type == OPTION_NAME ? runtime_name_is_valid(text) : image_name_is_valid(text))
                return 0;
        return error_set(err, GB_E_USAGE, EINVAL, "%s: %s is not a name", o->key, quote(text).text);
}

/* ---- amounts and words ---- */

static uint64_t get(const struct policy_option *o, const struct policy *p)
{
        const char *field = (const char *)p + o->offset;

        if (o->type == OPTION_BOOL)
                return *(const bool *)field;
        if (o->type == OPTION_NETWORK)
                return *(const enum network_mode *)field;
        if (o->type == OPTION_BACKEND)
                return *(const enum backend_kind *)field;
        if (o->type == OPTION_WATCH)
                return *(const enum watch_mode *)field;
        return *(const uint64_t *)field;
}

static void put(const struct policy_option *o, struct policy *p, uint64_t value)
{
        char *field = (char *)p + o->offset;

        if (o->type == OPTION_BOOL)
                *(bool *)field = value != 0;
        else if (o->type == OPTION_NETWORK)
                *(enum network_mode *)field = (enum network_mode)value;
        else if (o->type == OPTION_BACKEND)
                *(enum backend_kind *)field = (enum backend_kind)value;
        else if (o->type == OPTION_WATCH)
                *(enum watch_mode *)field = (enum watch_mode)value;
        else
                *(uint64_t *)field = value;
}

/* The network mode of this name is a value like any other. */
static bool may_be_unlimited(const struct policy_option *o)
{
        return !policy_option_is_word(o) && strcmp(o->fallback, NO_LIMIT) == 0;
}

bool policy_option_is_word(const struct policy_option *o)
{
        return is_text(o) || o->type == OPTION_NETWORK || o->type == OPTION_BACKEND || o->type == OPTION_WATCH;
}

const char *policy_option_words(const struct policy_option *o)
{
        return o->type == OPTION_NETWORK ? "none allowlist whitelist host" : o->type == OPTION_BACKEND ? "native docker" : o->type == OPTION_WATCH ? "off on strict" : NULL;
}

const struct policy_option *policy_option_by_key(const char *key)
{
        for (size_t i = 0; i < n_policy_options; i++)
                if (strcmp(policy_options[i].key, key) == 0)
                        return &policy_options[i];
        return NULL;
}

char *policy_option_value(const struct policy_option *o, const struct policy *p, char buf[static POLICY_VALUE_MAX])
{
        _Static_assert(POLICY_VALUE_MAX >= FORMAT_MAX && POLICY_VALUE_MAX > IMAGE_REFERENCE_MAX && POLICY_VALUE_MAX > RUNTIME_NAME_MAX, "a value must fit");
        if (is_text(o)) {
                snprintf(buf, POLICY_VALUE_MAX, "%s", get_text(o, p));
                return buf;
        }
        uint64_t value = get(o, p);
        if (value == 0 && may_be_unlimited(o))
                return strcpy(buf, NO_LIMIT);
        return types[o->type].format(value, buf);
}

char *policy_option_range(const struct policy_option *o, char buf[static POLICY_RANGE_MAX])
{
        char min[FORMAT_MAX], max[FORMAT_MAX];

        if (is_text(o)) {
                snprintf(buf, POLICY_RANGE_MAX, "%s, or at most %" PRIu64 " of letters, digits and %s", NAME_DEFAULT, o->max,
                         o->type == OPTION_NAME ? ". _ -" : ". _ - / : @");
                return buf;
        }
        types[o->type].format(o->min, min);
        types[o->type].format(o->max, max);
        if (o->type == OPTION_WATCH)
                snprintf(buf, POLICY_RANGE_MAX, "off, on or strict");
        else if (o->type == OPTION_NETWORK)
                snprintf(buf, POLICY_RANGE_MAX, "none, allowlist, whitelist or host");
        else if (o->type == OPTION_BOOL)
                snprintf(buf, POLICY_RANGE_MAX, "%s or %s", max, min);
        else if (policy_option_is_word(o))
                snprintf(buf, POLICY_RANGE_MAX, "%s or %s", min, max);
        else
                snprintf(buf, POLICY_RANGE_MAX, "%s to %s%s", min, max, may_be_unlimited(o) ? ", or " NO_LIMIT : "");
        return buf;
}

static int out_of_range(const struct policy_option *o, bool above, const char *text, gb_error *err)
{
        char range[POLICY_RANGE_MAX];

        return error_set(err, above ? GB_E_LIMIT : GB_E_USAGE, ERANGE, "%s is too %s; allowed: %s", quote(text).text,
                         above ? "large" : "small", policy_option_range(o, range));
}

int option_apply(const struct policy_option *o, struct policy *p, const char *text, gb_error *err)
{
        char range[POLICY_RANGE_MAX];
        uint64_t value;

        if (is_text(o))
                return apply_text(o, p, text, err);
        const struct type_row *type = &types[o->type];
        if (may_be_unlimited(o) && strcmp(text, NO_LIMIT) == 0) {
                put(o, p, 0);
                return 0;
        }
        int r = type->parse(text, &value);
        if (r == -ERANGE)
                return out_of_range(o, true, text, err);
        if (r < 0)
                return error_set(err, GB_E_USAGE, 0, "%s is not %s; allowed: %s%s", quote(text).text, type->what,
                                 policy_option_range(o, range), type->example);
        if (value < o->min || value > o->max)
                return out_of_range(o, value > o->max, text, err);
        put(o, p, value);
        if (o->type != OPTION_NETWORK)
                return 0;
        network_allow_begin(p); /* an allowlist that names nothing lets nothing pass */
        return strcmp(text, WHITELIST) == 0 ? network_allow_whitelist(p, err) : 0;
}

int option_check(const struct policy_option *o, const struct policy *p, gb_error *err)
{
        char text[POLICY_VALUE_MAX];

        if (is_text(o))
                return check_text(o, p, err);
        uint64_t value = get(o, p);
        if (value == 0 && may_be_unlimited(o))
                return 0;
        if (value >= o->min && value <= o->max)
                return 0;
        out_of_range(o, value > o->max, policy_option_value(o, p, text), err);
        return error_prefix(err, "%s", o->key);
}
