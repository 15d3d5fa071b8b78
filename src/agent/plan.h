/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan as it came, taken apart. */
#ifndef AGENT_PLAN_H
#define AGENT_PLAN_H

#include "agent/wire.h"

#include <stddef.h>

struct plan {
        struct wire_plan head;
        char *cwd, *code_path;
        char *compile[COMMAND_WORDS_MAX + 1], *run[ARG_COUNT_MAX + COMMAND_WORDS_MAX + 1], *env[ENV_COUNT_MAX + 1]; /* each ends with NULL */
        const char *code;
};

/* Points *ret into the bytes. 0, or -EPROTO: no plan that glovebox would send. */
int plan_parse(char *bytes, size_t size, struct plan *ret);

#endif
