/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/rules.h"

#include <errno.h>
#include <string.h>

static const char *const action_names[] = {[GUARD_OFF] = "off", [GUARD_LOG] = "log", [GUARD_WARN] = "warn", [GUARD_BLOCK] = "block"};

const char *guard_action_name(enum guard_action action)
{
        return action_names[action];
}

int guard_action_parse(const char *text, enum guard_action *ret)
{
        for (size_t i = 0; i < ARRAY_SIZE(action_names); i++)
                if (strcmp(text, action_names[i]) == 0) {
                        *ret = (enum guard_action)i;
                        return 0;
                }
        return -EINVAL;
}
