/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_QUOTE_H
#define BASE_QUOTE_H

#include <stdbool.h>
#include <stdint.h>

/* What a terminal shows as itself: no controls, nothing that reorders a line. */
bool quote_is_printable(uint32_t c);

/* A string of unknown origin, made fit for a message: in double quotes, shortened, and with
 * control characters, bidi marks and bytes that are not UTF-8 as \xNN. Use it inside the call:
 * error_set(..., "unknown key %s", quote(key).text). */
#define QUOTED_MAX 120

struct quoted {
        char text[QUOTED_MAX];
};

struct quoted quote(const char *text);

/* The same without quotes, for the path before a position; of a long one the end is kept. */
struct quoted quote_path(const char *path);

#endif
