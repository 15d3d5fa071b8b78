/* SPDX-License-Identifier: Apache-2.0
 *
 * One key signs (the session's), another one is that of all certificates for hosts; it is made here and never leaves the process. */
#include "egress/authority.h"

#include "base/limits.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#define SERIAL_BYTES 16
#define NAME_BYTES 8
#define BEFORE_SECONDS 3600L               /* clocks differ */
#define AUTHORITY_SECONDS (30L * 24 * 3600)
#define COMMON_NAME_MAX 64                 /* of a certificate: X.520 has no more */

struct authority {
        X509 *certificate;
        EVP_PKEY *key;
        EVP_PKEY *leaf_key;
        struct {
                char host[HOST_TEXT_MAX];
                X509 *certificate;
        } leaves[EGRESS_LEAVES_MAX];
        size_t next;
};

DEFINE_CLEANUP(BIO, BIO_free_all)
DEFINE_CLEANUP(X509, X509_free)
DEFINE_CLEANUP(EVP_PKEY, EVP_PKEY_free)
#define _cleanup_bio_ _cleanup_(BIO_free_all_ptr)
#define _cleanup_x509_ _cleanup_(X509_free_ptr)
#define _cleanup_key_ _cleanup_(EVP_PKEY_free_ptr)

static int crypto_error(gb_error *err, const char *what)
{
        const char *reason = ERR_reason_error_string(ERR_get_error());

        ERR_clear_error();
        return error_set(err, GB_E_INTERNAL, EINVAL, "%s: %s", what, reason ? reason : "out of memory");
}

/* ---- certificates ---- */

static bool set_serial(X509 *x)
{
        unsigned char bytes[SERIAL_BYTES];

        if (RAND_bytes(bytes, sizeof(bytes)) != 1)
                return false;
        bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40); /* positive, and of one length */
        BIGNUM *number = BN_bin2bn(bytes, sizeof(bytes), NULL);
        bool set = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x));
        BN_free(number);
        return set;
}

static bool set_name(X509 *x, const char *name)
{
        X509_NAME *n = X509_get_subject_name(x);

        return X509_NAME_add_entry_by_txt(n, "O", MBSTRING_ASC, (const unsigned char *)"glovebox", -1, -1, 0) == 1 &&
               X509_NAME_add_entry_by_txt(n, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0) == 1;
}

static bool add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
        X509V3_CTX context;

        X509V3_set_ctx_nodb(&context);
        X509V3_set_ctx(&context, issuer, x, NULL, NULL, 0);
        X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &context, nid, value);
        bool added = e && X509_add_ext(x, e, -1) == 1;
        X509_EXTENSION_free(e);
        return added;
}

/* Everything but what the certificate is for. */
static X509 *make_certificate(EVP_PKEY *key, const char *name)
{
        _cleanup_x509_ X509 *x = X509_new();

        if (!x || X509_set_version(x, 2) != 1 || !set_serial(x) || !set_name(x, name) || X509_set_pubkey(x, key) != 1 ||
            !X509_gmtime_adj(X509_getm_notBefore(x), -BEFORE_SECONDS))
                return NULL;
        return TAKE_PTR(x);
}

static X509 *make_authority(EVP_PKEY *key)
{
        unsigned char random[NAME_BYTES];
        char name[COMMON_NAME_MAX] = "glovebox session ";
        size_t n = strlen(name);

        if (RAND_bytes(random, sizeof(random)) != 1)
                return NULL;
        for (size_t i = 0; i < sizeof(random); i++)
                n += (size_t)snprintf(name + n, sizeof(name) - n, "%02x", random[i]);
        _cleanup_x509_ X509 *x = make_certificate(key, name);
        if (!x || !X509_gmtime_adj(X509_getm_notAfter(x), AUTHORITY_SECONDS) || X509_set_issuer_name(x, X509_get_subject_name(x)) != 1)
                return NULL;
        if (!add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") || !add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") ||
            !add_extension(x, x, NID_subject_key_identifier, "hash"))
                return NULL;
        return X509_sign(x, key, EVP_sha256()) > 0 ? TAKE_PTR(x) : NULL;
}

