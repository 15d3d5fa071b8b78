/* SPDX-License-Identifier: Apache-2.0 */
#include "server/idempotency.h"

#include "base/limits.h"
#include "base/macro.h"
#include "server/routes.h"
#include "server/server.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <unistd.h>

static int hash_body(EVP_MD_CTX *hash, const struct body *body)
{
        if (body->fd < 0)
                return body->size == 0 || EVP_DigestUpdate(hash, body->memory.data, body->memory.size) == 1 ? 0 : -EIO;
        _cleanup_free_ char *piece = malloc(FILE_PIECE_BYTES);
        if (!piece)
                return -ENOMEM;
        for (uint64_t at = 0; at < body->size;) {
                ssize_t n = pread(body->fd, piece, (size_t)MIN((uint64_t)FILE_PIECE_BYTES, body->size - at), (off_t)at);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0 || EVP_DigestUpdate(hash, piece, (size_t)n) != 1)
                        return -EIO;
                at += (uint64_t)n;
        }
        return 0;
}

static int hash_request(const struct request *r, uint8_t *ret)
{
        EVP_MD_CTX *hash = EVP_MD_CTX_new();
        const char *method = r->route->method;

        /* Each text with its NUL, so that no two requests have the same bytes. */
        bool good = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1 && EVP_DigestUpdate(hash, method, strlen(method) + 1) == 1 &&
                    EVP_DigestUpdate(hash, r->target, strlen(r->target) + 1) == 1 && hash_body(hash, &r->body) == 0 &&
                    EVP_DigestFinal_ex(hash, ret, NULL) == 1;
        EVP_MD_CTX_free(hash);
        return good ? 0 : -EIO;
}

int idempotency_read(struct request *r, struct journal_key *ret, gb_error *err)
{
        const char *key = request_header(r, "Idempotency-Key");

        *ret = (struct journal_key){0};
        if (!key)
                return 0;
        size_t size = strlen(key);
        for (size_t i = 0; i < size; i++)
                if (key[i] < ' ' || key[i] > '~')
                        size = 0;
        if (size == 0 || size >= JOURNAL_KEY_MAX)
                return error_set(err, GB_E_USAGE, EINVAL, "the header Idempotency-Key has 1 to %d printable ASCII characters", JOURNAL_KEY_MAX - 1);
        if (hash_request(r, ret->hash) < 0)
                return error_set(err, GB_E_INTERNAL, EIO, "the request cannot be hashed");
        ret->key = key;
        return 0;
}

int idempotency_look(struct request *r, const struct journal_key *key, char ret_id[static JOURNAL_ID_MAX], gb_error *err)
{
        return key->key ? journal_key_get(r->server->journal, r->caller.tenant, key, ret_id, err) : 0;
}
