/* SPDX-License-Identifier: Apache-2.0
 *
 * The scrubber again, without streams, tables and tricks: what the real one must agree with. */
#include "base/fd.h"
#include "guard/test_scrub.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

const struct tiny_shape tiny_shapes[] = {
        {.id = "word", .start = {"aab"}, .chars = "ab", .pattern = "aab[ab]{1,3}", .word_before = true, .word_after = true},
        {.id = "free", .start = {"ba_"}, .chars = "ab_", .pattern = "ba_[ab]{2,5}_?"},
        {.id = "lead", .start = {"bb-", "bb--"}, .chars = "ab-", .lead = "bb--?", .pattern = "[ab]{2,6}", .max = 9, .word_before = true},
        {.id = "kept", .start = {"ab-"}, .chars = "ab-", .end = "-", .pattern = "ab-[ab]{1,8}-", .keep_end = 1, .word_before = true},
        {.id = "any", .start = {"__a"}, .chars = "any", .end = "b_", .pattern = "__a[-ab_ ]*b_", .max = 16, .except = "aa"},
        {.id = "long", .start = {"a-a"}, .chars = "ab-", .pattern = "a-a[ab-]{3,}", .max = 12, .word_after = true},
};
const size_t n_tiny_shapes = ARRAY_SIZE(tiny_shapes);

uint32_t next_random(uint32_t *state)
{
        *state = *state * 1664525 + 1013904223;
        return *state >> 8;
}

/* ---- as rules ---- */

static void add_yaml(struct buffer *out, const struct tiny_shape *s)
{
        buffer_printf(out, "  - id: %s\n    start: ['%s'%s%s%s]\n    chars: '", s->id, s->start[0], s->start[1] ? ", '" : "", s->start[1] ? s->start[1] : "",
                      s->start[1] ? "'" : "");
        for (const char *c = s->chars; *c; c++)
                buffer_printf(out, *c == '-' ? "\\-" : "%c", *c);
        buffer_printf(out, "'\n    pattern: '%s'\n    examples: {match: [x], pass: [x]}\n", s->pattern);
        if (s->end)
                buffer_printf(out, "    end: '%s'\n", s->end);
        if (s->lead)
                buffer_printf(out, "    lead: '%s'\n", s->lead);
        if (s->except)
                buffer_printf(out, "    except: ['%s']\n", s->except);
        if (s->max)
                buffer_printf(out, "    max: %u\n", s->max);
        if (s->keep_end)
                buffer_printf(out, "    keep_end: %u\n", s->keep_end);
        buffer_printf(out, "    word: [none%s%s]\n", s->word_before ? ", before" : "", s->word_after ? ", after" : "");
}

struct rules *tiny_rules(void)
{
        _cleanup_buffer_ struct buffer yaml = {0};
        char path[] = "/tmp/test-scrub-XXXXXX.yaml";
        const char *files[] = {path};
        struct rules *rules = NULL;
        gb_error err = {0};

        buffer_init(&yaml, 64 * 1024);
        buffer_printf(&yaml, "set: tiny\nabout: Tiny ones.\nsecrets:\n");
        for (size_t i = 0; i < n_tiny_shapes; i++)
                add_yaml(&yaml, &tiny_shapes[i]);
        int fd = mkstemps(path, 5);
        assert_true(fd >= 0);
        assert_int_equal(fd_write_all(fd, yaml.data, yaml.size), 0);
        (void)close(fd);
        int r = rules_compile(files, 1, false, &rules, &err);
        (void)unlink(path);
        if (r < 0)
                print_error("%s\n", err.message);
        assert_int_equal(r, 0);
        return rules;
}

/* ---- the slow scrubber ---- */

#define ROWS_MAX 4096
#define HEAD_MAX 64 /* of a longer form so much is enough (scrub_exact.c) */

struct found {
        size_t from, to;
        size_t rank; /* exact before shapes, then by their order */
        const char *name;
};

struct slow {
        const char *text;
        size_t size;
        struct found rows[ROWS_MAX];
        size_t n;
        size_t secret;
        const char *name;
};

static void put_row(struct slow *s, size_t from, size_t to, size_t rank, const char *name)
{
        assert_true(s->n < ROWS_MAX);
        s->rows[s->n++] = (struct found){from, to, rank, name};
}

