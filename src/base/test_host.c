/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and addresses of hosts in whatever spelling, and the patterns for them: attacks 116 and 121, properties P2 and P3. */
#include "base/host.h"

#include "base/macro.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define L63 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz01234567890"

/* NULL: refused. */
static const struct {
        const char *text, *is;
        enum host_kind kind;
} hosts[] = {
        {"a.com", "a.com", HOST_NAME},
        {"A.Com", "a.com", HOST_NAME},
        {"a.com.", "a.com", HOST_NAME},
        {"AZ.BY", "az.by", HOST_NAME},
        {"x.a.com", "x.a.com", HOST_NAME},
        {"localhost", "localhost", HOST_NAME},
        {"a", "a", HOST_NAME},
        {"a-b.c--d.com", "a-b.c--d.com", HOST_NAME},
        {"_dmarc.a.com", "_dmarc.a.com", HOST_NAME},
        {"a_b.com", "a_b.com", HOST_NAME},
        {"1.a.com", "1.a.com", HOST_NAME},
        {"1e100.net", "1e100.net", HOST_NAME},
        {"1.2.3.4.in-addr.arpa", "1.2.3.4.in-addr.arpa", HOST_NAME},
        {"xn--bcher-kva.example", "xn--bcher-kva.example", HOST_NAME},
        {"XN--BCHER-KVA.example", "xn--bcher-kva.example", HOST_NAME},
        {"a.xn--p1ai", "a.xn--p1ai", HOST_NAME},
        {"x0.x7f", "x0.x7f", HOST_NAME},
        {"dead.beef", "dead.beef", HOST_NAME},
        {L63 ".com", L63 ".com", HOST_NAME},
        {"1.2.3.4", "1.2.3.4", HOST_ADDRESS},
        {"127.1", "127.0.0.1", HOST_ADDRESS},
        {"0x7f.1", "127.0.0.1", HOST_ADDRESS},
        {"0177.0.0.1", "127.0.0.1", HOST_ADDRESS},
        {"2130706433", "127.0.0.1", HOST_ADDRESS},
        {"0", "0.0.0.0", HOST_ADDRESS},
        {"[::1]", "::1", HOST_ADDRESS},
        {"[2001:DB8:0:0::1]", "2001:db8::1", HOST_ADDRESS},
        {"[::ffff:1.2.3.4]", "1.2.3.4", HOST_ADDRESS},
        {"[::FFFF:0102:0304]", "1.2.3.4", HOST_ADDRESS},

        {"", NULL, 0},
        {".", NULL, 0},
        {"..", NULL, 0},
        {"a.com..", NULL, 0},
        {".a.com", NULL, 0},
        {"a..com", NULL, 0},
        {L63 "1.com", NULL, 0},
        {"a." L63 "1", NULL, 0},
        {"-a.com", NULL, 0},
        {"a-.com", NULL, 0},
        {"a.-com", NULL, 0},
        {"a.com-", NULL, 0},
        {"-", NULL, 0},
        {"b\xc3\xbc" "cher.example", NULL, 0},
        {"a.com\xef\xbc\x8e", NULL, 0}, /* a full-width dot */
        {"a\xe3\x80\x82" "com", NULL, 0},
        {"\xd0\xb0.com", NULL, 0},
        {"a.com\x80", NULL, 0},
        {" a.com", NULL, 0},
        {"a.com ", NULL, 0},
        {"a .com", NULL, 0},
        {"a.com\t", NULL, 0},
        {"a.com\r\n", NULL, 0},
        {"a.com\x7f", NULL, 0},
        {"a.com:443", NULL, 0},
        {"a.com:", NULL, 0},
        {"a%2ecom", NULL, 0},
        {"a.com%00", NULL, 0},
        {"%61.com", NULL, 0},
        {"a.com@b.com", NULL, 0},
        {"user:password@a.com", NULL, 0},
        {"a.com#", NULL, 0},
        {"a.com#b.com", NULL, 0},
        {"a.com?", NULL, 0},
        {"a.com/", NULL, 0},
        {"a.com\\", NULL, 0},
        {"http://a.com", NULL, 0},
        {"a.com,b.com", NULL, 0},
        {"a.com;", NULL, 0},
        {"*.a.com", NULL, 0},
        {"*", NULL, 0},
        {"a+b.com", NULL, 0},
        {"[a.com]", NULL, 0},
        {"[1.2.3.4]", NULL, 0},
        {"[::1", NULL, 0},
        {"::1]", NULL, 0},
        {"::1", NULL, 0},
        {"[]", NULL, 0},
        {"[", NULL, 0},
        {"]", NULL, 0},
        {"[[::1]]", NULL, 0},
        {"[::1].", NULL, 0},
        {"[::1]a", NULL, 0},
        {"[fe80::1%eth0]", NULL, 0},
        {"[fe80::1%25eth0]", NULL, 0},
        {"[::1%]", NULL, 0},
        {"[v1.a]", NULL, 0},
        {"1.2.3.4.", NULL, 0}, /* what that is depends on who reads it */
        {"1.2.3", "1.2.0.3", HOST_ADDRESS},
        {"1.2.3.4.5", NULL, 0},
        {"1.2.3.256", NULL, 0},
        {"256.256.256.256", NULL, 0},
        {"1.2.3.08", NULL, 0},
        {"0x7g.1", NULL, 0},
        {"4294967296", NULL, 0},
        {"a.1", NULL, 0},
        {"a.0x1", NULL, 0},
        {"a.com.1", NULL, 0},
        {"a.1com", NULL, 0},
};

