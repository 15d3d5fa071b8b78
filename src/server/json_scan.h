/* SPDX-License-Identifier: Apache-2.0
 *
 * A look at JSON text before anything is built from it: what a hostile body would cost. Whether it is JSON is not asked here. */
#ifndef SERVER_JSON_SCAN_H
#define SERVER_JSON_SCAN_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_scan {
        bool begun, string, escaped;
        unsigned depth, nodes, number;
};

/* Pieces of the text, in their order; begin with zeros. GB_E_USAGE above JSON_DEPTH_MAX, JSON_NODES_MAX, JSON_NUMBER_BYTES_MAX, and for a byte-order mark. */
int json_scan(struct json_scan *s, const char *bytes, size_t size, gb_error *err);
/* That was all: GB_E_USAGE when it ends in the middle. */
int json_scan_end(const struct json_scan *s, gb_error *err);

#endif
