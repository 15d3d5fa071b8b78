/* SPDX-License-Identifier: Apache-2.0
 *
 * A run on a server, from the request to its last event; or one that is followed only. */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include "cli/output.h"
#include "cli/service.h"
#include "engine/result.h"

/* Called with each event that has come but pings and the last one. -EBADMSG, -ENOMEM: it cannot be read, which ends
 * remote_run() with an error. Another negative value: the caller wants no further events (they are still read, and the
 * run goes on). */
typedef int remote_event_function(void *data, const char *kind, const json_t *event);

struct remote {
        struct service *service;
        const char *target; /* of the POST; NULL: the run exists, and is only followed */
        const json_t *body;
        char run[RESPONSE_ID_MAX]; /* filled in as soon as it is known */
        uint64_t from;      /* the first event that is wanted, when it is followed */
        int cancel_fd;      /* an eventfd: 1st count interrupts, 2nd kills; -1: none */
        int stdin_fd;       /* what is read there goes to the run; -1: none */
        struct sink *sinks; /* two that `event` writes to without waiting: they catch up meanwhile */
        bool keep_error;    /* an `error` event is a last one like another */
        remote_event_function *event;
        void *data;
};

/* Until the end of the run: its last event (`verdict`) in *ret. An `error` event becomes err, as what the server refuses does. When the
 * connection is lost it comes back for the rest; GB_E_LOST when there is nobody to come back to. -ECANCELED (with err) when somebody
 * stopped following. */
int remote_run(struct remote *r, json_t **ret, gb_error *err);

/* The result of a run that has ended. GB_E_LOST when the server has none. */
int remote_get_result(struct service *s, const char *run, json_t **ret, gb_error *err);

/* What the command says and ends with, from the result object of a server. What the object does not have is 0. */
void remote_result(const json_t *object, struct result *ret);

/* The bytes of an output event; *ret_free is to be freed. 0 or -EBADMSG. */
int remote_bytes(const json_t *event, const char **ret, size_t *ret_size, void **ret_free);

#endif