static void test_host_table(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
                struct host host;
                int r = host_parse(hosts[i].text, strlen(hosts[i].text), &host);
                if (r != (hosts[i].is ? 0 : -EINVAL))
                        fail_msg("\"%s\": %d", hosts[i].text, r);
                if (!hosts[i].is)
                        continue;
                assert_string_equal(host.text, hosts[i].is);
                assert_int_equal(host.kind, hosts[i].kind);
        }
}

static void test_host_sizes(void **state)
{
        static const char nul_inside[] = "a.com\0.b.com", nul_behind[] = "a.com";
        char text[260];
        struct host host;

        assert_int_equal(host_parse(nul_inside, sizeof(nul_inside) - 1, &host), -EINVAL);
        assert_int_equal(host_parse(nul_behind, sizeof(nul_behind), &host), -EINVAL);
        assert_int_equal(host_parse("[::1\0]", 6, &host), -EINVAL);
        assert_int_equal(host_parse("1.2.3.4\0", 8, &host), -EINVAL);
        assert_int_equal(host_parse("a.comb", 5, &host), 0);
        assert_string_equal(host.text, "a.com");

        /* 253 letters are the most, and a dot may stand behind them. */
        for (size_t i = 0; i < sizeof(text); i++)
                text[i] = i % 2 ? '.' : 'a';
        assert_int_equal(host_parse(text, 253, &host), 0);
        assert_int_equal(strlen(host.text), 253);
        assert_int_equal(host_parse(text, 254, &host), 0);
        assert_int_equal(strlen(host.text), 253);
        assert_int_equal(host_parse(text, 255, &host), -EINVAL);
        assert_int_equal(host_parse(text, 256, &host), -EINVAL);
        text[1] = 'a';
        assert_int_equal(host_parse(text + 1, 254, &host), -EINVAL);
}

