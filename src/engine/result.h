/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_RESULT_H
#define ENGINE_RESULT_H

#include "base/buffer.h"
#include "engine/verdict.h"
#include "policy/control.h"

#include <jansson.h>

struct result {
        char id[33]; /* 128 random bits in hex */
        struct run_facts facts;
        struct verdict verdict;
        struct controls controls;
        struct buffer out, err; /* when the request asked to keep them */
        bool truncated;         /* output went on after its limit and was dropped */
        char *language, *trust, *policy_origin, *backend;
        uint64_t setup_usec; /* from the request to the first instruction of the program */
};

void result_free(struct result *r);
DEFINE_CLEANUP(struct result, result_free)
#define _cleanup_result_ _cleanup_(result_free_ptr)

/* The result object of --json and of the API; NULL when out of memory. Output that is not
 * UTF-8 is given losslessly as stdout_base64 / stderr_base64 beside a readable version. */
json_t *result_to_json(const struct result *r, const struct policy *policy);
json_t *controls_to_json(const struct controls *c);

/* {"data": text} for UTF-8, {"data_base64": ...} otherwise; used by events too. */
int json_set_bytes(json_t *object, const char *key, const void *bytes, size_t size);

#endif
