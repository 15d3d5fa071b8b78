/* SPDX-License-Identifier: Apache-2.0
 *
 * Attack 122: ClientHellos of every kind, whole, in pieces and in records of every size. */
#include "egress/hello.h"

#include "base/limits.h"
#include "base/macro.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What clients really send. */

/* OpenSSL 3.0, TLS 1.3, ALPN. */
static const char openssl_13[] =
        "1603010200010001fc0303e117a4447eb5b5f49bcb697c1c6fed2a5360e68be52f6b7cb71fd7e7bbd933bf207d4f7e8c6a01538f5c2e46834faa152a7934e9b7be9bedbf9ba637bff0fbdf"
        "d7003e130213031301c02cc030009fcca9cca8ccaac02bc02f009ec024c028006bc023c0270067c00ac0140039c009c0130033009d009c003d003c0035002f00ff010001750000000d000b"
        "000008707970692e6f7267000b000403000102000a00160014001d0017001e0019001801000101010201030104002300000010000e000c02683208687474702f312e310016000000170000"
        "000d002a0028040305030603080708080809080a080b080408050806040105010601030303010302040205020602002b0009080304030303020301002d00020101003300260024001d0020"
        "aeeb97859801c49be4864f51ef70ac93295f23063bdc1391d3b7ee5e74e0fa45001500b5000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000";

/* OpenSSL 3.0, TLS 1.2. */
static const char openssl_12[] =
        "16030100d6010000d203037a186842547054353b887918bdf70faae4d379ce3a135a0b1fb6100276d38fca000038c02cc030009fcca9cca8ccaac02bc02f009ec024c028006bc023c02700"
        "67c00ac0140039c009c0130033009d009c003d003c0035002f00ff010000710000001b001900001666696c65732e707974686f6e686f737465642e6f7267000b000403000102000a000c00"
        "0a001d0017001e00190018002300000016000000170000000d002a0028040305030603080708080809080a080b080408050806040105010601030303010302040205020602";

/* OpenSSL 3.0, TLS 1.2, without a name. */
static const char openssl_no_name[] =
        "16030100b7010000b3030346f22e7b48b74ecbd083bd46aaff69384bab0169c5c089b5feb5297baed55c0b000038c02cc030009fcca9cca8ccaac02bc02f009ec024c028006bc023c02700"
        "67c00ac0140039c009c0130033009d009c003d003c0035002f00ff01000052000b000403000102000a000c000a001d0017001e00190018002300000016000000170000000d002a00280403"
        "05030603080708080809080a080b080408050806040105010601030303010302040205020602";

/* Go 1.26. */
static const char go_13[] =
        "160301012e0100012a03037ed4000ce0e2f5f56c927f32d928b77b27b418917eedf8282de21ebd2913137c20540c6c0345501a2b2d31b3f557acecdb9997504e3096b84f369c46658637a1"
        "470026c02bc02fc02cc030cca9cca8c009c013c00ac014009c009d002f0035c012000a130113021303010000bb00000015001300001070726f78792e676f6c616e672e6f7267000b000201"
        "00ff010001000017000000120000000500050100000000000a000a0008001d001700180019000d001a00180804040308070805080604010501060105030603020102030032001a00180804"
        "04030807080508060401050106010503060302010203001000050003026832002b00050403040303003300260024001d00204a53774bea99d4ac7a74f7b8f91a1eeb0a73449acddad0fa0f"
        "71eae8d20a606e";

