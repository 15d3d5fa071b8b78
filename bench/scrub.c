/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_scrub [--bytes N] [FILE...]
 *     How fast the scrubber is. Writes a line of JSON for each kind of text (of N bytes, 100 MB by default), with the
 *     shipped rules, with the strict ones as well, and with 200 secrets; then for texts that are made to be slow; then
 *     the cost of a start. Numbers are the median of five rounds. A FILE is one more kind of text.
 *
 * bench_scrub --check
 *     For each line on standard input, one line: nanoseconds of processor time per byte of the scrubber, and of
 *     memcpy(), for the same text. For check.py. */
#include "base/fd.h"
#include "guard/scrub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 5
#define SECRETS 200
#define WRITE_BYTES (64 * 1024) /* what a reader of a pipe gets at most */
#define CHECK_BYTES (1000 * 1000)
#define CHECK_COPIES 16 /* memcpy() is so much faster that one copy of the text would be too short to time */

static size_t text_bytes = 100 * 1000 * 1000, worst_bytes = 4 * 1000 * 1000, n_starts = 200;

/* Time on a processor: what others do meanwhile does not count. */
static uint64_t now_nsec(void)
{
        struct timespec t;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint32_t random_state = 1;

static uint32_t next(void)
{
        random_state = random_state * 1664525 + 1013904223;
        return random_state >> 8;
}

/* ---- texts ---- */

static const char *const words[] = {
        "the", "connection", "was", "closed", "by", "peer", "while", "reading", "response", "header", "from", "upstream", "import", "return", "self", "value", "if",
        "else", "for", "token", "in", "range", "print", "key", "user", "password", "None", "True", "def", "class", "data", "index", "secret", "api", "http",
};

static const char *word(void)
{
        return words[next() % ARRAY_SIZE(words)];
}

static void add_log(struct buffer *b)
{
        buffer_printf(b, "2026-01-%02u %02u:%02u:%02u,%03u INFO [worker-%u] %s %s %s: %s=%u %s=\"%s\" took %u ms https://api.example.com/v1/%s/%u?%s=%s\n", next() % 28 + 1,
                      next() % 24, next() % 60, next() % 60, next() % 1000, next() % 16, word(), word(), word(), word(), next(), word(), word(), next() % 5000, word(),
                      next(), word(), word());
}

static void add_source(struct buffer *b)
{
        buffer_printf(b, "        %s_%s = self.%s[%u].%s(%s, \"%s %s\") + %s.get('%s', %u)  # %s %s %s\n", word(), word(), word(), next() % 100, word(), word(), word(),
                      word(), word(), word(), next() % 1000, word(), word(), word());
}

static void add_json(struct buffer *b)
{
        buffer_printf(b, "{\"%s\": %u, \"%s\": \"%s %s\", \"%s\": [%u, %u, null, true], \"id\": \"%08x-%04x-%04x\", \"%s_%s\": {\"%s\": \"%x%x\"}}, ", word(), next(), word(),
                      word(), word(), word(), next(), next(), next(), next() & 0xffff, next() & 0xffff, word(), word(), word(), next(), next());
}

static void add_base64(struct buffer *b)
{
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        char line[77];

        for (size_t i = 0; i < 76; i++)
                line[i] = digits[next() % 64];
        line[76] = '\n';
        buffer_add(b, line, 77);
}

static void add_numbers(struct buffer *b)
{
        buffer_printf(b, "%u.%06u, %u.%06u, -%u.%06u\n", next() % 100, next() % 1000000, next() % 100, next() % 1000000, next() % 100, next() % 1000000);
}

static void make_text(struct buffer *b, void (*add)(struct buffer *), size_t size)
{
        b->size = 0;
        while (b->size < size)
                add(b);
}

static void repeat(struct buffer *b, const char *piece, size_t size)
{
        b->size = 0;
        while (b->size < size)
                buffer_add_string(b, piece);
}

/* ---- measuring ---- */

static int count(void *data, const void *bytes, size_t size)
{
        *(uint64_t *)data += size;
        return 0;
}

/* All of the text through a stream of its own. */
static int scrub_once(const struct scrub *s, const struct buffer *text, struct scrub_tally *tally)
{
        _cleanup_scrub_stream_ struct scrub_stream *st = NULL;
        uint64_t out = 0;

        int r = scrub_stream_new(s, count, &out, tally, &st);
        for (size_t at = 0; r == 0 && at < text->size; at += WRITE_BYTES)
                r = scrub_stream_write(st, text->data + at, MIN(text->size - at, (size_t)WRITE_BYTES));
        return r < 0 ? r : scrub_stream_end(st);
}

static int compare(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static int measure(const char *kind, const char *with, const struct scrub *s, const struct buffer *text)
{
        double rates[ROUNDS];
        struct scrub_tally tally = {0};

        for (size_t round = 0; round < ROUNDS; round++) {
                uint64_t begin = now_nsec();
                int r = scrub_once(s, text, &tally);
                if (r < 0)
                        return r;
                rates[round] = (double)text->size * 1000 / (double)MAX(now_nsec() - begin, (uint64_t)1);
        }
        qsort(rates, ROUNDS, sizeof(*rates), compare);
        printf("{\"text\": \"%s\", \"with\": \"%s\", \"mb_per_s\": %.0f, \"bytes\": %zu, \"found\": %llu}\n", kind, with, rates[ROUNDS / 2], text->size,
               (unsigned long long)(tally.total / ROUNDS));
        fflush(stdout);
        scrub_tally_done(&tally);
        return 0;
}

static int measure_start(const struct rules *rules, const struct scrub_secret *secrets, size_t n_secrets)
{
        double times[ROUNDS];

        for (size_t round = 0; round < ROUNDS; round++) {
                uint64_t begin = now_nsec(), out = 0;
                for (size_t i = 0; i < n_starts; i++) {
                        _cleanup_scrub_ struct scrub *s = NULL;
                        _cleanup_scrub_stream_ struct scrub_stream *st = NULL;
                        int r = scrub_new(rules, SCRUB_ON, secrets, n_secrets, &s, NULL);
                        if (r == 0)
                                r = scrub_stream_new(s, count, &out, NULL, &st);
                        if (r == 0)
                                r = scrub_stream_write(st, "hello\n", 6);
                        if (r == 0)
                                r = scrub_stream_end(st);
                        if (r < 0)
                                return r;
                }
                times[round] = (double)(now_nsec() - begin) / 1000 / (double)n_starts;
        }
        qsort(times, ROUNDS, sizeof(*times), compare);
        printf("{\"start\": \"%zu secrets\", \"usec\": %.1f}\n", n_secrets, times[ROUNDS / 2]);
        return 0;
}

/* ---- what is measured ---- */

struct bench {
        const struct rules *rules;
        struct scrub *plain, *strict, *full, *odd;
        struct scrub_secret secrets[SECRETS];
        char bytes[SECRETS][40], names[SECRETS][16];
        struct buffer text;
};

static int prepare(struct bench *b, gb_error *err)
{
        static const struct scrub_secret odd[] = {{"ONE", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 96},
                                                  {"TWO", "abcabcabcabcabcabcabcabd", 24}};

        for (size_t i = 0; i < SECRETS; i++) {
                for (size_t k = 0; k < sizeof(b->bytes[i]); k++)
                        b->bytes[i][k] = (char)(33 + next() % 94);
                snprintf(b->names[i], sizeof(b->names[i]), "SECRET_%zu", i);
                b->secrets[i] = (struct scrub_secret){b->names[i], b->bytes[i], 16 + next() % 25};
        }
        buffer_init(&b->text, SIZE_MAX / 2);
        uint64_t begin = now_nsec();
        int r = rules_get_shipped(&b->rules, err);
        printf("{\"start\": \"rules\", \"usec\": %llu}\n", (unsigned long long)(now_nsec() - begin) / 1000);
        if (r == 0)
                r = scrub_new(b->rules, SCRUB_ON, NULL, 0, &b->plain, err);
        if (r == 0)
                r = scrub_new(b->rules, SCRUB_STRICT, NULL, 0, &b->strict, err);
        if (r == 0)
                r = scrub_new(b->rules, SCRUB_ON, b->secrets, SECRETS, &b->full, err);
        return r < 0 ? r : scrub_new(b->rules, SCRUB_ON, odd, ARRAY_SIZE(odd), &b->odd, err);
}

static int measure_all(struct bench *b, const char *kind)
{
        int r = measure(kind, "no secrets", b->plain, &b->text);

        if (r == 0)
                r = measure(kind, "no secrets, strict", b->strict, &b->text);
        return r < 0 ? r : measure(kind, "200 secrets", b->full, &b->text);
}

static int measure_texts(struct bench *b)
{
        static const struct {
                const char *kind;
                void (*add)(struct buffer *);
        } rows[] = {{"log", add_log}, {"source", add_source}, {"json", add_json}, {"base64", add_base64}, {"numbers", add_numbers}};
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++) {
                make_text(&b->text, rows[i].add, text_bytes);
                r = measure_all(b, rows[i].kind);
        }
        return r;
}

static int measure_worst(struct bench *b)
{
        static const char *const pieces[] = {
                "eyJ", "eyJ.", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.", "-----BEGIN ", "-----BEGIN RSA PRIV" "ATE KEY-----\n", "AKIA", "AKIA ", "Private-Lines: 1\nab",
                "Authorization: Bearer ", "https://", "https://a:", "https://a:bcdefgh@", "password=", "sk-", "a", "abc", "abcabcabcabcabcabcabcab ",
        };
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(pieces); i++) {
                char kind[80];
                snprintf(kind, sizeof(kind), "worst: %.*s", (int)strcspn(pieces[i], "\n"), pieces[i]);
                repeat(&b->text, pieces[i], worst_bytes);
                r = measure(kind, "odd secrets", b->odd, &b->text);
        }
        /* The secrets but for their last byte, one after the other. */
        b->text.size = 0;
        for (size_t i = 0; r == 0 && b->text.size < worst_bytes; i = (i + 1) % SECRETS)
                r = buffer_add(&b->text, b->secrets[i].bytes, b->secrets[i].size - 1);
        return r < 0 ? r : measure("worst: cut secrets", "200 secrets", b->full, &b->text);
}

