/* SPDX-License-Identifier: Apache-2.0
 *
 * What the verbs of `glovebox image` share. */
#ifndef CLI_IMAGE_H
#define CLI_IMAGE_H

#include "base/error.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "image/store.h"
#include "policy/policy.h"

#include <jansson.h>

#define STATUS_INTERRUPTED 130

/* "name: 412M, 9321 files" of an image, or all of it with --json; an exit status. */
int image_report(const struct arguments *a, const json_t *about);
/* The exit status of a failure: 130 when somebody has pressed Ctrl-C. */
int image_fail(const struct arguments *a, const gb_error *err);
/* For image_import() and image_export(); data is a struct progress. */
void image_progress(void *data, uint64_t bytes);

/* By the engine. `name` of the image, from the Dockerfile in the directory `recipe`. */
int image_engine_build(const struct arguments *a, const char *recipe, const char *name, int cancel_fd, json_t **ret, gb_error *err);
int image_engine_list(json_t **ret, gb_error *err);
/* With what was made of it for containers. */
int image_engine_remove(const char *name, gb_error *err);

/* Runs a program of Python in a box that is made of a root directory: 0 when it ends well, else an error with its last words. */
int image_check(const struct policy *policy, const char *root, const char *program, int cancel_fd, gb_error *err);

/* The package sources of this host that belong to its distribution, one line of sources.list each, for a release (NULL: the host's own, which is told
 * in ret_suite, to be freed). Both may be empty: mmdebstrap has its own. */
int image_apt_sources(const char *suite, char **ret_sources, char **ret_suite, gb_error *err);

#endif
