/* SPDX-License-Identifier: Apache-2.0
 *
 * The one path on which it is decided whether something leaves: the rules first, then the budgets; only then is the name resolved, once; every address it has is looked at, and one of
 * those that were looked at is dialled. Whoever says no, nothing has been sent before. */
#include "base/fd.h"
#include "egress/core.h"
#include "egress/resolve.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ALL_DIALS_USEC (2 * EGRESS_DIAL_USEC) /* for all addresses of a name together */

struct reach {
        struct box *box;
        struct reach **place; /* where the owner remembers us */
        struct host host;
        uint16_t port;
        enum egress_protocol protocol;
        struct rules_block *rules;
        const struct egress_rule *rule;
        struct resolve *resolve;
        struct address addresses[EGRESS_DIALS_MAX];
        size_t n, next;
        int fd;
        struct event *connected;
        uint64_t end_usec;
        int last_error;
        reached_function done;
        void *data;
};

static const char *rule_text(const struct rules_block *rules, const struct egress_rule *rule)
{
        return rule ? egress_text(rules->rules, rule->text) : NULL;
}

static void note(struct box *b, const struct egress_request *q, struct reached *ret, const struct rules_block *rules, const struct egress_rule *rule)
{
        /* What has come nearest is no rule of what was refused. */
        ret->row = ledger_row(b->ledger, q->host->text, q->port, ret->decision, q->protocol, egress_is_denied(ret->decision) ? NULL : rule_text(rules, rule));
        ledger_count(b->ledger, ret->row);
}

static enum egress_decision over_budget(const struct box *b)
{
        const struct egress_rules *r = b->rules->rules;

        if (r->requests_max > 0 && b->ledger->requests + b->reaching >= r->requests_max)
                return EGRESS_OVER_REQUESTS;
        return box_left(b) == 0 ? EGRESS_OVER_BYTES : EGRESS_ALLOWED;
}

void reach_judge(struct box *b, const struct egress_request *q, struct reached *ret)
{
        struct rules_block *rules = b->rules;
        struct egress_verdict v = egress_judge(rules->rules, q);

        *ret = (struct reached){.fd = -1, .status = 403};
        if (v.decision == EGRESS_ALLOWED)
                v.decision = over_budget(b);
        ret->decision = v.decision;
        ret->rule = v.decision == EGRESS_ALLOWED ? v.rule : NULL;
        if (v.decision == EGRESS_ALLOWED)
                ret->rules = rules_hold(rules);
        else
                egress_explain(rules->rules, q, &v, NULL, ret->sentence, sizeof(ret->sentence));
        if (v.decision == EGRESS_OVER_REQUESTS || v.decision == EGRESS_OVER_BYTES)
                b->ledger->cut = (uint32_t)v.decision;
        note(b, q, ret, rules, v.rule);
}

/* ---- after a yes ---- */

static struct egress_request request_of(const struct reach *r)
{
        return (struct egress_request){.host = &r->host, .port = r->port, .protocol = r->protocol};
}

static void reach_free(struct reach *r)
{
        *r->place = NULL;
        r->box->reaching--;
        resolve_cancel(r->resolve);
        if (r->connected)
                event_free(r->connected);
        safe_close(r->fd);
        rules_drop(r->rules);
        free(r);
}

static void tell(struct reach *r, struct reached *answer)
{
        reached_function done = r->done;
        void *data = r->data;

        reach_free(r);
        done(data, answer);
}

/* What the rules let pass does not get there. The row says which rule it was, but for an address that is never dialled. */
static void fail(struct reach *r, enum egress_decision decision, int status, const char *detail)
{
        struct egress_request q = request_of(r);
        struct egress_verdict v = {.decision = decision, .rule = r->rule};
        struct reached answer = {.decision = decision, .fd = -1, .status = status};

        egress_explain(r->rules->rules, &q, &v, detail, answer.sentence, sizeof(answer.sentence));
        note(r->box, &q, &answer, r->rules, r->rule);
        tell(r, &answer);
}

static void succeed(struct reach *r)
{
        static const int one = 1;
        struct egress_request q = request_of(r);
        struct reached answer = {.decision = EGRESS_ALLOWED, .fd = TAKE_FD(r->fd), .rule = r->rule};

        setsockopt(answer.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        note(r->box, &q, &answer, r->rules, r->rule);
        answer.rules = TAKE_PTR(r->rules);
        tell(r, &answer);
}

static socklen_t fill(struct sockaddr_storage *to, const struct address *a, uint16_t port)
{
        struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)to;
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)to;

        memset(to, 0, sizeof(*to));
        if (address_is_ipv4(a)) {
                v4->sin_family = AF_INET;
                v4->sin_port = htons(port);
                memcpy(&v4->sin_addr, a->bytes + 12, 4);
                return sizeof(*v4);
        }
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        memcpy(&v6->sin6_addr, a->bytes, 16);
        return sizeof(*v6);
}

static void dial_next(struct reach *r);