static double nsec_per_byte(uint64_t begin, size_t bytes)
{
        return (double)(now_nsec() - begin) / (double)bytes;
}

/* The copies go to one buffer, piece by piece, as a reader of a pipe would copy them. */
static double copy_text(const struct buffer *text)
{
        static char copy[WRITE_BYTES];
        uint64_t begin = now_nsec();

        for (size_t i = 0; i < CHECK_COPIES; i++)
                for (size_t at = 0; at < text->size; at += WRITE_BYTES) {
                        memcpy(copy, text->data + at, MIN(text->size - at, sizeof(copy)));
                        __asm__ volatile("" ::"r"(copy) : "memory"); /* the copy is needed */
                }
        return nsec_per_byte(begin, text->size * CHECK_COPIES);
}

static int answer_checks(struct bench *b)
{
        fflush(stdout); /* the line of prepare() */
        make_text(&b->text, add_log, CHECK_BYTES);
        for (int c; (c = getchar()) != EOF;) {
                if (c != '\n')
                        continue;
                uint64_t begin = now_nsec();
                int r = scrub_once(b->plain, &b->text, NULL);
                if (r < 0)
                        return r;
                double scrub = nsec_per_byte(begin, b->text.size);
                printf("{\"scrub_nsec\": %.4f, \"memcpy_nsec\": %.4f}\n", scrub, copy_text(&b->text));
                fflush(stdout);
        }
        return 0;
}

