/* SPDX-License-Identifier: Apache-2.0
 *
 * Versions of the API ("1.41") and of runc ("1.1.5+ds1", "1.4.0-rc.3"). */
#include "backend/docker/version.h"

#include "backend/docker/engine.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define PART_DIGITS_MAX 6 /* no version has larger numbers */

/* A number of a version; *text is moved behind it. */
static int take_number(const char **text, unsigned *ret)
{
        size_t digits = strspn(*text, "0123456789");
        unsigned value = 0;

        if (digits == 0 || digits > PART_DIGITS_MAX)
                return -EINVAL;
        for (size_t i = 0; i < digits; i++)
                value = value * 10 + (unsigned)((*text)[i] - '0');
        *text += digits;
        *ret = value;
        return 0;
}

int api_parse(const char *text, struct api_version *ret)
{
        struct api_version v;

        if (take_number(&text, &v.major) < 0 || *text++ != '.' || take_number(&text, &v.minor) < 0 || *text)
                return -EINVAL;
        *ret = v;
        return 0;
}

int api_compare(struct api_version a, struct api_version b)
{
        if (a.major != b.major)
                return a.major < b.major ? -1 : 1;
        return a.minor == b.minor ? 0 : a.minor < b.minor ? -1 : 1;
}

struct runc_version {
        unsigned n[3];
        unsigned before; /* which candidate before the release it is; PRE_NONE: it is the release or something after it */
};

#define PRE_NONE UINT32_MAX

/* "-rc.3", "~rc3", "-rc3+dev"; a distribution's "+ds1", "-1+deb12u1", "~ds1", "-0ubuntu1" name no candidate. */
static int parse_candidate(const char *text, unsigned *ret)
{
        static const char *const words[] = {"alpha", "beta", "dev", "pre", "rc"};

        *ret = PRE_NONE;
        if (*text != '-' && *text != '~')
                return 0;
        text++;
        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
                size_t length = strlen(words[i]);
                if (strncasecmp(text, words[i], length) != 0)
                        continue;
                *ret = 0;
                text += length;
                text += *text == '.';
                if (strcmp(words[i], "rc") == 0 && isdigit((unsigned char)*text))
                        return take_number(&text, ret);
                return 0;
        }
        return 0;
}

static int parse_runc(const char *text, struct runc_version *ret)
{
        struct runc_version v = {0};

        text += *text == 'v';
        for (size_t i = 0; i < ARRAY_SIZE(v.n); i++) {
                if (i > 0 && *text++ != '.')
                        return -EINVAL;
                if (take_number(&text, &v.n[i]) < 0)
                        return -EINVAL;
        }
        if ((*text && !strchr("+-~", *text)) ||
            strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-~_:") != strlen(text))
                return -EINVAL;
        if (parse_candidate(text, &v.before) < 0)
                return -EINVAL;
        *ret = v;
        return 0;
}

static bool is_before(const struct runc_version *a, const struct runc_version *b)
{
        for (size_t i = 0; i < ARRAY_SIZE(a->n); i++)
                if (a->n[i] != b->n[i])
                        return a->n[i] < b->n[i];
        return a->before < b->before;
}

int engine_runc_is_old(const char *version)
{
        /* The first of each line with the ways out mended that were known in November 2025 (by masked paths, /dev/console, and writes to
         * /proc); lines before the first have none. */
        static const struct runc_version mended[] = {
                {{1, 2, 8}, PRE_NONE},
                {{1, 3, 3}, PRE_NONE},
                {{1, 4, 0}, 3},
        };
        struct runc_version v;

        if (parse_runc(version, &v) < 0)
                return -1;
        for (size_t i = 0; i < ARRAY_SIZE(mended); i++)
                if (v.n[0] == mended[i].n[0] && v.n[1] == mended[i].n[1])
                        return is_before(&v, &mended[i]);
        return is_before(&v, &mended[ARRAY_SIZE(mended) - 1]);
}
