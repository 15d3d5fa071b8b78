/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens: who may do what, in a SQLite file of its own beside the journal. A token is "gbx_", 8 characters that name it, "_", 43 that are secret (256 random bits,
 * base64url); of those only SHA-256 is kept. The command writes the file, the server reads it: a token that was
 * revoked does not count any more at the next request. */
#ifndef JOURNAL_TOKENS_H
#define JOURNAL_TOKENS_H

#include "base/error.h"
#include "base/macro.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_TEXT_MAX 64
#define TOKEN_ID_MAX 9
#define TENANT_NAME_MAX 65

enum token_scope { SCOPE_READ = 1, SCOPE_RUN = 2, SCOPE_METRICS = 4, SCOPE_ADMIN = 8 };

struct token {
        char id[TOKEN_ID_MAX];
        char tenant[TENANT_NAME_MAX]; /* [a-z0-9._-], 1 to 64, not "local" */
        char name[TENANT_NAME_MAX];   /* for people; may be empty */
        unsigned scopes;              /* as they count: admin has them all, run has read */
        uint64_t created_usec, expires_usec; /* since 1970; 0: never */
        uint64_t revoked_usec;        /* 0: not */
        uint64_t used_usec;           /* the last time, to the minute; 0: never */
};

struct tokens;

/* write: makes the directory (0700) and the file (0600). Without: there may be none, then nobody has a token. */
int tokens_open(const char *directory, bool write, struct tokens **ret, gb_error *err);
void tokens_close(struct tokens *t);
DEFINE_CLEANUP(struct tokens, tokens_close)
#define _cleanup_tokens_ _cleanup_(tokens_close_ptr)

/* "read,run" and back. */
int token_scopes_parse(const char *text, unsigned *ret, gb_error *err);
void token_scopes_text(unsigned scopes, char *ret, size_t size);

/* Fills in id and times; the secret text is nowhere else. */
int tokens_create(struct tokens *t, struct token *token, char ret_text[static TOKEN_TEXT_MAX], gb_error *err);
/* By id, or all of a tenant; how many. */
int tokens_revoke(struct tokens *t, const char *id_or_tenant, bool is_tenant, gb_error *err);
int tokens_list(struct tokens *t, struct token **ret, size_t *ret_n, gb_error *err);
/* How many count now. */
int64_t tokens_count(struct tokens *t);

/* From any thread. 0 and who it is; GB_E_UNAUTHORIZED for every other text, in one wording and after the same work: unknown,
 * wrong, expired, revoked. */
int tokens_check(struct tokens *t, const char *text, size_t size, struct token *ret, gb_error *err);

/* Upkeep, by the thread that calls journal_tidy(): writes down when tokens were used, and what was created and revoked into the audit, each once. */
struct journal;
int tokens_tidy(struct tokens *t, struct journal *j, gb_error *err);

#endif
