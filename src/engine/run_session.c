/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run_session.h"

#include "base/fd.h"
#include "engine/session.h"

#include <string.h>

int run_in_session(const struct run_request *q, bool only_warm, struct result **ret, gb_error *err)
{
        uint64_t asked_usec = monotonic_usec();
        struct session_options options = {
                .policy = q->policy, .template = q->template, .languages = q->languages, .only_warm = only_warm, .workspace = q->workspace,
                .rootfs = q->rootfs, .uid = q->uid, .gid = q->gid,
        };
        struct once_request once = {
                .language = q->language, .code_name = q->code_name, .code = q->code, .code_size = q->code_size, .args = q->args,
                .stdin_fd = q->stdin_fd, .cancel_fd = q->cancel_fd, .keep_output = q->keep_output, .only_warm = only_warm, .alone = !only_warm, .checked = true,
                .asked_usec = asked_usec,
                .callbacks = {.started = q->callbacks.started, .output = q->callbacks.output, .data = q->callbacks.data},
        };
        _cleanup_session_ struct session *s = NULL;

        int r = session_open(&options, &s, err);
        if (r == 0)
                r = session_run(s, &once, ret, err);
        if (r == 0)
                memset((*ret)->session, 0, sizeof((*ret)->session)); /* nobody can come back to it */
        return r;
}
