/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes one member of a JSON text that belongs to somebody else, and leaves every other byte of it as it is: order, spaces, numbers, ends of lines. */
#ifndef CLI_JSON_EDIT_H
#define CLI_JSON_EDIT_H

#include "base/buffer.h"

#include <jansson.h>
#include <stddef.h>

/* What such a text is parsed with: numbers of any size, each key once. */
#define JSON_EDIT_FLAGS (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL)

/* Sets member `name` of the object that is member `outer` of the whole; the object is made when there is none. value NULL: takes the member out. The text was
 * parsed with JSON_EDIT_FLAGS as an object, and `outer` in it, if it is there, is an object. 0, -ENOENT (nothing to take out), -ENOMEM, -EFBIG. */
int json_edit(const char *text, size_t size, const char *outer, const char *name, const json_t *value, struct buffer *out);

/* The value with `unit` for each level, without a newline at its end; from the second line on each begins with `indent`. */
int json_edit_print(struct buffer *out, const json_t *value, const char *indent, const char *unit, const char *newline);

#endif