static X509 *make_leaf(struct authority *a, const struct host *host)
{
        bool fits = strlen(host->text) <= COMMON_NAME_MAX;
        char names[HOST_TEXT_MAX + 8];

        /* The text of a host has no comma or other character that would mean something here. */
        snprintf(names, sizeof(names), "%s:%s", host->kind == HOST_ADDRESS ? "IP" : "DNS", host->text);
        _cleanup_x509_ X509 *x = make_certificate(a->leaf_key, fits ? host->text : "a host");
        if (!x || X509_set1_notAfter(x, X509_get0_notAfter(a->certificate)) != 1 || X509_set_issuer_name(x, X509_get_subject_name(a->certificate)) != 1)
                return NULL;
        const struct {
                int nid;
                const char *value;
        } extensions[] = {
                {NID_basic_constraints, "critical,CA:FALSE"}, {NID_key_usage, "critical,digitalSignature"}, {NID_ext_key_usage, "serverAuth"},
                {NID_subject_alt_name, names}, {NID_subject_key_identifier, "hash"}, {NID_authority_key_identifier, "keyid:always"},
        };
        for (size_t i = 0; i < ARRAY_SIZE(extensions); i++)
                if (!add_extension(x, a->certificate, extensions[i].nid, extensions[i].value))
                        return NULL;
        return X509_sign(x, a->key, EVP_sha256()) > 0 ? TAKE_PTR(x) : NULL;
}

/* ---- PEM ---- */

int authority_make(struct buffer *ret, gb_error *err)
{
        _cleanup_key_ EVP_PKEY *key = EVP_EC_gen("P-256");
        _cleanup_x509_ X509 *x = key ? make_authority(key) : NULL;
        _cleanup_bio_ BIO *out = BIO_new(BIO_s_secmem());
        char *text = NULL;

        if (!x || !out || PEM_write_bio_X509(out, x) != 1 || PEM_write_bio_PKCS8PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) != 1)
                return crypto_error(err, "cannot make a certificate for the session");
        long size = BIO_get_mem_data(out, &text);
        int r = buffer_add(ret, text, (size_t)size);
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "cannot make a certificate for the session: %s", strerror(-r)) : 0;
}

/* Nobody is asked for one. */
static int no_password(char *buf, int size, int is_write, void *data)
{
        return -1;
}

int authority_new(const char *pem, size_t size, struct authority **ret, gb_error *err)
{
        _cleanup_(authority_free_ptr) struct authority *a = calloc(1, sizeof(*a));
        _cleanup_bio_ BIO *in = size <= INT32_MAX ? BIO_new_mem_buf(pem, (int)size) : NULL;

        if (!a || !in)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        ERR_clear_error();
        a->certificate = PEM_read_bio_X509(in, NULL, no_password, NULL);
        a->key = a->certificate ? PEM_read_bio_PrivateKey(in, NULL, no_password, NULL) : NULL;
        if (!a->key || X509_check_private_key(a->certificate, a->key) != 1)
                return crypto_error(err, "cannot use the certificate of the session");
        a->leaf_key = EVP_EC_gen("P-256");
        if (!a->leaf_key)
                return crypto_error(err, "cannot make a key");
        *ret = TAKE_PTR(a);
        return 0;
}

void authority_free(struct authority *a)
{
        if (!a)
                return;
        for (size_t i = 0; i < ARRAY_SIZE(a->leaves); i++)
                X509_free(a->leaves[i].certificate);
        X509_free(a->certificate);
        EVP_PKEY_free(a->key);
        EVP_PKEY_free(a->leaf_key);
        free(a);
}

int authority_leaf(struct authority *a, const struct host *host, struct x509_st **ret, struct evp_pkey_st **ret_key)
{
        size_t i;

        for (i = 0; i < ARRAY_SIZE(a->leaves) && a->leaves[i].certificate; i++)
                if (strcmp(a->leaves[i].host, host->text) == 0)
                        break;
        if (i == ARRAY_SIZE(a->leaves) || !a->leaves[i].certificate) {
                X509 *made = make_leaf(a, host);
                ERR_clear_error();
                if (!made)
                        return -ENOMEM;
                if (i == ARRAY_SIZE(a->leaves))
                        i = a->next++ % ARRAY_SIZE(a->leaves);
                X509_free(a->leaves[i].certificate);
                a->leaves[i].certificate = made;
                snprintf(a->leaves[i].host, sizeof(a->leaves[i].host), "%s", host->text);
        }
        *ret = a->leaves[i].certificate;
        *ret_key = a->leaf_key;
        return 0;
}