static int find_form(void *data, const char *name, const void *bytes, size_t size)
{
        struct slow *s = data;
        const char *form = bytes;

        for (size_t at = 0; at < s->size; at++) {
                size_t n = 0;
                while (n < size && at + n < s->size && s->text[at + n] == form[n])
                        n++;
                if (n == size || n >= HEAD_MAX)
                        put_row(s, at, at + n, s->secret, s->name);
        }
        return 0;
}

static size_t match(const char *pattern, const char *lead, const char *text, size_t size)
{
        char whole[256];
        regmatch_t m = {.rm_so = 0, .rm_eo = (regoff_t)size};
        regex_t re;

        snprintf(whole, sizeof(whole), "^(%s)%s", lead ? lead : "", pattern);
        if (!lead)
                snprintf(whole, sizeof(whole), "^(%s)", pattern);
        assert_int_equal(regcomp(&re, whole, REG_EXTENDED), 0);
        int r = regexec(&re, text, 1, &m, REG_STARTEND);
        regfree(&re);
        return r == 0 ? (size_t)m.rm_eo : 0;
}

static bool is_word(int c)
{
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool find_shape(const struct slow *s, const struct tiny_shape *r, const char *start, size_t at, struct found *ret)
{
        size_t first = at + strlen(start), limit = r->max ? at + r->max : SIZE_MAX, end = first;
        bool any = strcmp(r->chars, "any") == 0;

        if (first > s->size || memcmp(s->text + at, start, strlen(start)) != 0)
                return false;
        for (; end < s->size && end < limit && (any || (s->text[end] && strchr(r->chars, s->text[end]))); end++) {
                size_t n = r->end ? strlen(r->end) : 0;
                if (n > 0 && end + 1 >= first + n && memcmp(s->text + end + 1 - n, r->end, n) == 0) {
                        end++;
                        break;
                }
        }
        size_t whole = match(r->pattern, r->lead, s->text + at, end - at), lead = r->lead ? match("", r->lead, s->text + at, end - at) : 0;
        if (whole <= lead + r->keep_end)
                return false;
        if ((r->word_before && at > 0 && is_word(s->text[at - 1])) || (r->word_after && at + whole < s->size && is_word(s->text[at + whole])))
                return false;
        if (r->except && memmem(s->text + at, whole, r->except, strlen(r->except)))
                return false;
        *ret = (struct found){at + lead, at + whole - r->keep_end, 0, r->id};
        return true;
}

static void find_shapes(struct slow *s, size_t rank)
{
        size_t first = s->n;

        for (size_t at = 0; at < s->size; at++) {
                struct found best = {0}, f;
                bool inside = false;
                for (size_t i = first; i < s->n; i++)
                        inside |= at >= s->rows[i].from && at < s->rows[i].to;
                for (size_t i = 0; !inside && i < n_tiny_shapes; i++)
                        for (size_t k = 0; k < 3 && tiny_shapes[i].start[k]; k++)
                                if (find_shape(s, &tiny_shapes[i], tiny_shapes[i].start[k], at, &f) && f.to > best.to) {
                                        best = f;
                                        best.rank = rank + i;
                                }
                if (best.to > 0)
                        put_row(s, best.from, best.to, best.rank, best.name);
        }
}

static int compare_rows(const void *a, const void *b)
{
        const struct found *x = a, *y = b;

        if (x->from != y->from)
                return x->from < y->from ? -1 : 1;
        if (x->to != y->to)
                return x->to > y->to ? -1 : 1;
        return (x->rank > y->rank) - (x->rank < y->rank);
}

void slow_scrub(const struct scrub_secret *secrets, size_t n_secrets, bool shapes, const char *text, size_t size, struct buffer *out)
{
        struct slow *s = calloc(1, sizeof(*s));
        size_t at = 0;

        assert_non_null(s);
        s->text = text;
        s->size = size;
        for (s->secret = 0; s->secret < n_secrets; s->secret++) {
                s->name = secrets[s->secret].name;
                assert_int_equal(scrub_encodings(secrets[s->secret].bytes, secrets[s->secret].size, find_form, s), 0);
        }
        if (shapes)
                find_shapes(s, n_secrets);
        qsort(s->rows, s->n, sizeof(*s->rows), compare_rows);
        for (size_t i = 0; i < s->n; i++) {
                if (i == 0 || s->rows[i].from >= at) {
                        if (s->rows[i].from > at)
                                buffer_add(out, text + at, s->rows[i].from - at);
                        buffer_printf(out, "[scrubbed:%s]", s->rows[i].name);
                }
                at = MAX(at, s->rows[i].to);
        }
        if (at < size)
                buffer_add(out, text + at, size - at);
        free(s);
}