/* Go 1.26 with ECH, for secret.example.com. */
static const char go_ech[] =
        "160301019c010001980303126d5d2628e7e899599b4b83f86061fb11646ff2f33d0293e65d8a7473903c5720cb0bdd176c79ad802cbe2762aa8f37187b46c8e8c1cf54050b71086cb84f5c"
        "ef0006130113021303010001490000001700150000127075626c69632e6578616d706c652e636f6d00120000fe0d00ac000001000107002037ad7b599fc9ab2b7809f1791b807f39f18cfc"
        "b1ba70a6f37dcc8b8a3f792a58008211fc7b2590b223d555eaa56be4a91a2f590cb86a0c774110122ffc1abeaf00b5f4f0e18f94eedb996a3f7d2ef83744bd7c0bf8e0b240ded0b7a52dfe"
        "f7d14f7b7c60b6bfab446c50aa5409c1738a250e3d13e9f2cdef550a2c052fbb2eccfb01b6875f4dfd72ecb15e91ab2f5c5817fa937d6d27138192694274a0830af8639025550005000501"
        "00000000000a000a0008001d001700180019000d0010000e08040403080708050806050306030032001a0018080404030807080508060401050106010503060302010203002b0003020304"
        "003300260024001d0020fac00d11f605371d8b3df05a52ad9d173d1a5c4cb692f628b0b35ff420c6f502";

struct bytes {
        uint8_t data[70000];
        size_t size;
};

static void add(struct bytes *b, const void *data, size_t size)
{
        assert_true(size <= sizeof(b->data) - b->size);
        memcpy(b->data + b->size, data, size);
        b->size += size;
}

static void add_number(struct bytes *b, unsigned n_bytes, size_t number)
{
        while (n_bytes-- > 0)
                add(b, &(uint8_t){(uint8_t)(number >> 8 * n_bytes)}, 1);
}

static void add_vector(struct bytes *b, unsigned n_bytes, const struct bytes *inner)
{
        add_number(b, n_bytes, inner->size);
        add(b, inner->data, inner->size);
}

/* Hex digits; blanks are for the reader. */
static void add_hex(struct bytes *b, const char *hex)
{
        for (; *hex; hex++) {
                unsigned value;
                if (*hex == ' ')
                        continue;
                assert_int_equal(sscanf(hex++, "%2x", &value), 1);
                add_number(b, 1, value);
        }
}

/* In records of record_size. */
static void add_records(struct bytes *b, const struct bytes *message, size_t record_size)
{
        for (size_t at = 0; at < message->size; at += record_size) {
                size_t size = MIN(record_size, message->size - at);
                add_hex(b, "160301");
                add_number(b, 2, size);
                add(b, message->data + at, size);
        }
}

static const char *const words[] = {[HELLO_MORE] = "more", [HELLO_DONE] = "done", [HELLO_NOT_TLS] = "not TLS", [HELLO_BAD] = "bad"};

/* From a copy that ends where the bytes end, for those who watch over memory. */
static enum hello_result parse(const uint8_t *data, size_t size, struct hello *ret)
{
        _cleanup_free_ uint8_t *copy = malloc(size + 1);

        assert_non_null(copy);
        memcpy(copy + 1, data, size);
        return hello_parse(copy + 1, size, ret);
}

/* Every beginning of it asks for more, up to the one that decides; and what was decided stays so. name NULL: has none. How many bytes decided it. */
static size_t check(const char *what, const struct bytes *b, enum hello_result expected, const char *name, bool has_ech)
{
        size_t decided = 0;

        for (size_t size = 0; size <= b->size; size++) {
                struct hello hello;
                memset(&hello, 0x55, sizeof(hello));
                enum hello_result r = parse(b->data, size, &hello);

                if (r == HELLO_MORE && decided == 0) {
                        assert_true(size < EGRESS_HELLO_MAX);
                        continue;
                }
                if (r != expected)
                        fail_msg("%s: %zu of %zu bytes are %s, not %s", what, size, b->size, words[r], words[expected]);
                if (decided == 0)
                        decided = size;
                if (r != HELLO_DONE) {
                        assert_int_equal(hello.name[0], 0x55);
                        continue;
                }
                if (hello.has_name != (name != NULL) || hello.has_ech != has_ech || strcmp(hello.name, name ? name : "") != 0)
                        fail_msg("%s: \"%s\", %d, %d", what, hello.name, hello.has_name, hello.has_ech);
        }
        if (decided == 0 && expected != HELLO_MORE)
                fail_msg("%s: never %s", what, words[expected]);
        return decided;
}

