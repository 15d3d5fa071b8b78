/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may ask here at all, before anything is said about what there is: Host and Origin (against pages that got a name of
 * ours), then the token. In the loop's thread. */
#ifndef SERVER_GATE_H
#define SERVER_GATE_H

#include "server/request.h"

struct loop;
struct gate;

struct gate *gate_new(void); /* NULL: out of memory */
void gate_free(struct gate *g); /* takes NULL */

/* GB_E_PROTOCOL for a Host that is none, GB_E_DENIED for a foreign one. *ret_origin: the Origin when it is one of the
 * configuration's, else NULL. */
int gate_check_names(struct request *r, const char **ret_origin, gb_error *err);

/* Fills in the caller. GB_E_UNAUTHORIZED, or GB_E_QUOTA when its address has tried too often. */
int gate_check_caller(struct request *r, gb_error *err);

#endif
