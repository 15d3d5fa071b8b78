/* SPDX-License-Identifier: Apache-2.0
 *
 * The server that the command talks to: where it is, and its answers as JSON. */
#ifndef CLI_SERVICE_H
#define CLI_SERVICE_H

#include "base/json.h"
#include "cli/options.h"
#include "client/client.h"

struct service {
        struct client client;
        bool named; /* somebody said which: there is no other way then */
};

void service_done(struct service *s);
#define _cleanup_service_ _cleanup_(service_done)

/* Whether a flag or the environment says that it is to be a server. */
bool service_is_named(const struct option_set *set, const struct arguments *a);
/* Connects to the one that --server, $GLOVEBOX_SERVER or the default socket names. GB_E_UNAVAILABLE says how to start one. */
int service_open(const struct option_set *set, const struct arguments *a, struct service *ret, gb_error *err);
/* The same for who can do without: 1 when one listens at the default socket, else 0. */
int service_try(struct service *ret);

/* One request with a JSON body (NULL: none; not taken) and its JSON answer (ret may be NULL). An answer that is an error becomes
 * err, with the code that the server gave. */
int service_call(struct service *s, const char *method, const char *target, const json_t *body, json_t **ret, gb_error *err);
/* Begins one whose answer is a stream of lines, and waits for its head; cancel_fd as in client_wait(). */
int service_stream(struct service *s, const char *method, const char *target, const json_t *body, int cancel_fd, gb_error *err);
/* An answer with a status of 400 or more, when its head is there: reads the rest. Always negative. */
int service_refused(struct client *c, gb_error *err);
/* The rest of an answer that has begun, as JSON. */
int service_answer(struct service *s, json_t **ret, gb_error *err);
/* {"code", "message"} as err. Always negative. */
int service_error(const json_t *error, gb_error *err);
int service_out_of_memory(gb_error *err);

/* All pages of a list: the items of `key` together. */
int service_list(struct service *s, const char *target, const char *key, json_t **ret, gb_error *err);

/* The next line of a stream that has come whole, as an object: 1. 0: none yet, or that was the last (client_is_done()). */
int service_next(struct client *c, json_t **ret, gb_error *err);
/* The same, and waits for it; 0: that was the last. deadline_usec and cancel_fd as in client_wait(). */
int service_wait_next(struct client *c, uint64_t deadline_usec, int cancel_fd, json_t **ret, gb_error *err);

/* Text of an object's member, or a word in its place. */
const char *json_member(const json_t *object, const char *key, const char *fallback);
/* Of a member of a member; NULL: not there, or null. */
const json_t *json_inner(const json_t *object, const char *key, const char *inner);

#endif
