/* SPDX-License-Identifier: Apache-2.0
 *
 * Who wants to hear that a file has changed. Nobody tells us: code in a box writes as it likes. So the thread that has a client's stream looks from time to time, and at
 * once after a call that may have changed something. There is no way to look at one file alone: the list of its directory says when it was changed and how large it is.
 *
 * The client's lock is not held while files are looked at: what to look at is copied, and what was found is written back where it still belongs. */
#include "server/mcp_client.h"

#include "base/hash.h"
#include "server/mcp_resources.h"
#include "server/mcp_walk.h"
#include "server/server.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* States of a file; any other is a hash of what it was. */
#define STATE_ABSENT 0
#define STATE_ENDED 1 /* its session */
#define STATE_FIRST 2

#define LOOK_ENTRIES 256 /* of a directory, at a time */

struct look {
        char *uri, *path; /* path is cut at its last slash */
        char session[RESOURCE_ID_MAX];
        const char *directory, *name; /* of it */
        uint64_t before, now;
};

static void look_done(struct look *l)
{
        free(l->uri);
        free(l->path);
}

static int look_init(struct look *l, const char *uri, const struct resource_uri *u, uint64_t state)
{
        *l = (struct look){.uri = strdup(uri), .path = strdup(u->path), .before = state, .now = state, .directory = "."};
        if (!l->uri || !l->path)
                return -ENOMEM;
        memcpy(l->session, u->id, sizeof(l->session));
        char *slash = strrchr(l->path, '/');
        l->name = slash ? slash + 1 : l->path;
        if (slash) {
                *slash = '\0';
                l->directory = l->path;
        }
        return 0;
}

/* ---- looking ---- */

static int by_place(const void *a, const void *b)
{
        const struct look *x = a, *y = b;
        int order = strcmp(x->session, y->session);

        if (order == 0)
                order = strcmp(x->directory, y->directory);
        return order != 0 ? order : strcmp(x->name, y->name);
}

static uint64_t state_of(const struct file_entry *e)
{
        uint64_t hash = hash_bytes(HASH_INIT, &e->mode, sizeof(e->mode));

        hash = hash_bytes(hash, &e->size, sizeof(e->size));
        hash = hash_bytes(hash, &e->modified_usec, sizeof(e->modified_usec));
        return hash < STATE_FIRST ? STATE_FIRST : hash;
}

/* The last of all names before this one, so that a page begins with it. */
static void name_before(const char *name, char ret[static NAME_MAX + 1])
{
        size_t size = strlen(name);

        memcpy(ret, name, size + 1);
        unsigned char last = (unsigned char)(ret[size - 1] - 1);
        ret[size - 1] = (char)last;
        if (last == '\0')
                return;
        memset(ret + size, 0xff, NAME_MAX - size);
        ret[NAME_MAX] = '\0';
}

static void forget_all(struct look *looks, size_t n, uint64_t state)
{
        for (size_t i = 0; i < n; i++)
                looks[i].now = state;
}

/* Of one directory, by name. What cannot be told stays as it was. */
static void look_at_directory(const struct files *files, struct look *looks, size_t n)
{
        char after[NAME_MAX + 1];
        gb_error err = {0};

        while (n > 0) {
                _cleanup_file_list_ struct file_list *l = NULL;
                size_t at = 0, done = 0;
                if (strlen(looks[0].name) > NAME_MAX) {
                        looks[0].now = STATE_ABSENT;
                        looks++;
                        n--;
                        continue;
                }
                name_before(looks[0].name, after);
                if (files_list_page(files, looks[0].directory, after, LOOK_ENTRIES, &l, &err) < 0) {
                        if (err.code == GB_E_NOT_FOUND || err.code == GB_E_USAGE) /* there is no such directory, or none that can be gone into */
                                forget_all(looks, n, STATE_ABSENT);
                        return;
                }
                for (; done < n && (done == 0 || !l->last || strcmp(looks[done].name, l->last) <= 0); done++) {
                        while (at < l->n && strcmp(l->entries[at].name, looks[done].name) < 0)
                                at++;
                        bool there = at < l->n && strcmp(l->entries[at].name, looks[done].name) == 0;
                        looks[done].now = there ? state_of(&l->entries[at]) : STATE_ABSENT;
                }
                looks += done;
                n -= done;
        }
}

