/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors, two tiers. base/ and kernel/ return 0 or a negative errno. From
 * policy/ up a function takes a last parameter `gb_error *err` as well, and says
 * what was tried, on what, and what to do. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/macro.h"
#include "glovebox/error.h"

/* Fills err (which may be NULL) and returns a negative errno: -errnum, or -EINVAL
 * when errnum is 0. EMFILE and ENFILE are GB_E_UNAVAILABLE, whatever was tried (but for GB_E_LOST). */
int error_set(gb_error *err, gb_error_code code, int errnum, const char *format, ...)
        _printf_(4, 5);

/* Puts "context: " before the message that is already there; returns -errnum. */
int error_prefix(gb_error *err, const char *format, ...) _printf_(2, 3);

const char *error_code_name(int code);
int error_exit_status(int code);

#endif
