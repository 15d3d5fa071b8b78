/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a value is what a JSON Schema says: the part of the language that our tools use (type, properties, required, additionalProperties,
 * items, enum, minimum, maximum, minLength, maxLength, maxItems, pattern not). A keyword that is not known is a fault of the schema, and is found by the tests. */
#ifndef MCP_SCHEMA_H
#define MCP_SCHEMA_H

#include <jansson.h>

#define SCHEMA_WHY_MAX 384

/* 0, or -EINVAL with one sentence that a model can act on, naming the place ("arguments.timeout: 0 is too small; the least is 0.1"). where: "arguments". */
int schema_check(const json_t *schema, const json_t *value, const char *where, char ret_why[static SCHEMA_WHY_MAX]);
/* Whether the schema has nothing but what schema_check() understands; ret_why says what not. */
int schema_is_known(const json_t *schema, char ret_why[static SCHEMA_WHY_MAX]);

#endif
