/* SPDX-License-Identifier: Apache-2.0 */
#include "base/suggest.h"

#include "base/macro.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define WORD_MAX 48 /* longer words are no typing errors of our short names */

static bool same(char a, char b)
{
        return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Optimal string alignment, three rows of the table at a time. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
        size_t rows[3][WORD_MAX + 1];
        size_t *before = rows[0], *last = rows[1], *now = rows[2];

        for (size_t j = 0; j <= nb; j++)
                last[j] = j;
        memset(before, 0, sizeof(rows[0]));
        for (size_t i = 1; i <= na; i++) {
                now[0] = i;
                for (size_t j = 1; j <= nb; j++) {
                        size_t best = last[j - 1] + !same(a[i - 1], b[j - 1]);
                        best = MIN(best, last[j] + 1);
                        best = MIN(best, now[j - 1] + 1);
                        if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                                best = MIN(best, before[j - 2] + 1);
                        now[j] = best;
                }
                size_t *oldest = before;
                before = last;
                last = now;
                now = oldest;
        }
        return last[nb];
}

const char *suggest_nearest(const char *word, const char *const names[], size_t n)
{
        size_t size = strlen(word), best = 0;
        const char *nearest = NULL;

        if (size == 0 || size > WORD_MAX)
                return NULL;
        for (size_t i = 0; i < n; i++) {
                size_t name_size = names[i] ? strlen(names[i]) : 0;
                if (name_size == 0 || name_size > WORD_MAX)
                        continue;
                size_t d = distance(word, size, names[i], name_size);
                /* A third of the letters wrong is still a slip; more is another word. */
                size_t longer = MAX(size, name_size);
                if (d > MAX((size_t)1, longer / 3))
                        continue;
                if (!nearest || d < best) {
                        nearest = names[i];
                        best = d;
                }
        }
        return nearest;
}
