/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules from their files to memory: what is refused, and where it says so; what an operator adds; and what is kept of it. Compiles with the real program. */
#include "base/fd.h"
#include "guard/rules_state.h"
#include "guard/rules_wire.h"
#include "guard/scrub.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char top[] = "/tmp/test-rules-XXXXXX";

static void path_of(char path[static 128], const char *name)
{
        snprintf(path, 128, "%s/%s", top, name);
}

static void put_file(const char *name, const void *bytes, size_t size)
{
        char path[128];

        path_of(path, name);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
        assert_int_equal(fd_write_all(fd, bytes, size), 0);
        (void)close(fd);
}

static void put_text(const char *name, const char *text)
{
        put_file(name, text, strlen(text));
}

static int setup(void **state)
{
        static const char *const below[] = {"config", "config/rules", "shipped", "state"};
        char path[128];

        if (!mkdtemp(top))
                return -1;
        for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
                path_of(path, below[i]);
                if (mkdir(path, 0755) < 0)
                        return -1;
        }
        path_of(path, "config");
        (void)setenv("GLOVEBOX_CONFIG_DIR", path, 1);
        path_of(path, "shipped");
        (void)setenv("GLOVEBOX_RULES_DIR", path, 1);
        path_of(path, "state");
        return setenv("GLOVEBOX_STATE_DIR", path, 1);
}

static int teardown(void **state)
{
        char command[160];

        snprintf(command, sizeof(command), "chmod -R u+rwx %s; rm -rf %s", top, top);
        return system(command);
}

static int compile(const char *text, struct rules **ret, gb_error *err)
{
        char path[128];
        const char *files[] = {path};

        put_text("r.yaml", text);
        path_of(path, "r.yaml");
        *err = (gb_error){0};
        return rules_compile(files, 1, false, ret, err);
}

/* ---- what is refused ---- */

#define CODE_HEAD "set: s\nabout: a\ncode:\n"
#define CODE_TAIL "    action: block\n    message: m\n    remedy: r\n    examples: {match: [{bash: x}], pass: [{bash: y}]}\n"
#define SECRET_HEAD "set: s\nabout: a\nsecrets:\n"
#define SECRET_TAIL "    examples: {match: [x], pass: [y]}\n"
#define SECRET_ROW "  - id: i\n    start: [abc]\n    chars: a-z\n    pattern: abc[a-z]{4}\n"

