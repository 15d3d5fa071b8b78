/* SPDX-License-Identifier: Apache-2.0
 *
 * What a box may reach, as the proxy has it: one block of memory without pointers, made by the front (rules_write.c), checked here before it is used. And the one
 * place where it is decided whether a request may pass. */
#ifndef EGRESS_RULES_H
#define EGRESS_RULES_H

#include "base/buffer.h"
#include "base/host.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum egress_protocol {
        EGRESS_HTTPS, /* a tunnel in which TLS is spoken, with the name of the host in its ClientHello */
        EGRESS_HTTP,  /* requests that the proxy reads and makes itself */
        EGRESS_TCP,   /* a tunnel for whatever bytes */
        EGRESS_PROTOCOLS,
};

#define EGRESS_RULES_VERSION 1U

/* Texts are offsets from the beginning of the block, of something with a NUL behind it. Lists of texts are texts one after another, with an empty one at their
 * end; offset 0: there is none. */
struct egress_rule {
        struct host_pattern pattern;
        uint32_t protocol;  /* enum egress_protocol */
        uint32_t intercept; /* EGRESS_HTTPS: TLS ends here, and the requests in it are judged and changed like those of EGRESS_HTTP */
        uint32_t n_ports;
        struct {
                uint16_t first, last;
        } ports[NETWORK_PORTS_MAX];
        uint32_t text;    /* as the operator wrote it */
        uint32_t methods; /* list; none: all but CONNECT and TRACE */
        uint32_t paths;   /* list of prefixes; none: all */
        uint32_t headers; /* list of name, value, name, value: put into each request in the place of what the client sent in those fields */
};

struct egress_rules {
        uint32_t version;
        uint32_t size; /* of the whole block */
        uint32_t n_rules, n_ranges;
        uint64_t bytes_max, requests_max; /* of the box, up and down together; 0: no such budget */
        uint32_t connections_max;         /* at a time */
        uint32_t reserved;
        struct address_range ranges[NETWORK_RANGES_MAX]; /* that may be dialled although address_forbidden() */
        struct egress_rule rules[]; /* and the texts */
};

/* Every offset, count and text is as it should be. */
bool egress_rules_valid(const void *block, size_t size);
/* The text at an offset of a valid block; NULL for 0. */
const char *egress_text(const struct egress_rules *r, uint32_t offset);
/* Next of a list: begins with the first; NULL at its end. */
const char *egress_list_next(const char *item);

/* Why something passes or does not; in the ledger as these words. */
#define EGRESS_DECISIONS(X)                                                     \
        X(EGRESS_ALLOWED, "allowed")                                            \
        X(EGRESS_NO_RULE, "no-rule")         /* no rule names the host */        \
        X(EGRESS_NO_PORT, "port")            /* a rule names the host, none this port */ \
        X(EGRESS_NO_PROTOCOL, "protocol")    /* none this way of speaking to it */ \
        X(EGRESS_NO_METHOD, "method")                                           \
        X(EGRESS_NO_PATH, "path")                                               \
        X(EGRESS_NO_BODY, "body")            /* the rule only reads, and the request has a body */ \
        X(EGRESS_NO_ADDRESS, "address")      /* the name leads where nothing is dialled */ \
        X(EGRESS_NO_SNI, "server-name")      /* the ClientHello names another host, or none */ \
        X(EGRESS_NO_TLS, "not-tls")          /* other bytes where TLS must be spoken */ \
        X(EGRESS_MALFORMED, "malformed")     /* what was asked cannot be understood in one way only */ \
        X(EGRESS_OVER_BYTES, "bytes")        /* the budget is used up */        \
        X(EGRESS_OVER_REQUESTS, "requests")                                     \
        X(EGRESS_OVER_CONNECTIONS, "connections")                               \
        X(EGRESS_UNRESOLVED, "unresolved")   /* passed, but the name cannot be found */ \
        X(EGRESS_UNREACHED, "unreached")     /* passed, but nobody answers there */

enum egress_decision {
#define ROW(id, word) id,
        EGRESS_DECISIONS(ROW)
#undef ROW
        EGRESS_DECISION_COUNT
};
const char *egress_decision_word(enum egress_decision d);
/* Whether it was the policy that said no. */
bool egress_is_denied(enum egress_decision d);

struct egress_request {
        const struct host *host;
        uint16_t port;
        enum egress_protocol protocol; /* HTTPS for a tunnel (CONNECT, SOCKS): rules of EGRESS_TCP match it, too; and for a request inside of TLS that ends here. HTTP for
                                        * other requests */
        const char *method, *path;     /* of a request, the path as it was sent, from its "/" on; NULL: of a tunnel */
        bool has_body;                 /* of a request: bytes follow its head. A rule that allows no method but GET and HEAD refuses them */
};

struct egress_verdict {
        enum egress_decision decision;
        const struct egress_rule *rule; /* EGRESS_ALLOWED: the first that lets it pass; otherwise the one that came nearest, or NULL */
};

/* Looks at host, port, protocol, method, path and whether there is a body; nothing is resolved. A path that url_path_is_ambiguous() matches no prefix. */
struct egress_verdict egress_judge(const struct egress_rules *r, const struct egress_request *q);
/* Whether this address may be dialled; *ret_why gets its kind if not. */
bool egress_may_dial(const struct egress_rules *r, const struct address *a, const char **ret_why);

/* One sentence for who asked: what was refused, why, and what to do. detail: what kind of address it is, the name that was found, what went wrong; or NULL. */
void egress_explain(const struct egress_rules *r, const struct egress_request *q, const struct egress_verdict *v, const char *detail, char *buf, size_t size);

#endif
