/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_SEQUENCE_MAX 4

/* Decodes the character at text. Its length in bytes (1 to 4), or 0 when the bytes are not UTF-8 or size
 * is 0. */
size_t utf8_decode(const char *text, size_t size, uint32_t *ret);

bool utf8_is_valid(const void *bytes, size_t size);

/* How many bytes at the end (0 to 3) begin a sequence that the next bytes may still complete. */
size_t utf8_incomplete_tail(const void *bytes, size_t size);

/* Adds the bytes with U+FFFD in the place of what is not UTF-8: one for each longest piece that
 * could have begun a sequence, else one for each byte, as Unicode recommends. Needs up to three
 * times the size. As buffer_add(), but what came before a failure stays added. */
int utf8_replace(struct buffer *out, const void *bytes, size_t size);

/* Cuts a stream where characters end: what begins a sequence is held back until the rest came. */
struct utf8_splitter {
        unsigned char held[UTF8_SEQUENCE_MAX];
        size_t n_held;
};

/* Adds to out what was held and the new bytes, but for the tail that is held from now on. On
 * failure out and the splitter are as before. */
int utf8_splitter_add(struct utf8_splitter *s, struct buffer *out, const void *bytes, size_t size);
/* The stream ended: adds what is still held. */
int utf8_splitter_flush(struct utf8_splitter *s, struct buffer *out);

#endif
