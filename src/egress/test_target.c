/* SPDX-License-Identifier: Apache-2.0
 *
 * What a request to the proxy is for, and whether its Host field says the same: attacks 111 and 116. */
#include "egress/target.h"

#include "base/macro.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_authority(void **state)
{
        static const struct {
                const char *text, *host; /* NULL: refused */
                unsigned port;
        } table[] = {
                {"a.com:443", "a.com", 443},
                {"A.COM.:443", "a.com", 443},
                {"1.2.3.4:80", "1.2.3.4", 80},
                {"0x7f.1:80", "127.0.0.1", 80},
                {"[::1]:65535", "::1", 65535},
                {"", NULL, 0},
                {"a.com", NULL, 0},
                {"a.com:", NULL, 0},
                {":443", NULL, 0},
                {"a.com:0", NULL, 0},
                {"a.com:65536", NULL, 0},
                {"a.com:443/", NULL, 0},
                {"a.com:443?", NULL, 0},
                {"a.com:443#", NULL, 0},
                {"/a.com:443", NULL, 0},
                {"//a.com:443", NULL, 0},
                {"http://a.com:443", NULL, 0},
                {"u@a.com:443", NULL, 0},
                {"a.com:443@b.com:443", NULL, 0},
                {"a.com:443 ", NULL, 0},
                {"a.com:443,b.com:443", NULL, 0},
                {"*", NULL, 0},
                {"*.a.com:443", NULL, 0},
                {"::1:443", NULL, 0},
                {"[fe80::1%25eth0]:443", NULL, 0},
                {"b\xc3\xbc" "cher.de:443", NULL, 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct target t;
                int r = target_parse_authority(table[i].text, &t);
                if (r != (table[i].host ? 0 : -EINVAL))
                        fail_msg("\"%s\": %d", table[i].text, r);
                if (!table[i].host)
                        continue;
                assert_string_equal(t.host.text, table[i].host);
                assert_int_equal(t.port, table[i].port);
                assert_null(t.path);
        }
}

static const struct {
        const char *text;
        int is;
        const char *host;
        unsigned port;
        const char *path;
} absolute_targets[] = {
        {"http://a.com/", 0, "a.com", 80, "/"},
        {"http://a.com", 0, "a.com", 80, "/"},
        {"HTTP://A.COM./X", 0, "a.com", 80, "/X"},
        {"http://a.com:8080", 0, "a.com", 8080, "/"},
        {"http://a.com:8080/x?y=z", 0, "a.com", 8080, "/x?y=z"},
        {"http://a.com:443/", 0, "a.com", 443, "/"},
        {"http://a.com//x//", 0, "a.com", 80, "//x//"},
        {"http://a.com/../x/./", 0, "a.com", 80, "/../x/./"}, /* it is judged elsewhere */
        {"http://a.com/%2e%2E/a%20b", 0, "a.com", 80, "/%2e%2E/a%20b"},
        {"http://a.com/?", 0, "a.com", 80, "/?"},
        {"http://a.com/?http://b.com/@:", 0, "a.com", 80, "/?http://b.com/@:"},
        {"http://a.com/@b.com", 0, "a.com", 80, "/@b.com"},
        {"http://a.com/!$&'()*+,;=:-._~|{}[]^`", 0, "a.com", 80, "/!$&'()*+,;=:-._~|{}[]^`"},
        {"http://[::1]/x", 0, "::1", 80, "/x"},
        {"http://[::1]:81", 0, "::1", 81, "/"},
        {"http://2130706433/", 0, "127.0.0.1", 80, "/"},

        {"https://a.com/", -EPROTONOSUPPORT, NULL, 0, NULL},
        {"ftp://a.com/", -EPROTONOSUPPORT, NULL, 0, NULL},
        {"ws://a.com/", -EPROTONOSUPPORT, NULL, 0, NULL},
        {"file:///etc/passwd", -EPROTONOSUPPORT, NULL, 0, NULL},
        {"git+ssh://a.com/", -EPROTONOSUPPORT, NULL, 0, NULL},
        {"h://", -EPROTONOSUPPORT, NULL, 0, NULL},

        {"", -EINVAL, NULL, 0, NULL},
        {"/", -EINVAL, NULL, 0, NULL},
        {"/x", -EINVAL, NULL, 0, NULL},
        {"*", -EINVAL, NULL, 0, NULL},
        {"a.com", -EINVAL, NULL, 0, NULL},
        {"a.com:443", -EINVAL, NULL, 0, NULL},
        {"//a.com/", -EINVAL, NULL, 0, NULL},
        {"://a.com/", -EINVAL, NULL, 0, NULL},
        {"1://a.com/", -EINVAL, NULL, 0, NULL},
        {"http:a.com/", -EINVAL, NULL, 0, NULL},
        {"http:/a.com/", -EINVAL, NULL, 0, NULL},
        {"http:///x", -EINVAL, NULL, 0, NULL},
        {"http:///a.com/x", -EINVAL, NULL, 0, NULL},
        {"http:\\\\a.com\\x", -EINVAL, NULL, 0, NULL},
        {" http://a.com/", -EINVAL, NULL, 0, NULL},
        {"http://", -EINVAL, NULL, 0, NULL},
        {"http:// a.com/", -EINVAL, NULL, 0, NULL},
        {"http://a.com?x", -EINVAL, NULL, 0, NULL},
        {"http://a.com#x", -EINVAL, NULL, 0, NULL},
        {"http://a.com/#x", -EINVAL, NULL, 0, NULL},
        {"http://a.com/?x#", -EINVAL, NULL, 0, NULL},
        {"http://a.com\\@b.com/", -EINVAL, NULL, 0, NULL},
        {"http://a.com/\\..\\x", -EINVAL, NULL, 0, NULL},
        {"http://u@a.com/", -EINVAL, NULL, 0, NULL},
        {"http://u:p@a.com/", -EINVAL, NULL, 0, NULL},
        {"http://@a.com/", -EINVAL, NULL, 0, NULL},
        {"http://a.com:80@b.com/", -EINVAL, NULL, 0, NULL},
        {"http://a.com@b.com:80/", -EINVAL, NULL, 0, NULL},
        {"http://a.com:/", -EINVAL, NULL, 0, NULL},
        {"http://a.com:0/", -EINVAL, NULL, 0, NULL},
        {"http://a.com:080/", -EINVAL, NULL, 0, NULL},
        {"http://a.com:65616/", -EINVAL, NULL, 0, NULL}, /* 80 in 16 bits */
        {"http://a.com:80:80/", -EINVAL, NULL, 0, NULL},
        {"http://:80/", -EINVAL, NULL, 0, NULL},
        {"http://::1/", -EINVAL, NULL, 0, NULL},
        {"http://[::1/", -EINVAL, NULL, 0, NULL},
        {"http://[::1]x/", -EINVAL, NULL, 0, NULL},
        {"http://[fe80::1%25eth0]/", -EINVAL, NULL, 0, NULL},
        {"http://a%2ecom/", -EINVAL, NULL, 0, NULL},
        {"http://*.a.com/", -EINVAL, NULL, 0, NULL},
        {"http://a..com/", -EINVAL, NULL, 0, NULL},
        {"http://a.com/a b", -EINVAL, NULL, 0, NULL},
        {"http://a.com/a\tb", -EINVAL, NULL, 0, NULL},
        {"http://a.com/\r\nHost: b.com", -EINVAL, NULL, 0, NULL},
        {"http://a.com/\x7f", -EINVAL, NULL, 0, NULL},
        {"http://a.com/\xc3\xbc", -EINVAL, NULL, 0, NULL},
        {"http://a.com/<x>", -EINVAL, NULL, 0, NULL},
        {"http://a.com/\"x\"", -EINVAL, NULL, 0, NULL},
        {"http://a.com/%", -EINVAL, NULL, 0, NULL},
        {"http://a.com/%2", -EINVAL, NULL, 0, NULL},
        {"http://a.com/%zz", -EINVAL, NULL, 0, NULL},
        {"http://a.com/?%u0041", -EINVAL, NULL, 0, NULL},
};

static void test_absolute(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(absolute_targets); i++) {
                struct target t;
                int r = target_parse_absolute(absolute_targets[i].text, &t);
                if (r != absolute_targets[i].is)
                        fail_msg("\"%s\": %d", absolute_targets[i].text, r);
                if (r < 0)
                        continue;
                assert_string_equal(t.host.text, absolute_targets[i].host);
                assert_int_equal(t.port, absolute_targets[i].port);
                assert_string_equal(t.path, absolute_targets[i].path);
        }
}

