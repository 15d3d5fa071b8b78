/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of things. The interpreter gets its configuration once (C) and answers it (Y). A run is one number:
 * the code goes out (I and E), then frames of that number may come until D. Frames of earlier numbers are
 * dropped: a thread of the code can still display something after the end. A frame of a later number, or of this
 * one before its code was sent, nobody can send in good faith.
 *
 * Between runs nobody reads. What has come by then is taken before the code is sent, so that the answer to this
 * code cannot have been written before it. */
#include "engine/channel.h"

#include "policy/network.h"
#include "policy/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define HELLO_BYTES_MAX (1 * MIB) /* the configuration: variables have ARG_BYTES_MAX, and little else comes with them */

int channel_init(struct channel *c)
{
        *c = (struct channel){.fd = -1, .stdin_fd = -1};
        frame_decoder_init(&c->decoder);
        buffer_init(&c->hello, HELLO_BYTES_MAX);
        return chunk_init(&c->chunk);
}

static void wipe(struct buffer *b)
{
        if (b->data)
                explicit_bzero(b->data, b->allocated);
        buffer_done(b);
}

void channel_done(struct channel *c)
{
        frame_decoder_done(&c->decoder);
        wipe(&c->hello);
        chunk_done(&c->chunk);
}

static int add_number(struct buffer *payload, const char *name, uint64_t n)
{
        char text[24];
        int size = snprintf(text, sizeof(text), "%llu", (unsigned long long)n);

        return frame_add_part(payload, name, text, (size_t)size);
}

static int add_variable(struct buffer *payload, const char *name, const char *value)
{
        char *text = NULL;
        int n = asprintf(&text, "%s=%s", name, value);

        if (n < 0)
                return -ENOMEM;
        int r = frame_add_part(payload, "env", text, (size_t)n);
        explicit_bzero(text, (size_t)n);
        free(text);
        return r;
}

#define PART_BYTES_MAX 32 /* of what frame_add_part() puts before one, and behind it */

/* Secrets have their room from the beginning: a buffer that grows leaves what it had behind. */
static int reserve(struct buffer *b, const struct policy *policy)
{
        size_t size = 8 * KIB;

        for (size_t i = 0; i < policy->n_secrets; i++)
                size += strlen(policy->secrets[i].name) + policy->secrets[i].size + PART_BYTES_MAX;
        for (size_t i = 0; i < policy->n_env; i++)
                size += strlen(policy->env[i].name) + strlen(policy->env[i].value) + PART_BYTES_MAX;
        if (policy->n_secrets == 0 || b->allocated >= size)
                return 0;
        wipe(b);
        b->data = malloc(size);
        b->allocated = b->data ? size : 0;
        return b->data ? 0 : -ENOMEM;
}

static int add_text(struct buffer *payload, const char *name, const char *text)
{
        return frame_add_part(payload, name, text, strlen(text));
}

/* What the interpreter shall be: a context, or with a file the program in it. */
static int add_mode(struct buffer *payload, const struct policy *policy, const char *file, char *const *args)
{
        int r = add_text(payload, "mode", file ? "script" : "context");

        if (r == 0 && file)
                r = add_text(payload, "file", file);
        for (; r == 0 && file && args && *args; args++)
                r = add_text(payload, "arg", *args);
        if (r == 0 && !file)
                r = add_number(payload, "result_count", policy->result_count);
        if (r == 0 && !file)
                r = add_number(payload, "result_limit", policy->result_limit_bytes);
        return r;
}

/* An interpreter that was forked from a template has the template's variables: it gets ours here. */
static int write_hello(struct buffer *hello, const struct language *language, const struct policy *policy, const char *file,
                       char *const *args)
{
        _cleanup_(wipe) struct buffer payload = {0};
        char header[FRAME_HEADER_MAX + 1];

        buffer_init(&payload, HELLO_BYTES_MAX);
        int r = reserve(&payload, policy);
        if (r == 0)
                r = reserve(hello, policy);
        if (r == 0)
                r = add_mode(&payload, policy, file, args);
        if (r == 0 && policy->scratch_only)
                r = add_variable(&payload, "HOME", policy_tmp(policy));
        if (r == 0 && policy->scratch_only)
                r = add_variable(&payload, "TMPDIR", policy_tmp(policy));
        for (size_t i = 0; r == 0 && language->env[i]; i++) {
                _cleanup_free_ char *text = policy_fill_places(policy, language->env[i]);
                r = text ? add_text(&payload, "env", text) : -ENOMEM;
        }
        for (const char *const *e = network_env(policy); r == 0 && *e; e++)
                r = add_text(&payload, "env", *e);
        for (size_t i = 0; r == 0 && i < policy->n_env; i++)
                r = add_variable(&payload, policy->env[i].name, policy->env[i].value);
        for (size_t i = 0; r == 0 && i < policy->n_secrets; i++)
                if (!policy->secrets[i].path && !network_uses_secret(policy, policy->secrets[i].name))
                        r = add_variable(&payload, policy->secrets[i].name, policy->secrets[i].value);
        if (r < 0)
                return r;
        r = buffer_add(hello, header, frame_write_header(header, 'C', 0, payload.size));
        return r < 0 ? r : buffer_add(hello, payload.data, payload.size);
}

