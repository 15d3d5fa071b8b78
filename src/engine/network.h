/* SPDX-License-Identifier: Apache-2.0
 *
 * The network of a box with an allowlist, as the engine has it: its rules at the proxy (egress/client.h), what was sent where, and what of that belongs to a run. */
#ifndef ENGINE_NETWORK_H
#define ENGINE_NETWORK_H

#include "backend/backend.h"
#include "egress/ledger.h"
#include "guard/scrub.h"
#include "policy/policy.h"

#include <jansson.h>

struct network_box;

/* Before the box is made, which is that of a session or of one run: *ret NULL when the policy has another network. Policy and scrub (NULL: nothing is scrubbed) are
 * borrowed until it is freed. Nothing may start when this fails. From any thread, and so are those below; each takes NULL. */
int network_box_open(const struct policy *p, const struct backend *backend, bool session, const struct scrub *scrub, struct network_box **ret, gb_error *err);
/* NETWORK_CA_PATH of the box; NULL: it has none. */
const struct box_file *network_box_ca(const struct network_box *n);
/* The box stands: where its connections come from, or a negative errno with err already set. Taken. */
int network_box_attach(struct network_box *n, int source, gb_error *err);
/* Everything inside is dead: nothing more is counted, and what was can still be read. */
void network_box_end(struct network_box *n);
void network_box_free(struct network_box *n);
DEFINE_CLEANUP(struct network_box, network_box_free)

/* How often the proxy of this process has died and was started again. */
unsigned network_restarts(void);

/* session.h says what these do. */
int network_box_change(struct network_box *n, const struct policy *p, gb_error *err);
struct policy *network_box_policy(struct network_box *n, const struct policy *p);

/* ---- what was sent where; copies are without secrets, and for free() ---- */

/* Since the box was opened. NULL also when out of memory. */
struct ledger_copy *network_box_ledger(struct network_box *n);

/* A run: what comes between its beginning and its end is its own, also when others overlap. */
struct network_run {
        struct network_box *box; /* NULL: there is none */
        struct ledger_copy *before;
};
int network_run_begin(struct network_run *run, struct network_box *n); /* 0 or -ENOMEM */
struct ledger_copy *network_run_ledger(const struct network_run *run);
void network_run_end(struct network_run *run);

/* The traffic outside of runs, up to now. NULL: none. It is `incomplete` when a part could not be counted. */
struct ledger_copy *network_box_rest(struct network_box *n);

/* {"requests", "denied", "bytes_up", "bytes_down", "cut", "hosts": [...]}, and "incomplete": true where that is so.
 * ledger NULL: nothing was sent; a ledger that is lost is not to be shown by this. hosts_max: of them, those that
 * were let through first; then "hosts_more" says how many others there are. NULL when out of memory. */
json_t *network_ledger_to_json(const struct ledger_copy *ledger, size_t hosts_max);

/* Whether it says that something was asked for, or that a part is missing. */
bool network_ledger_says(const struct ledger_copy *ledger); /* takes NULL */

/* One sentence about what was refused, for who reads of a failure; "" when nothing was. */
#define NETWORK_HINT_MAX 384
char *network_hint(const struct ledger_copy *ledger, char buf[static NETWORK_HINT_MAX]);

#endif
