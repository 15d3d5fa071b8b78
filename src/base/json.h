/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/macro.h"

#include <jansson.h>

DEFINE_CLEANUP(json_t, json_decref)
#define _cleanup_json_ _cleanup_(json_decref_ptr)

#endif
