/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of HTTP/1.1, strictly: what two programs could read in two ways is refused (docs/design/http.md). And what a proxy reads: requests
 * with targets of every form, and answers.
 * It is given bytes as they come and looks at each of them once; where they were cut changes nothing. */
#ifndef HTTP_PARSER_H
#define HTTP_PARSER_H

#include "http/message.h"

enum http_step {
        HTTP_MORE,   /* all bytes were used, and it needs more */
        HTTP_HEAD,   /* the head is complete: look at message, set body_max, go on */
        HTTP_BODY,   /* some bytes of the body */
        HTTP_END,    /* the message is complete; what was not used belongs to the next one */
        HTTP_FAILED, /* status and why say it; the connection is of no use any more */
};

enum http_kind {
        HTTP_REQUEST,       /* its target begins with a slash */
        HTTP_PROXY_REQUEST, /* any form of target: who reads it looks closer */
        HTTP_ANSWER,        /* an upstream's; trailers are read and dropped */
};

struct http_parser {
        enum http_kind kind; /* set after http_parser_init(); a reset keeps it */
        bool no_body;        /* HTTP_ANSWER, set before the first byte: it answers HEAD */
        struct http_message *message; /* of the request that is being read; NULL: none. May be taken after HTTP_HEAD */
        uint64_t body_max;            /* of the body; HTTP_FAILED with 413 above it */
        uint64_t body_bytes;          /* of it, that came */

        int status;      /* why it failed: of HTTP, */
        const char *why; /* and in words */

        unsigned char state;
        unsigned char known; /* what the field is that is being read */
        uint16_t seen;       /* fields that may come once */
        uint16_t mark;       /* where the text that is being read begins */
        uint32_t count;      /* bytes of the part that is being read */
        uint64_t left;       /* of the body, or of the chunk */
};

void http_parser_init(struct http_parser *p);
void http_parser_done(struct http_parser *p);
/* For the next message of the connection. */
void http_parser_reset(struct http_parser *p);

/* Whether a byte of a message has come. */
bool http_parser_has_begun(const struct http_parser *p);

/* *ret_used: how many bytes it is done with. HTTP_BODY: piece and its size lie in them. */
enum http_step http_parser_feed(struct http_parser *p, const char *bytes, size_t size, size_t *ret_used, const char **ret_piece, size_t *ret_piece_size);

/* HTTP_ANSWER: the connection was closed. Whether that is the end of the message. */
bool http_parser_close(struct http_parser *p);

#endif
