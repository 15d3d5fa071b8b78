/* SPDX-License-Identifier: Apache-2.0
 *
 * guard_corpus check DIR: the samples of tests/guard through the shipped rules. Prints counts as JSON, and each sample that came out wrong on standard
 * error; ends with 1 when there was one.
 *
 * guard_corpus time ROUNDS [LINES]: how long a check of a program of so many lines takes (10, 50 and 500 by default),
 * with a reader that waits already. */
#include "base/fd.h"
#include "base/limits.h"
#include "guard/code.h"
#include "guard/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MARK "%%%% " /* begins a sample of code: its language, and the rule that finds it */

struct counts {
        size_t n, wrong;
};

struct corpus {
        const struct rules *rules;
        struct scrub *scrub;
        struct guard_findings found;
        struct counts secrets, plain, bad, good, open;
};

static int read_sample_file(const char *dir, const char *name, char **ret, size_t *ret_size)
{
        _cleanup_free_ char *path = NULL;

        if (asprintf(&path, "%s/%s", dir, name) < 0)
                return -ENOMEM;
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        int r = fd < 0 ? -errno : fd_read_all(fd, CODE_BYTES_MAX, ret, ret_size);
        if (r < 0)
                fprintf(stderr, "%s: %s\n", path, strerror(-r));
        return r;
}

/* ---- secrets ---- */

/* In place. {} is nothing: it keeps others from finding secrets in these files. */
static size_t unescape(char *text)
{
        static const char letters[] = "nte\\", bytes[] = "\n\t\033\\";
        char *out = text;

        for (const char *at = text; *at; at++) {
                const char *letter = *at == '\\' && at[1] ? strchr(letters, at[1]) : NULL;
                if (at[0] == '{' && at[1] == '}') {
                        at++;
                } else if (letter) {
                        *out++ = bytes[letter - letters];
                        at++;
                } else {
                        *out++ = *at;
                }
        }
        *out = '\0';
        return (size_t)(out - text);
}

static bool is_one_of(const char *names, const char *name)
{
        size_t n = strlen(name);

        for (const char *at = names; (at = strstr(at, name)); at += n)
                if ((at == names || at[-1] == ',') && (at[n] == ',' || at[n] == '\0'))
                        return true;
        return false;
}

/* A rule that has found something in it, one of those that should if there is one; NULL: none. */
static int scrub_sample(const struct corpus *c, const char *text, size_t size, const char *wanted, const char **ret)
{
        _cleanup_buffer_ struct buffer out = {0};
        struct scrub_tally tally = {0};

        *ret = NULL;
        buffer_init(&out, SIZE_MAX / 2);
        int r = scrub_text(c->scrub, text, size, &out, &tally);
        for (size_t i = 0; i < tally.n; i++) {
                const char *name = tally.counts[i] ? scrub_name(c->scrub, i) : NULL;
                if (name && (!*ret || (wanted && is_one_of(wanted, name))))
                        *ret = name;
        }
        scrub_tally_done(&tally);
        return r;
}

/* Each line is a sample; those of secrets have the names of the rules that may find them before it, and a tab. */
static int try_lines(struct corpus *c, const char *dir, const char *file, bool secrets, struct counts *counts)
{
        _cleanup_free_ char *text = NULL;
        size_t size;
        char *save = NULL;

        int r = read_sample_file(dir, file, &text, &size);
        for (char *line = r < 0 ? NULL : strtok_r(text, "\n", &save); line && r >= 0; line = strtok_r(NULL, "\n", &save)) {
                const char *rule = NULL, *found;
                char *tab = secrets ? strchr(line, '\t') : NULL;
                if (tab) {
                        *tab = '\0';
                        rule = line;
                        line = tab + 1;
                }
                r = scrub_sample(c, line, rule ? unescape(line) : strlen(line), rule, &found);
                counts->n++;
                if (rule ? found && is_one_of(rule, found) : !found)
                        continue;
                counts->wrong++;
                fprintf(stderr, "%s: %s%s%s: %s\n", file, rule ? rule : "nothing to find", found ? ", but found " : ", and not found", found ? found : "", line);
        }
        return r;
}

/* ---- code ---- */

static int check_sample(struct corpus *c, const char *language, const char *code, size_t size)
{
        static const struct guard_settings settings = {.mode = GUARD_MODE_ON};
        gb_error err = {0};

        int r = guard_check(c->rules, &settings, language, code, size, &c->found, &err);
        if (r < 0)
                fprintf(stderr, "%s\n", err.message);
        return r;
}

/* rule "": any that a caller would hear of. */
static const char *find_rule(const struct guard_findings *f, const char *rule)
{
        for (size_t i = 0; i < f->n; i++)
                if (*rule ? strcmp(f->rows[i].rule, rule) == 0 : f->rows[i].action > GUARD_LOG)
                        return f->rows[i].rule;
        return NULL;
}

static int try_code(struct corpus *c, const char *dir, const char *file, bool must_find, struct counts *counts)
{
        _cleanup_free_ char *text = NULL;
        size_t size;
        char *next = NULL;

        int r = read_sample_file(dir, file, &text, &size);
        for (char *at = r < 0 ? NULL : text; at && r >= 0; at = next) {
                char language[32] = "", rule[SCRUB_NAME_MAX] = "", *code = strchr(at, '\n');
                if (strncmp(at, MARK, strlen(MARK)) != 0 || !code)
                        return -EBADMSG;
                *code++ = '\0';
                (void)sscanf(at + strlen(MARK), "%31s %63s", language, rule);
                next = strstr(code, "\n" MARK);
                size_t n = next ? (size_t)(next - code) : strlen(code);
                if (next)
                        *next++ = '\0';
                r = check_sample(c, language, code, n);
                const char *found = find_rule(&c->found, rule);
                counts->n++;
                if (!!found == must_find)
                        continue;
                counts->wrong++;
                fprintf(stderr, "%s: %s %s:\n%s\n", file, found ? found : rule, found ? "finds this" : "does not find this", code);
        }
        return r;
}

