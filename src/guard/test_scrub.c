/* SPDX-License-Identifier: Apache-2.0
 *
 * Catalogue 178 to 182, and the property: what comes out has no secret in it and does not depend on how the text was cut; other text stays as it is. */
#include "guard/test_scrub.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LITERAL(text) text, sizeof(text) - 1

static struct rules *tiny;

static int setup(void **state)
{
        tiny = tiny_rules();
        return 0;
}

static int teardown(void **state)
{
        rules_free(tiny);
        return 0;
}

/* ---- helpers ---- */

static int to_buffer(void *data, const void *bytes, size_t size)
{
        assert_true(size > 0);
        return buffer_add(data, bytes, size);
}

static struct scrub *make(const struct rules *rules, const struct scrub_secret *secrets, size_t n)
{
        struct scrub *s = NULL;

        assert_int_equal(scrub_new(rules, SCRUB_ON, secrets, n, &s, NULL), 0);
        return s;
}

static void scrub_whole(const struct scrub *s, const char *text, size_t size, struct buffer *out)
{
        int r = scrub_text(s, text, size, out, NULL);

        assert_true(r >= 0);
        if (r == 0)
                buffer_add(out, text, size);
}

static void check_same(const struct buffer *got, const struct buffer *want, const char *text, size_t size, const char *how)
{
        if (got->size == want->size && (got->size == 0 || memcmp(got->data, want->data, got->size) == 0))
                return;
        print_error("%s: %.*s\n   is: %.*s\n not: %.*s\n", how, (int)size, text, (int)got->size, got->data, (int)want->size, want->data);
        fail();
}

/* The stream is used again for each way to cut. */
struct cutter {
        struct buffer out;
        struct scrub_stream *stream;
};

static void cutter_init(struct cutter *c, const struct scrub *s)
{
        buffer_init(&c->out, SIZE_MAX / 2);
        assert_int_equal(scrub_stream_new(s, to_buffer, &c->out, NULL, &c->stream), 0);
}

static void cutter_done(struct cutter *c)
{
        scrub_stream_free(c->stream);
        buffer_done(&c->out);
}

static void write_part(struct cutter *c, const char *text, size_t from, size_t to)
{
        if (from < to)
                assert_int_equal(scrub_stream_write(c->stream, text + from, to - from), 0);
}

static void check_cuts(const struct scrub *s, const char *text, size_t size, const struct buffer *want, uint32_t *random)
{
        struct cutter c = {0};

        cutter_init(&c, s);
        for (size_t at = 0; at < size; at++)
                write_part(&c, text, at, at + 1);
        assert_int_equal(scrub_stream_end(c.stream), 0);
        check_same(&c.out, want, text, size, "byte by byte");
        for (size_t cut = 0; cut <= size; cut++) {
                c.out.size = 0;
                write_part(&c, text, 0, cut);
                write_part(&c, text, cut, size);
                assert_int_equal(scrub_stream_end(c.stream), 0);
                check_same(&c.out, want, text, size, "in two");
        }
        for (int round = 0; round < 4; round++) {
                c.out.size = 0;
                for (size_t at = 0, n; at < size; at += n) {
                        n = MIN(size - at, (size_t)next_random(random) % 9 + 1);
                        write_part(&c, text, at, at + n);
                }
                assert_int_equal(scrub_stream_end(c.stream), 0);
                check_same(&c.out, want, text, size, "in pieces");
        }
        cutter_done(&c);
}

/* Whole and in all ways. */
static void check(const struct scrub *s, const char *text, size_t size, const char *want, size_t want_size)
{
        struct buffer out = {0}, wanted = {.data = (char *)(uintptr_t)want, .size = want_size};
        uint32_t random = 1;

        buffer_init(&out, SIZE_MAX / 2);
        scrub_whole(s, text, size, &out);
        check_same(&out, &wanted, text, size, "whole");
        check_cuts(s, text, size, &wanted, &random);
        buffer_done(&out);
}

static void check_text(const struct scrub *s, const char *text, const char *want)
{
        check(s, text, strlen(text), want, strlen(want));
}

/* ---- against the slow one ---- */

