/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/weaker.h"

#include "cli/output.h"

#define LIST_BYTES_MAX 1024

void weaker_warn(const struct controls *controls, const struct policy *p)
{
        _cleanup_buffer_ struct buffer list;

        buffer_init(&list, LIST_BYTES_MAX);
        for (int i = 0; i < CONTROL_COUNT; i++) {
                const struct control_status *s = &controls->status[i];
                if (i == CONTROL_LAYOUT)
                        continue; /* who leaves warm at true has asked for it; the result tells */
                /* What is off without leave to be weaker is off because the policy wants it so. */
                if (s->state == CONTROL_WEAKER || (s->state == CONTROL_OFF && p && (p->allow_weaker & 1u << i)))
                        buffer_printf(&list, "%s%s (%s%s%s)", list.size > 0 ? ", " : "",
                                      control_name((enum control_id)i), control_state_name(s->state),
                                      s->how[0] ? ": " : "", s->how);
        }
        if (list.size > 0)
                message_print(MESSAGE_WARNING, "not enforced in full: %s", list.data);
}
