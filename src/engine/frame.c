/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/frame.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_DIGITS_MAX 10

void frame_decoder_init(struct frame_decoder *d)
{
        *d = (struct frame_decoder){0};
        buffer_init(&d->payload, FRAME_BYTES_MAX);
        d->payload.secret = true;
}

void frame_decoder_done(struct frame_decoder *d)
{
        buffer_done(&d->payload);
        frame_decoder_init(d);
}

void frame_decoder_trim(struct frame_decoder *d)
{
        if (!d->in_payload && d->payload.allocated > OUTPUT_CHUNK_BYTES)
                buffer_done(&d->payload);
}

/* A decimal number of one to ten digits, without leading zeros, and the character that must follow it. Returns
 * what is behind that, or NULL. */
static const char *read_number(const char *at, const char *end, char after, uint64_t *ret)
{
        uint64_t n = 0;
        int digits = 0;

        while (at < end && *at >= '0' && *at <= '9' && digits <= NUMBER_DIGITS_MAX) {
                n = n * 10 + (uint64_t)(*at++ - '0');
                digits++;
        }
        if (digits == 0 || digits > NUMBER_DIGITS_MAX || at == end || *at != after)
                return NULL;
        if (digits > 1 && at[-digits] == '0')
                return NULL;
        *ret = n;
        return at + 1;
}

/* The whole line is there, with its newline. 1 when it is well-formed. */
static int read_header(struct frame_decoder *d)
{
        const char *at = d->header, *end = d->header + d->n_header;
        uint64_t size;

        if (end - at < 2 || at[0] < 'A' || at[0] > 'Z' || at[1] != ' ')
                return -EPROTO;
        d->frame.kind = at[0];
        at = read_number(at + 2, end, ' ', &d->frame.seq);
        if (at)
                at = read_number(at, end, '\n', &size);
        if (!at || at != end)
                return -EPROTO;
        if (size > FRAME_BYTES_MAX)
                return -EMSGSIZE;
        d->frame.size = (size_t)size;
        d->payload.size = 0;
        d->in_payload = true;
        return 1;
}

/* Takes bytes up to the newline. 1 when the line is whole. */
static int take_header(struct frame_decoder *d, const char **bytes, size_t *size)
{
        while (*size > 0) {
                char c = *(*bytes)++;
                (*size)--;
                d->header[d->n_header++] = c;
                if (c == '\n')
                        return read_header(d);
                if (d->n_header == sizeof(d->header))
                        return -EPROTO;
        }
        return 0;
}

int frame_decoder_feed(struct frame_decoder *d, const char **bytes, size_t *size, struct frame *ret)
{
        if (!d->in_payload) {
                int r = take_header(d, bytes, size);
                if (r <= 0)
                        return r;
        }
        size_t n = MIN(*size, d->frame.size - d->payload.size);
        int r = buffer_add(&d->payload, *bytes, n);
        if (r < 0)
                return r;
        *bytes += n;
        *size -= n;
        if (d->payload.size < d->frame.size)
                return 0;
        d->in_payload = false;
        d->n_header = 0;
        *ret = d->frame;
        ret->payload = d->payload.data;
        return 1;
}

static bool is_name(const char *name, size_t size)
{
        static const char others[] = "._+/;=-";

        if (size == 0 || size > FRAME_NAME_MAX)
                return false;
        for (size_t i = 0; i < size; i++) {
                char c = name[i];
                bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
                if (!letter && (c == '\0' || !strchr(others, c)))
                        return false;
        }
        return true;
}

int frame_next_part(const char **at, size_t *left, struct frame_part *ret)
{
        uint64_t size;

        if (*left == 0)
                return 0;
        const char *end = *at + *left, *space = memchr(*at, ' ', MIN(*left, (size_t)FRAME_NAME_MAX + 1));
        if (!space || !is_name(*at, (size_t)(space - *at)))
                return -EPROTO;
        const char *bytes = read_number(space + 1, end, '\n', &size);
        if (!bytes || size > (size_t)(end - bytes))
                return -EPROTO;
        memcpy(ret->name, *at, (size_t)(space - *at));
        ret->name[space - *at] = '\0';
        ret->bytes = bytes;
        ret->size = (size_t)size;
        *at = bytes + size;
        *left = (size_t)(end - *at);
        return 1;
}

int frame_read_parts(const struct frame *frame, struct frame_part *ret, size_t max, size_t *ret_n)
{
        const char *at = frame->payload;
        size_t left = frame->size, n = 0;
        struct frame_part part;
        int r;

        while ((r = frame_next_part(&at, &left, &part)) > 0)
                if (n < max)
                        ret[n++] = part;
        *ret_n = n;
        return r;
}

size_t frame_write_header(char ret[static FRAME_HEADER_MAX + 1], char kind, uint64_t seq, size_t size)
{
        return (size_t)snprintf(ret, FRAME_HEADER_MAX + 1, "%c %llu %zu\n", kind, (unsigned long long)seq, size);
}

int frame_add_part(struct buffer *payload, const char *name, const void *bytes, size_t size)
{
        char line[FRAME_NAME_MAX + NUMBER_DIGITS_MAX + 3];

        if (!is_name(name, strlen(name)))
                return -EINVAL;
        int n = snprintf(line, sizeof(line), "%s %zu\n", name, size);
        int r = buffer_add(payload, line, (size_t)n);
        return r < 0 ? r : buffer_add(payload, bytes, size);
}