static void test_ports(void **state)
{
        static const struct {
                const char *text, *host;
                unsigned port;
        } table[] = {
                {"a.com:443", "a.com", 443},
                {"A.com.:1", "a.com", 1},
                {"1.2.3.4:65535", "1.2.3.4", 65535},
                {"[::1]:80", "::1", 80},
                {"0x7f.1:80", "127.0.0.1", 80},
                {"a.com", NULL, 0},
                {"a.com:", NULL, 0},
                {":443", NULL, 0},
                {"a.com:0", NULL, 0},
                {"a.com:0443", NULL, 0},
                {"a.com:65536", NULL, 0},
                {"a.com:4294967739", NULL, 0}, /* 443 in 32 bits */
                {"a.com:+443", NULL, 0},
                {"a.com:-1", NULL, 0},
                {"a.com: 443", NULL, 0},
                {"a.com:443 ", NULL, 0},
                {"a.com:443/", NULL, 0},
                {"a.com:0x1bb", NULL, 0},
                {"a.com:https", NULL, 0},
                {"a.com::443", NULL, 0},
                {"a.com:80:443", NULL, 0},
                {"user:pw@a.com:443", NULL, 0},
                {"[::1]", NULL, 0},
                {"::1:80", NULL, 0},
                {"[::1]80", NULL, 0},
                {"[::1:80", NULL, 0},
                {"", NULL, 0},
                {":", NULL, 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct host host;
                uint16_t port;
                int r = host_parse_port(table[i].text, strlen(table[i].text), &host, &port);
                if (r != (table[i].host ? 0 : -EINVAL))
                        fail_msg("\"%s\": %d", table[i].text, r);
                if (!table[i].host)
                        continue;
                assert_string_equal(host.text, table[i].host);
                assert_int_equal(port, table[i].port);
        }
}

static void test_patterns(void **state)
{
        static const struct {
                const char *pattern, *host;
                bool has;
        } table[] = {
                {"a.com", "a.com", true},
                {"a.com", "A.COM", true},
                {"A.Com.", "a.com", true},
                {"a.com", "a.com.", true},
                {"a.com", "x.a.com", false},
                {"a.com", "xa.com", false},
                {"a.com", "a.com.b.com", false},
                {"a.com", "a.co", false},
                {"a.com", "a-com", false},
                {"a.com", "axcom", false},
                {"*.a.com", "a.com", false},
                {"*.a.com", "a.com.", false},
                {"*.a.com", "x.a.com", true},
                {"*.a.com", "x.a.com.", true},
                {"*.a.com", "X.A.COM", true},
                {"*.A.com", "x.a.com", true},
                {"*.a.com", "y.x.a.com", true},
                {"*.a.com", "xa.com", false},
                {"*.a.com", "x.a.com.b.com", false},
                {"*.a.com", "x.aa.com", false},
                {"*.a.com", "x.b.com", false},
                {"*.b\x75" "cher.de", "x.xn--bcher-kva.de", false}, /* twins are others */
                {"*.com", "a.com", true},
                {"*", "a.com", true},
                {"*", "localhost", true},
                {"*", "1.2.3.4", false},
                {"*", "2130706433", false},
                {"*", "[::1]", false},
                {"1.2.3.4", "1.2.3.4", true},
                {"1.2.3.4", "0x1.2.0x304", true},
                {"1.2.3.4", "0x1020304", true},
                {"1.2.3.4", "[::ffff:1.2.3.4]", true},
                {"1.2.3.4", "1.2.3.5", false},
                {"[::1]", "[0:0::0:1]", true},
                {"[::1]", "[::2]", false},
        };
        static const char *const bad[] = {
                "", "**", "*a.com", "*.", "*..", "*..a.com", ".a.com", "a.*", "a.*.com", "x*.a.com", "*.*.com", "*.1.2.3.4", "*.[::1]", "*.1", "*.-a.com",
                "*.a.com:443", " *.a.com", "* ", "?.a.com", "::1", "a.com/", "*.\xc3\xbc.de",
        };
        struct host_pattern pattern;
        struct host host;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                assert_int_equal(host_pattern_parse(table[i].pattern, strlen(table[i].pattern), &pattern), 0);
                assert_int_equal(host_parse(table[i].host, strlen(table[i].host), &host), 0);
                if (host_pattern_has(&pattern, &host) != table[i].has)
                        fail_msg("%s and %s", table[i].pattern, table[i].host);
        }
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                if (host_pattern_parse(bad[i], strlen(bad[i]), &pattern) != -EINVAL)
                        fail_msg("%s is taken", bad[i]);
}

static uint64_t random_state;

static unsigned below(unsigned n)
{
        random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
        return (unsigned)(random_state >> 33) % n;
}

/* P3: what the matcher says is what these lines say: label by label from the end, in any case. */
static bool reference_has(const char *pattern, const char *host)
{
        size_t n = strlen(pattern), m = strlen(host);

        while (n > 0 && m > 0) {
                if (n == 1 && pattern[0] == '*')
                        return true; /* something is left for it: a label, whole, or several */
                if ((pattern[n - 1] | 0x20) != (host[m - 1] | 0x20))
                        return false;
                n--;
                m--;
        }
        return n == 0 && m == 0;
}

/* Names of one to four labels out of "a", "B", "ab". */
static void make_name(char *ret)
{
        static const char *const labels[] = {"a", "B", "ab"};

        ret[0] = '\0';
        for (unsigned n = 1 + below(4), i = 0; i < n; i++) {
                strcat(ret, i ? "." : "");
                strcat(ret, labels[below(3)]);
        }
}

