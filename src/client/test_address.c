/* SPDX-License-Identifier: Apache-2.0 */
#include "client/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

static void test_unix(void **state)
{
        struct client_address a;
        gb_error err = {0};

        assert_int_equal(client_address_parse("unix:/run/x.sock", "T", &a, &err), 0);
        const struct sockaddr_un *u = (const struct sockaddr_un *)&a.address;
        assert_int_equal(u->sun_family, AF_UNIX);
        assert_string_equal(u->sun_path, "/run/x.sock");
        assert_true(a.is_local);
        assert_string_equal(a.authority, "localhost");
}

static void check_http(const char *text, int family, const char *host, unsigned port, const char *authority, bool local)
{
        struct client_address a;
        gb_error err = {0};
        char shown[64];

        if (client_address_parse(text, "T", &a, &err) < 0)
                fail_msg("%s: %s", text, err.message);
        assert_int_equal(a.address.ss_family, family);
        if (family == AF_INET) {
                const struct sockaddr_in *in = (const struct sockaddr_in *)&a.address;
                assert_int_equal(ntohs(in->sin_port), port);
                assert_string_equal(inet_ntop(AF_INET, &in->sin_addr, shown, sizeof(shown)), host);
        } else {
                const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&a.address;
                assert_int_equal(ntohs(in->sin6_port), port);
                assert_string_equal(inet_ntop(AF_INET6, &in->sin6_addr, shown, sizeof(shown)), host);
        }
        assert_string_equal(a.authority, authority);
        assert_int_equal(a.is_local, local);
}

static void test_http(void **state)
{
        check_http("http://127.0.0.1:8080", AF_INET, "127.0.0.1", 8080, "127.0.0.1:8080", true);
        check_http("http://127.3.0.1:8080/", AF_INET, "127.3.0.1", 8080, "127.3.0.1:8080", true);
        check_http("http://10.0.0.1", AF_INET, "10.0.0.1", 80, "10.0.0.1:80", false);
        check_http("http://[::1]:65535", AF_INET6, "::1", 65535, "[::1]:65535", true);
        check_http("http://[fe80::1]/", AF_INET6, "fe80::1", 80, "[fe80::1]:80", false);
        check_http("http://localhost:1", AF_INET, "127.0.0.1", 1, "localhost:1", true);
}

static void test_what_is_none(void **state)
{
        static const char *const wrong[] = {
                "",                       "unix:",                  "unix:relative",       "http://",           "http://:80",
                "http://a:",              "http://a:0",             "http://a:65536",      "http://a:12345678", "http://a:80/path",
                "http://u@127.0.0.1:80",  "http://127.0.0.1:80?x",  "http://[::1",         "http://[::1]80",    "http://a b:80",
                "http://127.0.0.1:8 0",   "ftp://127.0.0.1",        "127.0.0.1:80",        "http://-x:80",      "http://x\r\ny:80",
        };

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                struct client_address a;
                gb_error err = {0};
                if (client_address_parse(wrong[i], "T", &a, &err) == 0)
                        fail_msg("%s was taken", wrong[i]);
                assert_int_equal(err.code, GB_E_USAGE);
                assert_int_equal(strncmp(err.message, "T: ", 3), 0);
        }
}

static void test_long_path(void **state)
{
        char text[256] = "unix:/";
        struct client_address a;
        gb_error err = {0};

        memset(text + strlen(text), 'a', 200);
        assert_true(client_address_parse(text, "T", &a, &err) < 0);
        assert_non_null(strstr(err.message, "too long"));
}

static void test_tls_names_other_ways(void **state)
{
        struct client_address a;
        gb_error err = {0};

        assert_true(client_address_parse("https://127.0.0.1:8443", "T", &a, &err) < 0);
        assert_non_null(strstr(err.message, "curl"));
        assert_non_null(strstr(err.message, "SDK"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_unix),      cmocka_unit_test(test_http), cmocka_unit_test(test_what_is_none),
                cmocka_unit_test(test_long_path), cmocka_unit_test(test_tls_names_other_ways),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
