/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer in HTTP/1.1, read as it comes. The server is ours and says everything in one way; whatever is said in
 * another is refused, because it would be something else that answers. An engine for containers is not ours (foreign): it may
 * also switch protocols, end a body by closing, send trailers, and tell the length of a body that is not there. */
#ifndef CLIENT_RESPONSE_H
#define CLIENT_RESPONSE_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

#define RESPONSE_ID_MAX 33   /* 32 hex digits, with the NUL */
#define RESPONSE_TYPE_MAX 96
#define RESPONSE_SESSION_MAX 129

enum response_stage { RESPONSE_HEAD, RESPONSE_BODY, RESPONSE_DONE };

/* Where in a chunk the next byte is. */
enum response_chunk { CHUNK_SIZE, CHUNK_SIZE_LF, CHUNK_DATA, CHUNK_CR, CHUNK_LF, CHUNK_LAST_CR, CHUNK_LAST_LF, CHUNK_TRAILER };

struct response {
        bool foreign; /* set before anything is taken */
        enum response_stage stage;
        int status;
        bool closes;       /* the connection is not for another request */
        bool chunked;
        bool sized;        /* left was in the head */
        bool until_close;  /* the body ends with the connection; after 101 that is a stream of something else */
        uint64_t left;     /* bytes of the body, or of the chunk */
        uint64_t size;     /* of the whole body, where the head says so */
        char run[RESPONSE_ID_MAX];          /* Glovebox-Run; empty: not there */
        char type[RESPONSE_TYPE_MAX];       /* Content-Type, without its parameters */
        char session[RESPONSE_SESSION_MAX]; /* Mcp-Session-Id: visible ASCII; empty: not there */
        uint64_t retry_after;               /* seconds; 0: not there */

        struct buffer head; /* as far as it has come */
        enum response_chunk chunk;
        unsigned digits;
        size_t trailer_bytes;
        const char *why; /* what is wrong with it */
};

void response_init(struct response *r);
void response_done(struct response *r);

/* Takes bytes; those of the body are added to body. How many it has taken: after the head has come whole it
 * returns, so that the caller looks at it; after the end it takes none. -EBADMSG: it is not as it should be, and `why` says
 * how; or what buffer_add() returned. */
long response_take(struct response *r, const char *bytes, size_t size, struct buffer *body);

/* The connection was closed: whether that is the end of the answer. */
bool response_end(struct response *r);

#endif
