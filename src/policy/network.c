/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/network.h"

#include "base/quote.h"
#include "base/url_path.h"
#include "policy/network_rule.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const modes[] = {[NETWORK_NONE] = "none", [NETWORK_ALLOWLIST] = "allowlist", [NETWORK_HOST] = "host"};
static const char *const protocols[] = {[NETWORK_HTTPS] = "https", [NETWORK_HTTP] = "http", [NETWORK_TCP] = "tcp"};

const char *network_mode_name(enum network_mode mode)
{
        return modes[mode];
}

const char *network_protocol_name(enum network_protocol protocol)
{
        return protocols[protocol];
}

/* ---- the list ---- */

void network_allow_clear(struct policy *p)
{
        while (p->n_network_allow > 0)
                network_rule_free(p->network_allow[--p->n_network_allow]);
        free(p->network_allow);
        p->network_allow = NULL;
        p->network_is_whitelist = false;
}

void network_allow_begin(struct policy *p)
{
        if (p->network_is_whitelist)
                network_allow_clear(p);
}

int network_allow_whitelist(struct policy *p, gb_error *err)
{
        if (p->n_network_allow > 0)
                return 0;
        int r = network_allow_add_text(p, NETWORK_WHITELIST, err);
        p->network_is_whitelist = r == 0;
        return r;
}

int network_allow_copy(struct policy *to, const struct policy *from)
{
        network_allow_clear(to);
        to->network_is_whitelist = from->network_is_whitelist;
        for (size_t i = 0; i < from->n_network_allow; i++) {
                struct network_rule *copy = network_rule_copy(from->network_allow[i]);
                if (!copy || network_rule_add(to, copy, NULL) < 0)
                        return -ENOMEM;
        }
        return 0;
}

bool network_intercepts(const struct policy *p)
{
        for (size_t i = 0; p->network_mode == NETWORK_ALLOWLIST && i < p->n_network_allow; i++)
                if (p->network_allow[i]->intercept)
                        return true;
        return false;
}

/* ---- secrets ---- */

static bool is_named(const struct network_reference *ref, const char *name)
{
        return strlen(name) == ref->name_size && memcmp(name, ref->name, ref->name_size) == 0;
}

bool network_uses_secret(const struct policy *p, const char *name)
{
        struct network_reference ref;

        for (size_t i = 0; p->network_mode == NETWORK_ALLOWLIST && i < p->n_network_allow; i++)
                for (size_t k = 0; k < p->network_allow[i]->n_headers; k++)
                        for (const char *at = p->network_allow[i]->headers[k].value; network_reference_next(&at, &ref) > 0;)
                                if (is_named(&ref, name))
                                        return true;
        return false;
}

static int check_reference(const struct policy *p, const struct network_rule *rule, const struct network_reference *ref, gb_error *err)
{
        for (size_t i = 0; i < p->n_secrets; i++)
                if (is_named(ref, p->secrets[i].name))
                        return 0;
        return error_set(err, GB_E_USAGE, ENOENT, "the rule %s uses the secret %.*s, and there is none of that name", quote(rule->text).text, (int)ref->name_size,
                         ref->name);
}

int network_check(const struct policy *p, gb_error *err)
{
        struct network_reference ref;

        for (size_t i = 0; p->network_mode == NETWORK_ALLOWLIST && i < p->n_network_allow; i++) {
                const struct network_rule *rule = p->network_allow[i];
                for (size_t k = 0; k < rule->n_headers; k++)
                        for (const char *at = rule->headers[k].value; network_reference_next(&at, &ref) > 0;) {
                                int r = check_reference(p, rule, &ref, err);
                                if (r < 0)
                                        return r;
                        }
        }
        return 0;
}

/* ---- less than another ---- */

static bool has_port(const struct network_rule *r, unsigned port, unsigned *ret_last)
{
        for (size_t i = 0; i < r->n_ports; i++)
                if (port >= r->ports[i][0] && port <= r->ports[i][1]) {
                        *ret_last = r->ports[i][1];
                        return true;
                }
        return false;
}

static bool ports_are_within(const struct network_rule *a, const struct network_rule *b)
{
        for (size_t i = 0; i < a->n_ports; i++) {
                unsigned last = 0;
                for (unsigned port = a->ports[i][0]; port <= a->ports[i][1]; port = last + 1)
                        if (!has_port(b, port, &last))
                                return false;
        }
        return true;
}

