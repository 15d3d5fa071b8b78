/* SPDX-License-Identifier: Apache-2.0
 *
 * What the guard would say of code, without running it: docs/api.md. Nothing of it is written down. */
#include "server/routes.h"

#include "base/json.h"
#include "engine/result_values.h"
#include "engine/watch.h"
#include "server/fields.h"
#include "server/reply.h"
#include "server/server.h"

#include <errno.h>
#include <string.h>

#define LANGUAGE_DEFAULT "python"

struct check {
        const struct language *language;
        const char *code;
        size_t code_size;
        struct policy *policy;
};

static int read_check(struct request *r, struct fields *f, struct check *ret, gb_error *err)
{
        static const char *const names[] = {"code", "language", "policy", "secrets", NULL};

        int e = fields_check(f, names, err);
        if (e == 0)
                e = fields_text(f, "code", &ret->code, &ret->code_size, err);
        if (e == 0 && !ret->code)
                e = fields_error(f, "code", GB_E_USAGE, err, "required");
        if (e == 0 && ret->code_size > CODE_BYTES_MAX)
                e = fields_error(f, "code", GB_E_LIMIT, err, "it has %zu bytes, at most %llu are taken", ret->code_size, (unsigned long long)CODE_BYTES_MAX);
        if (e == 0 && language_by_name(r->server->languages, LANGUAGE_DEFAULT, &ret->language, NULL) < 0)
                ret->language = &r->server->languages->rows[0];
        if (e == 0)
                e = fields_language(f, r->server->languages, &ret->language, err);
        if (e == 0)
                e = fields_policy(f, r->server->live, &r->caller, &ret->policy, err);
        return e < 0 ? e : fields_secrets(f, ret->policy, err);
}

static int look(const struct check *c, json_t **ret, gb_error *err)
{
        _cleanup_watch_ struct watch *watch = NULL;
        _cleanup_result_ struct result *result = result_new(c->policy, c->language, backend_for(c->policy)->name, false);
        const struct watch_subject subject = {.language = c->language, .code = c->code, .code_size = c->code_size, .stdin_fd = -1};

        if (!result)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = watch_open(c->policy, &watch, err);
        if (r == 0)
                r = watch_before(watch, &subject, result, err);
        if (r < 0)
                return r;
        _cleanup_json_ json_t *o = guard_to_json(result->findings);
        if (!o || json_object_set_new(o, "blocked", json_boolean(r == 1)) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        *ret = TAKE_PTR(o);
        return 0;
}

void api_guard_check(struct request *r)
{
        static const char *const no_query[] = {NULL};
        _cleanup_json_ json_t *body = NULL;
        struct fields f = {.prefix = ""};
        struct check c = {0};
        struct reservation reservation = {0};
        json_t *answer = NULL;
        gb_error err = {0};

        int e = request_check_query(r, no_query, &err);
        if (e == 0)
                e = request_json(r, false, &body, &err);
        f.object = body;
        if (e == 0)
                e = read_check(r, &f, &c, &err);
        fields_wipe_secrets(body);
        request_forget_body(r);
        if (e == 0)
                e = live_look_take(r->server->live, &r->caller, &reservation, &err);
        if (e == 0)
                e = look(&c, &answer, &err);
        admission_release(&reservation);
        policy_free(c.policy);
        if (e < 0)
                fields_refuse(r, &f, &err);
        else
                reply_json(r, 200, answer);
}
