/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/macro.h"

#include <jansson.h>
#include <stdbool.h>

DEFINE_CLEANUP(json_t, json_decref)
#define _cleanup_json_ _cleanup_(json_decref_ptr)

/* For programs that live on when there is no memory: called once, before there are threads. Without it the functions below do what jansson does. */
void json_guard_memory(void);
/* Whether jansson lacked memory in this thread since it was asked for the last time. */
bool json_lacked_memory(void);

/* As json_loadb(), json_error_out_of_memory included. */
json_t *json_parse(const char *text, size_t size, size_t flags, json_error_t *why);
/* Any value as json_dumps() prints it with JSON_COMPACT; flags: JSON_REAL_PRECISION(), or 0. NULL also when the value itself may be incomplete, since memory was lacking
 * when it was made. Takes NULL. */
char *json_print(const json_t *value, size_t flags);
/* A string, with U+FFFD in the place of what is not UTF-8. */
json_t *json_readable(const void *bytes, size_t size);

#endif
