/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run_warm.h"

#include "base/fd.h"
#include "engine/run_session.h"
#include "engine/script.h"

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

int run_warm(const struct run_request *q, struct result **ret, char why[static RUN_WHY_MAX])
{
        gb_error err = {0};

        const char *cold = why_cold(q);
        if (cold) {
                snprintf(why, RUN_WHY_MAX, "%s", cold);
                return -ENOTSUP;
        }
        int r = run_in_session(q, true, ret, &err);
        if (r < 0)
                snprintf(why, RUN_WHY_MAX, "%.*s", RUN_WHY_MAX - 1, err.message);
        return r;
}