/* Pieces of what is looked for, and what stands between. */
static size_t make_text(char *text, size_t max, const struct scrub_secret *secrets, size_t n_secrets, uint32_t *random)
{
        static const char letters[] = "aabb-_ ";
        size_t n = 0, wanted = next_random(random) % max;

        while (n < wanted) {
                uint32_t kind = next_random(random) % 8;
                const char *from = NULL;
                size_t size = 0;
                if (kind == 0 && n_secrets > 0) {
                        const struct scrub_secret *s = &secrets[next_random(random) % n_secrets];
                        from = s->bytes;
                        size = next_random(random) % 3 ? s->size : next_random(random) % s->size;
                } else if (kind == 1) {
                        const struct tiny_shape *s = &tiny_shapes[next_random(random) % n_tiny_shapes];
                        from = s->start[0];
                        size = strlen(from);
                }
                size = MIN(size, wanted - n);
                if (size > 0)
                        memcpy(text + n, from, size);
                n += size;
                if (n < wanted)
                        text[n++] = letters[next_random(random) % (sizeof(letters) - 1)];
        }
        return n;
}

static void test_slow(void **state)
{
        static const char *const names[] = {"A", "B", "C"};
        uint32_t random = 20;
        size_t found = 0;

        for (int round = 0; round < 700; round++) {
                char bytes[3][12], text[64];
                struct scrub_secret secrets[3];
                size_t n_secrets = next_random(&random) % 4;
                for (size_t i = 0; i < n_secrets; i++) {
                        secrets[i] = (struct scrub_secret){names[i], bytes[i], 8 + next_random(&random) % 4};
                        for (size_t k = 0; k < secrets[i].size; k++)
                                bytes[i][k] = "aaab-_"[next_random(&random) % 6];
                }
                struct scrub *s = make(tiny, secrets, n_secrets);
                for (int k = 0; k < 3; k++) {
                        struct buffer want = {0}, got = {0};
                        size_t size = make_text(text, sizeof(text), secrets, n_secrets, &random);
                        buffer_init(&want, SIZE_MAX / 2);
                        buffer_init(&got, SIZE_MAX / 2);
                        slow_scrub(secrets, n_secrets, true, text, size, &want);
                        scrub_whole(s, text, size, &got);
                        check_same(&got, &want, text, size, "whole");
                        check_cuts(s, text, size, &want, &random);
                        found += want.size != size || (size > 0 && memcmp(want.data, text, size) != 0);
                        buffer_done(&want);
                        buffer_done(&got);
                }
                scrub_free(s);
        }
        assert_true(found > 500); /* or the texts are not what they should be */
}

/* ---- exact secrets ---- */

