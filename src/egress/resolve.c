/* SPDX-License-Identifier: Apache-2.0
 *
 * Both kinds of addresses are asked for at once, and the answer is what both questions gave together: every one of them is looked at before one is dialled. Nothing is kept
 * for the next question, so that nobody has to think about what a name was some time ago. */
#include "egress/resolve.h"

#include "base/macro.h"
#include "egress/core.h"

#include <errno.h>
#include <event2/dns.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

#define SECOND_USEC 500000 /* for the other answer when one is there */

struct known_host {
        struct address address;
        char name[HOST_TEXT_MAX];
};

/* A set of nameservers; the last one is asked, those before live as long as somebody waits for their answer. libevent asks a server from one port for as long as it
 * knows it, so after some questions the set is made anew: who wants to answer in its place has to find the port again. */
struct servers {
        struct evdns_base *dns;
        unsigned n, asked, pending;
        bool retired;
};
#define QUESTIONS_MAX 200

/* One question to the nameservers, and all who wait for it: nobody gains by asking for the same name a thousand times. */
struct question;
LIST_HEAD(questions, question);
LIST_HEAD(waiters, waiter);

static struct {
        struct servers *servers;
        char *text; /* of resolv.conf */
        size_t text_size;
        struct known_host *hosts;
        size_t n_hosts;
        struct questions questions;
} resolver;

struct question {
        LIST_ENTRY(question) entry;
        struct waiters waiters; /* none: they have given up */
        struct servers *servers;
        bool ipv6;
        char name[HOST_TEXT_MAX];
};

struct waiter {
        LIST_ENTRY(waiter) entry;
        struct resolve *resolve; /* NULL: it waits for nothing */
};

struct resolve {
        struct waiter waiters[2]; /* A, AAAA */
        struct event *deadline;
        struct address addresses[RESOLVE_ADDRESSES_MAX];
        size_t n;
        bool too_many, silent;
        resolved_function done;
        void *data;
};

static void servers_free(struct servers *s)
{
        if (!s || s->pending > 0 || !s->retired)
                return;
        evdns_base_free(s->dns, 0);
        free(s);
}

/* ---- the two files ---- */

struct words {
        const char *at, *end;
};

/* The next word of a line; false at its end. */
static bool next_word(struct words *w, const char **ret, size_t *ret_size)
{
        while (w->at < w->end && (*w->at == ' ' || *w->at == '\t'))
                w->at++;
        const char *begin = w->at;
        while (w->at < w->end && *w->at != ' ' && *w->at != '\t' && *w->at != '#' && *w->at != ';' && *w->at != '\r')
                w->at++;
        *ret = begin;
        *ret_size = (size_t)(w->at - begin);
        return w->at > begin;
}

static bool next_line(const char **at, const char *end, struct words *ret)
{
        if (*at >= end)
                return false;
        const char *stop = memchr(*at, '\n', (size_t)(end - *at));
        *ret = (struct words){*at, stop ? stop : end};
        *at = stop ? stop + 1 : end;
        return true;
}

static void add_server(struct servers *s, const char *text, size_t size)
{
        char name[ADDRESS_TEXT_MAX + 16];

        /* An address of IPv6 may have a zone here: libevent reads it. */
        if (size >= sizeof(name))
                return;
        memcpy(name, text, size);
        name[size] = '\0';
        if (evdns_base_nameserver_ip_add(s->dns, name) == 0)
                s->n++;
}

static void read_servers(struct servers *s, const char *text, size_t size)
{
        const char *at = text, *word;
        struct words line;
        size_t n;

        while (next_line(&at, text + size, &line))
                if (next_word(&line, &word, &n) && n == 10 && memcmp(word, "nameserver", 10) == 0 && next_word(&line, &word, &n))
                        add_server(s, word, n);
        if (s->n == 0)
                add_server(s, "127.0.0.1", 9); /* as resolv.conf(5) says */
}

