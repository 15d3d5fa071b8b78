/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of the public C API. */
#include "lib/handles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The values that JSON shows, without what the policy owns: it may be changed or freed later. */
static struct policy copy_values(const struct policy *p)
{
        struct policy values = *p;

        values.origin = values.trust = values.runtime = values.image = NULL;
        memset(values.mounts, 0, sizeof(values.mounts));
        memset(values.env, 0, sizeof(values.env));
        memset(values.secrets, 0, sizeof(values.secrets));
        memset(values.rules, 0, sizeof(values.rules));
        memset(values.imports, 0, sizeof(values.imports));
        values.network_allow = NULL;
        values.n_mounts = values.n_env = values.n_secrets = values.n_rules = values.n_imports = values.n_network_allow = 0;
        return values;
}

gb_result *gb_result_new(const struct policy *policy)
{
        gb_result *result = calloc(1, sizeof(*result));

        if (result)
                result->values = copy_values(policy);
        return result;
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
        int code;

        return verdict_exit_code(&result->result->facts, &code) ? code : -1;
}

int gb_result_signal(const gb_result *result)
{
        return ending_signal(&result->result->facts.ending);
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

size_t gb_result_value_count(const gb_result *result)
{
        return result->result->n_values;
}

static const struct result_value *value_of(const gb_result *result, size_t value)
{
        return value < result->result->n_values ? result->result->values[value] : NULL;
}

int gb_result_value_is_main(const gb_result *result, size_t value)
{
        const struct result_value *v = value_of(result, value);

        return v && v->main;
}

size_t gb_result_part_count(const gb_result *result, size_t value)
{
        const struct result_value *v = value_of(result, value);

        return v ? v->n_parts : 0;
}

int gb_result_part(const gb_result *result, size_t value, size_t part, gb_part *ret)
{
        const struct result_value *v = value_of(result, value);

        if (!v || part >= v->n_parts)
                return -ERANGE;
        *ret = (gb_part){v->parts[part].mime, v->parts[part].bytes, v->parts[part].size};
        return 0;
}

const void *gb_result_value(const gb_result *result, size_t value, const char *mime, size_t *size)
{
        const struct result_value *v = value_of(result, value);

        for (size_t i = 0; v && i < v->n_parts; i++)
                if (strcmp(v->parts[i].mime, mime) == 0) {
                        if (size)
                                *size = v->parts[i].size;
                        return v->parts[i].bytes;
                }
        return NULL;
}

uint64_t gb_result_values_dropped(const gb_result *result)
{
        return result->result->values_dropped;
}

static const char *error_text(const gb_result *result, const struct result_text *text)
{
        return result->result->has_error ? text->bytes : NULL;
}

const char *gb_result_error_name(const gb_result *result)
{
        return error_text(result, &result->result->error.name);
}

const char *gb_result_error_value(const gb_result *result)
{
        return error_text(result, &result->result->error.value);
}

const char *gb_result_error_traceback(const gb_result *result)
{
        return error_text(result, &result->result->error.traceback);
}

int gb_result_state_kept(const gb_result *result)
{
        return result->result->state_kept;
}

int gb_result_state_restarted(const gb_result *result)
{
        return result->result->state_restarted;
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
