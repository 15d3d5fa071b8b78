/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link.h"

#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define FRAME_MAX (sizeof(struct wire_frame) + WIRE_DATA_MAX)
#define OUT_BYTES (8 * FRAME_MAX)
#define ANSWERS_BYTES (4 * FRAME_MAX) /* of the above, that bytes of programs leave free */
#define ANSWER_MAX (4 * KIB)          /* more than one frame from the host ever makes us answer */
#define IN_BYTES (4 * FRAME_MAX)

static char out[OUT_BYTES], in[IN_BYTES];
static size_t out_start, out_end, in_start, in_end;
static struct wire_keys keys;
static bool has_keys, has_heard;
static uint64_t n_sent, n_heard; /* with tags */

int link_init(void)
{
        return fd_set_nonblock(STDOUT_FILENO);
}

static size_t room(void)
{
        return OUT_BYTES - (out_end - out_start);
}

bool link_has_room(void)
{
        return room() >= FRAME_MAX + ANSWERS_BYTES;
}

bool link_can_answer(void)
{
        return room() >= FRAME_MAX + ANSWER_MAX;
}

/* Room in one piece at the end. */
static void make_room(size_t size)
{
        if (out_end + size <= OUT_BYTES)
                return;
        memmove(out, out + out_start, out_end - out_start);
        out_end -= out_start;
        out_start = 0;
}

char *link_payload(void)
{
        make_room(FRAME_MAX);
        return out + out_end + sizeof(struct wire_frame);
}

void link_commit(const struct wire_frame *frame)
{
        struct wire_frame tagged = *frame;

        if (has_keys)
                tagged.tag = wire_tag(keys.from_agent, n_sent++, frame, out + out_end + sizeof(*frame));
        memcpy(out + out_end, &tagged, sizeof(tagged));
        out_end += sizeof(*frame) + frame->size;
}

void link_send(const struct wire_frame *frame, const void *payload)
{
        char *at = link_payload();

        if (frame->size > 0)
                memcpy(at, payload, frame->size);
        link_commit(frame);
}

bool link_is_waiting(void)
{
        return out_end > out_start;
}

int link_flush(void)
{
        while (out_end > out_start) {
                ssize_t n = write(STDOUT_FILENO, out + out_start, out_end - out_start);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                out_start += (size_t)n;
        }
        out_start = out_end = 0;
        return 0;
}

int link_receive(void)
{
        if (in_start == in_end)
                in_start = in_end = 0;
        if (IN_BYTES - in_end < FRAME_MAX) {
                memmove(in, in + in_start, in_end - in_start);
                in_end -= in_start;
                in_start = 0;
        }
        if (in_end == IN_BYTES) /* frames wait to be taken */
                return 0;
        ssize_t n = read(STDIN_FILENO, in + in_end, IN_BYTES - in_end);
        if (n < 0)
                return errno == EINTR || errno == EAGAIN ? 0 : -errno;
        in_end += (size_t)n;
        return n == 0 ? -EPIPE : 0;
}

void link_forget(void)
{
        explicit_bzero(&keys, sizeof(keys));
}

/* Whether the host has said it. Who sends no keys uses none: a test. */
static bool is_genuine(const struct wire_frame *frame, const char *payload)
{
        return !has_keys || frame->tag == wire_tag(keys.to_agent, n_heard++, frame, payload);
}

int link_next(struct wire_frame *ret, const char **ret_payload)
{
        struct wire_frame frame;

        if (in_end - in_start < sizeof(frame))
                return 0;
        memcpy(&frame, in + in_start, sizeof(frame));
        if (frame.size > WIRE_DATA_MAX)
                return -EPROTO;
        if (in_end - in_start < sizeof(frame) + frame.size)
                return 0;
        char *payload = in + in_start + sizeof(frame);
        in_start += sizeof(frame) + frame.size;
        if (frame.type == WIRE_KEY && !has_heard && frame.size == sizeof(keys)) {
                memcpy(&keys, payload, sizeof(keys));
                explicit_bzero(payload, sizeof(keys));
                has_keys = has_heard = true;
                return link_next(ret, ret_payload);
        }
        has_heard = true;
        if (!is_genuine(&frame, payload))
                return -EBADMSG;
        *ret = frame;
        *ret_payload = payload;
        return 1;
}