/* Of one session, by directory. */
static void look_at_session(struct server *server, const struct caller *caller, struct look *looks, size_t n)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        struct files files;
        gb_error err = {0};

        if (live_session_get(server->live, caller, looks[0].session, false, &s, &err) < 0) {
                if (err.code == GB_E_NOT_FOUND)
                        forget_all(looks, n, STATE_ENDED);
                return;
        }
        if (session_files(s->session, &files, &err) < 0)
                return;
        for (size_t i = 0, end; i < n; i = end) {
                for (end = i + 1; end < n && strcmp(looks[end].directory, looks[i].directory) == 0;)
                        end++;
                look_at_directory(&files, looks + i, end - i);
        }
}

static void look_at_all(struct server *server, const struct caller *caller, struct look *looks, size_t n)
{
        qsort(looks, n, sizeof(looks[0]), by_place);
        for (size_t i = 0, end; i < n; i = end) {
                for (end = i + 1; end < n && strcmp(looks[end].session, looks[i].session) == 0;)
                        end++;
                look_at_session(server, caller, looks + i, end - i);
        }
}

/* ---- subscriptions ---- */

/* Under the client's lock. NULL: it has none to this. */
static struct mcp_subscription *find(struct mcp_client *c, const char *uri)
{
        for (size_t i = 0; i < c->n_subscriptions; i++)
                if (strcmp(c->subscriptions[i].uri, uri) == 0)
                        return &c->subscriptions[i];
        return NULL;
}

/* Takes the uri. -ENOSPC: there are too many. */
static int add(struct mcp_client *c, char *uri, uint64_t state)
{
        _cleanup_free_ char *own = uri;
        size_t bytes = strlen(own);
        int r = 0;

        pthread_mutex_lock(&c->lock);
        bool known = find(c, own) != NULL;
        for (size_t i = 0; i < c->n_subscriptions; i++)
                bytes += strlen(c->subscriptions[i].uri);
        if (!known && (c->n_subscriptions == MCP_SUBSCRIPTIONS_MAX || bytes > MCP_SUBSCRIPTIONS_BYTES_MAX))
                r = -ENOSPC;
        else if (!known)
                c->subscriptions[c->n_subscriptions++] = (struct mcp_subscription){TAKE_PTR(own), state};
        pthread_mutex_unlock(&c->lock);
        return r;
}

static int check_client(struct mcp_call *c, struct rpc_error *err)
{
        return c->client ? 0 : rpc_fail(err, RPC_METHOD, "only a client that is known from one request to the next can be told of changes");
}

int mcp_resources_subscribe(struct mcp_call *c, json_t **ret, struct rpc_error *err)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        _cleanup_(look_done) struct look look = {0};
        struct resource_uri uri;
        const char *text;
        gb_error error = {0};

        int r = check_client(c, err);
        if (r == 0)
                r = mcp_resource_param(c, &text, &uri, err);
        if (r < 0)
                return r;
        if (uri.kind != RESOURCE_FILE)
                return rpc_fail(err, RPC_PARAMS, "only changes of files are told");
        if (live_session_get(c->server->live, c->caller, uri.id, true, &s, &error) < 0)
                return mcp_resource_failed(c, NULL, text, &uri, &error, err);
        if (look_init(&look, text, &uri, STATE_ABSENT) < 0)
                return mcp_out_of_memory(err);
        look_at_all(c->server, c->caller, &look, 1);
        if (add(c->client, TAKE_PTR(look.uri), look.now) < 0)
                return rpc_fail(err, RPC_PARAMS, "a client has at most %d subscriptions: give one up before", MCP_SUBSCRIPTIONS_MAX);
        return mcp_empty_result(ret, err);
}

int mcp_resources_unsubscribe(struct mcp_call *c, json_t **ret, struct rpc_error *err)
{
        const char *text = json_string_value(json_object_get(c->message.params, "uri"));

        int r = check_client(c, err);
        if (r < 0)
                return r;
        if (!text)
                return rpc_fail(err, RPC_PARAMS, "uri must be a text");
        pthread_mutex_lock(&c->client->lock);
        struct mcp_subscription *found = find(c->client, text);
        if (found) {
                free(found->uri);
                *found = c->client->subscriptions[--c->client->n_subscriptions];
                c->client->subscriptions[c->client->n_subscriptions] = (struct mcp_subscription){0};
        }
        pthread_mutex_unlock(&c->client->lock);
        return mcp_empty_result(ret, err);
}

/* ---- changes ---- */

