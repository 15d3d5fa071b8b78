/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/server_exec.h"

int command_audit(const struct command *command, const struct arguments *arguments)
{
        return server_exec(command, arguments);
}
