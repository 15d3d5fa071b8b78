/* SPDX-License-Identifier: Apache-2.0
 *
 * Our end of a context's control channel: what is sent, and in which order frames may come. */
#ifndef ENGINE_CHANNEL_H
#define ENGINE_CHANNEL_H

#include "base/chunk.h"
#include "engine/claims.h"
#include "engine/frame.h"
#include "policy/language.h"
#include "policy/policy.h"

#include <sys/types.h>
#include <sys/uio.h>

/* A run, step by step. */
enum channel_stage {
        CHANNEL_HELLO,   /* the interpreter is not up yet: we wait for its Y */
        CHANNEL_INPUT,   /* the code waits for the end of its standard input */
        CHANNEL_SENDING, /* a part of the code is sent */
        CHANNEL_RUNNING, /* all of it; the interpreter has the word */
};

struct channel {
        int fd;                 /* borrowed */
        bool takes_descriptors; /* standard input goes as a descriptor, not as a frame */
        bool eager;   /* the interpreter waits already: the first code goes out with the configuration */
        bool greeted;
        uint64_t seq; /* of the run */
        bool bombed; /* leftover processes were killed since the last run; send `K` before the next code */
        struct frame_decoder decoder;
        struct buffer hello; /* the configuration */
        size_t hello_sent;
        struct chunk chunk; /* what was received */

        /* The run */
        enum channel_stage stage;
        struct claims claims;
        char headers[3][FRAME_HEADER_MAX + 1];
        struct iovec out[5]; /* what is still to be sent */
        size_t n_out;
        int stdin_fd;       /* goes with the first byte; borrowed, -1: none (any more) */
        const char *broken; /* the rule that was broken; the channel is of no use any more */
};

int channel_init(struct channel *c);
void channel_done(struct channel *c);

/* A new interpreter is at the other end of fd. Sends it the configuration as far as there is room. */
int channel_greet(struct channel *c, int fd, const struct language *language, const struct policy *policy);

/* The same for one that shall become a program: `python3 FILE ARG...`. args may be NULL. */
int channel_greet_script(struct channel *c, int fd, const struct language *language, const struct policy *policy, const char *file,
                         char *const *args);

/* A new run. Takes what came since the last one, which nobody waits for. */
void channel_begin(struct channel *c, const struct claims *claims);
/* In CHANNEL_INPUT: the code of the run, and its standard input as bytes, as a descriptor, or not at all (-1, and
 * no bytes). All borrowed until CHANNEL_RUNNING. last: the interpreter ends after it, as a program does. */
void channel_set_code(struct channel *c, const char *code, size_t size, bool last, const struct buffer *input, int stdin_fd);

bool channel_has_to_send(const struct channel *c);
/* Sends what there is room for. 0, or a negative errno: the other end is closed. */
int channel_send(struct channel *c);
/* Reads into the chunk. The number of bytes; 0 at the end; -EAGAIN when there is nothing now, or another errno. */
ssize_t channel_receive(struct channel *c);
/* Takes what was received. Sets broken and claims.done. */
void channel_take(struct channel *c, size_t size);

#endif
