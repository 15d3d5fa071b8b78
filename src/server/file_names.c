/* SPDX-License-Identifier: Apache-2.0
 *
 * A cursor is the last name of its page, in hexadecimal digits. Of a name with a secret in it that would be the secret once more: such a name is enciphered, with a key
 * that lives as long as the process. Sessions do not live longer. */
#include "server/file_names.h"

#include "base/base64.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "engine/result.h"
#include "server/run_object.h"
#include "server/scrubbing.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LAST_USEC 253402300799999999LL /* of the year 9999 */
#define HIDDEN 'x' /* the first of a cursor that is enciphered */
#define KEY_BYTES 32
#define IV_BYTES 16
#define CURSOR_BYTES_MAX (IV_BYTES + NAME_MAX)

static const char *type_name(mode_t mode)
{
        return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "link" : "other";
}

/* ---- cursors ---- */

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static unsigned char key[KEY_BYTES];
static bool has_key;

static void make_key(void)
{
        has_key = RAND_bytes(key, sizeof(key)) == 1;
}

/* Both ways are the same. */
static int cipher(const unsigned char iv[static IV_BYTES], const unsigned char *from, size_t size, unsigned char *to)
{
        EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
        int n = 0;

        pthread_once(&key_once, make_key);
        bool good = has_key && c && EVP_EncryptInit_ex(c, EVP_aes_256_ctr(), NULL, key, iv) == 1 && EVP_EncryptUpdate(c, to, &n, from, (int)size) == 1;
        EVP_CIPHER_CTX_free(c);
        return good ? 0 : -ENOMEM;
}

static json_t *cursor_to_json(const char *name, bool hidden)
{
        unsigned char bytes[CURSOR_BYTES_MAX];
        char text[1 + 2 * CURSOR_BYTES_MAX + 1];
        size_t n = 0, at = 0, size = name ? MIN(strlen(name), (size_t)NAME_MAX) : 0;

        if (!name)
                return json_null();
        if (hidden) {
                if (RAND_bytes(bytes, IV_BYTES) != 1 || cipher(bytes, (const unsigned char *)name, size, bytes + IV_BYTES) < 0)
                        return NULL;
                n = IV_BYTES;
                text[at++] = HIDDEN;
        } else {
                memcpy(bytes, name, size);
        }
        for (size_t i = 0; i < n + size; i++, at += 2)
                snprintf(text + at, 3, "%02x", bytes[i]);
        return json_stringn(text, at);
}

int file_cursor_parse(const char *text, char ret[static NAME_MAX + 1], gb_error *err)
{
        bool hidden = text[0] == HIDDEN;
        const char *digits = text + hidden;
        size_t size = strlen(digits), from = hidden ? IV_BYTES : 0;
        unsigned char bytes[CURSOR_BYTES_MAX];

        if (size <= 2 * from || size % 2 != 0 || size > 2 * (from + NAME_MAX) || strspn(digits, "0123456789abcdef") != size)
                return error_set(err, GB_E_USAGE, EINVAL, "cursor: %s is not the \"next\" of a page", quote(text).text);
        for (size_t i = 0; i < size / 2; i++) {
                unsigned byte = 0;
                (void)sscanf(digits + 2 * i, "%2x", &byte);
                bytes[i] = (unsigned char)byte;
        }
        if (hidden && cipher(bytes, bytes + from, size / 2 - from, bytes + from) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        memcpy(ret, bytes + from, size / 2 - from);
        ret[size / 2 - from] = '\0';
        return 0;
}

/* ---- a page ---- */

/* What finds something in these names; NULL: nothing does, or nobody looks. All at once, since that is rare. */
static int who_finds(const struct scrub *scrub, const struct file_list *l, const struct scrub **ret)
{
        _cleanup_buffer_ struct buffer names, out;
        int r = 0;

        *ret = NULL;
        buffer_init(&names, SIZE_MAX / 2);
        buffer_init(&out, SIZE_MAX / 2);
        for (size_t i = 0; scrub && i < l->n && r == 0; i++)
                r = buffer_add(&names, l->entries[i].name, strlen(l->entries[i].name) + 1); /* a NUL is in no name */
        if (r == 0 && names.size > 0)
                r = scrub_text(scrub, names.data, names.size, &out, NULL);
        if (r > 0)
                *ret = scrub;
        return r < 0 ? r : 0;
}

static json_t *entry_to_json(const struct scrub *scrub, const struct file_entry *e, bool *ret_found)
{
        size_t size = strlen(e->name), encoded_size;
        _cleanup_free_ char *encoded = NULL;
        char mode[8];
        int64_t modified = e->modified_usec < 1 ? 1 : MIN(e->modified_usec, (int64_t)LAST_USEC);

        snprintf(mode, sizeof(mode), "%04o", (unsigned)(e->mode & 07777));
        _cleanup_json_ json_t *json = json_pack("{s:o, s:s, s:I, s:s, s:o}", "name", scrubbed_text(scrub, e->name, size, ret_found), "type", type_name(e->mode),
                                                "size", (json_int_t)MIN(e->size, (uint64_t)INT64_MAX), "mode", mode, "modified_at",
                                                time_to_json((uint64_t)modified));
        int r = json ? 0 : -1;
        if (*ret_found)
                r |= json_object_set_new(json, "scrubbed", json_true());
        else if (!utf8_is_valid(e->name, size))
                r |= base64_encode(e->name, size, &encoded, &encoded_size) < 0 || json_object_set_new(json, "name_base64", json_stringn(encoded, encoded_size)) < 0;
        return r == 0 ? TAKE_PTR(json) : NULL;
}

json_t *file_list_to_json(const struct scrub *scrub, const char *path, const struct file_list *l)
{
        _cleanup_json_ json_t *entries = json_array();
        char checked[HOST_PATH_MAX];
        const struct scrub *finds;
        bool found = false; /* in the last one */

        if (who_finds(scrub, l, &finds) < 0)
                return NULL;
        for (size_t i = 0; i < l->n; i++)
                if (json_array_append_new(entries, entry_to_json(finds, &l->entries[i], &found)) < 0)
                        return NULL;
        if (files_check_path(path, strlen(path), checked, NULL) < 0)
                return NULL;
        return json_pack("{s:o, s:O, s:o}", "path", scrubbed_text(scrub, checked, strlen(checked), NULL), "entries", entries, "next",
                         cursor_to_json(l->last, found));
}

void file_error_scrub(const struct scrub *scrub, const char *path, gb_error *err)
{
        _cleanup_buffer_ struct buffer out;
        int errnum = err->errnum;

        buffer_init(&out, SIZE_MAX / 2);
        if (scrub && scrub_text(scrub, path, strlen(path), &out, NULL) != 0)
                error_set(err, (gb_error_code)err->code, errnum, "%s; the path has a secret in it, and is not repeated here", errnum > 0 ? strerror(errnum) : "it cannot be done");
}
