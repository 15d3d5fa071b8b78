/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether an image that was built is of use: a small program is run in a box that is made of it, sealed off as any other. */
#include "cli/image.h"

#include "base/quote.h"
#include "engine/run.h"

#include <errno.h>
#include <string.h>

#define ID_INSIDE 1000

int image_check(const struct policy *policy, const char *root, const char *program, int cancel_fd, gb_error *err)
{
        _cleanup_languages_ struct languages *languages = NULL;
        _cleanup_result_ struct result *result = NULL;
        struct run_request request = {
                .policy = policy, .code = program, .code_size = strlen(program), .rootfs = root, .uid = ID_INSIDE, .gid = ID_INSIDE,
                .stdin_fd = -1, .cancel_fd = cancel_fd, .keep_output = true,
        };

        int r = languages_load(NULL, &languages, err);
        if (r == 0)
                r = language_by_name(languages, "python", &request.language, err);
        if (r == 0)
                r = run_execute(&request, &result, err);
        if (r < 0)
                return r;
        if (result->verdict.kind == VERDICT_OK)
                return 0;
        if (result->verdict.kind == VERDICT_CANCELLED)
                return error_set(err, GB_E_CONFLICT, ECANCELED, "interrupted");
        if (result->verdict.kind == VERDICT_LOST)
                return error_set(err, GB_E_LOST, EIO,
                                 "the image was built, but whether its check succeeds is not known: %s",
                                 result->verdict.message);
        const char *last = result->err.data ? result->err.data : "";
        for (const char *line = last; (line = strchr(line, '\n')) && line[1]; line++)
                last = line + 1;
        return error_set(err, GB_E_NOT_FOUND, ENOEXEC, "the image was built, but its check failed in a box: %s", quote(last).text);
}
