/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of files as anybody may give them: what is taken leads nowhere but down, and is taken again as it is. */
#include "engine/files.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
        if (!holds)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char path[HOST_PATH_MAX], again[HOST_PATH_MAX];
        gb_error err = {0};

        if (files_check_path((const char *)data, size, path, &err) < 0) {
                check(err.code == GB_E_USAGE && err.message[0] != '\0');
                return 0;
        }
        check(size > 0 && size < HOST_PATH_MAX && strlen(path) <= size && !memchr(data, '\0', size));
        check(files_check_path(path, strlen(path), again, &err) == 0 && strcmp(path, again) == 0);
        if (strcmp(path, ".") == 0)
                return 0;
        for (const char *at = path;;) {
                size_t n = strcspn(at, "/");
                check(n > 0 && !(n == 1 && at[0] == '.') && !(n == 2 && at[0] == '.' && at[1] == '.'));
                if (at[n] == '\0')
                        break;
                at += n + 1;
        }
        return 0;
}
