/* SPDX-License-Identifier: Apache-2.0
 *
 * Base64 with the standard alphabet and padding. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stddef.h>

/* A new NUL-terminated string. 0 or -ENOMEM. */
int base64_encode(const void *bytes, size_t size, char **ret, size_t *ret_size);

/* Strict: -EINVAL for any other character, missing padding, or bits left over, so that each
 * byte string has exactly one form. The result has a NUL after its end. */
int base64_decode(const char *text, size_t size, void **ret, size_t *ret_size);

#endif