static int read_hosts(const char *text, size_t size)
{
        const char *at = text, *word;
        struct words line;
        struct address address;
        struct host host;
        size_t n, room = 0;

        while (next_line(&at, text + size, &line)) {
                if (!next_word(&line, &word, &n) || address_parse(word, n, &address) < 0)
                        continue;
                while (next_word(&line, &word, &n)) {
                        if (host_parse(word, n, &host) < 0 || host.kind != HOST_NAME)
                                continue;
                        if (resolver.n_hosts == room) {
                                room = room ? 2 * room : 16;
                                struct known_host *more = reallocarray(resolver.hosts, room, sizeof(*more));
                                if (!more)
                                        return -ENOMEM;
                                resolver.hosts = more;
                        }
                        struct known_host *h = &resolver.hosts[resolver.n_hosts++];
                        h->address = address;
                        memcpy(h->name, host.text, sizeof(h->name));
                }
        }
        return 0;
}

static struct servers *servers_new(const char *text, size_t size)
{
        static const char *const options[][2] = {
                {"timeout:", "1.5"}, {"attempts:", "3"}, {"max-inflight:", "4096"}, {"max-timeouts:", "1"}, /* one that is silent once is left alone for a while */
        };
        struct servers *s = calloc(1, sizeof(*s));

        if (s)
                s->dns = evdns_base_new(egress_base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
        if (!s || !s->dns) {
                free(s);
                return NULL;
        }
        for (size_t i = 0; i < ARRAY_SIZE(options); i++)
                evdns_base_set_option(s->dns, options[i][0], options[i][1]);
        read_servers(s, text, size);
        return s;
}

static int renew_servers(void)
{
        struct servers *s = servers_new(resolver.text, resolver.text_size);

        if (!s)
                return -ENOMEM;
        if (resolver.servers) {
                resolver.servers->retired = true;
                servers_free(resolver.servers);
        }
        resolver.servers = s;
        return 0;
}

int resolve_set(const char *resolv, size_t resolv_size, const char *hosts, size_t hosts_size, gb_error *err)
{
        char *text = malloc(resolv_size + 1);

        if (!text)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        memcpy(text, resolv, resolv_size);
        free(resolver.text);
        resolver.text = text;
        resolver.text_size = resolv_size;
        free(resolver.hosts);
        resolver.hosts = NULL;
        resolver.n_hosts = 0;
        int r = renew_servers();
        if (r == 0)
                r = read_hosts(hosts, hosts_size);
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "out of memory") : 0;
}

/* ---- who waits ---- */

static void stop_waiting(struct waiter *w)
{
        if (w->resolve)
                LIST_REMOVE(w, entry);
        w->resolve = NULL;
}

static void resolve_free(struct resolve *r)
{
        stop_waiting(&r->waiters[0]);
        stop_waiting(&r->waiters[1]);
        if (r->deadline)
                event_free(r->deadline);
        free(r);
}

static void finish(struct resolve *r)
{
        const char *why = r->too_many ? "it has too many addresses" : r->silent ? "no nameserver of the host has answered" : "there is no such name, or it has no address";
        bool found = r->n > 0 && !r->too_many;

        r->done(r->data, r->addresses, found ? r->n : 0, !found && r->silent && !r->too_many, found ? NULL : why);
        resolve_free(r);
}

static void add_address(struct resolve *r, const struct address *a)
{
        if (r->n < RESOLVE_ADDRESSES_MAX)
                r->addresses[r->n++] = *a;
        else
                r->too_many = true;
}

static void take_answer(struct resolve *r, bool ipv6, int count, const uint8_t *bytes)
{
        size_t size = ipv6 ? 16 : 4, had = r->n;

        for (int i = 0; i < count; i++) {
                struct address a;
                if (ipv6)
                        address_from_ipv6(bytes + (size_t)i * size, &a);
                else
                        address_from_ipv4(bytes + (size_t)i * size, &a);
                add_address(r, &a);
        }
        /* Those of IPv4 go first, whichever came first. */
        if (!ipv6 && had > 0 && r->n > had) {
                struct address all[RESOLVE_ADDRESSES_MAX];
                memcpy(all, r->addresses + had, (r->n - had) * sizeof(all[0]));
                memcpy(all + (r->n - had), r->addresses, had * sizeof(all[0]));
                memcpy(r->addresses, all, r->n * sizeof(all[0]));
        }
}

/* ---- questions ---- */

/* Those who have all they wait for. r may be gone then, and others that wait, too: who calls looks at the list anew. */
static void settle(struct resolve *r)
{
        static const struct timeval soon = {.tv_usec = SECOND_USEC};

        if (!r->waiters[0].resolve && !r->waiters[1].resolve)
                finish(r);
        else if (r->n > 0)
                evtimer_add(r->deadline, &soon);
}