static void test_host_field(void **state)
{
        static const struct {
                const char *target, *field;
                uint16_t fallback_port;
                bool is;
        } table[] = {
                {"http://a.com/", "a.com", 80, true},
                {"http://a.com/", "A.Com.", 80, true},
                {"http://a.com/", "a.com:80", 80, true},
                {"http://a.com:80/", "a.com", 80, true},
                {"http://a.com:8080/", "a.com:8080", 80, true},
                {"http://a.com:443/", "a.com", 443, true},
                {"http://a.com:8080/", "a.com", 80, false},
                {"http://a.com/", "a.com", 443, false},
                {"http://a.com/", "a.com:443", 80, false},
                {"http://a.com/", "b.com", 80, false},
                {"http://a.com/", "x.a.com", 80, false},
                {"http://a.com/", "a.com.b.com", 80, false},
                {"http://a.com/", "", 80, false},
                {"http://a.com/", "a.com:", 80, false},
                {"http://a.com/", "a.com,b.com", 80, false},
                {"http://a.com/", "a.com b.com", 80, false},
                {"http://a.com/", " a.com", 80, false},
                {"http://a.com/", "u@a.com", 80, false},
                {"http://a.com/", "http://a.com", 80, false},
                {"http://a.com/", "a.com/", 80, false},
                {"http://a.com/", "a.com#", 80, false},
                {"http://1.2.3.4/", "1.2.3.4", 80, true},
                {"http://1.2.3.4/", "0x01020304", 80, true},
                {"http://1.2.3.4/", "[::ffff:1.2.3.4]", 80, true},
                {"http://1.2.3.4/", "1.2.3.5", 80, false},
                {"http://[::1]/", "[::1]", 80, true},
                {"http://[::1]/", "[0::1]:80", 80, true},
                {"http://[::1]/", "::1", 80, false},
                {"http://[::1]/", "127.0.0.1", 80, false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct target t;
                assert_int_equal(target_parse_absolute(table[i].target, &t), 0);
                if (target_is_host_field(&t, table[i].field, table[i].fallback_port) != table[i].is)
                        fail_msg("%s and \"%s\"", table[i].target, table[i].field);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_authority),
                cmocka_unit_test(test_absolute),
                cmocka_unit_test(test_host_field),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
