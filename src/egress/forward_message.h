/* SPDX-License-Identifier: Apache-2.0
 *
 * What a request asks of the proxy, and how requests and answers look when they are sent on: everything about where a message ends is said anew. */
#ifndef EGRESS_FORWARD_MESSAGE_H
#define EGRESS_FORWARD_MESSAGE_H

#include "base/buffer.h"
#include "egress/rules.h"
#include "egress/target.h"
#include "http/message.h"

#define HTTP_USUAL_PORT 80
#define HTTPS_USUAL_PORT 443
#define FORWARD_HEAD_MAX (192 * KIB) /* of a head that is sent: all that a client may say, and all headers of a rule */

struct forward_refusal {
        int status;
        enum egress_decision decision;
        const char *why;
};

/* fixed: NULL, or what the connection is for: then the target is a path, and Host must name that. False: it is refused. ret is set as far as it is known whom it was for;
 * its host is "" otherwise. Its path lies in m. */
bool forward_read_request(const struct http_message *m, const struct target *fixed, struct target *ret, struct forward_refusal *ret_refusal);

/* The head of the request for the upstream. headers: list of a rule (name, value, ...), or NULL. limited: the rule has methods or paths, so fields that stand for another method or
 * path do not pass. 0, -ENOMEM, -EFBIG. */
int forward_write_request(const struct http_message *m, const struct target *to, uint16_t usual_port, const char *headers, bool limited, struct buffer *ret);

/* How the end of a body is told. */
enum forward_framing {
        FRAMING_NONE, /* there is none */
        FRAMING_LENGTH,
        FRAMING_CHUNKED,
        FRAMING_CLOSE,
};

/* How the body of an answer goes to the client. */
enum forward_framing forward_answer_framing(const struct http_message *request, const struct http_message *answer);
/* The head of an answer for the client. close: the connection ends behind it. */
int forward_write_answer(const struct http_message *request, const struct http_message *answer, bool close, struct buffer *ret);

#endif
