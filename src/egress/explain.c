/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said to a program whose request did not pass. Who reads it is often a model: it is told what was refused, what it may use instead, and not to try again
 * what will never work. Nothing of a header's value gets here. */
#include "egress/rules.h"

#include "base/quote.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LIST_MAX 260 /* letters of what is allowed instead */

struct writer {
        char *buf;
        size_t size, used;
};

static void say(struct writer *w, const char *format, ...) _printf_(2, 3);

static void say(struct writer *w, const char *format, ...)
{
        va_list ap;

        if (w->used + 1 >= w->size)
                return;
        va_start(ap, format);
        int n = vsnprintf(w->buf + w->used, w->size - w->used, format, ap);
        va_end(ap);
        if (n > 0)
                w->used += (size_t)n < w->size - w->used ? (size_t)n : w->size - w->used - 1;
}

/* The host as it stands before a port. */
struct shown {
        char text[HOST_TEXT_MAX + 2];
};

static struct shown show_host(const struct host *h)
{
        struct shown s;

        snprintf(s.text, sizeof(s.text), h->kind == HOST_ADDRESS && strchr(h->text, ':') ? "[%s]" : "%s", h->text);
        return s;
}

static const char *scheme_of(uint32_t protocol)
{
        return protocol == EGRESS_HTTP ? "http://" : protocol == EGRESS_TCP ? "tcp://" : "";
}

/* "*.a.com:443", "http://a.com:80,8080-8089" */
static void say_rule(struct writer *w, const struct egress_rule *rule)
{
        const struct host_pattern *p = &rule->pattern;

        say(w, "%s%s%s:", scheme_of(rule->protocol), p->kind == PATTERN_EXACT ? "" : p->kind == PATTERN_BELOW ? "*." : "*",
            p->kind == PATTERN_ANY ? "" : show_host(&p->host).text);
        for (size_t i = 0; i < rule->n_ports; i++) {
                say(w, "%s%u", i > 0 ? "," : "", rule->ports[i].first);
                if (rule->ports[i].last != rule->ports[i].first)
                        say(w, "-%u", rule->ports[i].last);
        }
}

/* The rules (those for the host, when one is given) as far as there is room. */
static void say_rules(struct writer *w, const struct egress_rules *r, const struct host *host)
{
        char item[HOST_TEXT_MAX + 16 * NETWORK_PORTS_MAX];
        size_t begin = w->used, left_out = 0, n = 0;

        for (size_t i = 0; i < r->n_rules; i++) {
                struct writer one = {item, sizeof(item), 0};
                if (host && !host_pattern_has(&r->rules[i].pattern, host))
                        continue;
                say_rule(&one, &r->rules[i]);
                if (w->used - begin + one.used > LIST_MAX) {
                        left_out++;
                        continue;
                }
                say(w, "%s%s", n++ > 0 ? ", " : "", item);
        }
        if (left_out > 0)
                say(w, "%s%zu more", n > 0 ? ", and " : "", left_out);
        else if (n == 0)
                say(w, "none");
}

static void say_list(struct writer *w, const char *item)
{
        size_t begin = w->used, left_out = 0, n = 0;

        for (; item; item = egress_list_next(item)) {
                if (w->used - begin + strlen(item) > LIST_MAX)
                        left_out++;
                else
                        say(w, "%s%s", n++ > 0 ? ", " : "", item);
        }
        if (left_out > 0)
                say(w, "%s%zu more", n > 0 ? ", and " : "", left_out);
}

/* What is asked, as an operator would write it. */
static void say_wanted(struct writer *w, const struct egress_request *q)
{
        struct shown host = show_host(q->host);

        say(w, "%s%s:%u", q->method && q->protocol == EGRESS_HTTP ? "http://" : "", host.text, q->port);
        if (!q->method && q->port != 443 && strlen(host.text) <= 64)
                say(w, " (tcp://%s:%u if it is not TLS)", host.text, q->port);
}

