/* SPDX-License-Identifier: Apache-2.0
 *
 * Attack 121: spellings of addresses, and ranges that nobody in a box is to reach. */
#include "base/address.h"

#include "base/macro.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct address parsed(const char *text)
{
        struct address a;

        if (address_parse(text, strlen(text), &a) < 0)
                fail_msg("not an address: %s", text);
        return a;
}

/* Goes to the next address, or the one before; false at the ends. */
static bool move(struct address *a, int by)
{
        for (int i = 15; i >= 0; i--) {
                a->bytes[i] = (uint8_t)(a->bytes[i] + by);
                if (a->bytes[i] != (by > 0 ? 0x00 : 0xff))
                        return true;
        }
        return false;
}

static void check_kind(const struct address *a, const char *kind)
{
        const char *is = address_forbidden(a);
        char text[ADDRESS_TEXT_MAX];

        if (!kind != !is || (kind && strcmp(kind, is) != 0))
                fail_msg("%s is %s, not %s", address_format(a, text), is ? is : "public", kind ? kind : "public");
}

#define METADATA "link-local (cloud metadata)"
#define ONES ":ffff:ffff:ffff:ffff:ffff:ffff"
#define END "end" /* there is no neighbour */

/* first, last, what they and those between are, what the neighbours outside are. NULL: public. */
static const struct {
        const char *first, *last, *kind, *before, *after;
} ranges[] = {
        {"0.0.0.0", "0.0.0.0", "unspecified", "reserved", "this-network"},
        {"0.0.0.1", "0.255.255.255", "this-network", "unspecified", NULL},
        {"10.0.0.0", "10.255.255.255", "private", NULL, NULL},
        {"100.64.0.0", "100.127.255.255", "shared", NULL, NULL},
        {"127.0.0.0", "127.255.255.255", "loopback", NULL, NULL},
        {"168.63.129.16", "168.63.129.16", "cloud metadata", NULL, NULL},
        {"169.254.0.0", "169.254.255.255", METADATA, NULL, NULL},
        {"172.16.0.0", "172.31.255.255", "private", NULL, NULL},
        {"192.0.0.0", "192.0.0.255", "protocol-assignment", NULL, NULL},
        {"192.0.2.0", "192.0.2.255", "documentation", NULL, NULL},
        {"192.88.99.0", "192.88.99.255", "6to4-relay", NULL, NULL},
        {"192.168.0.0", "192.168.255.255", "private", NULL, NULL},
        {"198.18.0.0", "198.19.255.255", "benchmark", NULL, NULL},
        {"198.51.100.0", "198.51.100.255", "documentation", NULL, NULL},
        {"203.0.113.0", "203.0.113.255", "documentation", NULL, NULL},
        {"224.0.0.0", "239.255.255.255", "multicast", NULL, "reserved"},
        {"240.0.0.0", "255.255.255.254", "reserved", "multicast", "broadcast"},
        {"255.255.255.255", "255.255.255.255", "broadcast", "reserved", "reserved"},
        {"1.0.0.0", "9.255.255.255", NULL, "this-network", "private"},
        {"203.0.114.0", "223.255.255.255", NULL, "documentation", "multicast"},

        {"::", "::", "unspecified", END, "loopback"},
        {"::1", "::1", "loopback", "unspecified", "ipv4-compatible"},
        {"::2", "::ffff:ffff", "ipv4-compatible", "loopback", "reserved"},
        {"::1:0:0", "::fffe:ffff:ffff", "reserved", "ipv4-compatible", "unspecified"},
        {"::ffff:0:0:0", "::ffff:0:ffff:ffff", "ipv4-translated", "reserved", "reserved"},
        {"64:ff9b::", "64:ff9b::ffff:ffff", "nat64", "reserved", "reserved"},
        {"64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "nat64", "reserved", "reserved"},
        {"100::", "100::ffff:ffff:ffff:ffff", "discard", "reserved", "reserved"},
        {"2000::", "2000:ffff" ONES, NULL, "reserved", "teredo"},
        {"2001::", "2001:0" ONES, "teredo", NULL, "protocol-assignment"},
        {"2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", "benchmark", "protocol-assignment", "protocol-assignment"},
        {"2001:10::", "2001:1f" ONES, "orchid", "protocol-assignment", "orchid"},
        {"2001:20::", "2001:2f" ONES, "orchid", "orchid", "protocol-assignment"},
        {"2001:30::", "2001:1ff" ONES, "protocol-assignment", "orchid", NULL},
        {"2001:db8::", "2001:db8" ONES, "documentation", NULL, NULL},
        {"2002::", "2002:ffff" ONES, "6to4", NULL, NULL},
        {"2003::", "3ffe:ffff" ONES, NULL, "6to4", "documentation"},
        {"3fff::", "3fff:fff" ONES, "documentation", NULL, NULL},
        {"3fff:1000::", "3fff:ffff" ONES, NULL, "documentation", "reserved"},
        {"4000::", "5eff:ffff" ONES, "reserved", NULL, "segment-routing"},
        {"5f00::", "5f00:ffff" ONES, "segment-routing", "reserved", "reserved"},
        {"5f01::", "fbff:ffff" ONES, "reserved", "segment-routing", "private"},
        {"fc00::", "fdff:ffff" ONES, "private", "reserved", "reserved"},
        {"fe80::", "febf:ffff" ONES, "link-local", "reserved", "site-local"},
        {"fec0::", "feff:ffff" ONES, "site-local", "link-local", "multicast"},
        {"ff00::", "ffff:ffff" ONES, "multicast", "site-local", END},
};

static void test_forbidden(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
                struct address first = parsed(ranges[i].first), last = parsed(ranges[i].last);

                check_kind(&first, ranges[i].kind);
                check_kind(&last, ranges[i].kind);
                assert_int_equal(move(&first, -1), ranges[i].before != NULL && strcmp(ranges[i].before, END) == 0 ? false : true);
                if (!ranges[i].before || strcmp(ranges[i].before, END) != 0)
                        check_kind(&first, ranges[i].before);
                assert_int_equal(move(&last, 1), ranges[i].after != NULL && strcmp(ranges[i].after, END) == 0 ? false : true);
                if (!ranges[i].after || strcmp(ranges[i].after, END) != 0)
                        check_kind(&last, ranges[i].after);
        }
}

