/* SPDX-License-Identifier: Apache-2.0
 *
 * The front's side of the proxy: starts it when the first box needs it, tells it of boxes, and starts it again should it die. One proxy for each process; from any
 * thread. */
#ifndef EGRESS_CLIENT_H
#define EGRESS_CLIENT_H

#include "base/buffer.h"
#include "base/error.h"
#include "egress/ledger.h"

struct egress_box;

/* A box that has no connections yet: the proxy is there, and its rules (a block of rules.h, taken) are good. authority: PEM of a certificate and its key
 * (egress_make_authority()), or NULL. */
int egress_box_new(struct buffer *rules, const struct buffer *authority, struct egress_box **ret, gb_error *err);
/* Where its connections come from (EGRESS_ORDER_BOX); taken. Before this nothing passes. */
int egress_box_attach(struct egress_box *b, int source_fd, gb_error *err);
/* New rules, for what is open, too. */
int egress_box_change(struct egress_box *b, struct buffer *rules, gb_error *err);
/* The host's resolv.conf or hosts may have changed: names are resolved by what they say now. */
void egress_refresh(void);
const struct ledger *egress_box_ledger(const struct egress_box *b);
/* Whether the proxy of it is there (it may just be started again). */
bool egress_box_is_served(const struct egress_box *b);
/* Closes everything of it; its ledger says its last word then, and can still be read. */
void egress_box_end(struct egress_box *b);
void egress_box_free(struct egress_box *b); /* takes NULL */
DEFINE_CLEANUP(struct egress_box, egress_box_free)

/* A certificate authority for one session: PEM of the certificate, then of the key. */
int egress_make_authority(struct buffer *ret, gb_error *err);
/* The certificates (PEM) that this host trusts: the file of SSL_CERT_FILE, or the system's. */
int egress_read_roots(struct buffer *ret, gb_error *err);
/* The number of its process; 0: none runs. For tests and `glovebox doctor`. */
int egress_pid(void);
/* How often one that had died was started again. */
unsigned egress_restarts(void);

#endif
