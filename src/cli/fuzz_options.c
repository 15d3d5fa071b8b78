/* SPDX-License-Identifier: Apache-2.0
 *
 * Any words as a command line: each word is used once, and an error says something. The input is
 * cut into words at newlines. */
#include "cli/options.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct option rows[] = {
        {.id = OPT_CODE, .letter = 'c', .value = VALUE_REQUIRED, .placeholder = "CODE", .help = ""},
        {.id = OPT_LANG, .name = "lang", .letter = 'l', .value = VALUE_REQUIRED, .placeholder = "LANGUAGE", .help = ""},
        {.id = OPT_JSON, .name = "json", .help = ""},
        {.id = OPT_QUIET, .name = "quiet", .letter = 'q', .help = ""},
};
static const struct option_set set = {.rows = rows, .n_rows = ARRAY_SIZE(rows), .policy = true};

static void require(bool condition)
{
        if (!condition)
                abort();
}

/* Words that are neither options nor their values, options, values of their own, "--" and what
 * follows it make up the whole line. */
static void check_all_used(const struct arguments *a, char *const *argv, size_t n)
{
        size_t used = a->n_words + a->n_uses;

        for (size_t i = 0; i < a->n_uses; i++)
                for (size_t j = 1; j < n; j++)
                        used += a->uses[i].value == argv[j];
        if (a->rest)
                used += n - (size_t)(a->rest - argv) + 1;
        require(used == n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_free_ char *text = malloc(size + 1);
        _cleanup_arguments_ struct arguments a = {0};
        char *argv[WORDS_MAX + 1], *next = text;
        gb_error err = {0};
        size_t n = 0;

        if (!text)
                return 0;
        memcpy(text, data, size);
        text[size] = '\0';
        while (next && n < WORDS_MAX)
                argv[n++] = strsep(&next, "\n");
        argv[n] = NULL;

        if (options_parse(&set, argv, &a, &err) < 0)
                require(err.code == GB_E_USAGE && err.message[0]);
        else
                check_all_used(&a, argv, n);
        return 0;
}