static void on_connected(evutil_socket_t fd, short what, void *data)
{
        struct reach *r = data;
        socklen_t size = sizeof(r->last_error);

        if (what & EV_TIMEOUT)
                r->last_error = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &r->last_error, &size) < 0)
                r->last_error = errno;
        event_free(r->connected);
        r->connected = NULL;
        if (r->last_error == 0) {
                succeed(r);
                return;
        }
        r->fd = safe_close(r->fd);
        dial_next(r);
}

/* True: it is under way, or done. */
static bool dial(struct reach *r, const struct address *a, uint64_t left_usec)
{
        struct sockaddr_storage to;
        socklen_t size = fill(&to, a, r->port);
        uint64_t wait = MIN((uint64_t)EGRESS_DIAL_USEC, left_usec);
        struct timeval timeout = {.tv_sec = (time_t)(wait / 1000000), .tv_usec = (suseconds_t)(wait % 1000000)};

        r->fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (r->fd < 0 || (connect(r->fd, (struct sockaddr *)&to, size) < 0 && errno != EINPROGRESS)) {
                r->last_error = errno;
                r->fd = safe_close(r->fd);
                return false;
        }
        r->connected = event_new(egress_base, r->fd, EV_WRITE, on_connected, r);
        if (!r->connected || event_add(r->connected, &timeout) < 0) {
                r->last_error = ENOMEM;
                r->fd = safe_close(r->fd);
                return false;
        }
        return true;
}

static void dial_next(struct reach *r)
{
        while (r->next < r->n) {
                uint64_t now = monotonic_usec();
                if (now >= r->end_usec) {
                        r->last_error = ETIMEDOUT;
                        break;
                }
                if (dial(r, &r->addresses[r->next++], r->end_usec - now))
                        return;
        }
        fail(r, EGRESS_UNREACHED, r->last_error == ETIMEDOUT ? 504 : 502, strerror(r->last_error));
}

static void on_addresses(void *data, const struct address *addresses, size_t n, bool timed_out, const char *why)
{
        struct reach *r = data;
        const char *kind;

        r->resolve = NULL;
        if (n == 0) {
                fail(r, EGRESS_UNRESOLVED, timed_out ? 504 : 502, why);
                return;
        }
        for (size_t i = 0; i < n; i++)
                if (!egress_may_dial(r->rules->rules, &addresses[i], &kind)) {
                        /* Only what kind it is: which address a name of the host's own network has is nobody's business in the box. */
                        fail(r, EGRESS_NO_ADDRESS, 403, kind);
                        return;
                }
        r->n = MIN(n, (size_t)EGRESS_DIALS_MAX);
        memcpy(r->addresses, addresses, r->n * sizeof(addresses[0]));
        r->end_usec = monotonic_usec() + ALL_DIALS_USEC;
        dial_next(r);
}

/* Says no without a row of its own: what stands in the way is ours. */
static void give_up(reached_function done, void *data)
{
        struct reached answer = {.decision = EGRESS_UNREACHED, .fd = -1, .status = 502, .sentence = "glovebox: the proxy has no memory left"};

        done(data, &answer);
}

void reach_start(struct box *b, const struct egress_request *q, struct reach **ret, reached_function done, void *data)
{
        struct egress_verdict v = egress_judge(b->rules->rules, q);
        struct reached answer;

        *ret = NULL;
        if (v.decision != EGRESS_ALLOWED || over_budget(b) != EGRESS_ALLOWED) {
                reach_judge(b, q, &answer);
                done(data, &answer);
                return;
        }
        struct reach *r = calloc(1, sizeof(*r));
        if (!r) {
                give_up(done, data);
                return;
        }
        *r = (struct reach){
                .box = b, .place = ret, .host = *q->host, .port = q->port, .protocol = q->protocol, .rules = rules_hold(b->rules), .rule = v.rule, .fd = -1,
                .done = done, .data = data,
        };
        *ret = r;
        b->reaching++;
        if (q->host->kind == HOST_ADDRESS)
                on_addresses(r, &q->host->address, 1, false, NULL);
        else if (resolve_start(r->host.text, &r->resolve, on_addresses, r) < 0)
                fail(r, EGRESS_UNREACHED, 502, "out of memory");
}

void reach_cancel(struct reach *r)
{
        struct reached answer = {.decision = EGRESS_UNREACHED};

        if (!r)
                return;
        /* Its name was asked for, perhaps somebody dialled: who asks and runs away is counted like the others. */
        struct egress_request q = request_of(r);
        note(r->box, &q, &answer, r->rules, r->rule);
        reach_free(r);
}

bool reach_may_keep(int fd, const struct egress_rules *rules)
{
        struct sockaddr_storage peer = {0};
        socklen_t size = sizeof(peer);
        struct address a;
        const char *why;

        if (getpeername(fd, (struct sockaddr *)&peer, &size) < 0)
                return false;
        if (peer.ss_family == AF_INET)
                address_from_ipv4(&((const struct sockaddr_in *)(const void *)&peer)->sin_addr, &a);
        else if (peer.ss_family == AF_INET6)
                address_from_ipv6(&((const struct sockaddr_in6 *)(const void *)&peer)->sin6_addr, &a);
        else
                return false;
        return egress_may_dial(rules, &a, &why);
}
