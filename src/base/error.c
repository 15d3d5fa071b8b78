/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(gb_error *err, gb_error_code code, int errnum, const char *format, ...)
{
        int r = errnum > 0 ? -errnum : -EINVAL;

        if (!err)
                return r;
        /* Who has no descriptor left has learnt nothing about what he wanted to open. */
        if ((errnum == EMFILE || errnum == ENFILE) && code != GB_E_LOST)
                code = GB_E_UNAVAILABLE;
        err->code = code;
        err->errnum = errnum > 0 ? errnum : 0;

        va_list ap;
        va_start(ap, format);
        vsnprintf(err->message, sizeof(err->message), format, ap);
        va_end(ap);
        return r;
}

int error_prefix(gb_error *err, const char *format, ...)
{
        if (!err)
                return -EINVAL;

        char old[GB_ERROR_MESSAGE_MAX];
        memcpy(old, err->message, sizeof(old));
        old[sizeof(old) - 1] = '\0';

        va_list ap;
        va_start(ap, format);
        int n = vsnprintf(err->message, sizeof(err->message), format, ap);
        va_end(ap);
        if (n < 0)
                n = 0;
        size_t used = MIN((size_t)n, sizeof(err->message) - 1);
        /* Cut when both together are too long: the context matters more than the tail. */
        if (snprintf(err->message + used, sizeof(err->message) - used, ": %s", old) < 0)
                err->message[used] = '\0';
        return err->errnum > 0 ? -err->errnum : -EINVAL;
}

struct code_row {
        const char *name;
        int exit_status;
};

static const struct code_row code_rows[] = {
#define ROW(code, text, exit_status, http_status) [code] = {text, exit_status},
        GB_ERROR_CODES(ROW)
#undef ROW
};

static const struct code_row *code_row(int code)
{
        if (code < 0 || (size_t)code >= ARRAY_SIZE(code_rows))
                code = GB_E_INTERNAL;
        return &code_rows[code];
}

const char *error_code_name(int code)
{
        return code_row(code)->name;
}

int error_exit_status(int code)
{
        return code_row(code)->exit_status;
}
