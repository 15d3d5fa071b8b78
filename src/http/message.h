/* SPDX-License-Identifier: Apache-2.0
 *
 * The head of a request or an answer, as the parser leaves it. Texts lie in one buffer, NUL-terminated; fields are in the order they came. */
#ifndef HTTP_MESSAGE_H
#define HTTP_MESSAGE_H

#include "base/limits.h"
#include "base/macro.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Places in the buffer: a head is never larger than 64 KiB. */
struct http_field {
        uint16_t name, value;
};

struct http_message {
        char *bytes;
        uint32_t size, allocated;
        uint16_t method, target, version; /* places; version is 10 or 11 */
        uint16_t status, reason;          /* of an answer: the number, and the place of what stands behind it */
        uint16_t n_fields;
        struct http_field fields[HTTP_FIELDS_MAX];

        /* What the fields say about the rest of the message. */
        uint64_t content_length; /* 0 when there is none */
        bool chunked;
        bool has_length;
        bool until_close;     /* of an answer: its body ends with the connection */
        bool close;           /* the connection ends after the answer */
        bool expect_continue; /* the client waits for 100 before it sends the body */
};

/* NULL: out of memory. */
struct http_message *http_message_new(void);
void http_message_free(struct http_message *m); /* takes NULL */
DEFINE_CLEANUP(struct http_message, http_message_free)
#define _cleanup_http_message_ _cleanup_(http_message_free_ptr)

const char *http_message_method(const struct http_message *m);
const char *http_message_target(const struct http_message *m);
/* The first field of that name, in any case; NULL: there is none. */
const char *http_message_field(const struct http_message *m, const char *name);
/* The next one after *i, which begins with 0. */
const char *http_message_next(const struct http_message *m, const char *name, size_t *i);

/* Whether a comma-separated list has this word, in any case. */
bool http_list_has(const char *list, const char *word);

#endif
