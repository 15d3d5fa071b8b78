/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrong tokens are counted by address in a table of fixed size, each address at one place of it that it shares with
 * others: who comes last has the place. A token that counts is taken whatever was tried from its address; only the answer to
 * wrong ones becomes 429. So nobody locks out a neighbour, and nobody learns from it. */
#include "server/gate.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/quote.h"
#include "http/uri.h"
#include "server/connection.h"
#include "server/metrics.h"
#include "server/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>

struct gate {
        uint64_t salt;
        struct {
                struct in6_addr peer;
                uint64_t since_usec;
                unsigned failures;
        } peers[AUTH_PEERS_MAX];
};

struct gate *gate_new(void)
{
        struct gate *g = calloc(1, sizeof(*g));

        if (g && getrandom(&g->salt, sizeof(g->salt), 0) != sizeof(g->salt))
                g->salt = monotonic_usec();
        return g;
}

void gate_free(struct gate *g)
{
        free(g);
}

/* ---- names ---- */

static bool is_our_address(const struct connection *c, const struct uri_host *host)
{
        struct sockaddr_storage local = {0};
        socklen_t size = sizeof(local);
        char text[INET6_ADDRSTRLEN];

        if (getsockname(c->fd, (struct sockaddr *)&local, &size) < 0)
                return false;
        if (local.ss_family == AF_INET)
                return !host->ipv6 && inet_ntop(AF_INET, &((struct sockaddr_in *)&local)->sin_addr, text, sizeof(text)) && strcmp(text, host->name) == 0;
        if (local.ss_family != AF_INET6)
                return false;
        const struct in6_addr *address = &((struct sockaddr_in6 *)&local)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(address))
                return !host->ipv6 && inet_ntop(AF_INET, &address->s6_addr[12], text, sizeof(text)) && strcmp(text, host->name) == 0;
        return host->ipv6 && inet_ntop(AF_INET6, address, text, sizeof(text)) && strcmp(text, host->name) == 0;
}

/* A name of the configuration may have a port of its own: that of a proxy before us. */
static bool is_configured(const struct server_config *config, const struct uri_host *host, int port)
{
        for (size_t i = 0; i < config->n_hosts; i++) {
                struct uri_host allowed;
                if (uri_host_parse(config->hosts[i], &allowed) < 0 || allowed.ipv6 != host->ipv6 || strcmp(allowed.name, host->name) != 0)
                        continue;
                if (host->port < 0 || host->port == (allowed.port < 0 ? port : allowed.port))
                        return true;
        }
        return false;
}

static bool host_is_ours(const struct request *r, const struct uri_host *host)
{
        const struct connection *c = r->connection;
        bool loopback = strcmp(host->name, host->ipv6 ? "::1" : "127.0.0.1") == 0 || (!host->ipv6 && strcmp(host->name, "localhost") == 0);

        if (is_configured(&r->server->config, host, c->listener->port))
                return true;
        if (host->port >= 0 && host->port != c->listener->port)
                return false;
        return loopback || is_our_address(c, host);
}

/* The page is of the host that it asks: then it is ours as much as the host is. */
static bool origin_is_host(const struct request *r, const char *origin, const struct uri_host *host)
{
        struct uri_host from;
        bool secure, tls = r->connection->listener->tls;

        if (uri_origin_parse(origin, &secure, &from) < 0 || secure != tls || from.ipv6 != host->ipv6 || strcmp(from.name, host->name) != 0)
                return false;
        int usual = tls ? 443 : 80;
        return (from.port < 0 ? usual : from.port) == (host->port < 0 ? usual : host->port);
}

static const char *configured_origin(const struct server_config *config, const char *origin)
{
        for (size_t i = 0; i < config->n_origins; i++)
                if (strcmp(config->origins[i], origin) == 0)
                        return config->origins[i];
        return NULL;
}