static const struct {
        const char *text, *where, *what;
} refused[] = {
        {"set: [\n", ":2:1: ", ""},
        {"set: s\nset: t\n", ":2:1: ", "set"},
        {"- a\n", ":1:1: ", "set, about"},
        {"", "", "set, about"},
        {"set: s\nabout: a\nrules: []\n", ":3:1: ", "unknown"},
        {"set: Not a name\n", ":1:6: ", "not a name"},
        {"set: s\ncode: x\n", ":2:7: ", "a list of rules"},
        {"set: s\ncode: [x]\n", ":2:8: ", "\"id\""},
        {CODE_HEAD "  - id: a_b\n    pattern: x\n" CODE_TAIL, ":4:9: ", "not a name"},
        {CODE_HEAD "  - id: a\n    pattern: x\n" CODE_TAIL "  - id: a\n    pattern: x\n" CODE_TAIL, ":10:9: ", "already"},
        {CODE_HEAD "  - id: a\n    patern: x\n" CODE_TAIL, ":5:5: ", "\"pattern\""},
        {CODE_HEAD "  - id: a\n" CODE_TAIL, ":4:9: ", "what it looks for is missing"},
        {CODE_HEAD "  - id: a\n    pattern: x\n    message: m\n    remedy: r\n    examples: {match: [{bash: x}], pass: [{bash: y}]}\n", ":4:9: ", "\"action\" is missing"},
        {CODE_HEAD "  - id: a\n    pattern: x\n    action: deny\n    message: m\n    remedy: r\n", ":6:13: ", "block, warn, log"},
        {CODE_HEAD "  - id: a\n    pattern: x\n    action: off\n    message: m\n    remedy: r\n", ":6:13: ", "block, warn, log"},
        {CODE_HEAD "  - id: a\n    pattern: x\n    action: log\n    message: m\n", ":4:9: ", "\"remedy\" is missing"},
        {CODE_HEAD "  - id: a\n    pattern: x\n    action: log\n    message: m\n    remedy: r\n", ":4:9: ", "\"examples\" is missing"},
        {CODE_HEAD "  - id: a\n    pattern: x\n    action: log\n    message: m\n    remedy: r\n    examples: {match: [{bash: x}]}\n", ":9:15: ", "\"pass\""},
        {CODE_HEAD "  - id: a\n    pattern: x\n    action: log\n    message: m\n    remedy: r\n    examples: {match: [x], pass: [x]}\n", ":9:35: ", "one language"},
        {CODE_HEAD "  - id: a\n    pattern: x\n    action: log\n    message: m\n    remedy: r\n    examples: {matches: [x], pass: [x]}\n", ":9:16: ", "\"match\""},
        {CODE_HEAD "  - id: a\n    pattern: '(a'\n" CODE_TAIL, ":5:14: ", "cannot be used"},
        {CODE_HEAD "  - id: a\n    patterns: [a, '(?=b)c']\n" CODE_TAIL, ":5:19: ", "cannot be used on code that comes in pieces"},
        {CODE_HEAD "  - id: a\n    pattern: '(a)\\1'\n" CODE_TAIL, ":5:14: ", "cannot be used"},
        {CODE_HEAD "  - id: a\n    pattern: 'a*'\n" CODE_TAIL, ":5:14: ", "the empty text"},
        {CODE_HEAD "  - id: a\n    pattern: []\n" CODE_TAIL, ":5:14: ", "an empty list"},
        {CODE_HEAD "  - id: a\n    pattern: ''\n" CODE_TAIL, ":5:14: ", "an empty text"},
        {CODE_HEAD "  - id: a\n    pattern: x\n    in: [comment]\n" CODE_TAIL, ":6:10: ", "text, string, import, call"},
        {SECRET_HEAD SECRET_ROW, ":4:9: ", "\"examples\" is missing"},
        {SECRET_HEAD SECRET_ROW "    examples: {match: [x], pass: []}\n", ":8:15: ", "\"pass\""},
        {SECRET_HEAD SECRET_ROW "    examples: {match: [{bash: x}], pass: [x]}\n", ":8:24: ", "a text"},
        {SECRET_HEAD SECRET_ROW "    colour: red\n" SECRET_TAIL, ":8:5: ", "unknown"},
        {SECRET_HEAD "  - id: i\n    chars: a-z\n    pattern: abc\n" SECRET_TAIL, ":4:9: ", "\"start\" is missing"},
        {SECRET_HEAD "  - id: i\n    start: [abc, ab]\n    chars: a-z\n    pattern: abc\n" SECRET_TAIL, ":5:18: ", "3 to 128 bytes"},
        {SECRET_HEAD "  - id: i\n    start: [abc]\n    pattern: abc\n" SECRET_TAIL, ":4:9: ", "\"chars\" is missing"},
        {SECRET_HEAD "  - id: i\n    start: [abc]\n    chars: 'z-a'\n    pattern: abc\n" SECRET_TAIL, ":6:12: ", "range of bytes"},
        {SECRET_HEAD "  - id: i\n    start: [abc]\n    chars: 'a\\q'\n    pattern: abc\n" SECRET_TAIL, ":6:12: ", "range of bytes"},
        {SECRET_HEAD "  - id: i\n    start: [abc]\n    chars: any\n    pattern: abc[a-z]{4}\n" SECRET_TAIL, ":4:9: ", "needs an \"end\""},
        {SECRET_HEAD "  - id: i\n    start: [abc]\n    chars: a-z\n    pattern: abc[a-z]+\n" SECRET_TAIL, ":7:14: ", "\"max\", up to 16384"},
        {SECRET_HEAD "  - id: i\n    start: [abc]\n    chars: a-z\n    pattern: '[a-z]*'\n    max: 9\n" SECRET_TAIL, ":7:14: ", "the empty text"},
        {SECRET_HEAD "  - id: i\n    start: [abc]\n    chars: a-z\n    pattern: 'a[bc'\n" SECRET_TAIL, ":7:14: ", "cannot be used"},
        {SECRET_HEAD "  - id: i\n    start: [abc]\n    chars: a-z\n    lead: '(abc'\n    pattern: 'a'\n" SECRET_TAIL, ":7:11: ", "cannot be used"},
        {SECRET_HEAD SECRET_ROW "    max: 0\n" SECRET_TAIL, ":8:10: ", "a number from 3 to 16384"},
        {SECRET_HEAD SECRET_ROW "    max: 16385\n" SECRET_TAIL, ":8:10: ", "a number from 3 to 16384"},
        {SECRET_HEAD SECRET_ROW "    max: many\n" SECRET_TAIL, ":8:10: ", "a number from 3 to 16384"},
        {SECRET_HEAD SECRET_ROW "    max: 5\n" SECRET_TAIL, ":7:14: ", "matches no text of at most 5 bytes"},
        {SECRET_HEAD SECRET_ROW "    keep_end: 7\n" SECRET_TAIL, ":8:15: ", "nothing would be left"},
        {SECRET_HEAD SECRET_ROW "    keep_end: -1\n" SECRET_TAIL, ":8:15: ", "a number from 1"},
        {SECRET_HEAD SECRET_ROW "    word: [behind]\n" SECRET_TAIL, ":8:12: ", "before, after, none"},
        {SECRET_HEAD SECRET_ROW "    check: sum\n" SECRET_TAIL, ":8:12: ", "jwt"},
        {SECRET_HEAD SECRET_ROW "    entropy: 9\n" SECRET_TAIL, ":8:14: ", "bits"},
        {SECRET_HEAD SECRET_ROW "    strict: perhaps\n" SECRET_TAIL, ":8:13: ", "true or false"},
};

