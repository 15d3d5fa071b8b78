/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts of sessions: docs/api.md. */
#include "server/routes.h"

#include "base/json.h"
#include "server/fields.h"
#include "server/reply.h"
#include "server/server.h"

#include <errno.h>
#include <string.h>

static const char *const no_query[] = {NULL};

static json_t *context_to_json(struct live_session *s, const struct context_info *c)
{
        pthread_mutex_lock(&s->lock);
        const char *by_default = live_context_default(s, c->language);
        bool is_default = by_default && strcmp(by_default, c->id) == 0;
        pthread_mutex_unlock(&s->lock);
        return json_pack("{s:s, s:s, s:b, s:b, s:I, s:b}", "id", c->id, "language", c->language, "alive", c->alive, "busy", c->busy, "runs",
                         (json_int_t)c->runs, "default", is_default);
}

static int get_session(struct request *r, bool touch, struct live_session **ret, gb_error *err)
{
        int status = request_check_query(r, no_query, err);

        return status < 0 ? status : live_session_get(r->server->live, &r->caller, r->params[0], touch, ret, err);
}

/* A context that is used for a moment. */
static int get_context(struct request *r, bool run, struct live_session **ret_session, struct context **ret, gb_error *err)
{
        int status = get_session(r, true, ret_session, err);

        return status < 0 ? status : live_context_get(*ret_session, r->params[1], NULL, run, ret, err);
}

/* Gives the context back first: who has the answer may close it. */
static void reply_context(struct request *r, int status, struct live_session *s, struct context *c, bool run)
{
        struct context_info info;

        context_info_get(c, &info);
        live_context_put(s, c, run);
        if (status == 201)
                (void)reply_header(r, "Location", "/v1/sessions/%s/contexts/%s", s->id, info.id);
        reply_json(r, status, context_to_json(s, &info));
}

void api_context_create(struct request *r)
{
        static const char *const names[] = {"language", NULL};
        _cleanup_live_session_ struct live_session *s = NULL;
        _cleanup_json_ json_t *body = NULL;
        const struct language *language = NULL;
        struct fields f = {.prefix = ""};
        struct context *c;
        gb_error err = {0};

        int status = get_session(r, true, &s, &err);
        if (status == 0)
                status = request_json(r, true, &body, &err);
        f.object = body;
        if (status == 0)
                status = fields_check(&f, names, &err);
        if (status == 0)
                status = language_by_name(r->server->languages, "python", &language, &err);
        if (status == 0)
                status = fields_language(&f, r->server->languages, &language, &err);
        if (status == 0)
                status = live_context_open(s, language, &c, &err);
        if (status < 0) {
                fields_refuse(r, &f, &err);
                return;
        }
        reply_context(r, 201, s, c, false);
}

void api_contexts_list(struct request *r)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        struct context_info all[CONTEXTS_MAX];
        gb_error err = {0};

        if (get_session(r, false, &s, &err) < 0) {
                reply_error(r, &err);
                return;
        }
        size_t n = MIN(session_contexts(s->session, all, CONTEXTS_MAX), (size_t)CONTEXTS_MAX);
        _cleanup_json_ json_t *list = json_array();
        int status = 0;
        for (size_t i = 0; i < n; i++)
                status |= json_array_append_new(list, context_to_json(s, &all[i]));
        reply_json(r, 200, status == 0 ? json_pack("{s:O}", "contexts", list) : NULL);
}

void api_context_delete(struct request *r)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        gb_error err = {0};

        int status = get_session(r, true, &s, &err);
        if (status == 0)
                status = live_context_close(s, r->params[1], &err);
        if (status < 0)
                reply_error(r, &err);
        else
                reply_empty(r, 204);
}

void api_context_restart(struct request *r)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        struct context *c = NULL;
        gb_error err = {0};

        int status = get_context(r, true, &s, &c, &err);
        if (status == 0)
                status = context_restart(c, &err);
        if (status == 0) {
                reply_context(r, 200, s, c, true);
                return;
        }
        if (c)
                live_context_put(s, c, true);
        reply_error(r, &err);
}

void api_context_interrupt(struct request *r)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        struct context *c = NULL;
        gb_error err = {0};

        int status = get_context(r, false, &s, &c, &err);
        if (status == 0) {
                status = context_interrupt(c, &err);
                if (status == -ESRCH)
                        err.code = GB_E_CONFLICT;
                live_context_put(s, c, false);
        }
        if (status < 0)
                reply_error(r, &err);
        else
                reply_empty(r, 202);
}