/* Those that are somewhere inside of what they belong to. */
static void test_forbidden_well_known(void **state)
{
        static const struct {
                const char *text, *kind;
        } table[] = {
                {"169.254.169.254", METADATA},
                {"100.100.100.200", "shared"},
                {"192.0.0.192", "protocol-assignment"},
                {"fd00:ec2::254", "private"},
                {"fd20:ce::254", "private"},
                {"::ffff:127.0.0.1", "loopback"},
                {"::ffff:169.254.169.254", METADATA},
                {"::FFFF:A9FE:A9FE", METADATA},
                {"::ffff:8.8.8.8", NULL},
                {"::127.0.0.1", "ipv4-compatible"},
                {"::8.8.8.8", "ipv4-compatible"},
                {"::ffff:0:127.0.0.1", "ipv4-translated"},
                {"64:ff9b::127.0.0.1", "nat64"},
                {"64:ff9b::8.8.8.8", "nat64"},
                {"64:ff9b:1::10.0.0.1", "nat64"},
                {"2001::10.0.0.1", "teredo"},
                {"2002:7f00:1::", "6to4"},
                {"2a00:1450:4001::5efe:10.0.0.1", "isatap"},
                {"2a00:1450:4001::5efe:8.8.8.8", "isatap"},
                {"2a00:1450:4001::200:5efe:10.0.0.1", "isatap"},
                {"fe80::5efe:10.0.0.1", "link-local"},
                {"2a00:1450:4001::100:5efe:10.0.0.1", NULL},
                {"2a00:1450:4001::5eff:10.0.0.1", NULL},
                {"2a00:1450:4001:5efe::1", NULL},
                {"8.8.8.8", NULL},
                {"1.1.1.1", NULL},
                {"151.101.0.223", NULL},
                {"2606:4700:4700::1111", NULL},
                {"2a04:4e42::223", NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct address a = parsed(table[i].text);
                check_kind(&a, table[i].kind);
        }
}

static void test_parse(void **state)
{
        /* As it is written, and in canonical form; NULL: no address. */
        static const struct {
                const char *text, *canonical;
        } table[] = {
                {"1.2.3.4", "1.2.3.4"},
                {"0.0.0.0", "0.0.0.0"},
                {"255.255.255.255", "255.255.255.255"},
                {"::ffff:1.2.3.4", "1.2.3.4"},
                {"0:0:0:0:0:ffff:0102:0304", "1.2.3.4"},
                {"0000:0000:0000:0000:0000:ffff:255.255.255.255", "255.255.255.255"},
                {"::", "::"},
                {"::1", "::1"},
                {"1::", "1::"},
                {"2001:DB8::A", "2001:db8::a"},
                {"2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1"},
                {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"}, /* one group is not shortened */
                {"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},          /* the longest row is */
                {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},    /* of two as long, the first */
                {"1:2:3:4:5:6:0:0", "1:2:3:4:5:6::"},
                {"0:0:3:4:5:6:7:8", "::3:4:5:6:7:8"},
                {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"},
                {"::1.2.3.4", "::102:304"},
                {"64:ff9b::1.2.3.4", "64:ff9b::102:304"},
                {"", NULL},
                {"1.2.3", NULL},
                {"1.2.3.4.", NULL},
                {"1.2.3.4.5", NULL},
                {"1.2.3.256", NULL},
                {"01.2.3.4", NULL},
                {"1.2.3.04", NULL},
                {"0x7f.0.0.1", NULL},
                {"2130706433", NULL},
                {" 1.2.3.4", NULL},
                {"1.2.3.4 ", NULL},
                {"+1.2.3.4", NULL},
                {"1.2.3.-4", NULL},
                {"[::1]", NULL},
                {"::1%lo", NULL},
                {"fe80::1%eth0", NULL},
                {"::1%", NULL},
                {":", NULL},
                {":::", NULL},
                {"1::2::3", NULL},
                {"1:2:3:4:5:6:7", NULL},
                {"1:2:3:4:5:6:7:8:9", NULL},
                {"::10000", NULL},
                {"::g", NULL},
                {"1.2.3.4::", NULL},
                {"::1.2.3", NULL},
                {"::1.2.3.256", NULL},
                {"localhost", NULL},
                {"0000:0000:0000:0000:0000:ffff:255.255.255.2555", NULL},
        };
        char text[ADDRESS_TEXT_MAX];

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct address a;
                int r = address_parse(table[i].text, strlen(table[i].text), &a);
                if (r != (table[i].canonical ? 0 : -EINVAL))
                        fail_msg("\"%s\": %d", table[i].text, r);
                if (table[i].canonical)
                        assert_string_equal(address_format(&a, text), table[i].canonical);
        }
        struct address a;
        assert_int_equal(address_parse("1.2.3.4\0x", 9, &a), -EINVAL);
        assert_int_equal(address_parse("1.2.3.4", 6, &a), -EINVAL);
        assert_int_equal(address_parse("1.2.3.45", 7, &a), 0);
        assert_string_equal(address_format(&a, text), "1.2.3.4");
        assert_true(address_is_ipv4(&a));
        a = parsed("::1.2.3.4");
        assert_false(address_is_ipv4(&a));
}

static void test_parse_odd(void **state)
{
        static const struct {
                const char *text, *is;
        } table[] = {
                {"127.0.0.1", "127.0.0.1"},
                {"127.1", "127.0.0.1"},
                {"127.0.1", "127.0.0.1"},
                {"10.258", "10.0.1.2"},
                {"10.1.515", "10.1.2.3"},
                {"0x7f.1", "127.0.0.1"},
                {"0X7F.0x0.0.01", "127.0.0.1"},
                {"0177.0.0.1", "127.0.0.1"},
                {"0000177.0.0.1", "127.0.0.1"},
                {"2130706433", "127.0.0.1"},
                {"0x7f000001", "127.0.0.1"},
                {"0x00000000007f000001", "127.0.0.1"},
                {"017700000001", "127.0.0.1"},
                {"0", "0.0.0.0"},
                {"255.255.255.255", "255.255.255.255"},
                {"0xa.0xF.0xAf.0xfA", "10.15.175.250"},
                {"4294967295", "255.255.255.255"},
                {"1.16777215", "1.255.255.255"},
                {"1.2.65535", "1.2.255.255"},
                {"4294967296", NULL},
                {"18446744073709551617", NULL},
                {"1.16777216", NULL},
                {"1.2.65536", NULL},
                {"1.2.3.256", NULL},
                {"256.1", NULL},
                {"08", NULL},
                {"1.2.3.09", NULL},
                {"0x", NULL},
                {"0x.1", NULL},
                {"0xg", NULL},
                {"1a", NULL},
                {"1.2.3.4.", NULL},
                {"1.2.3.4.5", NULL},
                {".1", NULL},
                {"1..2", NULL},
                {"1.2.3.4 x", NULL}, /* inet_aton() takes that */
                {" 1.2.3.4", NULL},
                {"+1", NULL},
                {"-1", NULL},
                {"", NULL},
                {"::1", NULL},
        };
        char text[ADDRESS_TEXT_MAX];

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct address a;
                int r = address_parse_odd(table[i].text, strlen(table[i].text), &a);
                if (r != (table[i].is ? 0 : -EINVAL))
                        fail_msg("\"%s\": %d", table[i].text, r);
                if (table[i].is)
                        assert_string_equal(address_format(&a, text), table[i].is);
        }
}

/* What is formatted is read back as the same, and is what the C library writes. */
static void test_format_back(void **state)
{
        uint64_t random = 1;

        for (unsigned round = 0; round < 20000; round++) {
                char text[ADDRESS_TEXT_MAX], other[INET6_ADDRSTRLEN];
                uint8_t bytes[16] = {};
                struct address a, back;

                for (unsigned i = 0; i < 8; i++) {
                        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
                        if (random >> 62 != 0)
                                continue; /* many groups are 0 */
                        bytes[2 * i] = (uint8_t)(random >> 40 & (random >> 61 ? 0xff : 0));
                        bytes[2 * i + 1] = (uint8_t)(random >> 48);
                }
                address_from_ipv6(bytes, &a);
                address_format(&a, text);
                back = parsed(text);
                assert_true(address_equals(&a, &back));
                /* It writes addresses that begin with 80 zeros, or 96, with an IPv4 at their end; the others as we do. */
                if (memcmp(bytes, (uint8_t[10]){}, 10) != 0)
                        assert_string_equal(text, inet_ntop(AF_INET6, bytes, other, sizeof(other)));
        }
}

static void test_ranges(void **state)
{
        static const struct {
                const char *text, *canonical; /* NULL: not a range */
                const char *in, *out;
        } table[] = {
                {"10.0.0.0/8", "10.0.0.0/8", "10.255.255.255", "11.0.0.0"},
                {"10.0.0.0/8", "10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"},
                {"192.168.1.128/25", "192.168.1.128/25", "192.168.1.129", "192.168.1.127"},
                {"192.168.1.2", "192.168.1.2", "192.168.1.2", "192.168.1.3"},
                {"192.168.1.2/32", "192.168.1.2", "192.168.1.2", "192.168.1.3"},
                {"192.168.1.2/31", "192.168.1.2/31", "192.168.1.3", "192.168.1.4"},
                {"0.0.0.0/0", "0.0.0.0/0", "255.1.2.3", "::1"},
                {"::/0", "::/0", "ffff::1", "10.0.0.1"},
                {"::/1", "::/1", "7fff::1", "8000::"},
                {"fd00::/8", "fd00::/8", "fdff::1", "fc00::1"},
                {"2001:DB8::/33", "2001:db8::/33", "2001:db8:7fff::", "2001:db8:8000::"},
                {"fd00::1/128", "fd00::1", "fd00::1", "fd00::2"},
                {"::ffff:10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2"},
                {"64:ff9b::/96", "64:ff9b::/96", "64:ff9b::1.2.3.4", "64:ff9b::1:0:0"},
                {"10.0.0.0/9", "10.0.0.0/9", "10.127.1.1", "10.128.0.0"},
                {"10.0.0.1/8", NULL, NULL, NULL},
                {"10.0.0.0/1x", NULL, NULL, NULL},
                {"10.0.0.0/x", NULL, NULL, NULL},
                {"fd00::/0008", NULL, NULL, NULL},
                {"fd00::/4294967304", NULL, NULL, NULL}, /* 8 in 32 bits */
                {"10.0.0.0/33", NULL, NULL, NULL},
                {"10.0.0.0/", NULL, NULL, NULL},
                {"10.0.0.0/08", NULL, NULL, NULL},
                {"10.0.0.0/+8", NULL, NULL, NULL},
                {"10.0.0.0/8 ", NULL, NULL, NULL},
                {"10.0.0.0/8/8", NULL, NULL, NULL},
                {"10.0.0.0/255.0.0.0", NULL, NULL, NULL},
                {"10/8", NULL, NULL, NULL},
                {"fd00::/129", NULL, NULL, NULL},
                {"fd00::/256", NULL, NULL, NULL},
                {"fd00::1/64", NULL, NULL, NULL},
                {"::ffff:10.0.0.0/104", NULL, NULL, NULL},
                {"::ffff:10.0.0.0/8", NULL, NULL, NULL},
                {"[fd00::]/8", NULL, NULL, NULL},
                {"fe80::%eth0/64", NULL, NULL, NULL},
                {"/8", NULL, NULL, NULL},
                {"", NULL, NULL, NULL},
                {"*", NULL, NULL, NULL},
        };
        char text[ADDRESS_TEXT_MAX + 4];

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct address_range range, back;
                int r = address_range_parse(table[i].text, strlen(table[i].text), &range);
                if (r != (table[i].canonical ? 0 : -EINVAL))
                        fail_msg("\"%s\": %d", table[i].text, r);
                if (!table[i].canonical)
                        continue;
                assert_string_equal(address_range_format(&range, text), table[i].canonical);
                assert_int_equal(address_range_parse(text, strlen(text), &back), 0);
                assert_memory_equal(&range, &back, sizeof(range));
                struct address in = parsed(table[i].in), out = parsed(table[i].out);
                if (!address_range_has(&range, &in) || address_range_has(&range, &out))
                        fail_msg("%s has the wrong addresses", text);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_forbidden),
                cmocka_unit_test(test_forbidden_well_known),
                cmocka_unit_test(test_parse),
                cmocka_unit_test(test_parse_odd),
                cmocka_unit_test(test_format_back),
                cmocka_unit_test(test_ranges),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
