/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of the control channel (docs/design/control-channel.md). What comes in was written by
 * hostile code: the decoder takes any bytes, in any pieces, and needs memory only for what came. */
#ifndef ENGINE_FRAME_H
#define ENGINE_FRAME_H

#include "base/buffer.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER_MAX 24          /* kind, two numbers of ten digits, two spaces, the newline */
#define FRAME_SEQ_MAX 9999999999ULL  /* ten digits */
#define FRAME_NAME_MAX 127           /* bytes of a part's name */
#define FRAME_PARTS_MAX 32           /* parts of a frame that are looked at */

struct frame {
        char kind;
        uint64_t seq;
        const char *payload; /* good until the decoder is fed again */
        size_t size;
};

struct frame_part {
        char name[FRAME_NAME_MAX + 1];
        const char *bytes; /* in the payload */
        size_t size;
};

struct frame_decoder {
        char header[FRAME_HEADER_MAX];
        size_t n_header;
        bool in_payload;
        struct frame frame;
        struct buffer payload;
};

void frame_decoder_init(struct frame_decoder *d);
void frame_decoder_done(struct frame_decoder *d);
/* Gives memory back that a large frame has taken. Between frames only. */
void frame_decoder_trim(struct frame_decoder *d);

/* Takes bytes, and moves *bytes and *size past what was taken. 1: a whole frame; 0: all was taken, and there
 * is none yet; -EPROTO: malformed; -EMSGSIZE: a payload above FRAME_BYTES_MAX; -ENOMEM. After an
 * error the stream cannot be read any further. */
int frame_decoder_feed(struct frame_decoder *d, const char **bytes, size_t *size, struct frame *ret);

/* The next part of a payload: 1, 0 at the end, or -EPROTO. Moves *at and *left on. */
int frame_next_part(const char **at, size_t *left, struct frame_part *ret);
/* Reads up to max parts. Fills *ret_n. 0, or -EPROTO when any part, also one further on, is malformed. */
int frame_read_parts(const struct frame *frame, struct frame_part *ret, size_t max, size_t *ret_n);

/* Writes the line before a payload; its length. */
size_t frame_write_header(char ret[static FRAME_HEADER_MAX + 1], char kind, uint64_t seq, size_t size);
/* Adds a part to a payload. 0, -EFBIG or -ENOMEM. */
int frame_add_part(struct buffer *payload, const char *name, const void *bytes, size_t size);

#endif
