/* SPDX-License-Identifier: Apache-2.0
 *
 * One request to an engine and its answer, for the files of this directory that ask something. */
#ifndef DOCKER_EXCHANGE_H
#define DOCKER_EXCHANGE_H

#include "backend/docker/engine.h"
#include "client/client.h"

struct exchange {
        const struct engine *engine;
        char target[HTTP_TARGET_MAX]; /* with the version of the API */
        char what[128];               /* for messages: "POST /containers/create" */
        struct client client;
};

void exchange_done(struct exchange *x);
#define _cleanup_exchange_ _cleanup_(exchange_done)

/* Connects and begins the request; target is the caller's, without the version. A queue that is full is waited for until the deadline. */
int exchange_start(struct exchange *x, const struct engine *e, struct client_request request, uint64_t deadline_usec, int cancel_fd, gb_error *err);
/* Returns when something has moved: bytes sent or come, the head, the end. -ECANCELED when cancel_fd (-1: none) became readable. */
int exchange_advance(struct exchange *x, uint64_t deadline_usec, int cancel_fd, gb_error *err);
/* Until the head has come. */
int exchange_head(struct exchange *x, uint64_t deadline_usec, int cancel_fd, gb_error *err);
/* The whole answer as JSON, after exchange_start(). *ret is NULL when there is none. What a failure says in plain text becomes its "message". */
int exchange_answer(struct exchange *x, uint64_t deadline_usec, int cancel_fd, json_t **ret, gb_error *err);
/* The head has come with a status that means failure: reads what it says and makes an error of it. */
int exchange_refusal(struct exchange *x, uint64_t deadline_usec, int cancel_fd, gb_error *err);

/* "Podman at /run/podman/podman.sock", for messages. */
struct engine_label {
        char text[192];
};
struct engine_label engine_label(const struct engine *e);
/* Nobody could be reached there: why, and what to do. */
int engine_unreachable(const struct engine *e, int errnum, gb_error *err);
/* What listens there talks, but not like an engine. */
int engine_rubbish(const struct engine *e, gb_error_code code, const char *why, gb_error *err);

#endif
