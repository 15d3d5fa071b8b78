/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line, driven by tables: one row per option is its parser, its help, its line in
 * the man page and its completion. Parsing checks only the form and changes nothing; what an
 * option means is decided by the verb, which reads the uses in the order they were given. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/error.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <stddef.h>

enum option_id {
        OPT_POLICY_KEY, /* goes to policy_set() under its key */
        OPT_ALL,
        OPT_ALLOW,
        OPT_ALLOW_RANGE,
        OPT_ALLOW_WEAKER,
        OPT_BASE,
        OPT_CHECK,
        OPT_CLEAR,
        OPT_CODE,
        OPT_CONFIG,
        OPT_CONTEXT,
        OPT_DETACH,
        OPT_DIRECTORY,
        OPT_DRY_RUN,
        OPT_EMBEDDED,
        OPT_EVENTS,
        OPT_EXPIRES,
        OPT_FILE,
        OPT_FOLLOW,
        OPT_FORCE,
        OPT_FRESH,
        OPT_FROM,
        OPT_HELP,
        OPT_HTTP,
        OPT_IDLE,
        OPT_INTERVAL,
        OPT_JSON,
        OPT_KEPT,
        OPT_LANG,
        OPT_LIFETIME,
        OPT_LIMIT,
        OPT_LISTEN,
        OPT_MAN,
        OPT_MODE,
        OPT_NAME,
        OPT_NAMES,
        OPT_NETWORK,
        OPT_NO_BANNER,
        OPT_NO_TOKENS,
        OPT_OCI,
        OPT_PARENT_FD,
        OPT_PARENTS,
        OPT_POLICY,
        OPT_POOL,
        OPT_PRIVATE,
        OPT_PROJECT,
        OPT_QUIET,
        OPT_RAW,
        OPT_RECURSIVE,
        OPT_REMOVE,
        OPT_ROOTFS,
        OPT_SCOPE,
        OPT_SECRET,
        OPT_SECRET_FILE,
        OPT_SECRETS,
        OPT_SECRETS_LIST,
        OPT_FILES_LIST,
        OPT_SERVER,
        OPT_SESSION,
        OPT_SET,
        OPT_SINCE,
        OPT_SORT,
        OPT_STDIN,
        OPT_STOP,
        OPT_SUITE,
        OPT_TAG,
        OPT_TEMPLATE,
        OPT_TENANT,
        OPT_TIMEOUT,
        OPT_TLS_CERT,
        OPT_TLS_KEY,
        OPT_TOKEN,
        OPT_TOKEN_ENV,
        OPT_TRUST,
        OPT_UNTIL,
        OPT_USER,
        OPT_VERBOSE,
        OPT_VERDICT,
        OPT_WARM,
        OPT_WORKSPACE,
        OPT_WORKSPACES,
        OPT_WRITE,
        OPT_YES,
};

enum option_value { VALUE_NONE, VALUE_REQUIRED, VALUE_OPTIONAL };

enum option_completion {
        COMPLETE_NOTHING,
        COMPLETE_FILE,
        COMPLETE_DIRECTORY,
        COMPLETE_LANGUAGE,
        COMPLETE_CONTROL,
        COMPLETE_TEMPLATE,
        COMPLETE_SESSION,
        COMPLETE_WORDS,
};

struct option {
        enum option_id id;
        const char *name; /* "memory"; NULL when there is only a letter */
        char letter;      /* 'c', or 0 */
        enum option_value value;
        const char *placeholder; /* "SIZE"; NULL without a value */
        const char *env;         /* "GLOVEBOX_MEMORY", or NULL */
        const char *key;         /* of policy_set(), or NULL */
        const char *help;
        const char *fallback; /* the default, for the help; or NULL */
        enum option_completion completion;
        const char *words; /* for COMPLETE_WORDS, separated by spaces */
        bool hidden;       /* in no help and no completion */
};

/* The options of a verb: its own rows, and the rows of policy_options[] when it takes a policy. */
struct option_set {
        const struct option *rows;
        size_t n_rows;
        bool policy;
};

/* Walks over a set: `for (size_t i = 0; options_next(set, &i, &o);)`. */
bool options_next(const struct option_set *set, size_t *i, struct option *ret);

struct option_use {
        struct option option;
        const char *value; /* NULL when none was given */
};

struct arguments {
        struct option_use *uses;
        size_t n_uses;
        const char **words; /* what is no option and stands before "--" */
        size_t n_words;
        char **rest; /* what follows "--", NULL-terminated; NULL without "--" */
};

/* argv is NULL-terminated, without the name of the program and of the verb. ret is to be freed
 * by arguments_done(), also after a failure. */
int options_parse(const struct option_set *set, char **argv, struct arguments *ret, gb_error *err);
void arguments_done(struct arguments *a);
#define _cleanup_arguments_ _cleanup_(arguments_done)

/* The last use wins. */
bool arguments_has(const struct arguments *a, enum option_id id);
const char *arguments_get(const struct arguments *a, enum option_id id);
size_t arguments_count(const struct arguments *a, enum option_id id);

/* As arguments_get(), then the environment variable of the row, then NULL. An empty variable
 * counts as unset. */
const char *arguments_get_or_env(const struct option_set *set, const struct arguments *a, enum option_id id);

#endif
