/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers and times as people read them in tables; rounded. */
#ifndef CLI_HUMAN_H
#define CLI_HUMAN_H

#include <jansson.h>
#include <stdint.h>

#define HUMAN_TEXT_MAX 32
#define SHORT_ID_DIGITS 12 /* of an id in a table; any beginning of one that is unique is understood */

/* "812B", "3.4M", "512M" */
char *human_size(uint64_t bytes, char buf[static HUMAN_TEXT_MAX]);
/* "45s", "12m", "3h", "2d" */
char *human_age(uint64_t usec, char buf[static HUMAN_TEXT_MAX]);
/* "0.05s", "12.3s", "3m20s" */
char *human_time(uint64_t usec, char buf[static HUMAN_TEXT_MAX]);
/* The beginning of an id. */
char *human_id(const char *id, char buf[static HUMAN_TEXT_MAX]);

/* The same of members of JSON; "-" where there is none or null. */
char *human_json_size(const json_t *value, char buf[static HUMAN_TEXT_MAX]);
char *human_json_time(const json_t *usec, char buf[static HUMAN_TEXT_MAX]);
char *human_json_percent(const json_t *value, char buf[static HUMAN_TEXT_MAX]);
char *human_json_count(const json_t *value, char buf[static HUMAN_TEXT_MAX]);
/* How long ago "2026-01-05T10:00:00.000000Z" was, by this host's clock. */
char *human_json_ago(const json_t *time, char buf[static HUMAN_TEXT_MAX]);

/* Such a time in microseconds since 1970. 0 or -EINVAL. */
int human_parse_time(const char *text, uint64_t *ret_usec);

#endif
