/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/server_exec.h"

int command_token_create(const struct command *command, const struct arguments *arguments)
{
        return server_exec(command, arguments);
}

int command_token_list(const struct command *command, const struct arguments *arguments)
{
        return server_exec(command, arguments);
}

int command_token_revoke(const struct command *command, const struct arguments *arguments)
{
        gb_error err = {0};

        if ((arguments->n_words > 0) == arguments_has(arguments, OPT_TENANT)) {
                error_set(&err, GB_E_USAGE, 0, "give the ids of tokens ('glovebox token list' shows them), or --tenant NAME for all of one");
                return command_fail(arguments, &err);
        }
        return server_exec(command, arguments);
}
