/* SPDX-License-Identifier: Apache-2.0
 *
 * Secrets that flags name: --secret, --secret-file and --secrets. A flag says where a secret is, never what it is: others can read the words of a command. */
#ifndef CLI_SECRETS_H
#define CLI_SECRETS_H

#include "base/json.h"
#include "cli/options.h"
#include "client/address.h"
#include "policy/policy.h"

/* Before anything else is done: takes the variables that --secret names out of the environment, so that no child has them, and makes this process one that nobody
 * can look into and that leaves no core. Does nothing when no flag is about secrets. */
void secrets_take(const struct arguments *a);
/* Wipes what secrets_take() has taken. */
void secrets_forget(void);

/* Adds the secrets of the flags to a policy, in the order they were given. */
int secrets_read(const struct arguments *a, struct policy *p, gb_error *err);

/* Puts them into a request as "secrets", if there are any. from: the policy that has them; NULL: they are read now. -EILSEQ: one of them is no text. */
int secrets_set_request(json_t *body, const struct arguments *a, const struct policy *from, gb_error *err);

/* Says so when a request with secrets goes to another host as it is. */
void secrets_warn(const json_t *body, const struct client_address *to);

/* A text that may have a secret in it. */
void secrets_wipe_text(char **text);
#define _cleanup_wiped_ _cleanup_(secrets_wipe_text)

#endif
