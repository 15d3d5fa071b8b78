/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside lib/: what is behind the handles of the public API. */
#ifndef LIB_HANDLES_H
#define LIB_HANDLES_H

#include "glovebox/glovebox.h"

#include "base/error.h"
#include "engine/result.h"
#include "policy/language.h"
#include "policy/policy.h"
#include "policy/template.h"

#include <pthread.h>
#include <stdatomic.h>

/* The identity inside the box. Not root, and not 65534, which is how files of unmapped owners look. */
#define BOX_UID 1000
#define BOX_GID 1000

/* A much larger struct of options is a size that was never set. */
#define OPTIONS_SIZE_MAX 4096

/* The tables of languages and templates, shared by a policy and the sessions that were opened with it. */
struct tables {
        atomic_uint users;
        struct languages *languages;
        pthread_mutex_t mutex;
        struct templates *templates; /* read when the first session wants one */
};
/* The templates; they are read once. */
int tables_load_templates(struct tables *t, const struct templates **ret, gb_error *err);

struct tables *tables_share(struct tables *t);
void tables_drop(struct tables *t); /* takes NULL */

struct gb_policy {
        struct policy *policy;
        struct tables *tables;
};
DEFINE_CLEANUP(gb_policy, gb_policy_free)

struct gb_result {
        struct result *result;
        struct policy values; /* the policy's plain values at the time of the run; owns nothing */
};
DEFINE_CLEANUP(gb_result, gb_result_free)

/* An empty result for a run under that policy; NULL when out of memory. */
gb_result *gb_result_new(const struct policy *policy);

/* Takes options of this version and of others into ret, which holds our defaults and has ret_size bytes: fields an
 * older caller does not know keep them, fields of a newer caller that we do not know must not be used. min is the size of
 * the options in their first version. */
int options_copy(const void *options, size_t min, void *ret, size_t ret_size, const char *function, const char *initializer, gb_error *err);
/* Checks code and its size, which it counts when it is text. */
int options_check_code(const char *code, size_t *size, const char *function, gb_error *err);
/* The same for all of gb_run_options. */
int options_read_run(const gb_run_options *options, gb_run_options *ret, const char *function, gb_error *err);
int options_find_language(const struct languages *all, const gb_run_options *o, const struct language **ret, const char *function, gb_error *err);

#endif