static void test_real(void **state)
{
        static const struct {
                const char *hex, *name;
                bool has_ech;
        } table[] = {
                {openssl_13, "pypi.org", false},
                {openssl_12, "files.pythonhosted.org", false},
                {openssl_no_name, NULL, false},
                {go_13, "proxy.golang.org", false},
                {go_ech, "public.example.com", true},
        };
        static const size_t record_sizes[] = {1, 2, 3, 4, 5, 7, 43, 100, 16384};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                static struct bytes b, message;

                b.size = message.size = 0;
                add_hex(&b, table[i].hex);
                assert_int_equal(check(table[i].hex, &b, HELLO_DONE, table[i].name, table[i].has_ech), b.size);

                /* The same in other records; and other bytes behind it change nothing. */
                add(&message, b.data + 5, b.size - 5);
                for (size_t j = 0; j < ARRAY_SIZE(record_sizes); j++) {
                        b.size = 0;
                        add_records(&b, &message, record_sizes[j]);
                        size_t whole = b.size;
                        add_hex(&b, "1403030001011703030001");
                        assert_int_equal(check(table[i].hex, &b, HELLO_DONE, table[i].name, table[i].has_ech), whole);
                }
        }
}

/* A ClientHello with its head, of parts that are right unless they are given. extensions NULL: without any; otherwise hex. */
struct parts {
        const char *version, *session, *ciphers, *compressions, *extensions, *behind;
};

static void make_message(const struct parts *p, struct bytes *ret)
{
        static struct bytes body, extensions;

        body.size = extensions.size = ret->size = 0;
        add_hex(&body, p->version ? p->version : "0303");
        for (unsigned i = 0; i < 32; i++)
                add_number(&body, 1, i);
        add_hex(&body, p->session ? p->session : "00");
        add_hex(&body, p->ciphers ? p->ciphers : "0004 1301c02f");
        add_hex(&body, p->compressions ? p->compressions : "0100");
        if (p->extensions) {
                add_hex(&extensions, p->extensions);
                add_vector(&body, 2, &extensions);
        }
        add_hex(&body, p->behind ? p->behind : "");
        add_number(ret, 1, 1);
        add_vector(ret, 3, &body);
}

#define SNI "0000 000a 0008 00 0005 612e636f6d" /* a.com */
#define X10 "00010203040506070809"

