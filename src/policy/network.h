/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a policy that says what code in the box may reach (network_mode: allowlist). */
#ifndef POLICY_NETWORK_H
#define POLICY_NETWORK_H

#include "policy/policy.h"

#include <jansson.h>

#define NETWORK_CA_PATH SECRETS_DIR "/glovebox-ca.pem" /* in the box: the certificates that its programs trust, with the one of the session */
#define NETWORK_PROXY_PORT 3128 /* in the box, on 127.0.0.1 */

/* "HOST[:PORT,PORT-PORT]", "https://HOST[:PORTS]", "http://HOST[:PORTS][/PREFIX]", "tcp://HOST:PORTS", or the name of a preset, which adds its rules. With http
 * methods may stand in front: "GET,HEAD http://HOST". HOST: a.com, *.a.com, *,
 * 1.2.3.4, [::1]. Without a port: 443 (https), 80 (http); without a scheme: http when the only port is 80, https otherwise. */
int network_allow_add_text(struct policy *p, const char *text, gb_error *err);
/* A text as above, or {"host", "ports", "protocol", "methods", "paths", "headers", "intercept"}. from_file: ${file:PATH} and ${env:NAME} in values of headers are
 * filled in here; otherwise they are refused. ${secret:NAME} stays. */
int network_allow_add_json(struct policy *p, const json_t *item, bool from_file, gb_error *err);
void network_allow_clear(struct policy *p);
/* Before a rule is added: those of network_mode: whitelist go. */
void network_allow_begin(struct policy *p);
int network_allow_copy(struct policy *to, const struct policy *from); /* 0 or -ENOMEM */
int network_range_add_text(struct policy *p, const char *text, gb_error *err);
/* Whether what a asks for is within what b lets pass: each of its rules is covered by one of b's (headers of a: only those of that rule), ranges and budgets are no more.
 * What is not is named in err. */
int network_is_within(const struct policy *a, const struct policy *b, gb_error *err);
/* The same, after each rule of a has taken what it leaves open (methods, paths, headers, intercept) from the first of b's that it is then within. For callers who
 * do not know the values of headers. */
int network_narrow(struct policy *a, const struct policy *b, gb_error *err);
/* Names of secrets that rules of this policy use: they stay outside of the box. */
bool network_uses_secret(const struct policy *p, const char *name);
/* Whether a rule ends TLS in the proxy. */
bool network_intercepts(const struct policy *p);
/* The secrets that rules use are there. Not for policy_validate(): a file is good before anybody has given a secret. */
int network_check(const struct policy *p, gb_error *err);
/* One rule as JSON, without the values of its headers. */
json_t *network_rule_to_json(const struct network_rule *r);
const char *network_mode_name(enum network_mode mode);
const char *network_protocol_name(enum network_protocol protocol);

/* The presets, for help and completion: NULL-terminated names, and their rules as texts. */
const char *const *network_presets(void);
const char *const *network_preset_rules(const char *name, bool *ret_intercepted); /* NULL: there is none of that name */
/* The preset that network_mode: whitelist stands for, while no rules are named. */
#define NETWORK_WHITELIST "dependencies"
int network_allow_whitelist(struct policy *p, gb_error *err);

/* Variables ("NAME=value") of programs in a box with this policy, NULL-terminated: the proxy for those that look for one. Those of the policy are stronger. */
const char *const *network_env(const struct policy *p);

#endif
