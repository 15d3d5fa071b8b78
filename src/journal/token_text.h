/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside src/journal only. */
#ifndef JOURNAL_TOKEN_TEXT_H
#define JOURNAL_TOKEN_TEXT_H

#include "journal/tokens.h"

#define TOKEN_ID_SIZE 8
#define TOKEN_SECRET_SIZE 43
#define TOKEN_TEXT_SIZE 56
#define TOKEN_HASH_BYTES 32

/* What a text says. Of one that has not the form: parts that belong to no token, so that looking for it is the same work. */
struct token_parts {
        char id[TOKEN_ID_MAX];
        char secret[TOKEN_SECRET_SIZE];
};

/* A new one. 0 or a negative errno. */
int token_text_make(char ret_text[static TOKEN_TEXT_MAX], char ret_id[static TOKEN_ID_MAX]);
void token_text_split(const char *text, size_t size, struct token_parts *ret);
int token_secret_hash(const struct token_parts *parts, unsigned char ret[static TOKEN_HASH_BYTES]);
/* Scopes with those that they let besides. */
unsigned token_scopes_counting(unsigned set);

#endif