static void make_pattern(char *ret, struct host_pattern *ret_pattern)
{
        unsigned kind = below(8);

        strcpy(ret, kind == 0 ? "*" : kind < 5 ? "*." : "");
        if (kind != 0)
                make_name(ret + strlen(ret));
        assert_int_equal(host_pattern_parse(ret, strlen(ret), ret_pattern), 0);
}

static void test_matcher(void **state)
{
        unsigned matches = 0, covers = 0;

        random_state = 3;
        for (unsigned round = 0; round < 100000; round++) {
                char pattern_text[40], other_text[40], name[40];
                struct host_pattern pattern, other;
                struct host host;

                make_pattern(pattern_text, &pattern);
                make_pattern(other_text, &other);
                make_name(name);
                assert_int_equal(host_parse(name, strlen(name), &host), 0);
                if (host_pattern_has(&pattern, &host) != reference_has(pattern_text, name))
                        fail_msg("%s and %s", pattern_text, name);
                matches += host_pattern_has(&pattern, &host);

                /* What is covered matches nothing more. */
                if (host_pattern_covers(&pattern, &other)) {
                        covers++;
                        if (host_pattern_has(&other, &host) && !host_pattern_has(&pattern, &host))
                                fail_msg("%s covers %s, but %s", pattern_text, other_text, name);
                        continue;
                }
                /* And for what is not, there is something that it does not match: a name that nobody else has, in the place of "*". */
                char witness[60];
                snprintf(witness, sizeof(witness), "%s%s", other_text[0] == '*' ? "zz" : "", other_text + (other_text[0] == '*'));
                assert_int_equal(host_parse(witness, strlen(witness), &host), 0);
                assert_true(host_pattern_has(&other, &host));
                if (host_pattern_has(&pattern, &host))
                        fail_msg("%s does not cover %s, but has %s", pattern_text, other_text, witness);
        }
        assert_in_range(matches, 5000, 95000);
        assert_in_range(covers, 5000, 95000);
}

static uint32_t interesting_ipv4(void)
{
        static const uint32_t places[] = {
                0, 0x0a000000, 0x64400000, 0x7f000001, 0xa9fea9fe, 0xac100000, 0xac200000, 0xc0000000, 0xc0a80000, 0xc6120000, 0xcb007100, 0xe0000000, 0xf0000000,
                0xffffffff, 0x08080808,
        };
        uint32_t any = below(0x10000) << 16 | below(0x10000);

        switch (below(3)) {
        case 0:
                return any;
        case 1:
                return places[below(ARRAY_SIZE(places))] + below(5) - 2;
        default:
                return places[below(ARRAY_SIZE(places))] ^ (any & 0xffff);
        }
}

/* In one to four parts, each of its own base. */
static void spell_ipv4(char *ret)
{
        static const char *const forms[] = {"%u", "%u", "%u", "0%o", "00%o", "0x%x", "0X%X", "0x0%x"};
        uint32_t value = interesting_ipv4();
        unsigned n = 1 + below(4);

        ret[0] = '\0';
        for (unsigned i = 0; i < n; i++) {
                uint32_t part = i + 1 < n ? value >> 24 : value >> (8 * i);
                value = i + 1 < n ? value << 8 : value;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                sprintf(ret + strlen(ret), forms[below(ARRAY_SIZE(forms))], part);
#pragma GCC diagnostic pop
                strcat(ret, i + 1 < n ? "." : "");
        }
}

static void spell_ipv6(char *ret)
{
        static const uint16_t groups[] = {0, 0, 0, 0, 1, 0x64, 0xff9b, 0x2001, 0x2002, 0xdb8, 0xfe80, 0xfc00, 0xff02, 0xffff, 0x5efe, 0x200, 0x7f00, 0xa00, 0x2606};
        static const char *const wrapped[] = {"::ffff:", "::", "64:ff9b::", "::ffff:0:", "2002::", "0:0:0:0:0:FFFF:", "2a00::5efe:", "::1:"};
        unsigned skip = below(9), n_skipped = skip < 8 ? below(8 - skip) + 1 : 0;

        ret[0] = '\0';
        if (below(3) == 0) {
                uint32_t v = interesting_ipv4();
                sprintf(ret, "%s%u.%u.%u.%u", wrapped[below(ARRAY_SIZE(wrapped))], v >> 24, v >> 16 & 255, v >> 8 & 255, v & 255);
                return;
        }
        for (unsigned i = 0; i < 8; i++) {
                char *end = ret + strlen(ret);
                if (i == skip) {
                        strcpy(end, i == 0 ? "::" : ":");
                        i += n_skipped - 1;
                        continue;
                }
                unsigned group = below(4) ? groups[below(ARRAY_SIZE(groups))] : below(0x10000);
                switch (below(3)) {
                case 0:
                        sprintf(end, "%x", group);
                        break;
                case 1:
                        sprintf(end, "%04x", group);
                        break;
                default:
                        sprintf(end, "%X", group);
                }
                strcat(end, i < 7 ? ":" : "");
        }
}

