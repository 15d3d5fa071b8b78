/* SPDX-License-Identifier: Apache-2.0
 *
 * The directories of a box that code can write to, by policy. */
#ifndef POLICY_PLACE_H
#define POLICY_PLACE_H

#include "policy/policy.h"

#define BOX_WORKSPACE "/sandbox"
#define BOX_TMP "/tmp"
#define BOX_SCRATCH "/tmp/sandbox" /* with scratch_only: in the place of both */

/* Where the workspace is. */
const char *policy_workspace(const struct policy *p);
/* Where files are that do not stay: TMPDIR and HOME. */
const char *policy_tmp(const struct policy *p);

/* A new string: the text with each {workspace} and {tmp} replaced. NULL: out of memory. */
char *policy_fill_places(const struct policy *p, const char *text);

#endif
