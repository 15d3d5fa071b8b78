/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of a request's body. What is not known is refused by its name, and what is wrong by the name and the reason: the name of the last one
 * that was refused is kept, for `details.field` of the answer. */
#ifndef SERVER_FIELDS_H
#define SERVER_FIELDS_H

#include "policy/policy.h"
#include "policy/template.h"
#include "server/live.h"
#include "server/request.h"

#define FIELD_NAME_MAX 96

struct fields {
        const json_t *object;
        const char *prefix;         /* "policy.": what the names stand in; empty at the top */
        char wrong[FIELD_NAME_MAX]; /* empty: none yet */
};

/* Answers with the error, and the field when one is known. */
void fields_refuse(struct request *r, const struct fields *f, const gb_error *err);
/* The error of a field: sets wrong. */
int fields_error(struct fields *f, const char *key, gb_error_code code, gb_error *err, const char *format, ...) _printf_(5, 6);

/* That of one that nobody knows; nearest: what may be meant, or NULL. */
int fields_unknown(struct fields *f, const char *key, const char *nearest, gb_error *err);

/* Every key is one of names (NULL-terminated). */
int fields_check(struct fields *f, const char *const names[], gb_error *err);

/* Each leaves *ret as it is when the field is absent. A null is a value of a wrong type, unless said otherwise. */
int fields_text(struct fields *f, const char *key, const char **ret, size_t *ret_size, gb_error *err);
int fields_bool(struct fields *f, const char *key, bool *ret, gb_error *err);
int fields_object(struct fields *f, const char *key, const json_t **ret, gb_error *err);
/* Seconds as a number, or text with a unit. */
int fields_duration(struct fields *f, const char *key, uint64_t min_usec, uint64_t max_usec, uint64_t *ret_usec, gb_error *err);
/* Text, or {"base64": text}. memory: what the bytes are in when they had to be decoded; the caller's to free. */
int fields_bytes(struct fields *f, const char *key, const json_t *value, const char **ret, size_t *ret_size, void **ret_memory, gb_error *err);
/* A list of texts, as a NULL-terminated array that is the caller's to free (the texts are not). */
int fields_words(struct fields *f, const char *key, size_t max, char ***ret, gb_error *err);

/* ---- what several requests have ---- */

/* `policy`: the caller's own copy, checked. */
int fields_policy(struct fields *f, struct live *l, const struct caller *caller, struct policy **ret, gb_error *err);
/* Whether what the caller wants of the guard and the scrubber is as strict as the level has it, or more. GB_E_DENIED names the key. */
int fields_guard_check(struct fields *f, const struct policy *level, const struct policy *p, gb_error *err);
/* `guard_rules` and `guard_imports` of a policy. */
int fields_guard_rules(struct fields *f, struct policy *p, const json_t *value, gb_error *err);
int fields_guard_imports(struct fields *f, struct policy *p, const json_t *value, gb_error *err);
/* Rules and ranges (a field that is absent: none), by the names of their fields; they take the place of those that are there. */
int fields_network_allow(struct fields *f, const char *key, struct policy *p, gb_error *err);
int fields_network_ranges(struct fields *f, const char *key, struct policy *p, gb_error *err);
/* After all keys: what belongs together, and whether a caller from afar asks for no more than the level has. */
int fields_network_check(struct fields *f, const struct caller *caller, const struct policy *level, struct policy *p, gb_error *err);
/* `secrets`, into the policy. */
int fields_secrets(struct fields *f, struct policy *p, gb_error *err);
/* Wipes their values, and those of headers in rules of the network, in a body that was read, good or not: it may live for as long as a run. */
void fields_wipe_secrets(json_t *body);
/* `template`: the default one when it is absent, NULL for null. */
int fields_template(struct fields *f, const struct templates *all, const struct policy *policy, const struct template **ret, gb_error *err);
/* `workspace`: "private", "kept", or {"path": ...}. A directory of the host: *ret_path, borrowed. */
int fields_workspace(struct fields *f, const struct caller *caller, bool *ret_kept, const char **ret_path, gb_error *err);
/* `language`: 400 when there is none of that name. */
int fields_language(struct fields *f, const struct languages *all, const struct language **ret, gb_error *err);

#endif