int gate_check_names(struct request *r, const char **ret_origin, gb_error *err)
{
        const char *text = request_header(r, "host"), *origin = request_header(r, "origin");
        bool local = r->connection->listener->kind == LISTENER_UNIX;
        struct uri_host host = {.port = -1};

        *ret_origin = NULL;
        /* The unix socket has no name, and no browser comes through it. */
        if (!text || (!*text && local)) {
                if (!local)
                        return error_set(err, GB_E_PROTOCOL, EPROTO, "there is no Host");
        } else if (uri_host_parse(text, &host) < 0) {
                return error_set(err, GB_E_PROTOCOL, EPROTO, "Host is %s, which is no name of a host", quote(text).text);
        } else if (!local && !host_is_ours(r, &host)) {
                return error_set(err, GB_E_DENIED, EACCES, "Host is %s, which is no name of this server", quote(text).text);
        }
        if (!origin)
                return 0;
        *ret_origin = configured_origin(&r->server->config, origin);
        if (!*ret_origin && !origin_is_host(r, origin, &host))
                return error_set(err, GB_E_DENIED, EACCES, "pages of the origin %s may not ask here", quote(origin).text);
        return 0;
}

/* ---- tokens ---- */

/* One address is a whole /64 of IPv6: so many belong to one host. */
static struct in6_addr masked(const struct in6_addr *peer)
{
        struct in6_addr m = *peer;

        if (!IN6_IS_ADDR_V4MAPPED(peer))
                memset(&m.s6_addr[8], 0, 8);
        return m;
}

static size_t place_of(const struct gate *g, const struct in6_addr *peer)
{
        uint64_t hash = g->salt;

        for (size_t i = 0; i < sizeof(peer->s6_addr); i++)
                hash = (hash ^ peer->s6_addr[i]) * 0x100000001b3ULL;
        return (size_t)(hash >> 32) % AUTH_PEERS_MAX;
}

/* Counts it; whether there were too many. */
static bool failed_too_often(struct request *r)
{
        struct gate *g = r->connection->loop->gate;
        struct in6_addr peer = masked(&r->connection->peer);
        size_t i = place_of(g, &peer);
        uint64_t now = monotonic_usec();

        if (memcmp(&g->peers[i].peer, &peer, sizeof(peer)) != 0 || now - g->peers[i].since_usec > AUTH_WINDOW_USEC) {
                g->peers[i].peer = peer;
                g->peers[i].since_usec = now;
                g->peers[i].failures = 0;
        }
        if (g->peers[i].failures < AUTH_FAILURES_MAX) {
                g->peers[i].failures++;
                return false;
        }
        return true;
}

static int refused(struct request *r, gb_error *err)
{
        metrics_add(r->server->metrics, METRICS_UNAUTHORIZED, 1);
        if (r->connection->listener->kind == LISTENER_TCP && failed_too_often(r))
                return error_set(err, GB_E_QUOTA, EACCES, "too many requests without a token that counts came from this address");
        return error_set(err, GB_E_UNAUTHORIZED, EACCES, "this needs a token that counts: \"Authorization: Bearer gbx_...\"");
}

int gate_check_caller(struct request *r, gb_error *err)
{
        const struct server_config *config = &r->server->config;
        const char *text = request_header(r, "authorization");
        bool local = r->connection->listener->kind == LISTENER_UNIX;
        struct token token = {0};

        if (!text) {
                if (!local && config->tokens)
                        return refused(r, err);
                snprintf(r->caller.tenant, sizeof(r->caller.tenant), "local");
                r->caller.scopes = SCOPE_READ | SCOPE_RUN | SCOPE_METRICS | SCOPE_ADMIN;
                r->caller.local = local;
                return 0;
        }
        if (strncasecmp(text, "Bearer ", 7) != 0 || !r->server->tokens)
                return refused(r, err);
        text += 7;
        int k = tokens_check(r->server->tokens, text, strlen(text), &token, err);
        if (k < 0)
                return !err || err->code == GB_E_UNAUTHORIZED ? refused(r, err) : k;
        memcpy(r->caller.tenant, token.tenant, sizeof(r->caller.tenant));
        memcpy(r->caller.token, token.id, sizeof(r->caller.token));
        r->caller.scopes = token.scopes;
        r->caller.local = false; /* also at the socket: a proxy may stand between, and its callers are not our own user */
        return 0;
}
