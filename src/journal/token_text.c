/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens and scopes as text. A token is gbx_ID_SECRET: 8 characters that name it, 43 of base64url that are 256 random bits. */
#include "journal/token_text.h"

#include "base/quote.h"
#include "base/suggest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define PREFIX "gbx_"
#define PREFIX_SIZE (sizeof(PREFIX) - 1)
#define SECRET_BYTES 32

static const char id_alphabet[] = "abcdefghijklmnopqrstuvwxyz234567"; /* 32: 5 bits of a byte each */
static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static const struct {
        const char *name;
        unsigned scope, counts_as;
} scopes[] = {
        {"read", SCOPE_READ, SCOPE_READ},
        {"run", SCOPE_RUN, SCOPE_RUN | SCOPE_READ},
        {"metrics", SCOPE_METRICS, SCOPE_METRICS},
        {"admin", SCOPE_ADMIN, SCOPE_ADMIN | SCOPE_METRICS | SCOPE_RUN | SCOPE_READ},
};

static int add_scope(const char *name, size_t size, unsigned *scope, gb_error *err)
{
        const char *names[ARRAY_SIZE(scopes)];
        char word[32];

        snprintf(word, sizeof(word), "%.*s", (int)MIN(size, sizeof(word) - 1), name);
        for (size_t i = 0; i < ARRAY_SIZE(scopes); i++) {
                names[i] = scopes[i].name;
                if (strlen(scopes[i].name) == size && memcmp(scopes[i].name, name, size) == 0) {
                        *scope |= scopes[i].counts_as;
                        return 0;
                }
        }
        const char *near = suggest_nearest(word, names, ARRAY_SIZE(names));
        return error_set(err, GB_E_USAGE, EINVAL, "there is no scope %s%s%s%s: there are read, run, metrics and admin", quote(word).text,
                         near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
}

int token_scopes_parse(const char *text, unsigned *ret, gb_error *err)
{
        unsigned found = 0;

        for (const char *p = text;; p++) {
                size_t size = strcspn(p, ",");
                int e = add_scope(p, size, &found, err);
                if (e < 0)
                        return e;
                p += size;
                if (*p == '\0')
                        break;
        }
        *ret = found;
        return 0;
}

void token_scopes_text(unsigned set, char *ret, size_t size)
{
        size_t used = 0;

        if (size > 0)
                ret[0] = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(scopes); i++) {
                int n = set & scopes[i].scope && used < size ? snprintf(ret + used, size - used, "%s%s", used > 0 ? "," : "", scopes[i].name) : 0;
                used += n > 0 ? (size_t)n : 0;
        }
}

unsigned token_scopes_counting(unsigned set)
{
        unsigned all = 0;

        for (size_t i = 0; i < ARRAY_SIZE(scopes); i++)
                if (set & scopes[i].scope)
                        all |= scopes[i].counts_as;
        return all;
}

static int random_bytes(void *ret, size_t size)
{
        ssize_t n;

        do
                n = getrandom(ret, size, 0);
        while (n < 0 && errno == EINTR);
        return n == (ssize_t)size ? 0 : -EIO;
}

static void encode(const unsigned char bytes[static SECRET_BYTES], char ret[static TOKEN_SECRET_SIZE])
{
        uint32_t bits = 0;
        unsigned n_bits = 0;
        size_t used = 0;

        for (size_t i = 0; i < SECRET_BYTES; i++) {
                bits = bits << 8 | bytes[i];
                for (n_bits += 8; n_bits >= 6; n_bits -= 6)
                        ret[used++] = base64url[bits >> (n_bits - 6) & 63];
        }
        ret[used] = base64url[bits << (6 - n_bits) & 63];
}

int token_text_make(char ret_text[static TOKEN_TEXT_MAX], char ret_id[static TOKEN_ID_MAX])
{
        unsigned char id[TOKEN_ID_SIZE], secret[SECRET_BYTES];
        char *p = ret_text;

        int r = random_bytes(id, sizeof(id));
        r = r < 0 ? r : random_bytes(secret, sizeof(secret));
        if (r < 0)
                return r;
        for (size_t i = 0; i < TOKEN_ID_SIZE; i++)
                ret_id[i] = id_alphabet[id[i] & 31];
        ret_id[TOKEN_ID_SIZE] = '\0';
        memcpy(p, PREFIX, PREFIX_SIZE);
        memcpy(p += PREFIX_SIZE, ret_id, TOKEN_ID_SIZE);
        *(p += TOKEN_ID_SIZE) = '_';
        encode(secret, ++p);
        p[TOKEN_SECRET_SIZE] = '\0';
        explicit_bzero(secret, sizeof(secret));
        return 0;
}

void token_text_split(const char *text, size_t size, struct token_parts *ret)
{
        *ret = (struct token_parts){.id = "????????"};
        memset(ret->secret, '?', sizeof(ret->secret));
        if (size != TOKEN_TEXT_SIZE || memcmp(text, PREFIX, PREFIX_SIZE) != 0 || text[PREFIX_SIZE + TOKEN_ID_SIZE] != '_')
                return;
        memcpy(ret->id, text + PREFIX_SIZE, TOKEN_ID_SIZE);
        memcpy(ret->secret, text + PREFIX_SIZE + TOKEN_ID_SIZE + 1, TOKEN_SECRET_SIZE);
        /* It goes into a statement as text. */
        for (size_t i = 0; i < TOKEN_ID_SIZE; i++)
                if (!strchr(id_alphabet, ret->id[i]) || ret->id[i] == '\0')
                        ret->id[i] = '?';
}

int token_secret_hash(const struct token_parts *parts, unsigned char ret[static TOKEN_HASH_BYTES])
{
        unsigned int size = 0;

        return EVP_Digest(parts->secret, TOKEN_SECRET_SIZE, ret, &size, EVP_sha256(), NULL) == 1 && size == TOKEN_HASH_BYTES ? 0 : -EIO;
}