static int measure_file(struct bench *b, const char *path)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = fd < 0 ? -errno : fd_read_all(fd, (size_t)1 << 31, &text, &size);
        if (r < 0)
                return r;
        b->text.size = 0;
        r = buffer_add(&b->text, text, size);
        return r < 0 ? r : measure_all(b, path);
}

static int measure_everything(struct bench *b, int n_files, char **files)
{
        int r = 0;

        for (int i = 0; r == 0 && i < n_files; i++)
                r = measure_file(b, files[i]);
        if (r == 0)
                r = measure_texts(b);
        if (r == 0)
                r = measure_worst(b);
        for (size_t n = 0; r == 0 && n <= SECRETS; n = n ? SECRETS * n : 1)
                r = measure_start(b->rules, b->secrets, n);
        return r;
}

int main(int argc, char **argv)
{
        static struct bench b;
        gb_error err = {0};
        int first = 1;

        if (argc > 2 && strcmp(argv[1], "--bytes") == 0) {
                text_bytes = strtoul(argv[2], NULL, 10);
                worst_bytes = text_bytes / 25;
                n_starts = MAX(text_bytes / 500000, (size_t)1);
                first += 2;
        }
        int r = prepare(&b, &err);
        if (r == 0)
                r = argc == 2 && strcmp(argv[1], "--check") == 0 ? answer_checks(&b)
                                                                 : measure_everything(&b, argc - first, argv + first);
        if (r < 0)
                fprintf(stderr, "bench_scrub: %s %s\n", strerror(-r), err.message);
        scrub_free(b.plain);
        scrub_free(b.strict);
        scrub_free(b.full);
        scrub_free(b.odd);
        buffer_done(&b.text);
        return r < 0;
}
