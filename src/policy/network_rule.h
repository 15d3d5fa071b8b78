/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside policy/: how a rule of the network is put together. Messages have no prefix, as in option.h. */
#ifndef POLICY_NETWORK_RULE_H
#define POLICY_NETWORK_RULE_H

#include "policy/network.h"

struct network_rule *network_rule_new(void);
void network_rule_free(struct network_rule *r); /* takes NULL; values of headers are wiped */
DEFINE_CLEANUP(struct network_rule, network_rule_free)
#define _cleanup_network_rule_ _cleanup_(network_rule_free_ptr)
struct network_rule *network_rule_copy(const struct network_rule *r);

/* Each takes a text that is not yet known to be anything. */
int network_rule_set_host(struct network_rule *r, const char *text, size_t size, gb_error *err);
int network_rule_add_ports(struct network_rule *r, const char *text, size_t size, gb_error *err); /* "443,8000-8010" */
int network_rule_set_protocol(struct network_rule *r, const char *text, size_t size, gb_error *err);
int network_rule_add_method(struct network_rule *r, const char *text, size_t size, gb_error *err);
int network_rule_add_path(struct network_rule *r, const char *text, gb_error *err);
/* value: as it is kept, with nothing but ${secret:NAME} to be filled in. */
int network_rule_add_header(struct network_rule *r, const char *name, const char *value, gb_error *err);

/* The host as a rule has it: "*.a.com", "[::1]". */
#define NETWORK_HOST_TEXT_MAX (HOST_TEXT_MAX + 4)
char *network_rule_host(const struct network_rule *r, char buf[static NETWORK_HOST_TEXT_MAX]);

/* The ports and the protocol that were not said, what does not go together, and the text. has_protocol: it was said. */
int network_rule_finish(struct network_rule *r, bool has_protocol, gb_error *err);
/* Takes the rule, also on failure. */
int network_rule_add(struct policy *p, struct network_rule *r, gb_error *err);

/* Walks over the references of a value: the next "${KIND:NAME}" from *at on; *at goes behind it. 0: there is none. 1, or -EINVAL for a "${" that is none. */
struct network_reference {
        const char *begin, *end; /* of all of it */
        const char *kind, *name;
        size_t kind_size, name_size;
};
int network_reference_next(const char **at, struct network_reference *ret);

#endif
