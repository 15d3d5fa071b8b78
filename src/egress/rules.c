/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules.h"

#include "base/url_path.h"

#include <stdalign.h>
#include <string.h>

static const char *const words[] = {
#define ROW(id, word) [id] = word,
        EGRESS_DECISIONS(ROW)
#undef ROW
};

const char *egress_decision_word(enum egress_decision d)
{
        return words[d];
}

bool egress_is_denied(enum egress_decision d)
{
        return d != EGRESS_ALLOWED && d != EGRESS_UNRESOLVED && d != EGRESS_UNREACHED;
}

/* ---- the block ---- */

/* Where texts may be. */
struct span {
        const char *block;
        size_t begin, end;
};

/* The length of the text at an offset, or -1. */
static long text_at(const struct span *s, size_t offset)
{
        if (offset < s->begin || offset >= s->end)
                return -1;
        const char *nul = memchr(s->block + offset, '\0', s->end - offset);
        return nul ? nul - (s->block + offset) : -1;
}

/* No control but a tab; in values of header fields everything else may be. */
static bool is_printable(const char *text)
{
        for (; *text; text++)
                if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f)
                        return false;
        return true;
}

/* As RFC 9110 has it. */
static bool is_token(const char *text)
{
        static const char marks[] = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

        return *text && text[strspn(text, marks)] == '\0';
}

/* At most so many texts, each shorter than max. With names every other one, from the first on, is a name and shorter than that; each has its value. */
static bool list_is_valid(const struct span *s, size_t offset, size_t most, size_t max, size_t names)
{
        if (offset == 0)
                return true;
        for (size_t n = 0;; n++) {
                bool is_name = names > 0 && n % 2 == 0;
                long length = text_at(s, offset);
                if (length == 0)
                        return n > 0 && (names == 0 || is_name);
                const char *text = s->block + offset;
                if (length < 0 || n == most || (size_t)length >= (is_name ? names : max) || !is_printable(text) || (is_name && !is_token(text)))
                        return false;
                offset += (size_t)length + 1;
        }
}

static bool host_is_valid(const struct host *h)
{
        struct address address;
        struct host again;
        size_t n = strnlen(h->text, sizeof(h->text));

        if (n == 0 || n == sizeof(h->text))
                return false;
        if (h->kind == HOST_ADDRESS)
                return address_parse(h->text, n, &address) == 0 && address_equals(&address, &h->address);
        return h->kind == HOST_NAME && host_parse(h->text, n, &again) == 0 && again.kind == HOST_NAME && strcmp(again.text, h->text) == 0;
}

static bool pattern_is_valid(const struct host_pattern *p)
{
        switch (p->kind) {
        case PATTERN_ANY:
                return true;
        case PATTERN_BELOW:
                return p->host.kind == HOST_NAME && host_is_valid(&p->host);
        case PATTERN_EXACT:
                return host_is_valid(&p->host);
        }
        return false;
}

static bool rule_is_valid(const struct span *s, const struct egress_rule *rule)
{
        bool sees_requests = rule->protocol == EGRESS_HTTP || rule->intercept;

        if (!pattern_is_valid(&rule->pattern) || rule->protocol >= EGRESS_PROTOCOLS || rule->intercept > 1 || (rule->intercept && rule->protocol != EGRESS_HTTPS))
                return false;
        if (rule->n_ports == 0 || rule->n_ports > NETWORK_PORTS_MAX)
                return false;
        for (size_t i = 0; i < rule->n_ports; i++)
                if (rule->ports[i].first == 0 || rule->ports[i].first > rule->ports[i].last)
                        return false;
        long length = text_at(s, rule->text);
        if (length <= 0 || length >= NETWORK_RULE_TEXT_MAX || !is_printable(s->block + rule->text))
                return false;
        if (!sees_requests && (rule->methods || rule->paths || rule->headers))
                return false;
        return list_is_valid(s, rule->methods, NETWORK_METHODS_MAX, NETWORK_METHOD_MAX, 0) && list_is_valid(s, rule->paths, NETWORK_PATHS_MAX, NETWORK_PATH_MAX, 0) &&
               list_is_valid(s, rule->headers, 2 * NETWORK_HEADERS_MAX, NETWORK_HEADER_VALUE_MAX, NETWORK_HEADER_NAME_MAX);
}

