/* SPDX-License-Identifier: Apache-2.0
 *
 * What all parts of the server share. Made by main.c before any thread, and then not changed but where a lock is named. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "journal/journal.h"
#include "journal/tokens.h"
#include "policy/language.h"
#include "policy/policy.h"
#include "policy/template.h"
#include "server/config.h"

#include <stdatomic.h>

struct live;    /* sessions and runs that live: live.h */
struct metrics; /* metrics.h */
struct loop;    /* loop.h */
struct workers; /* workers.h */
struct scrubbing; /* scrubbing.h */
struct mcp;     /* mcp.h */

enum server_state { SERVER_STARTING, SERVER_READY, SERVER_DRAINING };

struct server {
        struct server_config config;
        struct policy *policy; /* of the default trust level */
        struct policy_levels levels; /* all of the policy file: it is read once, while it can be */
        struct languages *languages;
        struct templates *templates;
        struct journal *journal;
        struct tokens *tokens;
        struct live *live;
        struct metrics *metrics;
        struct loop *loop;
        struct workers *workers;
        struct scrubbing *scrubbing;
        struct mcp *mcp;
        _Atomic int state; /* enum server_state */
        _Atomic bool degraded; /* ready, but what dies now cannot be started anew: /readyz says so */
        uint64_t started_usec; /* since 1970 */
};

/* Whether anything here may ask for it: a trust level of the policy, or a caller. */
bool server_may_use(const struct server *server, enum backend_kind kind);

#endif
