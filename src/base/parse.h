/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers with units, as people write them in files and flags, and back. */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include <stddef.h>
#include <stdint.h>

/* All parsers take the whole text: -EINVAL for anything else than the form, also for empty
 * text, signs, blanks, NaN and exponents; -ERANGE when it is of the form but does not fit.
 * *ret is untouched on failure. */

/* "100", "64k", "512m", "512MB", "1GiB": bytes, always binary multiples. */
int parse_size(const char *text, uint64_t *ret);

/* "30", "30s", "1.5s", "500ms", "2m", "2min", "1h": microseconds. */
int parse_duration(const char *text, uint64_t *ret_usec);

/* "128" */
int parse_count(const char *text, uint64_t *ret);

/* "2", "0.5": thousandths of a CPU. */
int parse_cpus(const char *text, uint64_t *ret_milli);

/* The shortest exact form that the parser above reads back. */
#define FORMAT_MAX 32
char *format_size(uint64_t bytes, char buf[static FORMAT_MAX]);
char *format_duration(uint64_t usec, char buf[static FORMAT_MAX]);
char *format_cpus(uint64_t milli, char buf[static FORMAT_MAX]);

#endif
