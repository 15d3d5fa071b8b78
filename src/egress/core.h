/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the proxy: boxes, their connections, and the one path on which everything is decided and dialled.
 *
 *   main.c        starts, seals itself (seal.c), takes orders (orders.c)
 *   box.c         a box: its rules, its ledger, where its connections come from, its budgets
 *   connection.c  a client: HTTP or SOCKS5, by its first byte; CONNECT and SOCKS5 become tunnels, requests are forwarded
 *   reach.c       judge, resolve (resolve.c), look at every address, dial one of those that were looked at
 *   tunnel.c      bytes there and back, after a look at the ClientHello
 *   forward.c     requests of HTTP, one by one; intercept.c puts TLS around it
 *
 * One process, one thread, one libevent loop. Everything belongs to a connection, every connection to its box; connection_free() frees all of it. */
#ifndef EGRESS_CORE_H
#define EGRESS_CORE_H

#include "base/error.h"
#include "base/host.h"
#include "egress/ledger.h"
#include "egress/rules.h"

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <sys/queue.h>

#define SENTENCE_MAX 640

/* ---- a box ---- */

/* Rules of a box; those who were decided by them keep them. */
struct rules_block {
        unsigned uses;
        size_t size;
        const struct egress_rules *rules; /* mapped read-only, sealed */
};
/* Maps a sealed descriptor that holds valid rules; NULL otherwise. */
struct rules_block *rules_map(int fd);
struct rules_block *rules_hold(struct rules_block *b);
void rules_drop(struct rules_block *b); /* takes NULL */

struct authority; /* intercept.h */

struct connection;
LIST_HEAD(connections, connection);

struct box {
        uint64_t id;
        struct rules_block *rules;
        struct ledger *ledger;
        struct authority *authority; /* NULL: nothing is intercepted */
        int source;
        struct event *source_event;
        struct connections connections;
        unsigned n_connections;
        unsigned reaching;        /* requests that pass, but have not arrived yet */
        struct event *cut_event;  /* ends all connections */
        struct event *pause_event; /* accepts again */
        LIST_ENTRY(box) entry;
};

extern struct event_base *egress_base;

/* Before the process is sealed: how many connections it can have. */
void boxes_init(void);
extern unsigned connections_now; /* of all boxes */

/* NULL: none has this number. */
struct box *box_find(uint64_t id);
/* Takes all of it, unless it fails; where connections come from may be a listener or a SOCK_SEQPACKET. */
int box_new(uint64_t id, struct rules_block *rules, struct ledger *ledger, struct authority *authority, int source, gb_error *err);
/* Takes the rules. */
void box_change(struct box *b, struct rules_block *rules);
void box_free(struct box *b);

/* Counts bytes that went through; -EDQUOT when a budget is used up by them: every connection of the box is cut soon, so just stop. */
int box_count(struct box *b, struct ledger_row *row, uint64_t up, uint64_t down);
/* What is left of its bytes. */
uint64_t box_left(const struct box *b);

/* ---- a connection of a client ---- */

struct connection {
        struct box *box;
        LIST_ENTRY(connection) entry;
        struct bufferevent *client; /* while requests are read; NULL in a tunnel */
        struct reach *reach;        /* under way; NULL: none */
        struct tunnel *tunnel;      /* NULL: none */
        struct forward *forward;    /* NULL: none */
        struct event *deadline;     /* for the request or the greeting */
        struct http_parser *parser; /* of CONNECT; NULL: none */
        struct socks *socks;        /* NULL: none */
        struct target *target;      /* what CONNECT or SOCKS wants */
        bool ending;                /* what was written to the client is sent, then it ends */
};

/* A new client; fd is taken. */
void connection_new(struct box *b, int fd);
/* Ends it, at once. */
void connection_free(struct connection *c);
/* The rules of its box have changed: ends it when it would not pass any more. */
void connection_judge_again(struct connection *c);
/* Frees a bufferevent, none of whose events is pending then: a callback that is may keep its memory for a while, when its descriptor is another's already. */
void events_free(struct bufferevent *b);
/* What stands behind a status of HTTP. */
const char *status_reason(int status);

/* ---- reaching something ---- */

struct reached {
        enum egress_decision decision; /* EGRESS_ALLOWED: fd is connected */
        int fd;                        /* the callee's; non-blocking */
        int status;                    /* otherwise: 403, 502, 504 */
        struct ledger_row *row;
        struct rules_block *rules;     /* the callee's: to be dropped */
        const struct egress_rule *rule; /* in them */
        char sentence[SENTENCE_MAX];
};
typedef void (*reached_function)(void *data, struct reached *r);

/* Counts the request, decides it and dials. done is called exactly once, perhaps before this returns, unless reach_cancel() came first. The texts of q are copied. */
struct reach;
void reach_start(struct box *b, const struct egress_request *q, struct reach **ret, reached_function done, void *data);
/* The same without dialling, for a request on a connection that is there already: only what egress_judge(), budgets and the ledger say. */
void reach_judge(struct box *b, const struct egress_request *q, struct reached *ret);
void reach_cancel(struct reach *r); /* takes NULL */
/* Whether whom this descriptor is connected to may be dialled by these rules. */
bool reach_may_keep(int fd, const struct egress_rules *rules);

/* ---- a tunnel (tunnel.c) ---- */

/* Takes both descriptors. early: bytes that the client has sent already. needs_tls: nothing goes up before a ClientHello that names host was seen. */
struct tunnel_start {
        int client, upstream;
        const void *early;
        size_t early_size;
        bool needs_tls;
        const struct host *host;
        uint16_t port;
        struct ledger_row *row;
        struct rules_block *rules; /* taken */
        const struct egress_rule *rule;
};
int tunnel_new(struct connection *c, const struct tunnel_start *start);
void tunnel_free(struct tunnel *t); /* takes NULL */
/* When it is freed, each side that has not seen the orderly end of the other sees a reset. */
void tunnel_reset(struct tunnel *t);
/* The rules of the box have changed: whether it may go on. */
bool tunnel_may_stay(struct tunnel *t);

/* ---- requests of HTTP (forward.c) ---- */

/* From here on the connection's bufferevent belongs to the forwarder: requests in absolute form, the first of them perhaps in its input already; or, with fixed, in origin
 * form, for that host and port only (TLS was spoken before). Judges each request with reach_start() or reach_judge(). */
struct forward_start {
        const struct host *fixed; /* NULL: absolute form */
        uint16_t port;
        struct reached *reached;  /* with fixed: the connection that is there already; its fd, and what else it has, is taken. NULL: dialled when needed */
};
int forward_new(struct connection *c, const struct forward_start *start);
void forward_free(struct forward *f); /* takes NULL */
bool forward_may_stay(struct forward *f);

#endif
