/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include "base/limits.h"
#include "base/macro.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define USEC_PER_MSEC 1000ULL
#define USEC_PER_SEC 1000000ULL

struct unit {
        const char *name;
        uint64_t factor;
};

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

/* Reads digits into *ret and moves *text behind them. Digits are read to their end even after
 * an overflow, so that junk behind them is still seen as junk. */
static int read_digits(const char **text, uint64_t *ret)
{
        const char *p = *text;
        uint64_t v = 0;
        bool overflow = false;

        if (!is_digit(*p))
                return -EINVAL;
        for (; is_digit(*p); p++)
                if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
                    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
                        overflow = true;
        *text = p;
        *ret = overflow ? UINT64_MAX : v;
        return overflow ? -ERANGE : 0;
}

/* Reads an optional ".digits" as a count of 1/scale; -EINVAL when it is finer than that. */
static int read_fraction(const char **text, uint64_t scale, uint64_t *ret)
{
        const char *p = *text;
        uint64_t v = 0;

        if (*p == '.') {
                p++;
                if (!is_digit(*p))
                        return -EINVAL;
                for (; is_digit(*p); p++) {
                        if (scale == 1 && *p != '0')
                                return -EINVAL;
                        if (scale > 1) {
                                scale /= 10;
                                v += (uint64_t)(*p - '0') * scale;
                        }
                }
        }
        *text = p;
        *ret = v;
        return 0;
}

static const struct unit *unit_find(const struct unit *units, size_t n, const char *name)
{
        for (size_t i = 0; i < n; i++)
                if (strcasecmp(units[i].name, name) == 0)
                        return &units[i];
        return NULL;
}

int parse_size(const char *text, uint64_t *ret)
{
        static const struct unit units[] = {
                {"", 1},           {"b", 1},
                {"k", KIB},        {"kb", KIB},        {"kib", KIB},
                {"m", MIB},        {"mb", MIB},        {"mib", MIB},
                {"g", GIB},        {"gb", GIB},        {"gib", GIB},
                {"t", 1024 * GIB}, {"tb", 1024 * GIB}, {"tib", 1024 * GIB},
        };
        uint64_t v;

        int r = read_digits(&text, &v);
        if (r == -EINVAL)
                return r;
        const struct unit *unit = unit_find(units, ARRAY_SIZE(units), text);
        if (!unit)
                return -EINVAL;
        if (r < 0 || __builtin_mul_overflow(v, unit->factor, &v))
                return -ERANGE;
        *ret = v;
        return 0;
}

int parse_duration(const char *text, uint64_t *ret_usec)
{
        static const struct unit units[] = {
                {"", USEC_PER_SEC},       {"s", USEC_PER_SEC},        {"ms", USEC_PER_MSEC},
                {"m", 60 * USEC_PER_SEC}, {"min", 60 * USEC_PER_SEC}, {"h", 3600 * USEC_PER_SEC},
        };
        uint64_t whole, millionths;

        int r = read_digits(&text, &whole);
        if (r == -EINVAL || read_fraction(&text, 1000000, &millionths) < 0)
                return -EINVAL;
        const struct unit *unit = unit_find(units, ARRAY_SIZE(units), text);
        if (!unit)
                return -EINVAL;
        if (r < 0 || __builtin_mul_overflow(whole, unit->factor, &whole))
                return -ERANGE;
        /* At most 10^6 times an hour in microseconds: fits. Finer than one is cut off. */
        if (__builtin_add_overflow(whole, millionths * unit->factor / 1000000, &whole))
                return -ERANGE;
        *ret_usec = whole;
        return 0;
}

int parse_count(const char *text, uint64_t *ret)
{
        uint64_t v;

        int r = read_digits(&text, &v);
        if (*text != '\0')
                return -EINVAL;
        if (r < 0)
                return r;
        *ret = v;
        return 0;
}

int parse_cpus(const char *text, uint64_t *ret_milli)
{
        uint64_t whole, thousandths;

        int r = read_digits(&text, &whole);
        if (r == -EINVAL || read_fraction(&text, 1000, &thousandths) < 0 || *text != '\0')
                return -EINVAL;
        if (r < 0 || __builtin_mul_overflow(whole, (uint64_t)1000, &whole) ||
            __builtin_add_overflow(whole, thousandths, &whole))
                return -ERANGE;
        *ret_milli = whole;
        return 0;
}

/* value / scale with as many decimals as it needs; scale is a power of ten. */
static void format_decimal(uint64_t value, uint64_t scale, const char *unit, char buf[static FORMAT_MAX])
{
        int digits = 0;
        uint64_t fraction = value % scale;

        for (uint64_t s = scale; s > 1; s /= 10)
                digits++;
        while (fraction > 0 && fraction % 10 == 0) {
                fraction /= 10;
                digits--;
        }
        if (fraction > 0)
                snprintf(buf, FORMAT_MAX, "%" PRIu64 ".%0*" PRIu64 "%s", value / scale, digits, fraction, unit);
        else
                snprintf(buf, FORMAT_MAX, "%" PRIu64 "%s", value / scale, unit);
}

char *format_size(uint64_t bytes, char buf[static FORMAT_MAX])
{
        static const struct unit units[] = {{"t", 1024 * GIB}, {"g", GIB}, {"m", MIB}, {"k", KIB}};

        for (size_t i = 0; i < ARRAY_SIZE(units); i++)
                if (bytes >= units[i].factor && bytes % units[i].factor == 0) {
                        snprintf(buf, FORMAT_MAX, "%" PRIu64 "%s", (uint64_t)(bytes / units[i].factor), units[i].name);
                        return buf;
                }
        snprintf(buf, FORMAT_MAX, "%" PRIu64, bytes);
        return buf;
}

char *format_duration(uint64_t usec, char buf[static FORMAT_MAX])
{
        if (usec > 0 && usec % (3600 * USEC_PER_SEC) == 0)
                snprintf(buf, FORMAT_MAX, "%" PRIu64 "h", (uint64_t)(usec / (3600 * USEC_PER_SEC)));
        else if (usec > 0 && usec < USEC_PER_SEC)
                format_decimal(usec, USEC_PER_MSEC, "ms", buf);
        else
                format_decimal(usec, USEC_PER_SEC, "s", buf);
        return buf;
}

char *format_cpus(uint64_t milli, char buf[static FORMAT_MAX])
{
        format_decimal(milli, 1000, "", buf);
        return buf;
}