/* The other end may be closed: then the interpreter is dead or will be, and whoever waits for it will see. */
int channel_greet_script(struct channel *c, int fd, const struct language *language, const struct policy *policy, const char *file,
                         char *const *args)
{
        frame_decoder_done(&c->decoder);
        c->fd = fd;
        /* The one runner that can receive descriptors. */
        c->takes_descriptors = strcmp(language->context, "python") == 0;
        c->greeted = false;
        c->broken = NULL;
        c->seq = 0;
        c->hello.size = c->hello_sent = 0;
        int r = write_hello(&c->hello, language, policy, file, args);
        if (r < 0)
                return r;
        c->stage = CHANNEL_HELLO;
        (void)channel_send(c);
        return 0;
}

int channel_greet(struct channel *c, int fd, const struct language *language, const struct policy *policy)
{
        return channel_greet_script(c, fd, language, policy, NULL, NULL);
}

void channel_begin(struct channel *c, const struct claims *claims)
{
        c->claims = *claims;
        c->seq++;
        c->n_out = 0;
        c->stdin_fd = -1;
        c->stage = c->greeted || c->eager ? CHANNEL_INPUT : CHANNEL_HELLO;
        while (c->greeted && !c->broken) {
                ssize_t n = channel_receive(c);
                if (n <= 0)
                        break; /* the end is seen again, by who waits for it */
                channel_take(c, (size_t)n);
        }
}

static void add_out(struct channel *c, char kind, char *header, const char *bytes, size_t size)
{
        c->out[c->n_out++] = (struct iovec){header, frame_write_header(header, kind, c->seq, size)};
        if (size > 0)
                c->out[c->n_out++] = (struct iovec){(void *)bytes, size};
}

void channel_set_code(struct channel *c, const char *code, size_t size, bool last, const struct buffer *input, int stdin_fd)
{
        c->n_out = 0;
        if (c->bombed)
                add_out(c, 'K', c->headers[0], NULL, 0);
        if (input && input->size > 0)
                add_out(c, 'I', c->headers[1], input->data, input->size);
        c->bombed = false;
        add_out(c, last ? 'L' : 'E', c->headers[2], code, size);
        c->stdin_fd = stdin_fd;
        c->stage = CHANNEL_SENDING;
}

bool channel_has_to_send(const struct channel *c)
{
        return c->hello_sent < c->hello.size || (c->stage == CHANNEL_SENDING && c->n_out > 0);
}

/* Forgets the first n bytes of what is to be sent. */
static void skip_out(struct channel *c, size_t n)
{
        size_t done = 0;

        while (done < c->n_out && n >= c->out[done].iov_len)
                n -= c->out[done++].iov_len;
        c->n_out -= done;
        memmove(c->out, c->out + done, c->n_out * sizeof(c->out[0]));
        if (n > 0) {
                c->out[0].iov_base = (char *)c->out[0].iov_base + n;
                c->out[0].iov_len -= n;
        }
}

static ssize_t send_out(struct channel *c)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {0};
        struct msghdr message = {.msg_iov = c->out, .msg_iovlen = c->n_out};

        if (c->stdin_fd >= 0) {
                message.msg_control = &control;
                message.msg_controllen = sizeof(control);
                control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
                memcpy(CMSG_DATA(&control.header), &c->stdin_fd, sizeof(int));
        }
        ssize_t n = sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
                c->stdin_fd = -1;
                skip_out(c, (size_t)n);
        }
        return n;
}

int channel_send(struct channel *c)
{
        while (channel_has_to_send(c)) {
                bool hello = c->hello_sent < c->hello.size;
                ssize_t n = hello ? send(c->fd, c->hello.data + c->hello_sent, c->hello.size - c->hello_sent, MSG_NOSIGNAL | MSG_DONTWAIT)
                                  : send_out(c);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                if (hello)
                        c->hello_sent += (size_t)n;
                if (hello && c->hello_sent == c->hello.size)
                        explicit_bzero(c->hello.data, c->hello.size);
        }
        if (c->stage == CHANNEL_SENDING)
                c->stage = CHANNEL_RUNNING;
        return 0;
}

/* A plain recv(): descriptors that hostile code sends along are dropped by the kernel. */
ssize_t channel_receive(struct channel *c)
{
        ssize_t n;

        do
                n = recv(c->fd, c->chunk.data, OUTPUT_CHUNK_BYTES, MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n > 0)
                chunk_mark(&c->chunk, (size_t)n);
        return n < 0 ? -errno : n;
}

static const char *take_frame(struct channel *c, const struct frame *frame)
{
        if (!strchr("YRPXD", frame->kind))
                return "a frame of an unknown kind";
        if (!c->greeted) {
                if (frame->kind != 'Y' || frame->seq != 0)
                        return "a frame before the first";
                c->greeted = true;
                if (c->stage == CHANNEL_HELLO)
                        c->stage = CHANNEL_INPUT;
                return NULL;
        }
        if (frame->seq < c->seq || (frame->seq == c->seq && c->claims.done))
                return claims_drop(&c->claims, frame);
        if (frame->seq > c->seq || c->stage != CHANNEL_RUNNING)
                return "a frame of a run that is yet to come";
        return claims_take(&c->claims, frame);
}

void channel_take(struct channel *c, size_t size)
{
        const char *bytes = c->chunk.data;
        struct frame frame;

        while (!c->broken && size > 0) {
                int r = frame_decoder_feed(&c->decoder, &bytes, &size, &frame);
                if (r == -EMSGSIZE)
                        c->broken = "a frame that is too large";
                else if (r == -ENOMEM)
                        c->broken = claims_no_memory;
                else if (r < 0)
                        c->broken = "a malformed frame";
                else if (r > 0)
                        c->broken = take_frame(c, &frame);
        }
}
