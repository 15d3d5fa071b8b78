/* SPDX-License-Identifier: Apache-2.0
 *
 * Times as the API writes them: RFC 3339 in UTC, with microseconds. */
#include "journal/journal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define USEC_PER_SEC 1000000ULL
#define YEAR_MAX 9999

char *journal_time_format(uint64_t usec, char ret[static JOURNAL_TIME_MAX])
{
        time_t seconds = (time_t)(usec / USEC_PER_SEC);
        struct tm tm;

        if (!gmtime_r(&seconds, &tm) || tm.tm_year + 1900 > YEAR_MAX)
                tm = (struct tm){.tm_year = YEAR_MAX - 1900, .tm_mon = 11, .tm_mday = 31};
        size_t n = strftime(ret, JOURNAL_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(ret + n, JOURNAL_TIME_MAX - n, ".%06uZ", (unsigned)(usec % USEC_PER_SEC));
        return ret;
}

/* n digits, no sign and no blank. */
static int digits(const char **p, int n)
{
        int v = 0;

        for (; n > 0; n--, ++*p) {
                if (**p < '0' || **p > '9')
                        return -1;
                v = v * 10 + (**p - '0');
        }
        return v;
}

static bool take(const char **p, const char *any)
{
        if (**p == '\0' || !strchr(any, **p))
                return false;
        ++*p;
        return true;
}

static int read_date(const char **p, struct tm *tm)
{
        int year = digits(p, 4);
        bool ok = year >= 1970 && take(p, "-");
        int month = ok ? digits(p, 2) : -1;
        ok = month >= 1 && month <= 12 && take(p, "-");
        int day = ok ? digits(p, 2) : -1;

        if (day < 1 || day > 31)
                return -EINVAL;
        *tm = (struct tm){.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
        return 0;
}

static int read_clock(const char **p, struct tm *tm)
{
        tm->tm_hour = digits(p, 2);
        tm->tm_min = tm->tm_hour >= 0 && take(p, ":") ? digits(p, 2) : -1;
        tm->tm_sec = tm->tm_min >= 0 && take(p, ":") ? digits(p, 2) : -1;
        return tm->tm_hour > 23 || tm->tm_min > 59 || tm->tm_sec < 0 || tm->tm_sec > 60 ? -EINVAL : 0;
}

/* ".5" and the like; finer than a microsecond is cut off. */
static int read_fraction(const char **p, uint64_t *ret)
{
        uint64_t v = 0, scale = USEC_PER_SEC;

        if (take(p, ".")) {
                if (**p < '0' || **p > '9')
                        return -EINVAL;
                for (; **p >= '0' && **p <= '9'; ++*p) {
                        scale /= 10;
                        v += (uint64_t)(**p - '0') * scale;
                }
        }
        *ret = v;
        return 0;
}

/* "Z", "+02:00", "-00:30": seconds east of Greenwich. */
static int read_zone(const char **p, int *ret)
{
        int sign = **p == '-' ? -1 : 1;

        if (take(p, "Zz")) {
                *ret = 0;
                return 0;
        }
        if (!take(p, "+-"))
                return -EINVAL;
        int hours = digits(p, 2), minutes = hours >= 0 && take(p, ":") ? digits(p, 2) : -1;
        if (hours > 23 || minutes < 0 || minutes > 59)
                return -EINVAL;
        *ret = sign * (hours * 3600 + minutes * 60);
        return 0;
}

int journal_time_parse(const char *text, uint64_t *ret_usec)
{
        const char *p = text;
        struct tm tm;
        uint64_t fraction = 0;
        int zone = 0;

        if (read_date(&p, &tm) < 0)
                return -EINVAL;
        int day = tm.tm_mday;
        /* A date alone is its first moment. */
        if (*p != '\0' && (!take(&p, "Tt ") || read_clock(&p, &tm) < 0 || read_fraction(&p, &fraction) < 0 || read_zone(&p, &zone) < 0 || *p != '\0'))
                return -EINVAL;
        bool leap = tm.tm_sec == 60;
        if (leap)
                tm.tm_sec = 59;
        time_t seconds = timegm(&tm);
        if (tm.tm_mday != day) /* the 31st of a month that has none */
                return -EINVAL;
        seconds += leap - zone;
        if (seconds < 0)
                return -EINVAL;
        *ret_usec = (uint64_t)seconds * USEC_PER_SEC + fraction;
        return 0;
}
