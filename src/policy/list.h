/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside policy/: the parts of a policy that are lists. Messages have no prefix, as in option.h. */
#ifndef POLICY_LIST_H
#define POLICY_LIST_H

#include "policy/policy.h"

/* How a directory is shown: read-only, writable, or read-only without its credential files. */
enum mount_way { MOUNT_RO, MOUNT_RW, MOUNT_HIDE };

/* A mount's target must be of our own making: normalised (an input with "//", "." or a slash
 * at its end is put right) and not where the box itself puts something. */
int mount_add(struct policy *p, const char *source, const char *target, enum mount_way way, gb_error *err);

/* "SRC:DST[:ro|:rw|:hide]". A relative source is taken from base, or refused when base is NULL. */
int mount_add_text(struct policy *p, const char *text, const char *base, gb_error *err);
void mounts_clear(struct policy *p);
int mounts_check(const struct policy *p, gb_error *err);

/* A name that is there already gets the new value. */
int env_add(struct policy *p, const char *name, const char *value, gb_error *err);
int env_add_text(struct policy *p, const char *text, gb_error *err); /* "NAME=value" */
void env_clear(struct policy *p);
int env_check(const struct policy *p, gb_error *err);
/* [A-Za-z_][A-Za-z0-9_]* */
int env_check_name(const char *name, gb_error *err);

/* A name that is there already gets the new action. */
int rule_add(struct policy *p, const char *name, const char *action, gb_error *err);
int rule_add_text(struct policy *p, const char *text, gb_error *err); /* "NAME=ACTION" */
void rules_clear(struct policy *p);
int import_add(struct policy *p, const char *module, gb_error *err);
void imports_clear(struct policy *p);
void secrets_clear(struct policy *p); /* wiped */

#endif
