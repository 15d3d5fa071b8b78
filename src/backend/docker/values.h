/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON from an engine, one value after the other as the bytes come. Where a value ends is found before anything is parsed, and with it how deep and how
 * large it is: the parser recurses, and the threads it runs in have small stacks. */
#ifndef DOCKER_VALUES_H
#define DOCKER_VALUES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct value_scan {
        size_t at; /* bytes of the value that were looked at */
        unsigned depth, nodes;
        bool in_string, escaped;
};

/* How many bytes at the beginning of data are between values. */
size_t value_skip(const char *data, size_t size);
/* The length of the object or array at data; 0: its end has not come yet, ask again with more behind the same bytes. -EBADMSG: it is none; -E2BIG: too deep
 * or of too many parts; *why says what is wrong. s begins as {0}, and is {0} again after an end. */
long value_scan(struct value_scan *s, const char *data, size_t size, const char **why);

/* A text with exactly one value. *ret is NULL when there is none in it, or null. */
int value_parse(const char *data, size_t size, json_t **ret, const char **why);

/* A new value of a stream: its bytes are as long as value_scan() said. */
int value_load(const char *data, size_t size, json_t **ret, const char **why);

#endif