/* Catalogue 180: what others make of "p@s/w\"'0 <é>\n&é12". */
static const char odd_secret[] = "p@s/w\"'0 <\xc3\xa9>\n&\xc3\xa9" "12";
static const char *const odd_forms[] = {
        "p@s/w\\\"'0 <\\u00e9>\\n&\\u00e912",                         /* json.dumps() */
        "p@s/w\\\"'0 <\xc3\xa9>\\n&\xc3\xa9" "12",                    /* JSON.stringify() */
        "p@s\\/w\\\"'0 <\xc3\xa9>\\n&\xc3\xa9" "12",                  /* json_encode() of PHP, unescaped Unicode */
        "p@s/w\\\"'0 \\u003c\xc3\xa9\\u003e\\n\\u0026\xc3\xa9" "12",  /* Go */
        "p%40s/w%22%270%20%3C%C3%A9%3E%0A%26%C3%A912",                /* quote() */
        "p%40s%2Fw%22%270%20%3C%C3%A9%3E%0A%26%C3%A912",              /* quote(safe="") */
        "p%40s%2Fw%22%270+%3C%C3%A9%3E%0A%26%C3%A912",                /* quote_plus() */
        "p%40s%2fw%22%270%20%3c%c3%a9%3e%0a%26%c3%a912",
        "p%40s%2Fw%22'0%20%3C%C3%A9%3E%0A%26%C3%A912",                /* encodeURIComponent() */
        "p@s/w\"\\'0 <\xc3\xa9>\\n&\xc3\xa9" "12",                    /* repr() */
        "p@s/w\"\\'0 <\\xe9>\\n&\\xe912",                             /* ascii() */
        "p@s/w\"\\'0 <\\xc3\\xa9>\\n&\\xc3\\xa912",                   /* repr() of bytes */
        "7040732f77222730203cc3a93e0a26c3a93132",
        "7040732F77222730203CC3A93E0A26C3A93132",
        "70:40:73:2f:77:22:27:30:20:3c:c3:a9:3e:0a:26:c3:a9:31:32",
        "cEBzL3ciJzAgPMOpPgomw6kxM",                                  /* base64 in three alignments, without what depends on others */
        "BAcy93IicwIDzDqT4KJsOpMT",
        "wQHMvdyInMCA8w6k+CibDqTEy",
        "wQHMvdyInMCA8w6k-CibDqTEy",
        "p@s/w\"'\"'\"'0 <\xc3\xa9>\n&\xc3\xa9" "12",                 /* shlex.quote() */
        "p@s/w\"'\\''0 <\xc3\xa9>\n&\xc3\xa9" "12",
        "p@s/w&quot;&#x27;0 &lt;\xc3\xa9&gt;\n&amp;\xc3\xa9" "12",    /* html.escape() */
        "p@s/w\"'0 <\xc3\xa9>\r\n&\xc3\xa9" "12",
        "\\u0070\\u0040\\u0073\\u002f\\u0077\\u0022\\u0027\\u0030\\u0020\\u003c\\u00e9\\u003e\\u000a\\u0026\\u00e9\\u0031\\u0032",
        "\\u0070\\u0040\\u0073\\u002F\\u0077\\u0022\\u0027\\u0030\\u0020\\u003C\\u00E9\\u003E\\u000A\\u0026\\u00E9\\u0031\\u0032",
        "\\x70\\x40\\x73\\x2f\\x77\\x22\\x27\\x30\\x20\\x3c\\xc3\\xa9\\x3e\\x0a\\x26\\xc3\\xa9\\x31\\x32",
        "%70%40%73%2F%77%22%27%30%20%3C%C3%A9%3E%0A%26%C3%A9%31%32",
};

static void test_forms_of_others(void **state)
{
        struct scrub_secret secret = {"S", LITERAL(odd_secret)};
        struct scrub *s = make(NULL, &secret, 1);

        for (size_t i = 0; i < ARRAY_SIZE(odd_forms); i++) {
                char text[256];
                int n = snprintf(text, sizeof(text), "it is %s .", odd_forms[i]);
                check(s, text, (size_t)n, LITERAL("it is [scrubbed:S] ."));
        }
        scrub_free(s);
}

struct form_check {
        const struct scrub *scrub;
        struct buffer all; /* sizes and bytes of the forms */
        uint32_t random;
        size_t n;
};

static int collect_form(void *data, const char *name, const void *bytes, size_t size)
{
        struct form_check *f = data;

        assert_true(size >= SCRUB_SECRET_MIN);
        buffer_add(&f->all, &size, sizeof(size));
        return buffer_add(&f->all, bytes, size);
}

static bool has_form(const struct form_check *f, const struct buffer *text)
{
        size_t size;

        for (size_t at = 0; at < f->all.size; at += sizeof(size) + size) {
                memcpy(&size, f->all.data + at, sizeof(size));
                if (memmem(text->data, text->size, f->all.data + at + sizeof(size), size))
                        return true;
        }
        return false;
}

static int check_form(void *data, const char *name, const void *bytes, size_t size)
{
        struct form_check *f = data;
        struct buffer text = {0}, out = {0};

        buffer_init(&text, SIZE_MAX / 2);
        buffer_init(&out, SIZE_MAX / 2);
        buffer_add_string(&text, "= ");
        buffer_add(&text, bytes, size);
        buffer_add_string(&text, ".\n");
        buffer_add(&text, bytes, size);
        scrub_whole(f->scrub, text.data, text.size, &out);
        if (has_form(f, &out) || !memmem(out.data, out.size, "[scrubbed:S]", 12) || memcmp(out.data, "= ", 2) != 0)
                fail_msg("the form %s is not scrubbed", name);
        if (f->n++ % 4 == 0)
                check_cuts(f->scrub, text.data, text.size, &out, &f->random);
        buffer_done(&text);
        buffer_done(&out);
        return 0;
}

