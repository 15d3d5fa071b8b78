/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCKER_VERSION_H
#define DOCKER_VERSION_H

struct api_version {
        unsigned major, minor;
};

/* "1.41", nothing else. 0 or -EINVAL. */
int api_parse(const char *text, struct api_version *ret);
/* Below, at or above 0, as strcmp(). */
int api_compare(struct api_version a, struct api_version b);

#endif