static void test_extensions(void **state)
{
        static const struct {
                const char *what, *extensions;
                enum hello_result is;
                const char *name;
                bool has_ech;
        } table[] = {
                {"a name", SNI, HELLO_DONE, "a.com", false},
                {"upper case stays", "0000 000a 0008 00 0005 412e434f4d", HELLO_DONE, "A.COM", false},
                {"a dot at the end stays", "0000 000b 0009 00 0006 612e636f6d2e", HELLO_DONE, "a.com.", false},
                {"an address is a name, too", "0000 000c 000a 00 0007 312e322e332e34", HELLO_DONE, "1.2.3.4", false},
                {"one letter", "0000 0006 0004 00 0001 61", HELLO_DONE, "a", false},
                {"no field of extensions", NULL, HELLO_DONE, NULL, false},
                {"an empty one", "", HELLO_DONE, NULL, false},
                {"others only", "0017 0000 ff01 0001 00 002b 0003 020304", HELLO_DONE, NULL, false},
                {"a name at the end", "0017 0000 ff01 0001 00" SNI, HELLO_DONE, "a.com", false},
                {"a name in the middle", "0017 0000" SNI "ff01 0001 00", HELLO_DONE, "a.com", false},
                {"two names in one list", "0000 0012 0010 00 0005 612e636f6d 00 0005 622e636f6d", HELLO_BAD, NULL, false},
                {"the same name twice in one list", "0000 0012 0010 00 0005 612e636f6d 00 0005 612e636f6d", HELLO_BAD, NULL, false},
                {"two extensions of names", SNI "0000 000a 0008 00 0005 622e636f6d", HELLO_BAD, NULL, false},
                {"two of the same name", SNI SNI, HELLO_BAD, NULL, false},
                {"two apart", SNI "0017 0000" SNI, HELLO_BAD, NULL, false},
                {"a name and an empty extension", SNI "0000 0000", HELLO_BAD, NULL, false},
                {"an empty extension", "0000 0000", HELLO_BAD, NULL, false},
                {"an empty list", "0000 0002 0000", HELLO_BAD, NULL, false},
                {"an empty list and more", "0000 000a 0000 00 0005 612e636f6d", HELLO_BAD, NULL, false},
                {"half a list length", "0000 0001 00", HELLO_BAD, NULL, false},
                {"a list too short", "0000 000a 0007 00 0005 612e636f6d", HELLO_BAD, NULL, false},
                {"a list too long", "0000 000a 0009 00 0005 612e636f6d", HELLO_BAD, NULL, false},
                {"a byte behind the list", "0000 000b 0008 00 0005 612e636f6d 00", HELLO_BAD, NULL, false},
                {"a byte behind the name", "0000 000b 0009 00 0005 612e636f6d 00", HELLO_BAD, NULL, false},
                {"an empty name", "0000 0005 0003 00 0000", HELLO_BAD, NULL, false},
                {"a name longer than its list", "0000 000a 0008 00 0006 612e636f6d", HELLO_BAD, NULL, false},
                {"a name of another type", "0000 000a 0008 01 0005 612e636f6d", HELLO_BAD, NULL, false},
                {"another type behind the name", "0000 0012 0010 00 0005 612e636f6d 01 0005 622e636f6d", HELLO_BAD, NULL, false},
                {"another type before the name", "0000 0012 0010 01 0005 612e636f6d 00 0005 622e636f6d", HELLO_BAD, NULL, false},
                {"a NUL at the end", "0000 000b 0009 00 0006 612e636f6d00", HELLO_BAD, NULL, false},
                {"a NUL inside", "0000 000a 0008 00 0005 6100636f6d", HELLO_BAD, NULL, false},
                {"a NUL at the beginning", "0000 000a 0008 00 0005 002e636f6d", HELLO_BAD, NULL, false},
                {"a blank", "0000 000a 0008 00 0005 6120636f6d", HELLO_BAD, NULL, false},
                {"a newline", "0000 000a 0008 00 0005 610a636f6d", HELLO_BAD, NULL, false},
                {"DEL", "0000 000a 0008 00 0005 617f636f6d", HELLO_BAD, NULL, false},
                {"not ASCII", "0000 000a 0008 00 0005 61c3bc6f6d", HELLO_BAD, NULL, false},
                {"ECH behind a name", SNI "fe0d 0001 00", HELLO_DONE, "a.com", true},
                {"ECH before a name", "fe0d 0001 00" SNI, HELLO_DONE, "a.com", true},
                {"ECH without a name", "fe0d 0001 01", HELLO_DONE, NULL, true},
                {"empty ECH", SNI "fe0d 0000", HELLO_DONE, "a.com", true},
                {"ECH twice", SNI "fe0d 0000 fe0d 0000", HELLO_BAD, NULL, false},
                {"encrypted_server_name", SNI "ffce 0001 00", HELLO_DONE, "a.com", true},
                {"neighbours of ECH", SNI "fe0c 0000 fe0e 0000 ffcd 0000 ffcf 0000", HELLO_DONE, "a.com", false},
                {"another twice", SNI "0017 0000 0017 0000", HELLO_BAD, NULL, false},
                {"another twice, apart", "0017 0000" SNI "0017 0001 00", HELLO_BAD, NULL, false},
                {"a random one twice", "0a0a 0000" SNI "0a0a 0000", HELLO_BAD, NULL, false},
                {"random ones", "0a0a 0000" SNI "1a1a 0001 00", HELLO_DONE, "a.com", false},
                {"the first and the last number", "ffff 0000" SNI "0001 0001 01", HELLO_DONE, "a.com", false},
                {"one byte of an extension", SNI "00", HELLO_BAD, NULL, false},
                {"its type only", SNI "0017", HELLO_BAD, NULL, false},
                {"half its length", SNI "0017 00", HELLO_BAD, NULL, false},
                {"longer than what is left", SNI "0017 0001", HELLO_BAD, NULL, false},
                {"a name longer than what is left", "0000 000b 0008 00 0005 612e636f6d", HELLO_BAD, NULL, false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                static struct bytes b, message;

                make_message(&(struct parts){.extensions = table[i].extensions}, &message);
                for (size_t record_size = 1; record_size <= message.size; record_size += record_size < 12 ? 1 : message.size - 12) {
                        b.size = 0;
                        add_records(&b, &message, record_size);
                        assert_int_equal(check(table[i].what, &b, table[i].is, table[i].name, table[i].has_ech), b.size);
                }
        }
}

static void test_parts(void **state)
{
        static const struct {
                const char *what;
                struct parts parts;
                enum hello_result is;
        } table[] = {
                {"TLS 1.0", {.version = "0301", .extensions = SNI}, HELLO_DONE},
                {"TLS 1.1", {.version = "0302", .extensions = SNI}, HELLO_DONE},
                {"TLS 1.2", {.version = "0303", .extensions = SNI}, HELLO_DONE},
                {"SSL 3", {.version = "0300", .extensions = SNI}, HELLO_BAD},
                {"SSL 2", {.version = "0002", .extensions = SNI}, HELLO_BAD},
                {"TLS 1.3 in the wrong place", {.version = "0304", .extensions = SNI}, HELLO_BAD},
                {"DTLS", {.version = "fefd", .extensions = SNI}, HELLO_BAD},
                {"a session", {.session = "20" X10 X10 X10 "0000", .extensions = SNI}, HELLO_DONE},
                {"a session too long", {.session = "21" X10 X10 X10 "000000", .extensions = SNI}, HELLO_BAD},
                {"a session of all the rest", {.session = "ff", .extensions = SNI}, HELLO_BAD},
                {"no ciphers", {.ciphers = "0000", .extensions = SNI}, HELLO_BAD},
                {"half a cipher", {.ciphers = "0003 130113", .extensions = SNI}, HELLO_BAD},
                {"ciphers of all the rest", {.ciphers = "fffe 1301", .extensions = SNI}, HELLO_BAD},
                {"no compression at all", {.compressions = "00", .extensions = SNI}, HELLO_BAD},
                {"only with compression", {.compressions = "0101", .extensions = SNI}, HELLO_BAD},
                {"perhaps with compression", {.compressions = "020100", .extensions = SNI}, HELLO_DONE},
                {"compressions of all the rest", {.compressions = "ff00", .extensions = SNI}, HELLO_BAD},
                {"a byte behind it", {.extensions = SNI, .behind = "00"}, HELLO_BAD},
                {"extensions behind extensions", {.extensions = SNI, .behind = "0000"}, HELLO_BAD},
                {"half a length of extensions", {.behind = "00"}, HELLO_BAD},
                {"extensions longer than it", {.behind = "0001"}, HELLO_BAD},
        };
        static struct bytes b, message, cut;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                b.size = 0;
                make_message(&table[i].parts, &message);
                add_records(&b, &message, message.size);
                assert_int_equal(check(table[i].what, &b, table[i].is, "a.com", false), b.size);
        }

        /* A message that ends too early is bad wherever that is; but between the compressions and the extensions it is one from before those. */
        make_message(&(struct parts){.extensions = SNI}, &message);
        size_t old = 4 + 2 + 32 + 1 + 2 + 4 + 2;
        for (size_t size = 4; size < message.size; size++) {
                b.size = cut.size = 0;
                add_number(&cut, 1, 1);
                add_number(&cut, 3, size - 4);
                add(&cut, message.data + 4, size - 4);
                add_records(&b, &cut, cut.size);
                check("cut", &b, size == old ? HELLO_DONE : HELLO_BAD, NULL, false);
        }
}

