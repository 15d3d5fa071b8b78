/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of resources:
 *
 *   glovebox://sessions/4f2a.../files/out/plot.png   a file of a session's workspace; segments are percent-encoded
 *   glovebox://runs/0f3c.../stdout                   all that a run has printed; also stderr
 */
#ifndef MCP_RESOURCE_URI_H
#define MCP_RESOURCE_URI_H

#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>

enum resource_kind { RESOURCE_FILE, RESOURCE_STDOUT, RESOURCE_STDERR };

#define RESOURCE_ID_MAX 33 /* 32 hexadecimal digits, with the NUL */
struct resource_uri {
        enum resource_kind kind;
        char id[RESOURCE_ID_MAX];  /* of the session, or of the run */
        char path[HOST_PATH_MAX];  /* of a file: decoded, as files_check_path() takes it; NUL-free UTF-8 */
};

#define RESOURCE_SCHEME "glovebox://"

/* -EINVAL: it is none. There is one URI for each resource: what is encoded in another way than resource_uri_file() does is refused. */
int resource_uri_parse(const char *text, struct resource_uri *ret);
/* The caller's to free; NULL: out of memory. path: UTF-8, relative to the workspace. */
char *resource_uri_file(const char *session, const char *path);
char *resource_uri_output(const char *run, enum resource_kind kind);

/* By the name's end; "application/octet-stream" for what is not known. Never NULL. */
const char *media_type_of(const char *name);
/* Of those that a model can look at: image/png, image/jpeg, image/gif, image/webp. */
bool media_is_picture(const char *type);
/* Which of those it is by its first bytes; NULL: none. A model's provider refuses a whole conversation for a picture that is none. */
const char *media_picture_of(const void *bytes, size_t size);

#endif
