/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARDEN_FILES_H
#define WARDEN_FILES_H

#include "warden/box.h"

/* The private workspace of an open session, of which the front has this descriptor, as a directory in which what the box's user owns is the
 * front's: a descriptor, or a negative errno. */
int files_lend(const struct box *b, int workspace, gb_error *err);

#endif
