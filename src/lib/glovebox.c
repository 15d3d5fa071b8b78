/* SPDX-License-Identifier: Apache-2.0
 *
 * The public C API: a thin skin over the engine. Everything the caller gave is checked here, and
 * nothing of the engine's types shows through. */
#include "lib/handles.h"

#include "engine/run.h"
#include "image/choose.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The options as they were in the first version; a smaller struct is no struct of ours. */
#define RUN_OPTIONS_SIZE_MIN (offsetof(struct gb_run_options, data) + sizeof(void *))

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

struct tables *tables_share(struct tables *t)
{
        atomic_fetch_add(&t->users, 1);
        return t;
}

void tables_drop(struct tables *t)
{
        if (!t || atomic_fetch_sub(&t->users, 1) > 1)
                return;
        languages_free(t->languages);
        templates_free(t->templates);
        pthread_mutex_destroy(&t->mutex);
        free(t);
}

int tables_load_templates(struct tables *t, const struct templates **ret, gb_error *err)
{
        pthread_mutex_lock(&t->mutex);
        int r = t->templates ? 0 : templates_load(NULL, &t->templates, err);
        *ret = t->templates;
        pthread_mutex_unlock(&t->mutex);
        return r;
}

int gb_policy_load(const char *file, const char *trust, gb_policy **ret, gb_error *err)
{
        if (!ret)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_policy_load: no place for the policy was given");

        _cleanup_(gb_policy_free_ptr) gb_policy *p = calloc(1, sizeof(*p));
        if (p)
                p->tables = calloc(1, sizeof(*p->tables));
        if (!p || !p->tables)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot load the policy: out of memory");
        p->tables->users = 1;
        pthread_mutex_init(&p->tables->mutex, NULL);
        int r = policy_load(file, trust, &p->policy, err);
        if (r < 0)
                return r;
        r = languages_load(NULL, &p->tables->languages, err);
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
        tables_drop(policy->tables);
        free(policy);
}

int options_copy(const void *options, size_t min, void *ret, size_t ret_size, const char *function, const char *initializer, gb_error *err)
{
        size_t size = options ? *(const size_t *)options : 0; /* the first field of all options */

        if (size < min || size > OPTIONS_SIZE_MAX)
                return error_set(err, GB_E_USAGE, EINVAL, "%s: begin the options with %s", function, initializer);
        for (size_t i = ret_size; i < size; i++)
                if (((const char *)options)[i] != 0)
                        return error_set(err, GB_E_USAGE, E2BIG, "%s: an option is set that glovebox %s does not have", function,
                                         GLOVEBOX_VERSION);
        memcpy(ret, options, MIN(size, ret_size));
        return 0;
}

int options_check_code(const char *code, size_t *size, const char *function, gb_error *err)
{
        if (!code)
                return error_set(err, GB_E_USAGE, EINVAL, "%s: there is no code", function);
        if (*size == GB_CODE_IS_TEXT)
                *size = strlen(code);
        if (*size > CODE_BYTES_MAX)
                return error_set(err, GB_E_LIMIT, EFBIG, "%s: the code has %zu bytes, at most %llu are taken", function, *size,
                                 (unsigned long long)CODE_BYTES_MAX);
        return 0;
}

int options_read_run(const gb_run_options *options, gb_run_options *ret, const char *function, gb_error *err)
{
        gb_run_options o = GB_RUN_OPTIONS_INIT;

        int r = options_copy(options, RUN_OPTIONS_SIZE_MIN, &o, sizeof(o), function, "GB_RUN_OPTIONS_INIT", err);
        if (r == 0)
                r = options_check_code(o.code, &o.code_size, function, err);
        if (r < 0)
                return r;
        if (o.name && (strchr(o.name, '/') || o.name[0] == '\0' || strcmp(o.name, ".") == 0 || strcmp(o.name, "..") == 0))
                return error_set(err, GB_E_USAGE, EINVAL, "%s: the name of the code must be a plain file name", function);
        *ret = o;
        return 0;
}

int options_find_language(const struct languages *all, const gb_run_options *o, const struct language **ret, const char *function, gb_error *err)
{
        if (o->language)
                return language_by_name(all, o->language, ret, err);
        if (o->name)
                return language_by_file(all, o->name, ret, err);
        return error_set(err, GB_E_USAGE, EINVAL, "%s: set the language, or a name with an extension", function);
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

int gb_run(const gb_policy *policy, const gb_run_options *options, gb_result **ret, gb_error *err)
{
        gb_run_options o;
        int r = options_read_run(options, &o, "gb_run", err);
        if (r < 0)
                return r;
        if (!policy || !ret)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_run: a policy and a place for the result are required");
        const struct language *language;
        r = options_find_language(policy->tables->languages, &o, &language, "gb_run", err);
        if (r < 0)
                return r;
        _cleanup_free_ char *root = NULL;
        r = policy_validate(policy->policy, err);
        if (r == 0)
                r = image_choose(policy->policy, o.rootfs, NULL, &root, err);
        if (r < 0)
                return r;

        _cleanup_(gb_result_free_ptr) gb_result *result = gb_result_new(policy->policy);
        if (!result)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "gb_run: out of memory");

        const struct run_request request = {
                .policy = policy->policy,
                .language = language,
                .code_name = o.name,
                .code = o.code,
                .code_size = o.code_size,
                .args = (char *const *)o.args, /* as execve(): the strings are not written to */
                .workspace = o.workspace,
                .rootfs = root,
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