static void on_answer(int result, char type, int count, int ttl, void *addresses, void *data)
{
        struct question *q = data;
        bool good = result == DNS_ERR_NONE && ((type == DNS_IPv4_A && !q->ipv6) || (type == DNS_IPv6_AAAA && q->ipv6));
        bool silent = result == DNS_ERR_TIMEOUT || result == DNS_ERR_SERVERFAILED || result == DNS_ERR_SHUTDOWN;

        LIST_REMOVE(q, entry); /* who asks from here on asks anew */
        while (!LIST_EMPTY(&q->waiters)) {
                struct waiter *w = LIST_FIRST(&q->waiters);
                struct resolve *r = w->resolve;
                stop_waiting(w);
                r->silent = r->silent || silent;
                if (good)
                        take_answer(r, q->ipv6, count, addresses);
                settle(r);
        }
        q->servers->pending--;
        servers_free(q->servers); /* only those of before, when nobody waits for them any more */
        free(q);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct resolve *r = data;

        r->silent = true;
        finish(r);
}

/* NULL: it cannot be asked. */
static struct question *question_new(const char *name, bool ipv6)
{
        if (resolver.servers->asked >= QUESTIONS_MAX)
                (void)renew_servers(); /* those that are there will do, too */
        struct question *q = calloc(1, sizeof(*q));
        if (!q)
                return NULL;
        *q = (struct question){.servers = resolver.servers, .ipv6 = ipv6};
        strncpy(q->name, name, sizeof(q->name) - 1);
        struct evdns_request *request = ipv6 ? evdns_base_resolve_ipv6(q->servers->dns, name, DNS_QUERY_NO_SEARCH, on_answer, q)
                                             : evdns_base_resolve_ipv4(q->servers->dns, name, DNS_QUERY_NO_SEARCH, on_answer, q);
        if (!request) {
                free(q);
                return NULL;
        }
        q->servers->pending++;
        q->servers->asked++;
        LIST_INSERT_HEAD(&resolver.questions, q, entry);
        return q;
}

static struct question *question_find(const char *name, bool ipv6)
{
        struct question *q;

        LIST_FOREACH(q, &resolver.questions, entry)
                if (q->ipv6 == ipv6 && strcmp(q->name, name) == 0)
                        return q;
        return NULL;
}

static void ask(struct resolve *r, const char *name, bool ipv6)
{
        struct question *q = question_find(name, ipv6);

        if (!q)
                q = question_new(name, ipv6);
        if (!q) {
                r->silent = true;
                return;
        }
        r->waiters[ipv6].resolve = r;
        LIST_INSERT_HEAD(&q->waiters, &r->waiters[ipv6], entry);
}

/* As hosts has it; then nobody is asked. */
static bool look_up(struct resolve *r, const char *name)
{
        static const char *const loopback[] = {"localhost", "ip6-localhost"};

        for (size_t i = 0; i < resolver.n_hosts; i++)
                if (strcmp(resolver.hosts[i].name, name) == 0)
                        add_address(r, &resolver.hosts[i].address);
        for (size_t i = 0; r->n == 0 && i < ARRAY_SIZE(loopback); i++)
                if (strcmp(name, loopback[i]) == 0) {
                        struct address a;
                        address_from_ipv4((const uint8_t[]){127, 0, 0, 1}, &a);
                        add_address(r, &a);
                }
        return r->n > 0;
}

int resolve_start(const char *name, struct resolve **ret, resolved_function done, void *data)
{
        static const struct timeval deadline = {.tv_sec = EGRESS_DNS_USEC / 1000000};
        struct resolve *r = calloc(1, sizeof(*r));

        if (!r)
                return -ENOMEM;
        r->done = done;
        r->data = data;
        r->deadline = evtimer_new(egress_base, on_deadline, r);
        if (!r->deadline) {
                free(r);
                return -ENOMEM;
        }
        *ret = r;
        if (!look_up(r, name) && resolver.servers) {
                ask(r, name, false);
                ask(r, name, true);
        }
        evtimer_add(r->deadline, &deadline);
        settle(r);
        return 0;
}

void resolve_cancel(struct resolve *r)
{
        if (r)
                resolve_free(r);
}
