/* SPDX-License-Identifier: Apache-2.0
 *
 * Secrets of a session: what is taken, what is refused, and that no message shows one. */
#include "policy/policy.h"

#include "base/fd.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static struct policy *make_policy(void)
{
        struct policy *p = NULL;
        gb_error err = {0};

        assert_int_equal(policy_parse("test.yaml", "{}", 2, NULL, &p, &err), 0);
        return p;
}

static int read_text(struct policy *p, const char *text, gb_error *err)
{
        _cleanup_close_ int fd = memfd_create("secrets", MFD_CLOEXEC);

        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        return policy_read_secrets(p, fd, "secrets.env", err);
}

static const struct policy_secret *find(const struct policy *p, const char *name)
{
        for (size_t i = 0; i < p->n_secrets; i++)
                if (strcmp(p->secrets[i].name, name) == 0)
                        return &p->secrets[i];
        fail_msg("no secret %s", name);
        return NULL;
}

static void test_lines(void **state)
{
        _cleanup_policy_ struct policy *p = make_policy();
        gb_error err = {0};

        assert_int_equal(read_text(p, "# a comment\n\nA=plain value  \r\nexport B='single quotes'\nC=\"double = quotes\"\nA=the last one counts", &err), 0);
        assert_int_equal(p->n_secrets, 3);
        assert_string_equal(find(p, "A")->value, "the last one counts");
        assert_string_equal(find(p, "B")->value, "single quotes");
        assert_string_equal(find(p, "C")->value, "double = quotes");
        assert_null(find(p, "C")->path);
}

static void test_json(void **state)
{
        _cleanup_policy_ struct policy *p = make_policy();
        gb_error err = {0};

        assert_int_equal(read_text(p, " {\"A\": \"two\\nlines of it\", \"B\": {\"value\": \"in a file\", \"file\": \"/run/secrets/b.txt\"}}\n", &err), 0);
        assert_string_equal(find(p, "A")->value, "two\nlines of it");
        assert_string_equal(find(p, "B")->path, "/run/secrets/b.txt");
        assert_true(policy_has_secret_files(p));
}

/* None of the messages has a part of what might be a secret. */
static void test_refused(void **state)
{
        static const struct {
                const char *text, *says;
        } rows[] = {
                {"A=hunter2hunter2\nhunter2hunter2\n", "line 2 is not NAME=VALUE"},
                {"A=hunter2\n", "line 1: the secret \"A\" has less than 8 bytes"},
                {"A B=hunter2hunter2\n", "line 1 is not NAME=VALUE"},
                {"{\"A\": \"hunter2hunter2\"", "line 1 is not JSON"},
                {"{\"A\": 7}", "\"A\": a text, or {\"value\""},
                {"{\"A\": {\"value\": \"hunter2hunter2\", \"path\": \"x\"}}", "\"A\": a text, or {\"value\""},
                {"{\"A\": {\"value\": \"hunter2hunter2\", \"file\": \"/etc/passwd\"}}", "no place for a secret"},
                {"{\"A\": {\"value\": \"hunter2hunter2\", \"file\": \"/run/secrets/../x\"}}", "no place for a secret"},
                {"{\"A\": {\"value\": \"hunter2hunter2\", \"file\": \"/run/secrets/..\"}}", "no place for a secret"},
                {"{\"A\": {\"value\": \"hunter2hunter2\", \"file\": \"/run/secrets\"}}", "no place for a secret"},
                {"{\"A\": \"hunter2\\u0000hunter2\"}", "line 1 is not JSON"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_policy_ struct policy *p = make_policy();
                gb_error err = {0};
                assert_true(read_text(p, rows[i].text, &err) < 0);
                if (!strstr(err.message, rows[i].says) || !strstr(err.message, "secrets.env") || strstr(err.message, "hunter2"))
                        fail_msg("%zu: %s", i, err.message);
        }
}

static void test_bounds(void **state)
{
        _cleanup_policy_ struct policy *p = make_policy();
        gb_error err = {0};
        static char big[SECRET_BYTES_MAX + 1];

        memset(big, 'x', sizeof(big));
        assert_int_equal(policy_add_secret(p, "BIG", big, sizeof(big), NULL, &err), -E2BIG);
        for (size_t i = 0; i < SECRETS_BYTES_MAX / SECRET_BYTES_MAX; i++) {
                char name[8];
                snprintf(name, sizeof(name), "N%zu", i);
                assert_int_equal(policy_add_secret(p, name, big, SECRET_BYTES_MAX, NULL, &err), 0);
        }
        assert_int_equal(policy_add_secret(p, "MORE", big, 8, NULL, &err), -E2BIG);
        _cleanup_policy_ struct policy *other = make_policy();
        assert_int_equal(policy_add_secret(other, "BYTES", "a\0b\0c\0d\0e", 9, NULL, &err), -EINVAL); /* no variable can hold it */
}

static void test_copy(void **state)
{
        _cleanup_policy_ struct policy *p = make_policy();
        gb_error err = {0};

        assert_int_equal(policy_add_secret(p, "A", "a\0b\0c\0d\0e", 9, "/run/secrets/A", &err), 0);
        _cleanup_policy_ struct policy *copy = policy_copy(p);
        assert_non_null(copy);
        assert_int_equal(find(copy, "A")->size, 9);
        assert_memory_equal(find(copy, "A")->value, "a\0b\0c\0d\0e", 9);
        assert_ptr_not_equal(find(copy, "A")->value, find(p, "A")->value);
        assert_string_equal(find(copy, "A")->path, "/run/secrets/A");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lines),  cmocka_unit_test(test_json), cmocka_unit_test(test_refused),
                cmocka_unit_test(test_bounds), cmocka_unit_test(test_copy),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