static void check_refused(const char *text, const char *where, const char *what)
{
        struct rules *r = NULL;
        char path[128];
        gb_error err;

        path_of(path, "r.yaml");
        if (compile(text, &r, &err) == 0)
                fail_msg("this was not refused: %.300s", text);
        assert_null(r);
        if (strncmp(err.message, path, strlen(path)) != 0 || strncmp(err.message + strlen(path), where, strlen(where)) != 0 || !strstr(err.message, what))
                fail_msg("%.300s\n   is refused with: %s\n   not with: ...%s...%s", text, err.message, where, what);
}

static void test_refused(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
                check_refused(refused[i].text, refused[i].where, refused[i].what);
}

static void test_too_much(void **state)
{
        size_t max = 60000;
        char *text = malloc(max);
        size_t n = (size_t)snprintf(text, max, "set: s\ncode:\n");

        assert_non_null(text);
        for (int i = 0; i <= RULES_MAX; i++)
                n += (size_t)snprintf(text + n, max - n, "- id: i%d\n", i);
        check_refused(text, ":1027:7: ", "too many rules; at most 1024");
        n = (size_t)snprintf(text, max, CODE_HEAD "  - id: i\n    pattern: ");
        memset(text + n, 'x', PATTERN_BYTES_MAX + 1);
        snprintf(text + n + PATTERN_BYTES_MAX + 1, max - n - PATTERN_BYTES_MAX - 1, "\n" CODE_TAIL);
        check_refused(text, ":5:14: ", "too long; at most 4096 bytes");
        n = (size_t)snprintf(text, max, CODE_HEAD "  - id: i\n    pattern: x\n    action: log\n    remedy: r\n    message: ");
        memset(text + n, 'x', GUARD_TEXT_MAX);
        text[n + GUARD_TEXT_MAX] = '\0';
        check_refused(text, ":8:14: ", "too long");
        free(text);
}

