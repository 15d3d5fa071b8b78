/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of clients. One is found only by its id together with the tenant and the token that made it. It goes when it says so, when it was silent for too long,
 * or when its tenant has too many and it is the one that was silent for longest; its own session goes with it. Locks are taken in this order: the
 * table's, a client's. */
#include "server/mcp_client.h"

#include "base/fd.h"
#include "base/hash.h"
#include "server/fields.h"
#include "server/mcp_stream.h"
#include "server/server.h"
#include "server/workers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256

struct mcp {
        struct server *server;
        struct mcp_tools *tools;
        _Atomic size_t kept_bytes; /* of the events of all */

        pthread_mutex_t lock;
        struct mcp_client *clients[BUCKETS];
        size_t n;
};

/* ---- all of it ---- */

static struct mcp_tools *make_tools(const struct languages *all)
{
        _cleanup_free_ const char **names = calloc(all->n + 1, sizeof(*names));
        size_t n = 0;

        for (size_t i = 0; names && i < all->n; i++)
                if (language_is_found(&all->rows[i]))
                        names[n++] = all->rows[i].name;
        return names ? mcp_tools_new(names) : NULL;
}

int mcp_new(struct server *server, struct mcp **ret, gb_error *err)
{
        struct mcp *m = calloc(1, sizeof(*m));

        if (!m)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        m->server = server;
        pthread_mutex_init(&m->lock, NULL);
        m->tools = make_tools(server->languages);
        if (!m->tools) {
                mcp_free(m);
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        *ret = m;
        return 0;
}

void mcp_free(struct mcp *m)
{
        if (!m)
                return;
        for (size_t i = 0; i < BUCKETS; i++)
                while (m->clients[i])
                        mcp_client_end(m->clients[i]);
        mcp_tools_free(m->tools);
        pthread_mutex_destroy(&m->lock);
        free(m);
}

struct mcp_tools *mcp_tools_of(struct mcp *m)
{
        return m->tools;
}

_Atomic size_t *mcp_kept_bytes(struct mcp *m)
{
        return &m->kept_bytes;
}

/* ---- one ---- */

static struct mcp_client **bucket_of(struct mcp *m, const char *id)
{
        return &m->clients[hash_string(HASH_INIT, id) % BUCKETS];
}

static void client_free(struct mcp_client *c)
{
        mcp_streams_free(c);
        for (size_t i = 0; i < c->n_subscriptions; i++)
                free(c->subscriptions[i].uri);
        fields_wipe_secrets(c->options);
        json_decref(c->options);
        pthread_cond_destroy(&c->changed);
        pthread_mutex_destroy(&c->making);
        pthread_mutex_destroy(&c->lock);
        free(c);
}

static struct mcp_client *client_alloc(struct mcp *m, const struct caller *caller, const char *version, json_t *options)
{
        struct mcp_client *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->mcp = m;
        c->references = 2; /* the table's and the caller's */
        c->used_usec = monotonic_usec();
        c->log_level = MCP_WARNING; /* who wants to hear of each run says so */
        c->next_stream = 1;
        strcpy(c->tenant, caller->tenant);
        strcpy(c->token, caller->token);
        (void)snprintf(c->version, sizeof(c->version), "%s", version);
        pthread_mutex_init(&c->making, NULL);
        pthread_mutex_init(&c->lock, NULL);
        live_cond_init(&c->changed);
        c->options = options ? json_deep_copy(options) : NULL;
        if (result_make_id(c->id) == 0 && (c->options || !options))
                return c;
        client_free(c);
        return NULL;
}

struct mcp_client *mcp_client_ref(struct mcp_client *c)
{
        pthread_mutex_lock(&c->mcp->lock);
        c->references++;
        pthread_mutex_unlock(&c->mcp->lock);
        return c;
}

void mcp_client_put(struct mcp_client *c)
{
        if (!c)
                return;
        pthread_mutex_lock(&c->mcp->lock);
        bool last = --c->references == 0;
        c->used_usec = monotonic_usec();
        pthread_mutex_unlock(&c->mcp->lock);
        if (last)
                client_free(c);
}

/* With the lock. */
static struct mcp_client *find(struct mcp *m, const char *tenant, const char *token, const char *id)
{
        for (struct mcp_client *c = *bucket_of(m, id); c; c = c->next)
                if (strcmp(c->id, id) == 0 && strcmp(c->tenant, tenant) == 0 && strcmp(c->token, token) == 0)
                        return c;
        return NULL;
}

struct mcp_client *mcp_client_get(struct mcp *m, const struct caller *caller, const char *id)
{
        pthread_mutex_lock(&m->lock);
        struct mcp_client *c = find(m, caller->tenant, caller->token, id);
        if (c) {
                c->references++;
                c->used_usec = monotonic_usec();
        }
        pthread_mutex_unlock(&m->lock);
        return c;
}

/* ---- the end of one ---- */

/* With the lock; the table's reference is the caller's then. */
static bool take_out(struct mcp_client *c)
{
        if (c->ended)
                return false;
        c->ended = true;
        for (struct mcp_client **at = bucket_of(c->mcp, c->id); *at; at = &(*at)->next)
                if (*at == c) {
                        *at = c->next;
                        break;
                }
        c->mcp->n--;
        return true;
}

void mcp_call_interrupt(struct mcp_call *call, struct live_run *run)
{
        if (!atomic_exchange(&call->interrupted, true))
                live_run_cancel(run, false);
}

/* With the client's lock. */
static void cancel_call(struct mcp_call *call)
{
        call->cancelled = true;
        if (call->run)
                mcp_call_interrupt(call, call->run);
}

static void end_session(struct mcp_client *c)
{
        struct caller caller = {0};
        char id[JOURNAL_ID_MAX];
        struct live_session *s;

        strcpy(caller.tenant, c->tenant);
        pthread_mutex_lock(&c->lock);
        memcpy(id, c->session, sizeof(id));
        c->session[0] = '\0';
        pthread_mutex_unlock(&c->lock);
        if (id[0] && live_session_get(c->mcp->server->live, &caller, id, false, &s, NULL) == 0)
                (void)live_session_end(s, "deleted");
}

/* What is left to do with one that was taken out; the table's reference is given up. */
static void finish(struct mcp_client *c)
{
        pthread_mutex_lock(&c->lock);
        for (struct mcp_call *call = c->calls; call; call = call->next)
                cancel_call(call);
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->lock);
        /* Who makes its session at the moment looks whether it has ended after that, so one of us sees it. */
        pthread_mutex_lock(&c->making);
        pthread_mutex_unlock(&c->making);
        end_session(c);
        mcp_client_put(c);
}

