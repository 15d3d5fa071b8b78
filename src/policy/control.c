/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/control.h"

#include "base/suggest.h"
#include "base/quote.h"

#include <string.h>

/* The controls that one missing cgroup takes away together. */
#define CGROUP_NAME "cgroup"
#define CGROUP_MASK (1u << CONTROL_MEMORY | 1u << CONTROL_PIDS | 1u << CONTROL_CPU)

struct control_row {
        const char *name, *help;
        bool may_be_weaker;
};

static const struct control_row rows[CONTROL_COUNT] = {
#define ROW(id, control, weaker, text) [id] = {control, text, weaker},
        CONTROLS(ROW)
#undef ROW
};

/* Written out once for errors; a test holds it against the table. */
#define WEAKER_NAMES "landlock, runtime, memory, pids, cpu, or cgroup for the last three"

const char *control_name(enum control_id id)
{
        return (unsigned)id < CONTROL_COUNT ? rows[id].name : "unknown";
}

const char *control_help(enum control_id id)
{
        return (unsigned)id < CONTROL_COUNT ? rows[id].help : "";
}

bool control_may_be_weaker(enum control_id id)
{
        return (unsigned)id < CONTROL_COUNT && rows[id].may_be_weaker;
}

bool control_is_extra(enum control_id id)
{
        return id == CONTROL_APPARMOR;
}

const char *control_state_name(enum control_state state)
{
        switch (state) {
        case CONTROL_ENFORCED:
                return "enforced";
        case CONTROL_WEAKER:
                return "weaker";
        case CONTROL_OFF:
                return "off";
        case CONTROL_UNKNOWN:
                break;
        }
        return "unknown";
}

int control_by_name(const char *name)
{
        for (int i = 0; i < CONTROL_COUNT; i++)
                if (strcmp(rows[i].name, name) == 0)
                        return i;
        return -1;
}

uint32_t control_weaker_all(void)
{
        uint32_t mask = 0;

        for (int i = 0; i < CONTROL_COUNT; i++)
                if (rows[i].may_be_weaker)
                        mask |= 1u << i;
        return mask;
}

int control_weaker_mask(const char *name, uint32_t *ret, gb_error *err)
{
        if (strcmp(name, CGROUP_NAME) == 0) {
                *ret = CGROUP_MASK;
                return 0;
        }
        int id = control_by_name(name);
        if (id >= 0 && rows[id].may_be_weaker) {
                *ret = 1u << id;
                return 0;
        }
        if (id >= 0)
                return error_set(err, GB_E_USAGE, 0, "the control %s can never be weaker; those that can: " WEAKER_NAMES,
                                 quote(name).text);

        const char *names[CONTROL_COUNT + 1] = {[CONTROL_COUNT] = CGROUP_NAME};
        for (int i = 0; i < CONTROL_COUNT; i++)
                names[i] = rows[i].may_be_weaker ? rows[i].name : NULL;
        const char *nearest = suggest_nearest(name, names, CONTROL_COUNT + 1);
        return error_set(err, GB_E_USAGE, 0, "there is no control %s%s%s%s" WEAKER_NAMES,
                         quote(name).text, nearest ? "; did you mean \"" : "", nearest ? nearest : "",
                         nearest ? "\"? Those that can be weaker: " : "; those that can be weaker: ");
}
