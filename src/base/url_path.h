/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of URLs, compared by those who decide without being the server that will read them. */
#ifndef BASE_URL_PATH_H
#define BASE_URL_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a server may take it for another path than it looks: "." or ".." as a segment (also with a parameter, "..;"), a backslash, a "#", or one of "/", ".", "\"
 * encoded, be it several times. */
bool url_path_is_ambiguous(const char *path, size_t size);

/* Whether prefix is one of whole segments: "/a" has "/a" and "/a/b", not "/ab"; "/a/" has "/a/b", not "/a". */
bool url_path_has_prefix(const char *path, size_t size, const char *prefix);

#endif