void mcp_client_end(struct mcp_client *c)
{
        pthread_mutex_lock(&c->mcp->lock);
        bool mine = take_out(c);
        pthread_mutex_unlock(&c->mcp->lock);
        if (mine)
                finish(c);
}

bool mcp_client_is_ended(struct mcp_client *c)
{
        pthread_mutex_lock(&c->mcp->lock);
        bool ended = c->ended;
        pthread_mutex_unlock(&c->mcp->lock);
        return ended;
}

/* ---- room for one more ---- */

/* With the lock: of a tenant (NULL: of all), the one that was silent for longest and that nobody uses; how many there are. */
static struct mcp_client *find_idle(struct mcp *m, const char *tenant, size_t *ret_n)
{
        struct mcp_client *oldest = NULL;

        *ret_n = 0;
        for (size_t i = 0; i < BUCKETS; i++)
                for (struct mcp_client *c = m->clients[i]; c; c = c->next) {
                        if (tenant && strcmp(c->tenant, tenant) != 0)
                                continue;
                        ++*ret_n;
                        if (c->references == 1 && (!oldest || c->used_usec < oldest->used_usec))
                                oldest = c;
                }
        return oldest;
}

/* With the lock; *ret_gone: one that had to go, for finish(). */
static int make_room(struct mcp *m, const char *tenant, struct mcp_client **ret_gone, gb_error *err)
{
        size_t n;
        struct mcp_client *oldest = find_idle(m, tenant, &n);

        *ret_gone = NULL;
        if (n < MCP_TENANT_CLIENTS_MAX && m->n < MCP_CLIENTS_MAX)
                return 0;
        if (!oldest)
                return error_set(err, GB_E_QUOTA, EAGAIN, "there are as many MCP clients as there may be, and all are in use");
        (void)take_out(oldest);
        *ret_gone = oldest;
        return 0;
}

/* Takes the client: *ret is it, or the one of that name that came first. */
static int enter(struct mcp *m, struct mcp_client *c, struct mcp_client **ret, gb_error *err)
{
        struct mcp_client *gone = NULL;

        pthread_mutex_lock(&m->lock);
        struct mcp_client *first = find(m, c->tenant, c->token, c->id), **bucket = bucket_of(m, c->id);
        int r = first ? 0 : make_room(m, c->tenant, &gone, err);
        if (first) {
                first->references++;
        } else if (r == 0) {
                c->next = *bucket;
                *bucket = c;
                m->n++;
        }
        pthread_mutex_unlock(&m->lock);
        if (gone)
                finish(gone);
        if (first || r < 0)
                client_free(c);
        if (r == 0)
                *ret = first ? first : c;
        return r;
}