/* ---- what is taken ---- */

static void test_taken(void **state)
{
        struct rules *r = NULL;
        gb_error err;

        assert_int_equal(compile(CODE_HEAD "  - id: a\n    languages: [bash]\n    patterns: [x, y]\n" CODE_TAIL
                                 "secrets:\n" SECRET_ROW "    keep_end: 2\n    strict: true\n    except: [q, abcd]\n    word: [before]\n" SECRET_TAIL, &r, &err), 0);
        assert_int_equal(r->n_code, 1);
        assert_int_equal(r->n_patterns, 2);
        assert_int_equal(r->n_shapes, 1);
        assert_string_equal(rules_text(r, r->code[0].languages), "bash");
        assert_string_equal(rules_text(r, r->code[0].set), "s");
        assert_int_equal(r->code[0].action, GUARD_BLOCK);
        assert_int_equal(r->shapes[0].min, 7);
        assert_int_equal(r->shapes[0].max, 7);
        assert_int_equal(r->shapes[0].keep_end, 2);
        assert_int_equal(r->shapes[0].strict, 1);
        assert_int_equal(r->shapes[0].word_before, 1);
        assert_int_equal(r->shapes[0].word_after, 0);
        assert_int_equal(r->n_examples, 4);
        rules_free(r);
        assert_int_equal(compile("set: s\nabout: There are none.\n", &r, &err), 0);
        assert_null(r->code_db);
        assert_null(r->shape_db);
        rules_free(r);
}

static void test_actions(void **state)
{
        enum guard_action action;

        for (enum guard_action a = GUARD_OFF; a <= GUARD_BLOCK; a++) {
                assert_int_equal(guard_action_parse(guard_action_name(a), &action), 0);
                assert_int_equal(action, a);
        }
        assert_int_equal(guard_action_parse("Block", &action), -EINVAL);
        assert_int_equal(guard_action_parse("", &action), -EINVAL);
}

/* ---- damaged memory ---- */

struct piece_bytes {
        unsigned char *bytes;
        size_t size;
};

static void make_piece(struct piece_bytes *p)
{
        struct rules *r = NULL;
        gb_error err;

        assert_int_equal(compile(CODE_HEAD "  - id: a\n    pattern: x\n    imports: [m]\n" CODE_TAIL "secrets:\n" SECRET_ROW "    except: [q]\n" SECRET_TAIL, &r, &err), 0);
        p->size = r->head->size;
        p->bytes = aligned_alloc(RULES_ALIGN, (p->size + RULES_ALIGN) / RULES_ALIGN * RULES_ALIGN);
        assert_non_null(p->bytes);
        memcpy(p->bytes, r->head, p->size);
        rules_free(r);
}

/* Every byte changed, and cut off everywhere: refused, or at least nothing happens. */
static void test_damaged(void **state)
{
        struct piece_bytes p;
        struct rules *r = NULL;

        make_piece(&p);
        for (size_t i = 0; i < p.size; i++) {
                p.bytes[i] ^= 0x81;
                if (rules_from_memory(p.bytes, p.size, &r, NULL) == 0)
                        fail_msg("byte %zu was changed and nobody saw it", i);
                p.bytes[i] ^= 0x81;
        }
        for (size_t i = 0; i < p.size; i++) {
                unsigned char *cut = malloc(i + 1); /* so that a read behind its end is seen */
                assert_non_null(cut);
                memcpy(cut, p.bytes, i);
                assert_true(rules_from_memory(cut, i, &r, NULL) < 0);
                free(cut);
        }
        assert_int_equal(rules_from_memory(p.bytes, p.size, &r, NULL), 0);
        rules_free(r);
        free(p.bytes);
}

