/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"
#include "cli/output.h"
#include "cli/request.h"
#include "cli/secrets.h"
#include "cli/service.h"

#include <errno.h>
#include <string.h>

/* Options that are text of the request. */
static const struct {
        enum option_id id;
        const char *key;
        const char *time; /* the flag of one that is a time */
} texts[] = {{OPT_TEMPLATE, "template", NULL},
             {OPT_IDLE, "idle_timeout", "--idle"},
             {OPT_LIFETIME, "max_lifetime", "--lifetime"},
             {OPT_NAME, "name", NULL}};

static int make_body(const struct option_set *set, const struct arguments *a, json_t **ret, gb_error *err)
{
        _cleanup_json_ json_t *body = json_object(), *policy = NULL;

        int r = request_policy(set, a, &policy, err);
        if (r < 0)
                return r;
        for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++) {
                const char *value = arguments_get_or_env(set, a, texts[i].id);
                /* Without a template every interpreter is started afresh. */
                if (value && texts[i].id == OPT_TEMPLATE && strcmp(value, "none") == 0)
                        r = json_object_set_new(body, texts[i].key, json_null()) < 0 ? -ENOMEM : 0;
                else if (value && texts[i].time) {
                        r = request_set_duration(body, texts[i].key, value, texts[i].time, err);
                        if (r < 0)
                                return r;
                } else if (value)
                        r = request_set_text(body, texts[i].key, value, strlen(value));
        }
        if (r == 0 && arguments_has(a, OPT_KEPT))
                r = json_object_set_new(body, "workspace", json_string("kept")) < 0 ? -ENOMEM : 0;
        if (r == 0 && json_object_size(policy) > 0)
                r = json_object_set(body, "policy", policy) < 0 ? -ENOMEM : 0;
        if (r == -EILSEQ)
                return error_set(err, GB_E_USAGE, EILSEQ, "names are UTF-8");
        if (r < 0)
                return service_out_of_memory(err);
        r = secrets_set_request(body, a, NULL, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(body);
        return 0;
}

int command_session_create(const struct command *command, const struct arguments *arguments)
{
        _cleanup_service_ struct service s = {.client = {.fd = -1}};
        _cleanup_json_ json_t *body = NULL, *session = NULL;
        _cleanup_buffer_ struct buffer text;
        gb_error err = {0};

        buffer_init(&text, TEXT_BYTES_MAX);
        int r = make_body(&command->options, arguments, &body, &err);
        if (r == 0)
                r = service_open(&command->options, arguments, &s, &err);
        if (r == 0)
                secrets_warn(body, &s.client.address);
        if (r == 0)
                r = service_call(&s, "POST", "/v1/sessions", body, &session, &err);
        if (r < 0)
                return command_fail(arguments, &err);
        if (arguments_has(arguments, OPT_JSON))
                return output_json(session);
        buffer_printf(&text, "%s\n", json_member(session, "id", ""));
        return output_text(&text);
}
