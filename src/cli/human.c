/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/human.h"

#include "base/macro.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND 1000000ULL

static char *nothing(char buf[static HUMAN_TEXT_MAX])
{
        return strcpy(buf, "-");
}

char *human_size(uint64_t bytes, char buf[static HUMAN_TEXT_MAX])
{
        static const char units[] = "BKMGTP";
        double n = (double)bytes;
        size_t unit = 0;

        while (n >= 1000 && units[unit + 1]) {
                n /= 1024;
                unit++;
        }
        snprintf(buf, HUMAN_TEXT_MAX, unit > 0 && n < 9.95 ? "%.1f%c" : "%.0f%c", n, units[unit]);
        return buf;
}

char *human_age(uint64_t usec, char buf[static HUMAN_TEXT_MAX])
{
        static const struct {
                uint64_t seconds;
                char unit;
        } rows[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
        uint64_t seconds = usec / SECOND;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                /* From two of a unit on: "90s" says more than "1m". */
                if (seconds >= 2 * rows[i].seconds || rows[i].seconds == 1) {
                        snprintf(buf, HUMAN_TEXT_MAX, "%" PRIu64 "%c", seconds / rows[i].seconds, rows[i].unit);
                        break;
                }
        return buf;
}

char *human_time(uint64_t usec, char buf[static HUMAN_TEXT_MAX])
{
        uint64_t seconds = usec / SECOND;

        if (seconds >= 3600)
                snprintf(buf, HUMAN_TEXT_MAX, "%" PRIu64 "h%02" PRIu64 "m", seconds / 3600, seconds / 60 % 60);
        else if (seconds >= 60)
                snprintf(buf, HUMAN_TEXT_MAX, "%" PRIu64 "m%02" PRIu64 "s", seconds / 60, seconds % 60);
        else
                snprintf(buf, HUMAN_TEXT_MAX, seconds >= 10 ? "%.1fs" : "%.2fs", (double)usec / 1e6);
        return buf;
}

char *human_id(const char *id, char buf[static HUMAN_TEXT_MAX])
{
        snprintf(buf, HUMAN_TEXT_MAX, "%.*s", SHORT_ID_DIGITS, id);
        return buf;
}

char *human_json_size(const json_t *value, char buf[static HUMAN_TEXT_MAX])
{
        return json_is_number(value) && json_number_value(value) >= 0 ? human_size((uint64_t)json_number_value(value), buf) : nothing(buf);
}

char *human_json_time(const json_t *usec, char buf[static HUMAN_TEXT_MAX])
{
        return json_is_number(usec) && json_number_value(usec) >= 0 ? human_time((uint64_t)json_number_value(usec), buf) : nothing(buf);
}

char *human_json_percent(const json_t *value, char buf[static HUMAN_TEXT_MAX])
{
        if (!json_is_number(value))
                return nothing(buf);
        snprintf(buf, HUMAN_TEXT_MAX, "%.1f", json_number_value(value));
        return buf;
}

char *human_json_count(const json_t *value, char buf[static HUMAN_TEXT_MAX])
{
        if (!json_is_integer(value))
                return nothing(buf);
        snprintf(buf, HUMAN_TEXT_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return buf;
}

int human_parse_time(const char *text, uint64_t *ret_usec)
{
        struct tm tm = {0};
        const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
        uint64_t fraction = 0, weight = SECOND;

        if (!rest)
                return -EINVAL;
        if (*rest == '.')
                for (rest++; *rest >= '0' && *rest <= '9'; rest++) {
                        weight /= 10;
                        fraction += (uint64_t)(*rest - '0') * weight;
                }
        time_t seconds = timegm(&tm);
        if (strcmp(rest, "Z") != 0 || seconds < 0)
                return -EINVAL;
        *ret_usec = (uint64_t)seconds * SECOND + fraction;
        return 0;
}

char *human_json_ago(const json_t *time, char buf[static HUMAN_TEXT_MAX])
{
        struct timespec now;
        uint64_t then;

        if (!json_is_string(time) || human_parse_time(json_string_value(time), &then) < 0 || clock_gettime(CLOCK_REALTIME, &now) < 0)
                return nothing(buf);
        uint64_t now_usec = (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec / 1000;
        return human_age(now_usec > then ? now_usec - then : 0, buf);
}
