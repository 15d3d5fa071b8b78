/* SPDX-License-Identifier: Apache-2.0
 *
 * What the guard found, of the public C API: findings and scrubbed names of results, and a look at code that is not run. */
#include "lib/handles.h"

#include "engine/watch.h"

#include <errno.h>

/* Findings of the API are those of the guard, with nothing around them. */
static const struct guard_findings *guard_of(const gb_findings *findings)
{
        return (const struct guard_findings *)findings;
}

int gb_policy_add_secret(gb_policy *policy, const char *name, const void *value, size_t size, const char *file, gb_error *err)
{
        if (!policy || !name || !value)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_policy_add_secret: policy, name and value are required");
        return policy_add_secret(policy->policy, name, value, size, file, err);
}

int gb_policy_read_secrets(gb_policy *policy, int fd, gb_error *err)
{
        if (!policy || fd < 0)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_policy_read_secrets: a policy and an open file are required");
        return policy_read_secrets(policy->policy, fd, "gb_policy_read_secrets", err);
}

int gb_guard_check(const gb_policy *policy, const char *language, const char *code, size_t code_size, gb_findings **ret, gb_error *err)
{
        _cleanup_watch_ struct watch *watch = NULL;
        const struct language *found;

        int r = options_check_code(code, &code_size, "gb_guard_check", err);
        if (r < 0)
                return r;
        if (!policy || !language || !ret)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_guard_check: a policy, a language and a place for the findings are required");
        r = language_by_name(policy->tables->languages, language, &found, err);
        if (r == 0)
                r = policy_validate(policy->policy, err);
        if (r == 0)
                r = watch_open(policy->policy, &watch, err);
        if (r < 0)
                return r;
        /* The result of a run that there is not. */
        _cleanup_result_ struct result *looked = result_new(policy->policy, found, "", false);
        if (!looked)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "gb_guard_check: out of memory");
        r = watch_code(watch, found, code, code_size, looked, err);
        if (r < 0)
                return r;
        *ret = (gb_findings *)TAKE_PTR(looked->findings);
        return 0;
}

int gb_findings_is_blocked(const gb_findings *findings)
{
        return findings && guard_blocks(guard_of(findings));
}

size_t gb_findings_count(const gb_findings *findings)
{
        return findings ? guard_of(findings)->n : 0;
}

int gb_findings_get(const gb_findings *findings, size_t index, gb_finding *ret)
{
        if (index >= gb_findings_count(findings))
                return -ERANGE;
        const struct guard_finding *f = &guard_of(findings)->rows[index];
        *ret = (gb_finding){f->rule, f->set, guard_action_name(f->action), f->message, f->remedy, f->line, f->column};
        return 0;
}

uint64_t gb_findings_dropped(const gb_findings *findings)
{
        return findings ? guard_of(findings)->more : 0;
}

void gb_findings_free(gb_findings *findings)
{
        free(findings);
}

const gb_findings *gb_result_findings(const gb_result *result)
{
        return (const gb_findings *)result->result->findings;
}

uint64_t gb_result_scrubbed_total(const gb_result *result)
{
        return result->result->scrubbed.total;
}

size_t gb_result_scrubbed_count(const gb_result *result)
{
        return result->result->n_scrubbed_names;
}

int gb_result_scrubbed(const gb_result *result, size_t index, gb_scrubbed *ret)
{
        if (index >= result->result->n_scrubbed_names)
                return -ERANGE;
        const struct result_count *c = &result->result->scrubbed_names[index];
        *ret = (gb_scrubbed){c->name, c->count};
        return 0;
}
