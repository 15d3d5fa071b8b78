/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run_warm.h"

#include "base/fd.h"
#include "engine/script.h"
#include "engine/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static bool same_root(const char *a, const char *b)
{
        return (!a && !b) || (a && b && strcmp(a, b) == 0);
}

static const char *why_cold(const struct run_request *q)
{
        _cleanup_close_ int workspace_fd = q->workspace ? open(q->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        struct script script = {
                .python = q->template->python, .language = q->language, .policy = q->policy, .code = q->code, .code_size = q->code_size,
                .args = q->args, .workspace_fd = workspace_fd,
        };

        if (!same_root(q->rootfs, q->template->rootfs))
                return "the template is of another image";
        if (q->uid != TEMPLATE_USER || q->gid != TEMPLATE_USER)
                return "the template is of another user";
        return script_why_not(&script);
}

static int execute(struct session *s, const struct run_request *q, uint64_t asked_usec, struct result **ret, gb_error *err)
{
        struct once_request once = {
                .language = q->language, .code_name = q->code_name, .code = q->code, .code_size = q->code_size, .args = q->args,
                .stdin_fd = q->stdin_fd, .cancel_fd = q->cancel_fd, .keep_output = q->keep_output, .only_warm = true,
                .asked_usec = asked_usec,
                .callbacks = {.started = q->callbacks.started, .output = q->callbacks.output, .data = q->callbacks.data},
        };

        int r = session_run(s, &once, ret, err);
        if (r == 0)
                memset((*ret)->session, 0, sizeof((*ret)->session)); /* nobody can come back to it */
        return r;
}

int run_warm(const struct run_request *q, struct result **ret, char why[static RUN_WHY_MAX])
{
        uint64_t asked_usec = monotonic_usec();
        struct session_options options = {
                .policy = q->policy, .template = q->template, .languages = q->languages, .only_warm = true, .workspace = q->workspace,
                .rootfs = q->rootfs, .uid = q->uid, .gid = q->gid,
        };
        _cleanup_session_ struct session *s = NULL;
        gb_error err = {0};

        const char *cold = why_cold(q);
        if (cold) {
                snprintf(why, RUN_WHY_MAX, "%s", cold);
                return -ENOTSUP;
        }
        int r = session_open(&options, &s, &err);
        if (r == 0)
                r = execute(s, q, asked_usec, ret, &err);
        if (r < 0)
                snprintf(why, RUN_WHY_MAX, "%.*s", RUN_WHY_MAX - 1, err.message);
        return r;
}