static int check(const char *dir)
{
        static struct corpus c;
        gb_error err = {0};

        int r = rules_get_shipped(&c.rules, &err);
        if (r == 0)
                r = scrub_new(c.rules, SCRUB_ON, NULL, 0, &c.scrub, &err);
        if (r < 0) {
                fprintf(stderr, "%s\n", err.message);
                return 2;
        }
        reader_prepare(4);
        r = try_lines(&c, dir, "secrets.txt", true, &c.secrets);
        r = r < 0 ? r : try_lines(&c, dir, "plain.txt", false, &c.plain);
        r = r < 0 ? r : try_code(&c, dir, "bad.txt", true, &c.bad);
        r = r < 0 ? r : try_code(&c, dir, "good.txt", false, &c.good);
        r = r < 0 ? r : try_code(&c, dir, "open.txt", false, &c.open);
        reader_forget();
        scrub_free(c.scrub);
        if (r < 0) {
                fprintf(stderr, "%s: %s\n", dir, strerror(-r));
                return 2;
        }
        printf("{\"rules\": %zu, \"shapes\": %zu, \"secrets\": %zu, \"missed\": %zu, \"plain\": %zu, \"false\": %zu, "
               "\"bad\": %zu, \"bad_missed\": %zu, \"good\": %zu, \"good_false\": %zu, \"open\": %zu, \"open_found\": %zu}\n",
               c.rules->n_code, c.rules->n_shapes, c.secrets.n, c.secrets.wrong, c.plain.n, c.plain.wrong, c.bad.n, c.bad.wrong, c.good.n, c.good.wrong,
               c.open.n, c.open.wrong);
        if (c.secrets.n < 300 || c.plain.n < 3000 || c.bad.n == 0 || c.good.n == 0) {
                fprintf(stderr, "%s: some of the samples are missing\n", dir);
                return 2;
        }
        return c.secrets.wrong + c.plain.wrong + c.bad.wrong + c.good.wrong + c.open.wrong > 0;
}

/* ---- time ---- */

static int by_value(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x < y ? -1 : x > y;
}

/* Ten lines as models write them, as often as it takes. */
static const char ten_lines[] = "import os, json\n"
                                "def step(rows, limit=10):\n"
                                "    total = sum(row[\"price\"] * row.get(\"count\", 1) for row in rows)\n"
                                "    path = os.path.join(\"/tmp\", f\"part-{limit}.json\")\n"
                                "    with open(path, \"w\") as file:\n"
                                "        json.dump({\"total\": total, \"unit\": \"EUR\"}, file)  # for later\n"
                                "    print(f\"{total:.2f} in {path}\")\n"
                                "    return total\n"
                                "\n"
                                "step([{\"price\": 2, \"count\": 3}, {\"price\": 5}])\n";

static int time_lines(struct corpus *c, unsigned lines, unsigned rounds, bool last)
{
        size_t n = lines / 10, size = n * (sizeof(ten_lines) - 1);
        _cleanup_free_ char *code = malloc(size + 1);
        _cleanup_free_ uint64_t *nsec = calloc(rounds, sizeof(*nsec));
        struct timespec a, b;

        if (!code || !nsec)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                memcpy(code + i * (sizeof(ten_lines) - 1), ten_lines, sizeof(ten_lines) - 1);
        for (unsigned i = 0; i < rounds; i++) {
                usleep(2000); /* the next reader is there by then, as it is between the runs of a session */
                clock_gettime(CLOCK_MONOTONIC, &a);
                int r = check_sample(c, "python", code, size);
                clock_gettime(CLOCK_MONOTONIC, &b);
                if (r < 0)
                        return r;
                nsec[i] = (uint64_t)(b.tv_sec - a.tv_sec) * 1000000000 + (uint64_t)b.tv_nsec - (uint64_t)a.tv_nsec;
        }
        qsort(nsec, rounds, sizeof(*nsec), by_value);
        printf("{\"lines\": %u, \"bytes\": %zu, \"least_usec\": %.1f, \"p50_usec\": %.1f, \"p99_usec\": %.1f}%s", lines, size, (double)nsec[0] / 1000,
               (double)nsec[rounds / 2] / 1000, (double)nsec[(size_t)rounds * 99 / 100] / 1000, last ? "" : ", "); /* NOLINT: places in a list */
        return 0;
}

/* only: that many lines and nothing else; 0: all of them. */
static int measure(unsigned rounds, unsigned only)
{
        static struct corpus c;
        static const unsigned all[] = {10, 50, 500};
        const unsigned *lines = only ? &only : all;
        size_t n = only ? 1 : ARRAY_SIZE(all);
        gb_error err = {0};

        int r = rules_get_shipped(&c.rules, &err);
        reader_prepare(2);
        printf("[");
        for (size_t i = 0; r == 0 && i < n; i++)
                r = time_lines(&c, lines[i], rounds, i + 1 == n);
        printf("]\n");
        reader_forget();
        return r < 0;
}

int main(int argc, char **argv)
{
        if (argc == 3 && strcmp(argv[1], "check") == 0)
                return check(argv[2]);
        if ((argc == 3 || (argc == 4 && atoi(argv[3]) >= 10)) && strcmp(argv[1], "time") == 0 && atoi(argv[2]) > 0)
                return measure((unsigned)atoi(argv[2]), argc == 4 ? (unsigned)atoi(argv[3]) : 0);
        fprintf(stderr, "usage: guard_corpus check DIR | time ROUNDS [LINES]\n");
        return 2;
}
