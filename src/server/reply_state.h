/* SPDX-License-Identifier: Apache-2.0
 *
 * What an answer has come to; for reply.c, stream.c and dispatch.c. */
#ifndef SERVER_REPLY_STATE_H
#define SERVER_REPLY_STATE_H

#include "server/reply.h"

/* 0.1 is written as people write it. */
#define REPLY_JSON_FLAGS JSON_REAL_PRECISION(15)

struct reply {
        struct buffer fields; /* "Name: value\r\n" */
        int status;           /* 0: not begun */
        int64_t left;         /* of the body; -1: chunked, or up to the close */
        bool chunked, ended, failed;
        bool lacks_field;  /* there was no memory for one: nothing is said rather than a part of it */
        bool without_body; /* HEAD, 204: what is written goes nowhere */
        bool close;        /* the connection, after it */

        gb_error *refused; /* before its body was read */
        int refused_status;
        uint64_t large_bytes; /* of the body and the answer, that count in request.c */
        struct share *share;  /* of its tenant, which has this one under way; NULL: it is not counted */
};

/* status 0: that of its code. */
void reply_error_status(struct request *r, int status, const gb_error *err);
/* The handler has returned: answers for it when it did not. Whether the connection must end. */
bool reply_finish(struct request *r);
/* The status of the error's code. */
int reply_status_of(int code);

#endif
