/* SPDX-License-Identifier: Apache-2.0
 *
 * Whatever comes as an archive: it is read to its end or refused, and names stay within their bounds. */
#include "cli/archive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct text {
        const uint8_t *bytes;
        size_t size, at;
};

static int read_text(void *data, void *bytes, size_t size, gb_error *err)
{
        struct text *t = data;

        if (size > t->size - t->at)
                return error_set(err, GB_E_LOST, ENODATA, "cut off");
        memcpy(bytes, t->bytes + t->at, size);
        t->at += size;
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct text text = {data, size, 0};
        struct archive a = {.read = read_text, .data = &text};
        struct archive_entry e;
        gb_error err = {0};
        char bytes[64];

        while (archive_next(&a, &e, &err) > 0) {
                if (strnlen(e.path, sizeof(e.path)) == sizeof(e.path) || !strchr("fdl", e.kind) || (e.mode & ~0777u))
                        abort();
                if (e.size > 0 && archive_content(&a, bytes, (size_t)MIN(e.size, (uint64_t)sizeof(bytes)), &err) < 0)
                        break;
        }
        return 0;
}