bool egress_rules_valid(const void *block, size_t size)
{
        const struct egress_rules *r = block;

        if ((uintptr_t)block % alignof(struct egress_rules) != 0 || size < sizeof(*r) || size > EGRESS_POLICY_BYTES_MAX)
                return false;
        if (r->version != EGRESS_RULES_VERSION || r->size != size || r->reserved != 0 || r->connections_max == 0)
                return false;
        if (r->n_rules > NETWORK_RULES_MAX || r->n_ranges > NETWORK_RANGES_MAX || r->n_rules > (size - sizeof(*r)) / sizeof(r->rules[0]))
                return false;
        for (size_t i = 0; i < r->n_ranges; i++)
                if (r->ranges[i].bits > 128)
                        return false;
        struct span texts = {block, sizeof(*r) + r->n_rules * sizeof(r->rules[0]), size};
        for (size_t i = 0; i < r->n_rules; i++)
                if (!rule_is_valid(&texts, &r->rules[i]))
                        return false;
        return true;
}

const char *egress_text(const struct egress_rules *r, uint32_t offset)
{
        return offset ? (const char *)r + offset : NULL;
}

const char *egress_list_next(const char *item)
{
        item += strlen(item) + 1;
        return *item ? item : NULL;
}

/* ---- judging ---- */

static bool has_port(const struct egress_rule *rule, uint16_t port)
{
        for (size_t i = 0; i < rule->n_ports; i++)
                if (port >= rule->ports[i].first && port <= rule->ports[i].last)
                        return true;
        return false;
}

/* Requests inside of TLS that ends here come as HTTPS with a method. */
static bool has_protocol(const struct egress_rule *rule, const struct egress_request *q)
{
        return rule->protocol == q->protocol || (rule->protocol == EGRESS_TCP && q->protocol == EGRESS_HTTPS);
}

static bool has_method(const struct egress_rules *r, const struct egress_rule *rule, const char *method)
{
        if (strcmp(method, "CONNECT") == 0 || strcmp(method, "TRACE") == 0)
                return false;
        const char *item = egress_text(r, rule->methods);
        if (!item)
                return true;
        for (; item; item = egress_list_next(item))
                if (strcmp(item, method) == 0)
                        return true;
        return false;
}

static bool has_path(const struct egress_rules *r, const struct egress_rule *rule, const char *path)
{
        const char *item = egress_text(r, rule->paths);
        size_t n = strcspn(path, "?");

        if (!item)
                return true;
        if (url_path_is_ambiguous(path, n))
                return false;
        for (; item; item = egress_list_next(item))
                if (url_path_has_prefix(path, n, item))
                        return true;
        return false;
}

/* Whether the rule is for reading: no method but GET and HEAD, whose bodies mean nothing (RFC 9110 9.3.1) and would carry data out. */
static bool only_reads(const struct egress_rules *r, const struct egress_rule *rule)
{
        const char *item = egress_text(r, rule->methods);

        if (!item)
                return false;
        for (; item; item = egress_list_next(item))
                if (strcmp(item, "GET") != 0 && strcmp(item, "HEAD") != 0)
                        return false;
        return true;
}

/* How far a rule goes with the request. */
static enum egress_decision judge_one(const struct egress_rules *r, const struct egress_rule *rule, const struct egress_request *q)
{
        if (!host_pattern_has(&rule->pattern, q->host))
                return EGRESS_NO_RULE;
        if (!has_port(rule, q->port))
                return EGRESS_NO_PORT;
        if (!has_protocol(rule, q))
                return EGRESS_NO_PROTOCOL;
        if (q->method && !has_method(r, rule, q->method))
                return EGRESS_NO_METHOD;
        if (q->method && !has_path(r, rule, q->path))
                return EGRESS_NO_PATH;
        if (q->has_body && only_reads(r, rule))
                return EGRESS_NO_BODY;
        return EGRESS_ALLOWED;
}

struct egress_verdict egress_judge(const struct egress_rules *r, const struct egress_request *q)
{
        struct egress_verdict nearest = {EGRESS_NO_RULE, NULL};

        _Static_assert(EGRESS_NO_RULE < EGRESS_NO_PORT && EGRESS_NO_PORT < EGRESS_NO_PROTOCOL && EGRESS_NO_PROTOCOL < EGRESS_NO_METHOD &&
                       EGRESS_NO_METHOD < EGRESS_NO_PATH && EGRESS_NO_PATH < EGRESS_NO_BODY, "the larger, the nearer");
        for (size_t i = 0; i < r->n_rules; i++) {
                enum egress_decision d = judge_one(r, &r->rules[i], q);
                if (d == EGRESS_ALLOWED)
                        return (struct egress_verdict){d, &r->rules[i]};
                if (d > nearest.decision)
                        nearest = (struct egress_verdict){d, &r->rules[i]};
        }
        return nearest;
}

bool egress_may_dial(const struct egress_rules *r, const struct address *a, const char **ret_why)
{
        for (size_t i = 0; i < r->n_ranges; i++)
                if (address_range_has(&r->ranges[i], a))
                        return true;
        const char *why = address_forbidden(a);
        if (!why)
                return true;
        *ret_why = why;
        return false;
}