void mcp_session_touched(struct mcp_call *c, const struct live_session *s)
{
        (void)s; /* others that look at it do so from time to time */
        if (!c->client)
                return;
        pthread_mutex_lock(&c->client->lock);
        c->client->touched++;
        pthread_cond_broadcast(&c->client->changed);
        pthread_mutex_unlock(&c->client->lock);
}

struct looks {
        struct look at[MCP_SUBSCRIPTIONS_MAX];
        size_t n;
};

static void looks_free(struct looks *l)
{
        for (size_t i = 0; i < l->n; i++)
                look_done(&l->at[i]);
        free(l);
}
DEFINE_CLEANUP(struct looks, looks_free)

static int copy_subscriptions(struct mcp_client *c, struct looks *ret)
{
        struct resource_uri uri;
        int r = 0;

        pthread_mutex_lock(&c->lock);
        for (size_t i = 0; i < c->n_subscriptions && r == 0; i++) {
                const struct mcp_subscription *s = &c->subscriptions[i];
                r = resource_uri_parse(s->uri, &uri);
                if (r == 0 && uri.kind == RESOURCE_FILE)
                        r = look_init(&ret->at[ret->n++], s->uri, &uri, s->state);
                else if (r == -EINVAL)
                        r = 0; /* it names nothing, and never will */
        }
        pthread_mutex_unlock(&c->lock);
        return r;
}

/* Whether it is news: it was given up, or somebody else has looked meanwhile. */
static bool write_back(struct mcp_client *c, const struct look *l)
{
        pthread_mutex_lock(&c->lock);
        struct mcp_subscription *s = find(c, l->uri);
        bool news = s && s->state == l->before && l->now != l->before;
        if (news)
                s->state = l->now;
        pthread_mutex_unlock(&c->lock);
        return news;
}

static int add_updated(struct mcp_client *c, struct server *server, const struct caller *caller, json_t *out)
{
        _cleanup_(looks_free_ptr) struct looks *looks = calloc(1, sizeof(*looks));
        int r = looks ? copy_subscriptions(c, looks) : -ENOMEM;

        if (r < 0 || looks->n == 0)
                return r;
        look_at_all(server, caller, looks->at, looks->n);
        for (size_t i = 0; i < looks->n && r == 0; i++)
                if (write_back(c, &looks->at[i]))
                        r = json_array_append_new(out, rpc_notification("notifications/resources/updated", json_pack("{s:s}", "uri", looks->at[i].uri)));
        return r;
}

/* 0: there are none. */
static uint64_t hash_names(const struct live_session *s, const struct walked *w)
{
        uint64_t hash = hash_string(HASH_INIT, s->id);

        for (size_t i = 0; i < w->n; i++)
                hash = hash_string(hash, w->files[i].path);
        return w->n == 0 ? 0 : MAX(hash, UINT64_C(1));
}

/* Of the client's own session. */
static int look_at_names(struct server *server, const struct caller *caller, const char *session, uint64_t *ret)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        _cleanup_walked_ struct walked w = {0};
        gb_error err = {0};

        int r = session[0] ? live_session_get(server->live, caller, session, false, &s, &err) : 0;
        if (r < 0 && err.code != GB_E_NOT_FOUND)
                return r;
        r = s ? mcp_walk(s, &w, &err) : 0;
        if (r == 0)
                *ret = s ? hash_names(s, &w) : 0;
        return r;
}

static int add_list_changed(struct mcp_client *c, struct server *server, const struct caller *caller, json_t *out)
{
        char session[JOURNAL_ID_MAX];
        uint64_t names = 0;

        pthread_mutex_lock(&c->lock);
        uint64_t touched = c->touched, before = c->names;
        bool same = touched == c->looked;
        memcpy(session, c->session, sizeof(session));
        pthread_mutex_unlock(&c->lock);
        if (same || look_at_names(server, caller, session, &names) < 0)
                return 0;
        /* What was touched meanwhile is looked at the next time. */
        pthread_mutex_lock(&c->lock);
        c->looked = touched;
        c->names = names;
        pthread_mutex_unlock(&c->lock);
        return before != names ? json_array_append_new(out, rpc_notification("notifications/resources/list_changed", NULL)) : 0;
}

json_t *mcp_changes(struct mcp_client *c, struct server *server, const struct caller *caller)
{
        _cleanup_json_ json_t *out = json_array();

        if (!out || add_list_changed(c, server, caller, out) < 0 || add_updated(c, server, caller, out) < 0)
                return NULL;
        return TAKE_PTR(out);
}
