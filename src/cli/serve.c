/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/server_exec.h"

int command_serve(const struct command *command, const struct arguments *arguments)
{
        gb_error err = {0};

        if (arguments_has(arguments, OPT_TLS_CERT) != arguments_has(arguments, OPT_TLS_KEY)) {
                error_set(&err, GB_E_USAGE, 0, "--tls-cert and --tls-key go together");
                return command_fail(arguments, &err);
        }
        return server_exec(command, arguments);
}