static bool method_is_in(const char *method, const struct network_rule *b)
{
        for (size_t i = 0; i < b->n_methods; i++)
                if (strcmp(b->methods[i], method) == 0)
                        return true;
        return false;
}

static bool path_is_in(const char *path, const struct network_rule *b)
{
        for (size_t i = 0; i < b->n_paths; i++)
                if (url_path_has_prefix(path, strlen(path), b->paths[i]))
                        return true;
        return false;
}

static bool requests_are_within(const struct network_rule *a, const struct network_rule *b)
{
        if ((b->n_methods > 0 && a->n_methods == 0) || (b->n_paths > 0 && a->n_paths == 0))
                return false;
        for (size_t i = 0; b->n_methods > 0 && i < a->n_methods; i++)
                if (!method_is_in(a->methods[i], b))
                        return false;
        for (size_t i = 0; b->n_paths > 0 && i < a->n_paths; i++)
                if (!path_is_in(a->paths[i], b))
                        return false;
        return true;
}

static bool headers_are_within(const struct network_rule *a, const struct network_rule *b)
{
        for (size_t i = 0; i < a->n_headers; i++) {
                bool found = false;
                for (size_t k = 0; !found && k < b->n_headers; k++)
                        found = strcasecmp(a->headers[i].name, b->headers[k].name) == 0 && strcmp(a->headers[i].value, b->headers[k].value) == 0;
                if (!found)
                        return false;
        }
        return true;
}

/* Host, ports and protocol; a tunnel for whatever bytes is one for TLS, too. */
static bool reaches_no_more(const struct network_rule *a, const struct network_rule *b)
{
        return host_pattern_covers(&b->pattern, &a->pattern) && ports_are_within(a, b) &&
               (a->protocol == b->protocol || (a->protocol == NETWORK_HTTPS && b->protocol == NETWORK_TCP));
}

static bool rule_is_within(const struct network_rule *a, const struct network_rule *b)
{
        return reaches_no_more(a, b) && (a->intercept || !b->intercept) && requests_are_within(a, b) && headers_are_within(a, b);
}

static int rules_are_within(const struct policy *a, const struct policy *b, gb_error *err)
{
        for (size_t i = 0; i < a->n_network_allow; i++) {
                bool found = false;
                for (size_t k = 0; !found && k < b->n_network_allow; k++)
                        found = rule_is_within(a->network_allow[i], b->network_allow[k]);
                if (!found)
                        return error_set(err, GB_E_DENIED, EPERM, "%s is not within what is allowed here", quote(a->network_allow[i]->text).text);
        }
        for (size_t i = 0; i < a->n_network_ranges; i++) {
                char text[ADDRESS_TEXT_MAX + 4];
                bool found = false;
                for (size_t k = 0; !found && k < b->n_network_ranges; k++)
                        found = a->network_ranges[i].bits >= b->network_ranges[k].bits && address_range_has(&b->network_ranges[k], &a->network_ranges[i].first);
                if (!found)
                        return error_set(err, GB_E_DENIED, EPERM, "the range %s is not within those that are allowed here", address_range_format(&a->network_ranges[i],
                                                                                                                                                 text));
        }
        return 0;
}

static bool is_no_more(uint64_t a, uint64_t b)
{
        return b == 0 || (a != 0 && a <= b);
}

int network_is_within(const struct policy *a, const struct policy *b, gb_error *err)
{
        if (a->network_mode == NETWORK_NONE)
                return 0;
        if (a->network_mode != b->network_mode && b->network_mode != NETWORK_HOST)
                return error_set(err, GB_E_DENIED, EPERM, "the network %s is not within what is allowed here, which is %s", network_mode_name(a->network_mode),
                                 network_mode_name(b->network_mode));
        if (!is_no_more(a->network_bytes, b->network_bytes))
                return error_set(err, GB_E_DENIED, EPERM, "network_bytes is more than is allowed here");
        if (!is_no_more(a->network_requests, b->network_requests))
                return error_set(err, GB_E_DENIED, EPERM, "network_requests is more than is allowed here");
        if (a->network_connections > b->network_connections)
                return error_set(err, GB_E_DENIED, EPERM, "network_connections is more than is allowed here");
        return b->network_mode == NETWORK_HOST ? 0 : rules_are_within(a, b, err);
}