static void explain_host(struct writer *w, const struct egress_rules *r, const struct egress_request *q)
{
        say(w, "\"%s\" is not in the allowlist of this sandbox, so the request was not sent. Allowed hosts: ", q->host->text);
        say_rules(w, r, NULL);
        say(w, ". Do not retry; %sask the operator to add ", r->n_rules > 0 ? "use an allowed host or " : "");
        say_wanted(w, q);
        say(w, " to network_allow.");
}

static void explain_port(struct writer *w, const struct egress_rules *r, const struct egress_request *q)
{
        say(w, "port %u of \"%s\" is not in the allowlist of this sandbox, so the request was not sent. Allowed for this host: ", q->port, q->host->text);
        say_rules(w, r, q->host);
        say(w, ". Do not retry; use an allowed port or ask the operator to add ");
        say_wanted(w, q);
        say(w, " to network_allow.");
}

/* Whether a rule for this host and port speaks it. */
static bool has_protocol(const struct egress_rules *r, const struct egress_request *q, enum egress_protocol protocol)
{
        struct egress_request other = {.host = q->host, .port = q->port, .protocol = protocol};
        struct egress_verdict v = egress_judge(r, &other);

        return v.decision == EGRESS_ALLOWED && v.rule->protocol == (uint32_t)protocol;
}

static void explain_protocol(struct writer *w, const struct egress_rules *r, const struct egress_request *q)
{
        struct shown host = show_host(q->host);

        if (q->protocol == EGRESS_HTTP)
                say(w, "plain http is not allowed for \"%s\" on port %u, so the request was not sent. Allowed for this host: ", q->host->text, q->port);
        else
                say(w, "only plain http is allowed for \"%s\" on port %u, and not TLS or other bytes in a tunnel, so nothing was sent. Allowed for this host: ",
                    q->host->text, q->port);
        say_rules(w, r, q->host);
        if (q->protocol == EGRESS_HTTP && has_protocol(r, q, EGRESS_HTTPS))
                say(w, ". Do not retry; use https://%s:%u/ instead.", host.text, q->port);
        else if (q->protocol == EGRESS_HTTP)
                say(w, ". Do not retry; open a tunnel to %s:%u instead (CONNECT or SOCKS5).", host.text, q->port);
        else
                say(w, ". Do not retry; use http://%s:%u/ instead, without a tunnel (CONNECT).", host.text, q->port);
}

static void explain_method(struct writer *w, const struct egress_rules *r, const struct egress_request *q, const struct egress_rule *rule)
{
        const char *methods = rule ? egress_text(r, rule->methods) : NULL;

        say(w, "the method %s is not allowed for \"%s\", so the request was not sent. Allowed methods: ", quote(q->method).text, q->host->text);
        if (methods)
                say_list(w, methods);
        else
                say(w, "all but CONNECT and TRACE");
        say(w, ". Do not retry with this method; use an allowed one or ask the operator to change the rule in network_allow.");
}

static void explain_path(struct writer *w, const struct egress_rules *r, const struct egress_request *q, const struct egress_rule *rule)
{
        say(w, "the path %s of \"%s\" is not allowed, so the request was not sent. Allowed paths begin with: ", quote(q->path).text, q->host->text);
        say_list(w, rule ? egress_text(r, rule->paths) : NULL);
        say(w, ". A path with \"..\" or with an encoded \"/\", \".\" or \"\\\" is never allowed there. Do not retry; use an allowed path.");
}

static void explain_body(struct writer *w, const struct egress_request *q)
{
        say(w, "this sandbox only reads from \"%s\": the request has a body, so it was not sent. Do not retry with a body (Content-Length, Transfer-Encoding); send "
               "%s without one, or ask the operator to allow a method that writes in the rule of network_allow.",
            q->host->text, q->method ? quote(q->method).text : "it");
}

