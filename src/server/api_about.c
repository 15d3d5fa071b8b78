/* SPDX-License-Identifier: Apache-2.0
 *
 * What the server says of itself. */
#include "base/json.h"
#include "engine/result.h"
#include "engine/warm.h"
#include "policy/network.h"
#include "server/commands.h"
#include "server/live.h"
#include "server/metrics.h"
#include "server/openapi.h"
#include "server/reply.h"
#include "server/routes.h"
#include "server/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const no_parameters[] = {NULL};

static bool is_plain(struct request *r)
{
        gb_error err = {0};

        if (request_check_query(r, no_parameters, &err) == 0)
                return true;
        reply_error(r, &err);
        return false;
}

static json_t *words_to_json(char *const *words)
{
        json_t *list = json_array();

        for (size_t i = 0; words[i]; i++)
                if (json_array_append_new(list, json_string(words[i])) < 0) {
                        json_decref(list);
                        return NULL;
                }
        return list;
}

/* ---- info ---- */

static json_t *scopes_to_json(unsigned scopes)
{
        static const struct {
                unsigned scope;
                const char *name;
        } rows[] = {{SCOPE_READ, "read"}, {SCOPE_RUN, "run"}, {SCOPE_METRICS, "metrics"}, {SCOPE_ADMIN, "admin"}};
        json_t *list = json_array();

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (scopes & rows[i].scope)
                        json_array_append_new(list, json_string(rows[i].name));
        return list;
}

/* Memory without a bound is null. */
static json_t *amounts(uint64_t sessions, uint64_t runs, uint64_t memory_bytes)
{
        json_t *memory = memory_bytes > INT64_MAX ? json_null() : json_integer((json_int_t)memory_bytes);

        return json_pack("{s:I, s:I, s:o}", "sessions", (json_int_t)sessions, "runs", (json_int_t)runs, "memory_bytes", memory);
}

/* The policy's own first. */
static json_t *backends_to_json(const struct server *server)
{
        const char *own = backend_for(server->policy)->name;
        json_t *list = json_pack("[s]", own);

        for (size_t i = 0; i < server->config.n_backends; i++)
                if (strcmp(server->config.backends[i], own) != 0)
                        json_array_append_new(list, json_string(server->config.backends[i]));
        return list;
}

void api_info(struct request *r)
{
        const struct server_quota *q = &r->server->config.tenant;
        struct live_counts used = {0};

        if (!is_plain(r))
                return;
        live_count(r->server->live, r->caller.tenant, &used);
        reply_json(r, 200, json_pack("{s:s, s:s, s:s, s:o, s:s, s:o, s:o, s:o}", "version", GLOVEBOX_VERSION, "api", "v1", "backend",
                                     backend_for(r->server->policy)->name, "backends", backends_to_json(r->server), "tenant", r->caller.tenant, "scopes", scopes_to_json(r->caller.scopes), "quota", amounts(q->sessions, q->runs, q->memory_bytes), "used",
                                     amounts(used.sessions, used.runs, used.memory_bytes)));
}

/* ---- policies ---- */

static json_t *policy_to_json(const struct policy *p)
{
        return json_pack("{s:s, s:s, s:s?, s:s?, s:o, s:s, s:b, s:b, s:s, s:s, s:b}", "trust", p->trust, "backend", backend_for(p)->name, "runtime", p->runtime, "image",
                         p->image, "limits", policy_limits_to_json(p), "network", network_mode_name(p->network_mode), "read_only", p->read_only, "scratch_only", p->scratch_only,
                         "guard", watch_mode_name(p->guard), "scrub", watch_mode_name(p->scrub), "warm", p->warm);
}

void api_policies(struct request *r)
{
        const struct policy_levels *levels = &r->server->levels;
        _cleanup_json_ json_t *list = json_array();

        if (!is_plain(r))
                return;
        int e = 0;
        for (size_t i = 0; i < levels->n; i++)
                e |= json_array_append_new(list, policy_to_json(levels->rows[i]));
        json_t *o = e == 0 ? json_pack("{s:s, s:O}", "default", r->server->policy->trust, "policies", list) : NULL;
        reply_json(r, 200, o);
}

