/* SPDX-License-Identifier: Apache-2.0
 *
 * What a box is made of, from the policy's image and what was asked for beside it. */
#ifndef IMAGE_CHOOSE_H
#define IMAGE_CHOOSE_H

#include "policy/policy.h"

/* The root directory of the box, to be freed; NULL: the host's /usr, or what the engine makes of the policy's image. rootfs, template: what was asked for by
 * name, or NULL. What excludes one another is refused: two of image, rootfs and template, and rootfs or template with an engine. */
int image_choose(const struct policy *policy, const char *rootfs, const char *template, char **ret, gb_error *err);

#endif