/* The same with a checksum that fits: each number is checked for itself. The databases are left alone: vectorscan trusts them, and so must who reads them. */
static void test_wrong_numbers(void **state)
{
        struct piece_bytes p;
        size_t taken = 0;

        make_piece(&p);
        const struct rules_head *h = (const void *)p.bytes;
        size_t end = MIN(h->code_db.at, h->shape_db.at);
        for (size_t i = offsetof(struct rules_head, size); i < end; i++) {
                if (i >= offsetof(struct rules_head, code_db) && i < sizeof(*h))
                        continue;
                static const unsigned char changes[] = {0xff, 0x01, 0x80};
                for (size_t k = 0; k < ARRAY_SIZE(changes); k++) {
                        struct rules *r = NULL;
                        p.bytes[i] ^= changes[k];
                        ((struct rules_head *)(void *)p.bytes)->checksum = rules_checksum(p.bytes, p.size);
                        if (rules_from_memory(p.bytes, p.size, &r, NULL) == 0) {
                                struct scrub *s = NULL;
                                struct buffer out = {0};
                                buffer_init(&out, 1024);
                                assert_int_equal(scrub_new(r, SCRUB_STRICT, NULL, 0, &s, NULL), 0);
                                (void)scrub_text(s, "abcdefgh abcdefg", 16, &out, NULL);
                                scrub_free(s);
                                buffer_done(&out);
                                taken++;
                        }
                        rules_free(r);
                        p.bytes[i] ^= changes[k];
                }
        }
        assert_true(taken > 0); /* a letter of a text makes no difference */
        free(p.bytes);
}

/* ---- an operator's directory, and the cache ---- */

#define SHAPE_OF(id, start) "set: s\nabout: a\nsecrets:\n  - id: " id "\n    start: [" start "]\n    chars: a-z\n    pattern: " start "[a-z]{4}\n" SECRET_TAIL

static bool has_shape(const struct rules *r, const char *id)
{
        for (size_t i = 0; i < r->n_shapes; i++)
                if (strcmp(rules_text(r, r->shapes[i].id), id) == 0)
                        return true;
        return false;
}

static const struct rules *load(void)
{
        const struct rules *r = NULL;
        gb_error err = {0};

        if (rules_reload(&err) < 0 || rules_get(&r, &err) < 0)
                fail_msg("%s", err.message);
        return r;
}

/* The one file of the cache. */
static void find_cached(char path[static 256])
{
        char pattern[128];
        glob_t found;

        path_of(pattern, "state/rules/*");
        assert_int_equal(glob(pattern, 0, NULL, &found), 0);
        assert_int_equal(found.gl_pathc, 1);
        snprintf(path, 256, "%s", found.gl_pathv[0]);
        globfree(&found);
}

static void test_operator(void **state)
{
        const struct rules *r = NULL;
        struct stat st;
        char path[256];
        gb_error err = {0};

        put_text("shipped/one.yaml", SHAPE_OF("one", "abc"));
        put_text("shipped/two.yaml", SHAPE_OF("two", "def"));
        assert_ptr_equal(load()->memory, NULL); /* nothing of an operator's: those of the build */
        put_text("config/rules/own.yaml", SHAPE_OF("own", "ghi"));
        put_text("config/rules/two.yaml", SHAPE_OF("two", "xyz")); /* in the place of a shipped one */
        put_text("config/rules/.hidden.yaml", "no rules\n");
        put_text("config/rules/README", "no rules\n");
        r = load();
        assert_int_equal(r->n_shapes, 3);
        assert_true(has_shape(r, "one") && has_shape(r, "own"));
        bool replaced = false;
        for (size_t i = 0; i < r->n_starts; i++)
                replaced |= strcmp(rules_text(r, r->starts[i].text), "xyz") == 0;
        assert_true(replaced);
        find_cached(path);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);

        put_text("config/rules/wrong.yaml", SHAPE_OF("own", "jkl"));
        assert_true(rules_reload(&err) < 0);
        assert_non_null(strstr(err.message, "config/rules/wrong.yaml:4:9: "));
        assert_int_equal(rules_get(&r, &err), 0); /* as they were */
        assert_int_equal(r->n_shapes, 3);
        path_of(path, "config/rules/wrong.yaml");
        assert_int_equal(unlink(path), 0);
}

