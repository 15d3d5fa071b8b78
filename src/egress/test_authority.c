/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates of a session, as a program in a box looks at them. */
#include "egress/authority.h"

#include "base/limits.h"

#include <errno.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct buffer pem;
static struct authority *authority;
static X509 *root;

static X509 *read_certificate(const struct buffer *from)
{
        BIO *in = BIO_new_mem_buf(from->data, (int)from->size);
        X509 *x = PEM_read_bio_X509(in, NULL, NULL, NULL);

        BIO_free(in);
        assert_non_null(x);
        return x;
}

static int setup(void **state)
{
        gb_error err = {0};

        buffer_init(&pem, 64 * KIB);
        assert_int_equal(authority_make(&pem, &err), 0);
        assert_int_equal(authority_new(pem.data, pem.size, &authority, &err), 0);
        root = read_certificate(&pem);
        return 0;
}

static int teardown(void **state)
{
        authority_free(authority);
        X509_free(root);
        buffer_done(&pem);
        return 0;
}

static long seconds_until(const ASN1_TIME *t)
{
        int days, seconds;

        assert_int_equal(ASN1_TIME_diff(&days, &seconds, NULL, t), 1);
        return days * 86400L + seconds;
}

static void test_the_root(void **state)
{
        char name[128];
        gb_error err = {0};

        assert_true(X509_check_ca(root) == 1);
        assert_int_equal(X509_get_pathlen(root), 0);
        assert_int_equal(X509_get_key_usage(root), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
        long begin = seconds_until(X509_get0_notBefore(root)), end = seconds_until(X509_get0_notAfter(root));
        assert_true(begin <= -3500 && begin >= -3700);
        assert_true(end > 29 * 86400L && end <= 30 * 86400L);
        assert_true(X509_NAME_get_text_by_NID(X509_get_subject_name(root), NID_commonName, name, sizeof(name)) > 0);
        assert_memory_equal(name, "glovebox session ", strlen("glovebox session "));
        /* Another one has another name and another key. */
        _cleanup_buffer_ struct buffer other = {0};
        buffer_init(&other, 64 * KIB);
        assert_int_equal(authority_make(&other, &err), 0);
        X509 *x = read_certificate(&other);
        assert_int_not_equal(X509_NAME_cmp(X509_get_subject_name(root), X509_get_subject_name(x)), 0);
        assert_int_not_equal(EVP_PKEY_eq(X509_get0_pubkey(root), X509_get0_pubkey(x)), 1);
        X509_free(x);
}

/* As the strictest of clients would. */
static int verify(X509 *leaf, X509 *trusted, const struct host *host)
{
        X509_STORE *store = X509_STORE_new();
        X509_STORE_CTX *c = X509_STORE_CTX_new();

        X509_STORE_add_cert(store, trusted);
        assert_int_equal(X509_STORE_CTX_init(c, store, leaf, NULL), 1);
        X509_VERIFY_PARAM *p = X509_STORE_CTX_get0_param(c);
        X509_VERIFY_PARAM_set_flags(p, X509_V_FLAG_X509_STRICT);
        X509_VERIFY_PARAM_set_purpose(p, X509_PURPOSE_SSL_SERVER);
        if (host->kind == HOST_ADDRESS)
                X509_VERIFY_PARAM_set1_ip_asc(p, host->text);
        else
                X509_VERIFY_PARAM_set1_host(p, host->text, 0);
        int r = X509_verify_cert(c) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(c);
        X509_STORE_CTX_free(c);
        X509_STORE_free(store);
        return r;
}

static void parse(const char *text, struct host *ret)
{
        assert_int_equal(host_parse(text, strlen(text), ret), 0);
}

static void test_leaves(void **state)
{
        static const char *const hosts[] = {
                "a.com", "with_underscore.a-b.com", "1.2.3.4", "[2001:db8::1]",
                "a-name-that-is-too-long-for-the-common-name-of-a-certificate.and-goes-on.example.com",
        };
        struct host other;

        parse("other.com", &other);
        for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
                struct host host;
                X509 *leaf, *again;
                EVP_PKEY *key;
                parse(hosts[i], &host);
                assert_int_equal(authority_leaf(authority, &host, &leaf, &key), 0);
                assert_int_equal(verify(leaf, root, &host), X509_V_OK);
                assert_int_not_equal(verify(leaf, root, &other), X509_V_OK);
                assert_int_equal(X509_check_private_key(leaf, key), 1);
                assert_int_equal(X509_check_ca(leaf), 0);
                assert_int_equal(ASN1_TIME_compare(X509_get0_notAfter(leaf), X509_get0_notAfter(root)), 0);
                assert_true(seconds_until(X509_get0_notBefore(leaf)) < -3500);
                assert_int_equal(authority_leaf(authority, &host, &again, &key), 0);
                assert_ptr_equal(leaf, again);
                /* Neither its own root nor another one's */
                assert_int_not_equal(verify(leaf, leaf, &host), X509_V_OK);
        }
}

static void test_more_hosts_than_are_kept(void **state)
{
        X509 *leaf;
        EVP_PKEY *key;
        struct host host;

        for (int round = 0; round < 2; round++)
                for (int i = 0; i < EGRESS_LEAVES_MAX + 10; i++) {
                        char name[32];
                        snprintf(name, sizeof(name), "h%d.com", i);
                        parse(name, &host);
                        assert_int_equal(authority_leaf(authority, &host, &leaf, &key), 0);
                        assert_int_equal(verify(leaf, root, &host), X509_V_OK);
                }
}

static void test_serials_differ(void **state)
{
        struct host a, b;
        X509 *first, *second;
        EVP_PKEY *key;

        parse("a.com", &a);
        parse("b.com", &b);
        assert_int_equal(authority_leaf(authority, &a, &first, &key), 0);
        assert_int_equal(authority_leaf(authority, &b, &second, &key), 0);
        assert_int_not_equal(ASN1_INTEGER_cmp(X509_get0_serialNumber(first), X509_get0_serialNumber(second)), 0);
}

static void test_what_is_no_authority(void **state)
{
        struct authority *a = NULL;
        _cleanup_buffer_ struct buffer other = {0}, mixed = {0};
        gb_error err = {0};

        assert_true(authority_new("", 0, &a, &err) < 0);
        assert_true(authority_new("nonsense", 8, &a, &err) < 0);
        /* A certificate without its key, and one with another's */
        const char *key = strstr(pem.data, "-----BEGIN PRIVATE KEY-----");
        assert_non_null(key);
        assert_true(authority_new(pem.data, (size_t)(key - pem.data), &a, &err) < 0);
        buffer_init(&other, 64 * KIB);
        buffer_init(&mixed, 64 * KIB);
        assert_int_equal(authority_make(&other, &err), 0);
        buffer_add(&mixed, pem.data, (size_t)(key - pem.data));
        buffer_add_string(&mixed, strstr(other.data, "-----BEGIN PRIVATE KEY-----"));
        assert_true(authority_new(mixed.data, mixed.size, &a, &err) < 0);
        assert_null(a);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_the_root, setup, teardown),
                cmocka_unit_test_setup_teardown(test_leaves, setup, teardown),
                cmocka_unit_test_setup_teardown(test_more_hosts_than_are_kept, setup, teardown),
                cmocka_unit_test_setup_teardown(test_serials_differ, setup, teardown),
                cmocka_unit_test_setup_teardown(test_what_is_no_authority, setup, teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