/* What a rule does not say about requests it has from the one that it is within: credentials that a caller cannot know stay with what he may still reach. */
static int inherit(struct network_rule *a, const struct network_rule *b, gb_error *err)
{
        bool methods = a->n_methods == 0, paths = a->n_paths == 0, headers = a->n_headers == 0;
        int r = 0;

        a->intercept = a->intercept || b->intercept;
        for (size_t i = 0; r == 0 && methods && i < b->n_methods; i++)
                r = network_rule_add_method(a, b->methods[i], strlen(b->methods[i]), err);
        for (size_t i = 0; r == 0 && paths && i < b->n_paths; i++)
                r = network_rule_add_path(a, b->paths[i], err);
        for (size_t i = 0; r == 0 && headers && i < b->n_headers; i++)
                r = network_rule_add_header(a, b->headers[i].name, b->headers[i].value, err);
        return r < 0 ? r : network_rule_finish(a, true, err);
}

static int narrow_rule(struct network_rule **rule, const struct policy *b, gb_error *err)
{
        for (size_t i = 0; i < b->n_network_allow; i++) {
                const struct network_rule *wide = b->network_allow[i];
                _cleanup_network_rule_ struct network_rule *a = NULL;
                if (!reaches_no_more(*rule, wide))
                        continue;
                a = network_rule_copy(*rule);
                if (!a)
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
                int r = a->protocol == wide->protocol ? inherit(a, wide, err) : 0;
                if (r < 0)
                        return r;
                if (rule_is_within(a, wide)) {
                        network_rule_free(*rule);
                        *rule = TAKE_PTR(a);
                        return 0;
                }
        }
        return 0;
}

int network_narrow(struct policy *a, const struct policy *b, gb_error *err)
{
        int r = 0;

        for (size_t i = 0; r == 0 && a->network_mode == NETWORK_ALLOWLIST && b->network_mode == NETWORK_ALLOWLIST && i < a->n_network_allow; i++)
                r = narrow_rule(&a->network_allow[i], b, err);
        return r < 0 ? r : network_is_within(a, b, err);
}

/* ---- variables ---- */

#define AS_TEXT(number) #number
#define PORT_TEXT(number) AS_TEXT(number)
#define PROXY "http://127.0.0.1:" PORT_TEXT(NETWORK_PROXY_PORT)
#define NOT_PROXIED "localhost,127.0.0.1,::1"

/* Programs look for one or the other of them; what some tools would ask of hosts that are not allowed is off. */
#define PROXY_ENV                                                                                                                        \
        "HTTP_PROXY=" PROXY, "http_proxy=" PROXY, "HTTPS_PROXY=" PROXY, "https_proxy=" PROXY, "ALL_PROXY=" PROXY, "all_proxy=" PROXY, \
                "NO_PROXY=" NOT_PROXIED, "no_proxy=" NOT_PROXIED, "npm_config_proxy=" PROXY, "npm_config_https_proxy=" PROXY,          \
                "npm_config_noproxy=", "npm_config_update_notifier=false", "NODE_USE_ENV_PROXY=1", "PIP_PROXY=" PROXY,                  \
                "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_BREAK_SYSTEM_PACKAGES=1", "GIT_TERMINAL_PROMPT=0"

const char *const *network_env(const struct policy *p)
{
        static const char *const none[] = {NULL};
        static const char *const plain[] = {PROXY_ENV, NULL};
        static const char *const intercepted[] = {
                PROXY_ENV,
                "SSL_CERT_FILE=" NETWORK_CA_PATH,
                "REQUESTS_CA_BUNDLE=" NETWORK_CA_PATH,
                "CURL_CA_BUNDLE=" NETWORK_CA_PATH,
                "PIP_CERT=" NETWORK_CA_PATH,
                "GIT_SSL_CAINFO=" NETWORK_CA_PATH,
                "NODE_EXTRA_CA_CERTS=" NETWORK_CA_PATH,
                "npm_config_cafile=" NETWORK_CA_PATH,
                NULL,
        };

        return p->network_mode != NETWORK_ALLOWLIST ? none : network_intercepts(p) ? intercepted : plain;
}
