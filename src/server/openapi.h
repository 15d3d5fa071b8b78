/* SPDX-License-Identifier: Apache-2.0
 *
 * openapi.json, as it is served: made by tools/embed.py at build time. */
#ifndef SERVER_OPENAPI_H
#define SERVER_OPENAPI_H

#include <stddef.h>

extern const unsigned char openapi_text[];
extern const size_t openapi_size;

#endif