/* Rules that are not those of the files, whole and of this version: who takes the cache has these. */
static void put_other(const char *path, mode_t mode)
{
        struct rules *r = NULL;
        gb_error err;

        assert_int_equal(compile(SHAPE_OF("other", "mno"), &r, &err), 0);
        (void)unlink(path);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(fd_write_all(fd, r->head, r->head->size), 0);
        assert_int_equal(fchmod(fd, mode), 0);
        (void)close(fd);
        rules_free(r);
}

static void test_cache(void **state)
{
        char path[256], other[128], directory[128];
        struct stat st;

        find_cached(path);
        put_other(path, 0600);
        assert_true(has_shape(load(), "other")); /* it is used */
        static const mode_t modes[] = {0620, 0602, 0666};
        for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
                put_other(path, modes[i]);
                assert_true(has_shape(load(), "own")); /* others could have written it: made anew */
                assert_int_equal(stat(path, &st), 0);
                assert_int_equal(st.st_mode & 07777, 0600);
        }
        if (geteuid() == 0) {
                put_other(path, 0600);
                assert_int_equal(chown(path, 65534, 65534), 0);
                assert_true(has_shape(load(), "own"));
        }
        path_of(other, "other");
        put_other(other, 0600);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(symlink(other, path), 0);
        assert_true(has_shape(load(), "own"));
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_true(has_shape(load(), "own"));
        assert_int_equal(truncate(path, 1000), 0);
        assert_true(has_shape(load(), "own"));
        assert_int_equal(truncate(path, 0), 0);
        assert_true(has_shape(load(), "own"));

        put_other(path, 0600);
        path_of(directory, "state/rules");
        assert_int_equal(chmod(directory, 0777), 0);
        assert_true(has_shape(load(), "own")); /* somebody could have moved it there */
        assert_int_equal(chmod(directory, 0700), 0);
        assert_true(has_shape(load(), "other"));
}

/* Nothing can be kept: they are compiled each time. */
static void test_no_state(void **state)
{
        char path[128];

        path_of(path, "r.yaml/none");
        assert_int_equal(setenv("GLOVEBOX_STATE_DIR", path, 1), 0);
        assert_true(has_shape(load(), "own"));
        assert_true(has_shape(load(), "own"));
}

static void test_no_helper(void **state)
{
        struct rules *r = NULL;
        gb_error err;

        assert_int_equal(setenv("GLOVEBOX_LIBEXEC_DIR", top, 1), 0);
        assert_true(compile("set: s\nabout: a\n", &r, &err) < 0);
        assert_non_null(strstr(err.message, "glovebox-rules"));
        put_text("glovebox-rules", "#!/bin/sh\nexit 0\n"); /* it dies before it says anything */
        char path[128];
        path_of(path, "glovebox-rules");
        assert_int_equal(chmod(path, 0755), 0);
        assert_true(compile("set: s\nabout: a\n", &r, &err) < 0);
        assert_non_null(strstr(err.message, "could not be compiled"));
        assert_int_equal(unsetenv("GLOVEBOX_LIBEXEC_DIR"), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_too_much),
                cmocka_unit_test(test_taken),
                cmocka_unit_test(test_actions),
                cmocka_unit_test(test_damaged),
                cmocka_unit_test(test_wrong_numbers),
                cmocka_unit_test(test_operator),
                cmocka_unit_test(test_cache),
                cmocka_unit_test(test_no_state),
                cmocka_unit_test(test_no_helper),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