/* Something of it becomes something else, so that most is almost an address. */
static void spoil(char *text)
{
        static const char letters[] = "0123456789abcdefxX.:%[]-+ o";
        size_t size = strlen(text), at = below((unsigned)size + 1);

        switch (below(3)) {
        case 0:
                memmove(text + at + 1, text + at, size - at + 1);
                text[at] = letters[below(sizeof(letters) - 1)];
                break;
        case 1:
                if (at < size)
                        memmove(text + at, text + at + 1, size - at);
                break;
        default:
                if (at < size)
                        text[at] = letters[below(sizeof(letters) - 1)];
        }
}

/* What the C library, and with it the kernel, would connect to. */
static bool reference_parse(const char *text, struct address *ret)
{
        const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
        struct addrinfo *info;

        if (getaddrinfo(text, NULL, &hints, &info) != 0)
                return false;
        if (info->ai_family == AF_INET)
                address_from_ipv4(&((const struct sockaddr_in *)info->ai_addr)->sin_addr, ret);
        else
                address_from_ipv6(&((const struct sockaddr_in6 *)info->ai_addr)->sin6_addr, ret);
        freeaddrinfo(info);
        return true;
}

/* P2: for every spelling that getaddrinfo() takes, what we deny is what it would reach; and what we take for an address is the same for it. */
static void check_spelling(const char *text, unsigned *n_taken, unsigned *n_denied)
{
        bool is_ipv6 = strchr(text, ':') != NULL;
        struct address there;
        struct host host;
        char ours[100];

        snprintf(ours, sizeof(ours), is_ipv6 ? "[%s]" : "%s", text);
        bool is_ours = host_parse(ours, strlen(ours), &host) == 0 && host.kind == HOST_ADDRESS;
        bool is_theirs = reference_parse(text, &there);

        if (is_theirs && strchr(text, '%')) {
                assert_false(is_ours);
                return;
        }
        if (is_ours != is_theirs)
                fail_msg("\"%s\" is %san address for us, but %sfor getaddrinfo()", text, is_ours ? "" : "not ", is_theirs ? "" : "not ");
        /* Without brackets it is nothing; and a name does not become an address by being written in its canonical form. */
        if (is_ipv6 && text[0] != '[')
                assert_int_equal(host_parse(text, strlen(text), &host), -EINVAL);
        else if (!is_ours && host_parse(text, strlen(text), &host) == 0 && host.kind == HOST_NAME)
                assert_false(reference_parse(host.text, &there));
        if (!is_ours)
                return;
        assert_int_equal(host_parse(ours, strlen(ours), &host), 0);
        if (!address_equals(&host.address, &there) || address_forbidden(&host.address) != address_forbidden(&there))
                fail_msg("\"%s\" is %s for us, and something else for getaddrinfo()", text, host.text);
        ++*n_taken;
        *n_denied += address_forbidden(&there) != NULL;
}

static void test_spellings(void **state)
{
        unsigned n_taken = 0, n_denied = 0;

        random_state = 2;
        for (unsigned round = 0; round < 100000; round++) {
                char text[100];

                if (below(2))
                        spell_ipv4(text);
                else
                        spell_ipv6(text);
                for (unsigned n = below(3); n > 0; n--)
                        spoil(text);
                check_spelling(text, &n_taken, &n_denied);
        }
        /* Enough of each was looked at. */
        assert_in_range(n_taken, 20000, 90000);
        assert_in_range(n_denied, 10000, n_taken - 5000);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_host_table),
                cmocka_unit_test(test_host_sizes),
                cmocka_unit_test(test_ports),
                cmocka_unit_test(test_patterns),
                cmocka_unit_test(test_matcher),
                cmocka_unit_test(test_spellings),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