static void test_others(void **state)
{
        static const struct {
                const char *what, *hex;
                enum hello_result is;
                size_t decided; /* by so many bytes */
        } table[] = {
                {"nothing", "", HELLO_MORE, 0},
                {"half a head", "16030100", HELLO_MORE, 0},
                {"a head", "1603010100", HELLO_MORE, 0},
                {"a request of HTTP", "474554202f20485454502f312e310d0a0d0a", HELLO_NOT_TLS, 1},
                {"SSH", "5353482d322e302d78", HELLO_NOT_TLS, 1},
                {"SOCKS", "050100", HELLO_NOT_TLS, 1},
                {"NUL", "0000000000", HELLO_NOT_TLS, 1},
                {"SSL 2", "802e0103010015000000100000", HELLO_NOT_TLS, 1},
                {"an alert", "15030100020228", HELLO_NOT_TLS, 1},
                {"a change of ciphers", "140303000101", HELLO_NOT_TLS, 1},
                {"data", "170303000161", HELLO_NOT_TLS, 1},
                {"a heartbeat", "18030300030100ff", HELLO_NOT_TLS, 1},
                {"version 2", "1602000005", HELLO_NOT_TLS, 2},
                {"DTLS", "16feff0000", HELLO_NOT_TLS, 2},
                {"SSL 3", "1603000005", HELLO_NOT_TLS, 3},
                {"version 3.5", "1603050005", HELLO_NOT_TLS, 3},
                {"version 3.255", "1603ff0005", HELLO_NOT_TLS, 3},
                {"TLS 1.3 in a head", "1603040100", HELLO_MORE, 0},
                {"an empty record", "1603010000", HELLO_BAD, 5},
                {"a record too long", "1603014001", HELLO_BAD, 5},
                {"a record of 64 KiB", "160301ffff", HELLO_BAD, 5},
                {"a HelloRequest", "160301000400000000", HELLO_BAD, 6},
                {"a ServerHello", "160303000602000002", HELLO_BAD, 6},
                {"a Finished", "160303000414000000", HELLO_BAD, 6},
                {"an empty ClientHello", "160301000401000000", HELLO_BAD, 9},
                {"one of 64 KiB", "1603013ff001010000", HELLO_BAD, 9},
                {"one of 16 MiB", "160301000401ffffff", HELLO_BAD, 9},
                {"its length in another record", "160301000101 16030100030100ff", HELLO_BAD, 14},
                {"a message behind it", "160301000a01000002", HELLO_BAD, 9},
                {"then an alert", "160301000401000020 15030100020228", HELLO_BAD, 10},
                {"then data", "160301000401000020 1703030001", HELLO_BAD, 10},
                {"then something else", "160301000401000020 47", HELLO_BAD, 10},
                {"then another version", "160301000401000020 1602", HELLO_BAD, 11},
                {"then SSL 3", "160301000401000020 160300", HELLO_BAD, 12},
                {"then an empty record", "160301000401000020 1603010000", HELLO_BAD, 14},
                {"then a record with more than the rest", "160301000401000020 1603010021", HELLO_BAD, 14},
                {"then another record", "160301000401000020 1603030020 0303", HELLO_MORE, 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                static struct bytes b;

                b.size = 0;
                add_hex(&b, table[i].hex);
                size_t decided = check(table[i].what, &b, table[i].is, NULL, false);
                if (decided != table[i].decided)
                        fail_msg("%s: decided by %zu bytes", table[i].what, decided);
        }
}

/* With one long extension before the name, so that the message has this size. */
static void make_long(size_t size, struct bytes *ret)
{
        static struct bytes body, extensions, padding;
        size_t others = 4 + 2 + 32 + 1 + 2 + 2 + 2 + 2 + 4 + 14;

        body.size = extensions.size = ret->size = 0;
        padding.size = size - others;
        add_number(&extensions, 2, 21);
        add_vector(&extensions, 2, &padding);
        add_hex(&extensions, SNI);
        for (unsigned i = 0; i < 17; i++)
                add_hex(&body, "0303");
        add_hex(&body, "00 0002 1301 0100");
        add_vector(&body, 2, &extensions);
        add_number(ret, 1, 1);
        add_vector(ret, 3, &body);
        assert_int_equal(ret->size, size);
}

static void test_sizes(void **state)
{
        static const struct {
                size_t message, record;
                enum hello_result is;
        } table[] = {
                {1700, 1460, HELLO_DONE}, /* a key of today, in two segments and records */
                {EGRESS_HELLO_MAX - 5, 16384, HELLO_DONE},
                {EGRESS_HELLO_MAX - 4, 16384, HELLO_BAD},
                {EGRESS_HELLO_MAX - 10, 8192, HELLO_DONE},
                {EGRESS_HELLO_MAX - 10, EGRESS_HELLO_MAX - 11, HELLO_DONE}, /* the last byte alone */
                {EGRESS_HELLO_MAX - 9, 8192, HELLO_BAD},
                {EGRESS_HELLO_MAX / 6, 1, HELLO_DONE},
                {EGRESS_HELLO_MAX / 6 + 1, 1, HELLO_BAD},
                {EGRESS_HELLO_MAX, 1, HELLO_BAD},
                {40000, 16384, HELLO_BAD},
                {40000, 100, HELLO_BAD},
                {60000, 16384, HELLO_BAD},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                static struct bytes b, message;
                char what[60];

                b.size = 0;
                make_long(table[i].message, &message);
                for (size_t at = 0; at < message.size && b.size <= EGRESS_HELLO_MAX + 100; at += table[i].record) {
                        static struct bytes piece;
                        piece.size = 0;
                        add(&piece, message.data + at, MIN(table[i].record, message.size - at));
                        add_records(&b, &piece, piece.size);
                }
                snprintf(what, sizeof(what), "%zu bytes in records of %zu", table[i].message, table[i].record);
                size_t decided = check(what, &b, table[i].is, "a.com", false);
                assert_true(decided <= EGRESS_HELLO_MAX);
                if (table[i].is == HELLO_DONE)
                        assert_int_equal(decided, b.size);
        }
}

/* In records of any sizes, mixed; the name may begin in one and end in another. */
static void test_records(void **state)
{
        static struct bytes b, message;
        uint64_t random = 122;

        make_message(&(struct parts){.extensions = "0017 0000" SNI "ff01 0001 00"}, &message);
        for (unsigned round = 0; round < 300; round++) {
                b.size = 0;
                for (size_t at = 0, size; at < message.size; at += size) {
                        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
                        size = MIN((size_t)(random >> 33) % (round % 40 + 1) + 1, message.size - at);
                        add_hex(&b, "1603");
                        add_number(&b, 1, 1 + (random >> 40) % 4);
                        add_number(&b, 2, size);
                        add(&b, message.data + at, size);
                }
                size_t whole = b.size;
                add_hex(&b, round % 2 ? "ffffff" : "1603030001");
                assert_int_equal(check("mixed", &b, HELLO_DONE, "a.com", false), whole);
        }
}

/* The longest name that there is, and one letter more. */
static void test_long_name(void **state)
{
        for (size_t size = 253; size <= 254; size++) {
                char hex[600], name[255];
                static struct bytes b, message;

                b.size = 0;
                sprintf(hex, "0000 %04zx %04zx 00 %04zx", size + 5, size + 3, size);
                for (size_t i = 0; i < size; i++) {
                        name[i] = i % 10 == 9 ? '.' : 'a';
                        sprintf(hex + strlen(hex), "%02x", (unsigned)name[i]);
                }
                name[size] = '\0';
                make_message(&(struct parts){.extensions = hex}, &message);
                add_records(&b, &message, message.size);
                check("a long name", &b, size == 253 ? HELLO_DONE : HELLO_BAD, name, false);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_real),
                cmocka_unit_test(test_extensions),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_others),
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_records),
                cmocka_unit_test(test_long_name),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
