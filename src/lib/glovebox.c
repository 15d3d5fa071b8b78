/* SPDX-License-Identifier: Apache-2.0
 *
 * The public C API: a thin skin over the engine. Everything the caller gave is checked here, and
 * nothing of the engine's types shows through. */
#include "glovebox/glovebox.h"

#include "base/error.h"
#include "engine/result.h"
#include "engine/run.h"
#include "policy/language.h"
#include "policy/policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The identity inside the box. Not root, and not 65534, which is how files of unmapped owners look. */
#define BOX_UID 1000
#define BOX_GID 1000

/* The options as they were in the first version; a smaller struct is no struct of ours. */
#define OPTIONS_SIZE_MIN (offsetof(struct gb_run_options, data) + sizeof(void *))
/* And a much larger one is a size that was never set. */
#define OPTIONS_SIZE_MAX 4096

struct gb_policy {
        struct policy *policy;
        struct languages *languages;
};
DEFINE_CLEANUP(gb_policy, gb_policy_free)

struct gb_result {
        struct result *result;
        struct policy values; /* the policy's plain values at the time of the run; owns nothing */
};
DEFINE_CLEANUP(gb_result, gb_result_free)

const char *gb_version(void)
{
        return GLOVEBOX_VERSION;
}

const char *gb_error_name(int code)
{
        return error_code_name(code);
}

void gb_free(void *memory)
{
        free(memory);
}

int gb_policy_load(const char *file, const char *trust, gb_policy **ret, gb_error *err)
{
        if (!ret)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_policy_load: no place for the policy was given");

        _cleanup_(gb_policy_free_ptr) gb_policy *p = calloc(1, sizeof(*p));
        if (!p)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot load the policy: out of memory");
        int r = policy_load(file, trust, &p->policy, err);
        if (r < 0)
                return r;
        r = languages_load(NULL, &p->languages, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}

int gb_policy_set(gb_policy *policy, const char *key, const char *value, gb_error *err)
{
        if (!policy || !key || !value)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_policy_set: policy, key and value are required");
        return policy_set(policy->policy, key, value, key, err);
}

void gb_policy_free(gb_policy *policy)
{
        if (!policy)
                return;
        policy_free(policy->policy);
        languages_free(policy->languages);
        free(policy);
}

/* Takes options of this version and of others: fields an older caller does not know have their
 * defaults; fields of a newer caller that we do not know must not be used. */
static int read_options(const gb_run_options *options, gb_run_options *ret, gb_error *err)
{
        static const gb_run_options defaults = GB_RUN_OPTIONS_INIT;

        if (!options || options->size < OPTIONS_SIZE_MIN || options->size > OPTIONS_SIZE_MAX)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_run: begin the options with GB_RUN_OPTIONS_INIT");
        for (size_t i = sizeof(*options); i < options->size; i++)
                if (((const char *)options)[i] != 0)
                        return error_set(err, GB_E_USAGE, E2BIG,
                                         "gb_run: an option is set that glovebox %s does not have", GLOVEBOX_VERSION);

        gb_run_options o = defaults;
        memcpy(&o, options, MIN(options->size, sizeof(o)));
        if (!o.code)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_run: there is no code");
        if (o.code_size == GB_CODE_IS_TEXT)
                o.code_size = strlen(o.code);
        if (o.code_size > CODE_BYTES_MAX)
                return error_set(err, GB_E_LIMIT, EFBIG, "gb_run: the code has %zu bytes, at most %llu are taken",
                                 o.code_size, (unsigned long long)CODE_BYTES_MAX);
        if (o.name && (strchr(o.name, '/') || o.name[0] == '\0' || strcmp(o.name, ".") == 0 || strcmp(o.name, "..") == 0))
                return error_set(err, GB_E_USAGE, EINVAL, "gb_run: the name of the code must be a plain file name");
        *ret = o;
        return 0;
}

static int find_language(const struct languages *all, const gb_run_options *o, const struct language **ret, gb_error *err)
{
        if (o->language)
                return language_by_name(all, o->language, ret, err);
        if (o->name)
                return language_by_file(all, o->name, ret, err);
        return error_set(err, GB_E_USAGE, EINVAL, "gb_run: set the language, or a name with an extension");
}

static void on_started(void *data, uint64_t t_usec)
{
        const gb_run_options *o = data;

        if (o->started)
                o->started(o->data, t_usec);
}

static void on_output(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec)
{
        const gb_run_options *o = data;

        if (o->output)
                o->output(o->data, stream == RUN_STDOUT ? GB_STDOUT : GB_STDERR, bytes, size, t_usec);
}

/* The values that JSON shows, without what the policy owns: it may be changed or freed later. */
static struct policy copy_values(const struct policy *p)
{
        struct policy values = *p;

        values.origin = values.trust = NULL;
        memset(values.mounts, 0, sizeof(values.mounts));
        memset(values.env, 0, sizeof(values.env));
        values.n_mounts = values.n_env = 0;
        return values;
}

int gb_run(const gb_policy *policy, const gb_run_options *options, gb_result **ret, gb_error *err)
{
        gb_run_options o;
        int r = read_options(options, &o, err);
        if (r < 0)
                return r;
        if (!policy || !ret)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_run: a policy and a place for the result are required");
        const struct language *language;
        r = find_language(policy->languages, &o, &language, err);
        if (r < 0)
                return r;
        r = policy_validate(policy->policy, err);
        if (r < 0)
                return r;

        _cleanup_(gb_result_free_ptr) gb_result *result = calloc(1, sizeof(*result));
        if (!result)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "gb_run: out of memory");
        result->values = copy_values(policy->policy);

        const struct run_request request = {
                .policy = policy->policy,
                .language = language,
                .code_name = o.name,
                .code = o.code,
                .code_size = o.code_size,
                .args = (char *const *)o.args, /* as execve(): the strings are not written to */
                .workspace = o.workspace,
                .rootfs = o.rootfs,
                .uid = BOX_UID,
                .gid = BOX_GID,
                .stdin_fd = o.stdin_fd,
                .cancel_fd = o.cancel_fd,
                .keep_output = true,
                .callbacks = {on_started, on_output, &o},
        };
        r = run_execute(&request, &result->result, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(result);
        return 0;
}

const char *gb_result_verdict(const gb_result *result)
{
        return verdict_name(result->result->verdict.kind);
}

const char *gb_result_message(const gb_result *result)
{
        return result->result->verdict.message;
}

int gb_result_exit_code(const gb_result *result)
{
        const struct run_facts *f = &result->result->facts;

        return f->exited && f->signal == 0 ? f->exit_code : -1;
}

int gb_result_signal(const gb_result *result)
{
        return result->result->facts.signal;
}

static const char *output_of(const struct buffer *b, size_t *size)
{
        if (size)
                *size = b->size;
        return b->data ? b->data : "";
}

const char *gb_result_stdout(const gb_result *result, size_t *size)
{
        return output_of(&result->result->out, size);
}

const char *gb_result_stderr(const gb_result *result, size_t *size)
{
        return output_of(&result->result->err, size);
}

char *gb_result_json(const gb_result *result)
{
        json_t *j = result_to_json(result->result, &result->values);
        /* 15 digits: times are shown as 1.3 and not as 1.3000000000000000444 */
        char *text = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(15));

        json_decref(j);
        return text;
}

void gb_result_free(gb_result *result)
{
        if (!result)
                return;
        result_free(result->result);
        free(result);
}
