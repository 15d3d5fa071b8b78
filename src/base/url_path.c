/* SPDX-License-Identifier: Apache-2.0 */
#include "base/url_path.h"

#include <string.h>
#include <strings.h>

/* rest: what follows a "%". */
static bool is_encoded_mark(const char *rest, size_t size)
{
        while (size >= 2 && rest[0] == '2' && rest[1] == '5') {
                rest += 2;
                size -= 2;
        }
        return size >= 2 && (strncasecmp(rest, "2e", 2) == 0 || strncasecmp(rest, "2f", 2) == 0 || strncasecmp(rest, "5c", 2) == 0);
}

/* rest: what follows a "/". */
static bool is_dot_segment(const char *rest, size_t size)
{
        size_t dots = 0;

        while (dots < size && rest[dots] == '.')
                dots++;
        return (dots == 1 || dots == 2) && (dots == size || rest[dots] == '/' || rest[dots] == ';');
}

bool url_path_is_ambiguous(const char *path, size_t size)
{
        for (size_t i = 0; i < size; i++) {
                const char *rest = path + i + 1;
                size_t left = size - i - 1;
                if (path[i] == '\\' || path[i] == '#' || (path[i] == '%' && is_encoded_mark(rest, left)) || (path[i] == '/' && is_dot_segment(rest, left)))
                        return true;
        }
        return false;
}

bool url_path_has_prefix(const char *path, size_t size, const char *prefix)
{
        size_t n = strlen(prefix);

        return n > 0 && n <= size && memcmp(path, prefix, n) == 0 && (n == size || prefix[n - 1] == '/' || path[n] == '/');
}
