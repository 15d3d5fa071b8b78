/* SPDX-License-Identifier: Apache-2.0
 *
 * Names to addresses, by the host's hosts and nameservers, whose files the front has read. */
#ifndef EGRESS_RESOLVE_H
#define EGRESS_RESOLVE_H

#include "base/address.h"
#include "base/error.h"
#include "base/limits.h"

#include <event2/event.h>

#define RESOLVE_ADDRESSES_MAX 64 /* of a name, that are looked at; with more it leads nowhere */

/* The texts of resolv.conf and hosts, in the place of those before. */
int resolve_set(const char *resolv, size_t resolv_size, const char *hosts, size_t hosts_size, gb_error *err);

struct resolve;
/* n: all addresses of the name, IPv4 first; 0: why says what is wrong, timed_out that nobody has answered. */
typedef void (*resolved_function)(void *data, const struct address *addresses, size_t n, bool timed_out, const char *why);
/* done is called once, perhaps before this returns, unless resolve_cancel() came first. -ENOMEM: it is not called. */
int resolve_start(const char *name, struct resolve **ret, resolved_function done, void *data);
void resolve_cancel(struct resolve *r); /* takes NULL */

#endif