static void explain_budget(struct writer *w, const struct egress_rules *r, enum egress_decision d)
{
        static const char end[] = "so nothing more is sent. Do not retry; go on without the network.";

        if (d == EGRESS_OVER_BYTES)
                say(w, "this sandbox has used up its budget of %" PRIu64 " bytes of network traffic (network_bytes), %s", r->bytes_max, end);
        else if (d == EGRESS_OVER_REQUESTS)
                say(w, "this sandbox has used up its budget of %" PRIu64 " network requests (network_requests), %s", r->requests_max, end);
        else
                say(w, "this sandbox has %" PRIu32 " network connections open, which is all it may have at a time (network_connections). Close some, then try again.",
                    r->connections_max);
}

static void explain_tls(struct writer *w, const struct egress_request *q, enum egress_decision d, const char *detail)
{
        if (d == EGRESS_NO_TLS)
                say(w, "what was sent in the tunnel to \"%s\" port %u is not TLS, so it was not passed on. Only TLS is allowed there. Do not retry; use https, or ask "
                       "the operator to add tcp://%s:%u to network_allow.", q->host->text, q->port, show_host(q->host).text, q->port);
        else if (detail)
                say(w, "the TLS connection in the tunnel to \"%s\" asked for %s, which is another host, so nothing was sent. Do not retry; ask for the host that the "
                       "tunnel is for.",
                    q->host->text, quote(detail).text);
        else
                say(w, "the TLS connection in the tunnel to \"%s\" does not say for which host it is (server name), so nothing was sent. Do not retry; use a client "
                       "that sends it.",
                    q->host->text);
}

/* Those that passed, and what was found behind the name. */
static void explain_reach(struct writer *w, const struct egress_request *q, enum egress_decision d, const char *detail)
{
        if (d == EGRESS_NO_ADDRESS)
                say(w, "\"%s\" leads to an address that is not reached from this sandbox (%s), so the request was not sent. Do not retry; if it is meant to be "
                       "reached, ask the operator to add the address to network_ranges.", q->host->text, detail ? quote_path(detail).text : "not public");
        else if (d == EGRESS_UNRESOLVED)
                say(w, "\"%s\" is allowed, but no address was found for this name%s%s. Check how it is spelled, or try again later.", q->host->text, detail ? ": " : "",
                    detail ? quote_path(detail).text : "");
        else
                say(w, "\"%s\" is allowed, but port %u of it could not be reached%s%s. Try again later.", q->host->text, q->port, detail ? ": " : "",
                    detail ? quote_path(detail).text : "");
}

void egress_explain(const struct egress_rules *r, const struct egress_request *q, const struct egress_verdict *v, const char *detail, char *buf, size_t size)
{
        struct writer w = {buf, size, 0};

        if (size == 0)
                return;
        buf[0] = '\0';
        say(&w, "glovebox: ");
        switch (v->decision) {
        case EGRESS_ALLOWED:
                return say(&w, "the request is allowed.");
        case EGRESS_NO_RULE:
                return explain_host(&w, r, q);
        case EGRESS_NO_PORT:
                return explain_port(&w, r, q);
        case EGRESS_NO_PROTOCOL:
                return explain_protocol(&w, r, q);
        case EGRESS_NO_METHOD:
                return explain_method(&w, r, q, v->rule);
        case EGRESS_NO_PATH:
                return explain_path(&w, r, q, v->rule);
        case EGRESS_NO_BODY:
                return explain_body(&w, q);
        case EGRESS_NO_SNI:
        case EGRESS_NO_TLS:
                return explain_tls(&w, q, v->decision, detail);
        case EGRESS_OVER_BYTES:
        case EGRESS_OVER_REQUESTS:
        case EGRESS_OVER_CONNECTIONS:
                return explain_budget(&w, r, v->decision);
        case EGRESS_NO_ADDRESS:
        case EGRESS_UNRESOLVED:
        case EGRESS_UNREACHED:
                return explain_reach(&w, q, v->decision, detail);
        case EGRESS_MALFORMED:
        case EGRESS_DECISION_COUNT:
                break;
        }
        say(&w, "the request cannot be understood in one way only%s%s, so it was not sent. Do not retry it as it is.", detail ? ": " : "",
            detail ? quote_path(detail).text : "");
}