/* ---- templates and languages ---- */

void api_templates(struct request *r)
{
        const struct templates *all = r->server->templates;
        _cleanup_json_ json_t *list = json_array();

        if (!is_plain(r))
                return;
        int e = 0;
        for (size_t i = 0; i < all->n; i++) {
                const struct template *t = &all->rows[i];
                e |= json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:i, s:b}", "name", t->name, "description",
                                                           t->description, "modules", words_to_json(t->modules),
                                                      "pool", (int)t->pool, "warm", warm_has(t)));
        }
        reply_json(r, 200, e == 0 ? json_pack("{s:O}", "templates", list) : NULL);
}

void api_languages(struct request *r)
{
        const struct languages *all = r->server->languages;
        _cleanup_json_ json_t *list = json_array();

        if (!is_plain(r))
                return;
        int e = 0;
        for (size_t i = 0; i < all->n; i++) {
                const struct language *l = &all->rows[i];
                e |= json_array_append_new(
                        list, json_pack("{s:s, s:o, s:s, s:o, s:b, s:b}", "name", l->name, "aliases",
                                        words_to_json(l->aliases), "file", l->file, "extensions",
                                        words_to_json(l->extensions), "contexts", l->context != NULL, "found",
                                        language_is_found(l)));
        }
        reply_json(r, 200, e == 0 ? json_pack("{s:O}", "languages", list) : NULL);
}

/* ---- doctor ---- */

void api_doctor(struct request *r)
{
        struct controls controls = {0};
        gb_error refusal = {0};

        if (!is_plain(r))
                return;
        int e = backend_for(r->server->policy)->admit(r->server->policy, &controls, &refusal);
        if (e < 0 && refusal.code != GB_E_UNENFORCEABLE) {
                reply_error(r, &refusal);
                return;
        }
        reply_json(r, 200, json_pack("{s:s, s:b, s:o, s:o}", "policy", r->server->policy->trust, "enforceable", e == 0, "reason",
                                     e == 0 ? json_null() : json_string(refusal.message), "controls", controls_to_json(&controls)));
}

/* ---- without a token; answered by the loop, so nothing here waits ---- */

void api_openapi(struct request *r)
{
        if (!is_plain(r))
                return;
        if (reply_begin(r, 200, "application/json", (int64_t)openapi_size) == 0 && reply_write(r, openapi_text, openapi_size) == 0)
                (void)reply_end(r);
}

void api_health(struct request *r)
{
        if (is_plain(r))
                reply_json(r, 200, json_pack("{s:s}", "status", "ok"));
}

void api_ready(struct request *r)
{
        int state = atomic_load(&r->server->state);
        bool degraded = atomic_load(&r->server->degraded) || metrics_is_degraded(r->server->metrics);
        const char *status = state == SERVER_STARTING ? "starting" : state == SERVER_DRAINING ? "draining" : degraded ? "degraded" : "ready";

        if (!is_plain(r))
                return;
        bool ready = strcmp(status, "ready") == 0;
        if (!ready)
                (void)reply_header(r, "Retry-After", "1");
        reply_json(r, ready ? 200 : 503, json_pack("{s:s}", "status", status));
}

/* ---- for tests ---- */

int command_routes(int argc, char **argv)
{
        _cleanup_json_ json_t *list = json_array();

        for (size_t i = 0; i < n_routes; i++) {
                const struct route *row = &routes[i];
                json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:b, s:b, s:b, s:b, s:b}", "method", row->method, "pattern", row->pattern, "scopes",
                                                      scopes_to_json(row->scope), "open", !!(row->flags & ROUTE_OPEN), "inline", !!(row->flags & ROUTE_INLINE), "bytes",
                                                      !!(row->flags & ROUTE_BYTES), "streams", !!(row->flags & ROUTE_STREAMS), "draining",
                                                      !!(row->flags & ROUTE_DRAINING)));
        }
        _cleanup_free_ char *text = json_dumps(list, JSON_INDENT(1));
        return text && puts(text) >= 0 && fflush(stdout) == 0 ? 0 : 1;
}
