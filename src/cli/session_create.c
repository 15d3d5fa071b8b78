/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"
#include "cli/output.h"
#include "cli/request.h"
#include "cli/secrets.h"
#include "cli/service.h"

int command_session_create(const struct command *command, const struct arguments *arguments)
{
        _cleanup_service_ struct service s = {.client = {.fd = -1}};
        _cleanup_json_ json_t *body = NULL, *session = NULL;
        _cleanup_buffer_ struct buffer text;
        gb_error err = {0};

        buffer_init(&text, TEXT_BYTES_MAX);
        int r = request_session(&command->options, arguments, &body, &err);
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
