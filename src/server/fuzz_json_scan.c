/* SPDX-License-Identifier: Apache-2.0
 *
 * Any text: the look at it before it is parsed is the same whole and in pieces, refuses nothing that is JSON within the limits, and what it lets
 * through is within them. */
#include "base/limits.h"
#include "server/json_scan.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
        if (!holds)
                abort();
}

static int scan(const uint8_t *data, size_t size, bool cut, gb_error *err)
{
        struct json_scan s = {0};

        for (size_t at = 0; at < size;) {
                size_t n = cut ? MIN((size_t)data[at] % 5 + 1, size - at) : size;
                int r = json_scan(&s, (const char *)data + at, n, err);
                if (r < 0)
                        return r;
                at += n;
        }
        return json_scan_end(&s, err);
}

/* Values and keys; *ret_depth: how deep. */
static size_t count(json_t *json, size_t depth, size_t *ret_depth)
{
        const char *key;
        json_t *value;
        size_t n = 1, i;

        if (json_is_object(json) || json_is_array(json))
                *ret_depth = MAX(*ret_depth, depth + 1);
        json_array_foreach(json, i, value)
                n += count(value, depth + 1, ret_depth);
        json_object_foreach(json, key, value)
                n += 1 + count(value, depth + 1, ret_depth);
        return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        gb_error whole_error = {0}, cut_error = {0};
        int whole = scan(data, size, false, &whole_error), cut = scan(data, size, true, &cut_error);
        check(whole == cut && whole_error.code == cut_error.code);

        size_t depth = 0;
        json_t *json = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
        if (json) {
                size_t n = count(json, 0, &depth);
                /* A pair counts twice, as it does for the scan; a scan counts separators, so it is a little below. */
                check(whole < 0 || (depth <= JSON_DEPTH_MAX && n <= 2 * JSON_NODES_MAX + 2));
                check(whole == 0 || whole_error.errnum != EINVAL);
        }
        json_decref(json);
        return 0;
}