int mcp_client_new(struct mcp *m, const struct caller *caller, const char *version, json_t *options, struct mcp_client **ret, gb_error *err)
{
        struct mcp_client *c = client_alloc(m, caller, version, options);

        if (!c)
                return error_set(err, GB_E_UNAVAILABLE, ENOMEM, "there is no memory for one more client");
        return enter(m, c, ret, err);
}

int mcp_client_named(struct mcp *m, const struct caller *caller, const char *name, json_t *options, bool again, struct mcp_client **ret, gb_error *err)
{
        if (strlen(name) != RESOURCE_ID_MAX - 1 || strspn(name, "0123456789abcdef") != RESOURCE_ID_MAX - 1)
                return error_set(err, GB_E_USAGE, EINVAL, "the header Glovebox-Client is %d hexadecimal digits that nobody can guess", RESOURCE_ID_MAX - 1);
        *ret = mcp_client_get(m, caller, name);
        if (*ret)
                return 0;
        struct mcp_client *c = client_alloc(m, caller, "", options);
        if (!c)
                return error_set(err, GB_E_UNAVAILABLE, ENOMEM, "there is no memory for one more client");
        strcpy(c->id, name);
        c->again = again;
        return enter(m, c, ret, err);
}

static void finish_later(void *data)
{
        finish(data);
}

/* What is kept of answers that nobody came back for. */
static void trim_all(struct mcp *m)
{
        for (size_t i = 0; i < BUCKETS; i++) {
                pthread_mutex_lock(&m->lock);
                for (struct mcp_client *c = m->clients[i]; c; c = c->next) {
                        pthread_mutex_lock(&c->lock);
                        mcp_streams_trim(c);
                        pthread_mutex_unlock(&c->lock);
                }
                pthread_mutex_unlock(&m->lock);
        }
}

void mcp_tidy(struct mcp *m)
{
        uint64_t now = monotonic_usec();

        trim_all(m);
        for (;;) {
                size_t n;
                pthread_mutex_lock(&m->lock);
                struct mcp_client *c = find_idle(m, NULL, &n);
                bool late = c && now - MIN(now, c->used_usec) > MCP_CLIENT_IDLE_USEC && take_out(c);
                pthread_mutex_unlock(&m->lock);
                if (!late)
                        return;
                /* Its session may take its time to end, and others are to be tidied. */
                if (workers_start(m->server->workers, finish_later, c) < 0)
                        finish(c);
        }
}

/* ---- calls ---- */

int mcp_call_enter(struct mcp_call *call, struct rpc_error *err)
{
        struct mcp_client *c = call->client;
        size_t n = 0;
        bool twice = false;

        if (!c)
                return 0;
        pthread_mutex_lock(&c->lock);
        for (const struct mcp_call *other = c->calls; other; other = other->next, n++)
                twice |= strcmp(other->key, call->key) == 0;
        bool fits = !twice && n < MCP_CALLS_MAX;
        if (fits) {
                call->next = c->calls;
                c->calls = call;
        }
        pthread_mutex_unlock(&c->lock);
        if (twice)
                return rpc_fail(err, RPC_INVALID, "a request with this id goes on already");
        return fits ? 0 : rpc_fail(err, RPC_INVALID, "%d requests of this client go on already: wait for one of them", MCP_CALLS_MAX);
}

void mcp_call_leave(struct mcp_call *call)
{
        struct mcp_client *c = call->client;

        if (!c)
                return;
        pthread_mutex_lock(&c->lock);
        for (struct mcp_call **at = &c->calls; *at; at = &(*at)->next)
                if (*at == call) {
                        *at = call->next;
                        break;
                }
        pthread_mutex_unlock(&c->lock);
}

void mcp_call_runs(struct mcp_call *call, struct live_run *run)
{
        struct mcp_client *c = call->client;

        if (!c) {
                call->run = run;
                return;
        }
        pthread_mutex_lock(&c->lock);
        call->run = run;
        if (run && call->cancelled) /* before there was something to cancel */
                mcp_call_interrupt(call, run);
        pthread_mutex_unlock(&c->lock);
}

void mcp_client_cancel(struct mcp_client *c, const json_t *id)
{
        char key[RPC_KEY_MAX];

        rpc_key(id, key);
        pthread_mutex_lock(&c->lock);
        for (struct mcp_call *call = c->calls; call && key[0]; call = call->next)
                if (strcmp(call->key, key) == 0)
                        cancel_call(call);
        pthread_mutex_unlock(&c->lock);
}