/* Each form of each of them, in all ways to cut (178 to 181). */
static void test_every_form(void **state)
{
        static const struct {
                const char *bytes;
                size_t size;
        } rows[] = {
                {LITERAL(odd_secret)},
                {LITERAL("hunter2hunter2")},
                {LITERAL("12345678")},
                {LITERAL("(.*)[a-z]+?\\d{2}|^$")},
                {LITERAL("line one\nline two\r\nline three\n")},
                {LITERAL("\x00\x01\xff\xfe\x80 binary\x00\x7f")},
                {LITERAL("\xf0\x9f\x94\x91\xf0\x9f\x94\x91key")},
                {LITERAL("aaaaaaaaaaaaaaaa")},
                {LITERAL("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct scrub_secret secret = {"S", rows[i].bytes, rows[i].size};
                struct form_check f = {.scrub = make(NULL, &secret, 1), .random = (uint32_t)i};
                buffer_init(&f.all, SIZE_MAX / 2);
                assert_int_equal(scrub_encodings(rows[i].bytes, rows[i].size, collect_form, &f), 0);
                assert_int_equal(scrub_encodings(rows[i].bytes, rows[i].size, check_form, &f), 0);
                assert_true(f.n >= 30);
                buffer_done(&f.all);
                scrub_free((struct scrub *)(uintptr_t)f.scrub);
        }
}

static void test_several(void **state)
{
        static const struct scrub_secret secrets[] = {
                {"SHORT", LITERAL("abcdefgh")}, {"LONG", LITERAL("abcdefghijkl")}, {"SAME", LITERAL("abcdefgh")}, {"OVER", LITERAL("ijklmnopqrst")},
                {"TINY", LITERAL("root")}, {"SEVEN", LITERAL("1234567")},
        };
        struct scrub *s = make(NULL, secrets, ARRAY_SIZE(secrets));

        check_text(s, "", "");
        check_text(s, "abcdefgh", "[scrubbed:SHORT]");
        check_text(s, "abcdefghij", "[scrubbed:SHORT]ij");
        check_text(s, "abcdefghijkl", "[scrubbed:LONG]");
        check_text(s, "abcdefghabcdefgh", "[scrubbed:SHORT][scrubbed:SHORT]");
        check_text(s, "abcdefghijklmnopqrst.", "[scrubbed:LONG]."); /* they overlap: nothing of either stays */
        check_text(s, "xabcdefghijklmnopqrsu", "x[scrubbed:LONG]mnopqrsu");
        check_text(s, "abcdefgabcdefgh", "abcdefg[scrubbed:SHORT]");
        check_text(s, "root 1234567 abcdefg", "root 1234567 abcdefg"); /* 181: too short to be looked for */
        scrub_free(s);
}

/* Long ones, of which one begins in another and goes on behind its end. */
static void test_long_overlap(void **state)
{
        char first[200], second[220], text[300], want[64];
        uint32_t random = 5;

        for (size_t i = 0; i < sizeof(text); i++)
                text[i] = (char)('a' + next_random(&random) % 26);
        memcpy(first, text, sizeof(first));
        memcpy(second, text + 50, sizeof(second));
        const struct scrub_secret secrets[] = {{"FIRST", first, sizeof(first)}, {"SECOND", second, sizeof(second)}};
        struct scrub *s = make(NULL, secrets, 2);
        int n = snprintf(want, sizeof(want), "[scrubbed:FIRST]%.30s", text + 270);
        check(s, text, sizeof(text), want, (size_t)n);
        scrub_free(s);
}

/* A secret that is all one letter, and no end of it: marked as soon as it is there, and not held. */
static void test_endless(void **state)
{
        static const struct scrub_secret secret = {"A", LITERAL("aaaaaaaaaa")};
        struct scrub *s = make(NULL, &secret, 1);
        struct cutter c = {0};
        char text[4096];

        memset(text, 'a', sizeof(text));
        cutter_init(&c, s);
        write_part(&c, "x ", 0, 2);
        for (int i = 0; i < 64; i++) {
                write_part(&c, text, 0, sizeof(text));
                assert_int_equal(c.out.size, 2 + strlen("[scrubbed:A]"));
                assert_int_equal(scrub_stream_pause(c.stream), 0);
        }
        write_part(&c, " y", 0, 2);
        assert_int_equal(scrub_stream_end(c.stream), 0);
        assert_string_equal(c.out.data, "x [scrubbed:A] y");
        cutter_done(&c);
        scrub_free(s);
}

/* 181: what is not text stays as it is. */
static void test_binary(void **state)
{
        static const struct scrub_secret secret = {"S", LITERAL("correct horse")};
        const struct rules *rules = NULL;
        size_t size = 300000;
        char *text = malloc(size);
        struct buffer out = {0};
        uint32_t random = 9;

        assert_non_null(text);
        assert_int_equal(rules_get_shipped(&rules, NULL), 0);
        for (size_t i = 0; i < size; i++)
                text[i] = i < size / 2 ? (char)next_random(&random) : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[next_random(&random) % 64];
        struct scrub *s = make(rules, &secret, 1);
        buffer_init(&out, SIZE_MAX / 2);
        assert_int_equal(scrub_text(s, text, size, &out, NULL), 0);
        assert_int_equal(out.size, 0);
        scrub_free(s);
        free(text);
}

/* ---- shapes ---- */

static void test_shipped_cuts(void **state)
{
        const struct rules *r = NULL;
        uint32_t random = 3;
        size_t n_tried = 0, n_found = 0;

        assert_int_equal(rules_get_shipped(&r, NULL), 0);
        struct scrub *s = make(r, NULL, 0);
        for (size_t i = 0; i < r->n_examples; i += 5) {
                const struct rule_example *e = &r->examples[i];
                struct buffer out = {0};
                if (!e->is_shape || e->size > 300)
                        continue;
                buffer_init(&out, SIZE_MAX / 2);
                scrub_whole(s, rules_text(r, e->text), e->size, &out);
                check_cuts(s, rules_text(r, e->text), e->size, &out, &random);
                n_tried++;
                n_found += memmem(out.data, out.size, "[scrubbed:", 10) != NULL;
                buffer_done(&out);
        }
        scrub_free(s);
        assert_true(n_tried > 50 && n_found > 20);
}

/* What stands before is no part of a word when it is the end of an escape sequence. */
static void test_word_before(void **state)
{
        static const struct {
                const char *before;
                bool found;
        } rows[] = {
                {"", true},
                {" ", true},
                {"x", false},
                {"7", false},
                {"_", false},
                {"m", false},
                {"[32m", false},
                {"\x1b[32m", true},
                {"\x1b[m", true},
                {"\x1b[38;2;255;128;255m", true},
                {"\x1b(B", true},
                {"\x1b[K", true},
                {"\x1b[32mx", false},
                {"\x1b[3x2m", false},
                {"\\n", true},
                {"\\t", true},
                {"\\r", true},
                {"\\q", false},
                {"n", false},
                {"\\u000a", true},
                {"\\u003d", true},
                {"\\u0061", false}, /* a letter is one however it is written */
                {"\\x0a", true},
                {"\\x61", false},
                {"\\012", true},
                {"\\x1b[32m", true},
                {"\\u001b[1;31m", true},
                {"\\u001b[38;2;255;128;255m", true},
                {"\\033[0m", true},
                {"\\e[0m", true},
                {"%3D", true},
                {"%61", false},
                {"%zz", false},
        };
        struct scrub *s = make(tiny, NULL, 0);

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                for (int with = 0; with < 2; with++) {
                        char text[128], want[128];
                        const char *more = with ? "some more text that stands before it, " : "";
                        snprintf(text, sizeof(text), "%s%saabb.", more, rows[i].before);
                        snprintf(want, sizeof(want), "%s%s%s.", more, rows[i].before, rows[i].found ? "[scrubbed:word]" : "aabb");
                        check_text(s, text, want);
                }
        scrub_free(s);
}

static void test_lead_and_end(void **state)
{
        static const struct scrub_secret secret = {"A", LITERAL("bb-abab ab")};
        struct scrub *s = make(tiny, NULL, 0), *both = make(tiny, &secret, 1);

        check_text(s, "bb-abab.", "bb-[scrubbed:lead].");
        check_text(s, "bb--abab.", "bb--[scrubbed:lead].");
        check_text(s, "ab-bbb-x", "[scrubbed:kept]-x");
        check_text(s, "ab-bbb-aabb x", "[scrubbed:kept]-[scrubbed:word] x"); /* what is kept is text: a word may begin behind it */
        check_text(s, "ab-bbb", "ab-bbb");
        check_text(both, "bb-abab ab", "[scrubbed:A]");
        check_text(both, "bb-abab aa", "bb-[scrubbed:lead] aa");
        scrub_free(s);
        scrub_free(both);
}

/* An address whose user is a token: that stands in the lead of another shape. */
static void test_token_in_lead(void **state)
{
        const struct rules *r = NULL;
        char text[128], want[128];

        assert_int_equal(rules_get_shipped(&r, NULL), 0);
        struct scrub *s = make(r, NULL, 0);
        snprintf(text, sizeof(text), "https://npm" "_%s:tR7kq2Lz9w@git.internal/x", "XtbLjsyBexrrkjTzIGcb0AvjtCH8NjK20lhg");
        check_text(s, text, "https://[scrubbed:npm-token]:[scrubbed:address-password]@git.internal/x");
        snprintf(want, sizeof(want), "https://oauth2:[scrubbed:address-password]@git.internal/x");
        check_text(s, "https://oauth2:k8Jd" "72nQpz@git.internal/x", want);
        scrub_free(s);
}

/* ---- pauses ---- */

static void test_pause(void **state)
{
        static const struct scrub_secret secret = {"A", LITERAL("abababab-c")};
        struct scrub *s = make(NULL, &secret, 1);
        uint32_t random = 7;

        for (int round = 0; round < 3000; round++) {
                struct cutter c = {0};
                char text[40];
                size_t size = next_random(&random) % sizeof(text), in = 0;
                bool other = next_random(&random) % 2;
                for (size_t i = 0; i < size; i++)
                        text[i] = "aab-c"[next_random(&random) % 5];
                if (other && size > 20)
                        memcpy(text + next_random(&random) % (size - 10), secret.bytes, secret.size);
                cutter_init(&c, s);
                for (size_t at = 0; at < size; at++) {
                        write_part(&c, text, at, at + 1);
                        bool holds = scrub_stream_holds(c.stream);
                        size_t before = c.out.size;
                        if (next_random(&random) % 2) {
                                assert_int_equal(scrub_stream_pause(c.stream), 0);
                                assert_int_equal(c.out.size > before, holds);
                                assert_true(c.out.size - before <= SCRUB_SHOWN_MAX);
                                assert_false(scrub_stream_holds(c.stream));
                        }
                }
                assert_int_equal(scrub_stream_end(c.stream), 0);
                /* The text, but that up to three bytes of a secret stand before its mark. */
                for (size_t at = 0; at < c.out.size;) {
                        size_t shown = 0;
                        while (shown <= SCRUB_SHOWN_MAX && !(at + shown + 12 <= c.out.size && memcmp(c.out.data + at + shown, "[scrubbed:A]", 12) == 0))
                                shown++;
                        if (shown <= SCRUB_SHOWN_MAX && size - in >= secret.size && memcmp(text + in, secret.bytes, secret.size) == 0) {
                                assert_memory_equal(c.out.data + at, secret.bytes, shown);
                                at += shown + 12;
                                in += secret.size;
                                continue;
                        }
                        assert_true(in < size);
                        assert_int_equal(c.out.data[at++], text[in++]);
                }
                assert_int_equal(in, size);
                cutter_done(&c);
        }
        scrub_free(s);
}

/* ---- the rest ---- */

static void test_tally(void **state)
{
        static const struct scrub_secret secrets[] = {{"A", LITERAL("first one")}, {"B", LITERAL("second one")}};
        struct scrub *s = make(tiny, secrets, 2);
        struct scrub_tally tally = {0}, more = {0};
        struct buffer out = {0};

        buffer_init(&out, SIZE_MAX / 2);
        assert_int_equal(scrub_text(s, LITERAL("second one, second one, aabb"), &out, &tally), 1);
        assert_int_equal(scrub_text(s, LITERAL("first one"), &out, &more), 1);
        assert_int_equal(scrub_text(s, LITERAL("nothing"), &out, &more), 0);
        assert_int_equal(scrub_tally_add(&tally, &more), 0);
        assert_int_equal(tally.total, 4);
        for (size_t i = 0; i < tally.n; i++) {
                const char *name = scrub_name(s, i);
                assert_int_equal(tally.counts[i], strcmp(name, "A") == 0 || strcmp(name, "word") == 0 ? 1 : strcmp(name, "B") == 0 ? 2 : 0);
        }
        assert_null(scrub_name(s, 2 + n_tiny_shapes));
        scrub_tally_done(&tally);
        scrub_tally_done(&more);
        buffer_done(&out);
        scrub_free(s);
}

static void test_off(void **state)
{
        static const struct scrub_secret secret = {"A", LITERAL("first one")};
        struct scrub *s = NULL;

        assert_int_equal(scrub_new(tiny, SCRUB_OFF, &secret, 1, &s, NULL), 0);
        check_text(s, "first one, aabb", "first one, aabb");
        scrub_free(s);
}

static int refuse(void *data, const void *bytes, size_t size)
{
        return -EPIPE;
}

static void test_sink_fails(void **state)
{
        struct scrub *s = make(tiny, NULL, 0);
        struct scrub_stream *st = NULL;

        assert_int_equal(scrub_stream_new(s, refuse, NULL, NULL, &st), 0);
        assert_int_equal(scrub_stream_write(st, "aab", 3), 0);
        assert_int_equal(scrub_stream_write(st, "text", 4), -EPIPE);
        assert_int_equal(scrub_stream_write(st, " aab", 4), -EPIPE);
        assert_int_equal(scrub_stream_end(st), -EPIPE);
        scrub_stream_free(st);
        scrub_free(s);
}

/* 182: many beginnings side by side, of which none becomes anything, cost no more than their bytes some times; and the real one behind them is found. */
static void test_many_beginnings(void **state)
{
        static const char *const pieces[] = {"eyJ.", "eyJeyJ", "Private-Lines: ", ("-----BEGIN RSA PRIV" "ATE KEY-----\n"), "AKIA", "Authorization: ", "https://x:"};
        const struct rules *r = NULL;
        struct buffer text = {0}, out = {0};
        uint32_t random = 4;

        assert_int_equal(rules_get_shipped(&r, NULL), 0);
        struct scrub *s = make(r, NULL, 0);
        buffer_init(&text, SIZE_MAX / 2);
        buffer_init(&out, SIZE_MAX / 2);
        for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
                text.size = out.size = 0;
                while (text.size < 100000)
                        buffer_add_string(&text, pieces[i]);
                buffer_add_string(&text, "\x01 npm" "_XtbLjsyBexrrkjTzIGcb0AvjtCH8NjK20lhg");
                assert_int_equal(scrub_text(s, text.data, text.size, &out, NULL), 1);
                assert_non_null(memmem(out.data, out.size, LITERAL("\x01 [scrubbed:npm-token]")));
                struct cutter c = {0};
                cutter_init(&c, s);
                for (size_t at = 0, n; at < text.size; at += n) {
                        n = MIN(text.size - at, (size_t)next_random(&random) % 3000 + 1);
                        write_part(&c, text.data, at, at + n);
                }
                assert_int_equal(scrub_stream_end(c.stream), 0);
                assert_int_equal(c.out.size, out.size);
                assert_memory_equal(c.out.data, out.data, out.size);
                cutter_done(&c);
        }
        buffer_done(&text);
        buffer_done(&out);
        scrub_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_slow),
                cmocka_unit_test(test_forms_of_others),
                cmocka_unit_test(test_every_form),
                cmocka_unit_test(test_several),
                cmocka_unit_test(test_long_overlap),
                cmocka_unit_test(test_endless),
                cmocka_unit_test(test_binary),
                cmocka_unit_test(test_shipped_cuts),
                cmocka_unit_test(test_word_before),
                cmocka_unit_test(test_lead_and_end),
                cmocka_unit_test(test_token_in_lead),
                cmocka_unit_test(test_pause),
                cmocka_unit_test(test_tally),
                cmocka_unit_test(test_off),
                cmocka_unit_test(test_sink_fails),
                cmocka_unit_test(test_many_beginnings),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
