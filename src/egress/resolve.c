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

/* A set of nameservers; the last one is asked, those before live as long as somebody waits for their answer. */
struct servers {
        struct evdns_base *dns;
        unsigned n, pending;
        bool retired;
};

static struct {
        struct servers *servers;
        struct known_host *hosts;
        size_t n_hosts;
} resolver;

/* libevent calls back for each question, also for one that was given up: then owner is NULL. */
struct question {
        struct resolve *owner;
        struct servers *servers;
        struct evdns_request *request;
        bool ipv6;
};

struct resolve {
        struct question *questions[2]; /* NULL: answered */
        struct event *deadline;
        struct address addresses[RESOLVE_ADDRESSES_MAX];
        size_t n;
        bool too_many, silent;
        bool starting; /* resolve_start() is not through yet */
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
                {"timeout:", "1.5"}, {"attempts:", "3"}, {"max-inflight:", "4096"},
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

int resolve_set(const char *resolv, size_t resolv_size, const char *hosts, size_t hosts_size, gb_error *err)
{
        struct servers *s = servers_new(resolv, resolv_size);

        if (!s)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (resolver.servers) {
                resolver.servers->retired = true;
                servers_free(resolver.servers);
        }
        resolver.servers = s;
        free(resolver.hosts);
        resolver.hosts = NULL;
        resolver.n_hosts = 0;
        int r = read_hosts(hosts, hosts_size);
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "out of memory") : 0;
}

/* ---- a question ---- */

static void forget(struct resolve *r, size_t i)
{
        struct question *q = r->questions[i];

        r->questions[i] = NULL;
        if (!q)
                return;
        q->owner = NULL;
        evdns_cancel_request(q->servers->dns, q->request);
}

static void resolve_free(struct resolve *r)
{
        forget(r, 0);
        forget(r, 1);
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

static void on_answer(int result, char type, int count, int ttl, void *addresses, void *data)
{
        static const struct timeval soon = {.tv_usec = SECOND_USEC};
        struct question *q = data;
        struct resolve *r = q->owner;
        bool ipv6 = q->ipv6;

        q->servers->pending--;
        servers_free(q->servers); /* only those of before, when nobody waits for them any more */
        free(q);
        if (!r)
                return;
        r->questions[ipv6] = NULL;
        if (result == DNS_ERR_NONE && ((type == DNS_IPv4_A && !ipv6) || (type == DNS_IPv6_AAAA && ipv6)))
                take_answer(r, ipv6, count, addresses);
        else if (result == DNS_ERR_TIMEOUT || result == DNS_ERR_SERVERFAILED || result == DNS_ERR_SHUTDOWN)
                r->silent = true;
        if (r->starting)
                return;
        if (!r->questions[0] && !r->questions[1])
                finish(r);
        else if (r->n > 0)
                evtimer_add(r->deadline, &soon);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct resolve *r = data;

        r->silent = true;
        finish(r);
}

static void ask(struct resolve *r, const char *name, bool ipv6)
{
        struct question *q = calloc(1, sizeof(*q));

        if (!q)
                return;
        *q = (struct question){.owner = r, .servers = resolver.servers, .ipv6 = ipv6};
        r->questions[ipv6] = q;
        q->servers->pending++;
        struct evdns_request *request = ipv6 ? evdns_base_resolve_ipv6(q->servers->dns, name, DNS_QUERY_NO_SEARCH, on_answer, q)
                                             : evdns_base_resolve_ipv4(q->servers->dns, name, DNS_QUERY_NO_SEARCH, on_answer, q);
        if (request) {
                q->request = request;
                return;
        }
        q->servers->pending--;
        r->questions[ipv6] = NULL;
        r->silent = true;
        free(q);
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
        r->starting = true;
        if (!look_up(r, name) && resolver.servers) {
                ask(r, name, false);
                ask(r, name, true);
        }
        r->starting = false;
        if (!r->questions[0] && !r->questions[1])
                finish(r);
        else
                evtimer_add(r->deadline, &deadline);
        return 0;
}

void resolve_cancel(struct resolve *r)
{
        if (r)
                resolve_free(r);
}
