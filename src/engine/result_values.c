/* SPDX-License-Identifier: Apache-2.0
 *
 * What runs in a session add to the JSON of a result. */
#include "engine/result_values.h"

#include "base/base64.h"
#include "base/json.h"
#include "base/utf8.h"

#include <string.h>

/* Text as a string; what is binary by its type, or is not UTF-8, as {"base64": ...}. */
static json_t *part_to_json(const struct result_part *part)
{
        _cleanup_free_ char *text = NULL;
        size_t length;

        if (!result_is_binary(part->mime) && utf8_is_valid(part->bytes, part->size))
                return json_stringn_nocheck(part->bytes, part->size);
        if (base64_encode(part->bytes, part->size, &text, &length) < 0)
                return NULL;
        _cleanup_json_ json_t *o = json_object();
        return json_object_set_new(o, "base64", json_stringn_nocheck(text, length)) == 0 ? TAKE_PTR(o) : NULL;
}

json_t *result_value_to_json(const struct result_value *v)
{
        _cleanup_json_ json_t *o = json_object(), *data = json_object();
        int r = json_object_set_new(o, "main", json_boolean(v->main));

        for (size_t i = 0; i < v->n_parts; i++)
                r |= json_object_set_new(data, v->parts[i].mime, part_to_json(&v->parts[i]));
        r |= json_object_set_new(o, "data", TAKE_PTR(data));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

json_t *result_error_to_json(const struct result_error *e)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "name", json_readable(e->name.bytes, e->name.size));
        r |= json_object_set_new(o, "value", json_readable(e->value.bytes, e->value.size));
        r |= json_object_set_new(o, "traceback", json_readable(e->traceback.bytes, e->traceback.size));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

static json_t *values_to_json(const struct result *result)
{
        _cleanup_json_ json_t *list = json_array();

        for (size_t i = 0; i < result->n_values; i++)
                if (json_array_append_new(list, result_value_to_json(result->values[i])) < 0)
                        return NULL;
        return TAKE_PTR(list);
}

static json_t *state_to_json(const struct result *result)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "kept", json_boolean(result->state_kept));
        r |= json_object_set_new(o, "restarted", json_boolean(result->state_restarted));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

static json_t *finding_to_json(const struct guard_finding *f)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "rule", json_string(f->rule));
        r |= json_object_set_new(o, "set", json_string(f->set));
        r |= json_object_set_new(o, "action", json_string(guard_action_name(f->action)));
        r |= json_object_set_new(o, "line", f->line > 0 ? json_integer(f->line) : json_null());
        r |= json_object_set_new(o, "column", f->line > 0 ? json_integer(f->column) : json_null());
        r |= json_object_set_new(o, "message", json_readable(f->message, strlen(f->message)));
        r |= json_object_set_new(o, "remedy", json_readable(f->remedy, strlen(f->remedy)));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

json_t *guard_to_json(const struct guard_findings *f)
{
        _cleanup_json_ json_t *o = json_object(), *list = json_array();
        int r = 0;

        for (size_t i = 0; f && i < f->n; i++)
                r |= json_array_append_new(list, finding_to_json(&f->rows[i]));
        r |= json_object_set_new(o, "findings", TAKE_PTR(list));
        r |= json_object_set_new(o, "more", json_integer(f ? (json_int_t)f->more : 0));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

json_t *scrubbed_to_json(const struct result *result)
{
        _cleanup_json_ json_t *o = json_object(), *names = json_object();
        int r = json_object_set_new(o, "total", json_integer((json_int_t)result->scrubbed.total));

        for (size_t i = 0; i < result->n_scrubbed_names; i++)
                r |= json_object_set_new(names, result->scrubbed_names[i].name, json_integer((json_int_t)result->scrubbed_names[i].count));
        r |= json_object_set_new(o, "names", TAKE_PTR(names));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

int result_set_session(json_t *o, const struct result *result)
{
        int r = 0;

        if (result->session[0] == '\0')
                return 0;
        r |= json_object_set_new(o, "session", json_string(result->session));
        r |= json_object_set_new(o, "context", result->context[0] ? json_string(result->context) : json_null());
        if (result->context[0] == '\0')
                return r;
        r |= json_object_set_new(o, "state", state_to_json(result));
        r |= json_object_set_new(o, "results", values_to_json(result));
        r |= json_object_set_new(o, "results_dropped", json_integer((json_int_t)result->values_dropped));
        r |= json_object_set_new(o, "error", result->has_error ? result_error_to_json(&result->error) : json_null());
        return r;
}
