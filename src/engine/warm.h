/* SPDX-License-Identifier: Apache-2.0
 *
 * Templates that a process of this user keeps warm for the others: who serves them, and who asks. */
#ifndef ENGINE_WARM_H
#define ENGINE_WARM_H

#include "backend/backend.h"

struct warm_server;

struct warm_status {
        uint64_t took_usec; /* from the start to where it waits */
        char missing[WARM_MISSING_MAX]; /* modules that could not be imported, with spaces between; perhaps cut */
};

/* Whether somebody serves, and whether he has this one. */
bool warm_is_served(void);
bool warm_has(const struct template *template);

/* Serves from here on. Fails when another process of this user does. */
int warm_server_open(struct warm_server **ret, gb_error *err);
/* Takes NULL. Ends templates and everybody's sessions that came from them. */
void warm_server_close(struct warm_server *s);
DEFINE_CLEANUP(struct warm_server, warm_server_close)
#define _cleanup_warm_server_ _cleanup_(warm_server_close_ptr)
/* For a signal handler: removes what is seen of the server. The process is to end then. */
void warm_server_abandon(const struct warm_server *s);

/* Starts the template unless it waits already, and has as many sessions of this policy made ahead as the template says.
 * When what served has died it is started anew: then the other templates have ended, too. */
int warm_server_start(struct warm_server *s, const struct template *template, const struct policy *policy, struct warm_status *ret,
                      gb_error *err);
/* For a process that has templates for itself alone: from here on it uses none of others, and no warden of others. */
int warm_own(gb_error *err);

/* Readable when the template has ended; -1: it has, or was never started. */
int warm_server_event_fd(const struct template *template);

/* Ends the server of this user, and waits for that. GB_E_NOT_FOUND: there is none. */
int warm_stop(gb_error *err);

#endif
