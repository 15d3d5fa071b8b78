/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions: docs/api.md. */
#include "server/routes.h"

#include "base/json.h"
#include "server/idempotency.h"
#include "server/reply.h"
#include "server/run_object.h"
#include "server/server.h"
#include "server/session_object.h"
#include "server/session_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const no_query[] = {NULL};
static const char *const patch_names[] = {"idle_timeout", "max_lifetime", "name", "metadata", NULL};

/* ---- creating one ---- */

static void reply_created(struct request *r, struct live_session *s)
{
        (void)reply_header(r, "Location", "/v1/sessions/%s", s->id);
        reply_json(r, 201, session_to_json(s, &r->caller));
}

/* What the first request with this key has made. Of one that has ended the record is left. */
static void replay(struct request *r, const char *id)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        struct journal_session record = {0};
        gb_error err = {0};

        (void)reply_header(r, "Idempotency-Replayed", "true");
        if (live_session_join(r->server->live, r->caller.tenant, id, &s, &err) == 0) {
                reply_created(r, s);
                return;
        }
        /* It is not there any more, or the opening has failed while we waited: that is the first outcome. */
        if (err.code == GB_E_NOT_FOUND && journal_session_get(r->server->journal, r->caller.tenant, id, &record, NULL) == 0) {
                if (strcmp(record.end, "failed") == 0) {
                        error_set(&err, GB_E_UNAVAILABLE, EIO, "the session of this key could not be made the first time: use another key");
                } else {
                        (void)reply_header(r, "Location", "/v1/sessions/%s", id);
                        reply_json(r, 201, json_pack("{s:s, s:s, s:s?, s:o, s:o, s:{s:s}, s:s?}", "id", id, "state", "ended", "end",
                                                     record.end[0] ? record.end : NULL, "created_at", time_to_json(record.created_usec), "ended_at",
                                                     time_to_json(record.ended_usec), "policy", "trust", record.trust, "template",
                                                     record.template[0] ? record.template : NULL));
                        return;
                }
        }
        reply_error(r, &err);
}

void api_session_create(struct request *r)
{
        _cleanup_session_order_ struct session_order order = {0};
        _cleanup_json_ json_t *body = NULL;
        struct journal_key key = {0};
        struct live_session *s = NULL;
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        int status = request_check_query(r, no_query, &err);
        if (status == 0)
                status = request_json(r, true, &body, &err);
        if (status == 0)
                status = idempotency_read(r, &key, &err);
        if (status == 0)
                status = session_order_read(r->server, &r->caller, body, &order, &err);
        fields_wipe_secrets(body);
        request_forget_body(r); /* its hash is known */
        if (status == 0)
                status = idempotency_look(r, &key, id, &err);
        if (status == 0)
                status = session_order_open(r->server, &order, &key, &s, id, &err);
        if (status > 0) {
                replay(r, id);
        } else if (status < 0) {
                fields_refuse(r, &order.fields, &err);
        } else {
                reply_created(r, s);
                live_session_put(s);
        }
}

/* ---- looking ---- */

void api_session_get(struct request *r)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        gb_error err = {0};

        int status = request_check_query(r, no_query, &err);
        if (status == 0)
                status = live_session_get(r->server->live, &r->caller, r->params[0], false, &s, &err);
        if (status < 0)
                reply_error(r, &err);
        else
                reply_json(r, 200, session_to_json(s, &r->caller));
}

/* The cursor is the id of the last one of the page before. It may have ended since: its age is in the cursor, too. */
static int read_cursor(const struct request *r, uint64_t *ret_born, char ret_id[static JOURNAL_ID_MAX], gb_error *err)
{
        const char *text = request_query(r, "cursor");
        char *end = NULL;

        *ret_born = 0;
        ret_id[0] = '\0';
        if (!text)
                return 0;
        errno = 0;
        unsigned long long born = strtoull(text, &end, 10);
        if (errno != 0 || end == text || *end != '-' || strlen(end + 1) >= JOURNAL_ID_MAX || text[0] == '-' || text[0] == '+' || text[0] == ' ')
                return error_set(err, GB_E_USAGE, EINVAL, "cursor: the \"next\" of the page before is wanted");
        *ret_born = born;
        strcpy(ret_id, end + 1);
        return 0;
}

static bool is_after(const struct live_session *s, uint64_t born, const char *id)
{
        return s->born_usec > born || (s->born_usec == born && strcmp(s->id, id) > 0);
}

void api_sessions_list(struct request *r)
{
        static const char *const names[] = {"limit", "cursor", NULL};
        struct live_session **all = NULL;
        uint64_t limit = 100, born = 0;
        char id[JOURNAL_ID_MAX];
        size_t n = 0, shown = 0;
        gb_error err = {0};

        int status = request_check_query(r, names, &err);
        if (status == 0)
                status = request_query_number(r, "limit", 1, 1000, 100, &limit, &err);
        if (status == 0)
                status = read_cursor(r, &born, id, &err);
        if (status == 0 && live_sessions(r->server->live, r->caller.tenant, false, &all, &n) < 0)
                status = error_set(&err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (status < 0) {
                reply_error(r, &err);
                return;
        }
        _cleanup_json_ json_t *list = json_array(), *o = json_object(), *next = json_null();
        for (size_t i = 0; i < n; i++) {
                struct live_session *s = all[i];
                if (is_after(s, born, id) && shown == limit && json_is_null(next))
                        next = json_sprintf("%llu-%s", (unsigned long long)all[i - 1]->born_usec, all[i - 1]->id);
                else if (is_after(s, born, id) && shown < limit && ++shown)
                        status |= json_array_append_new(list, session_to_json(s, &r->caller));
        }
        for (size_t i = 0; i < n; i++)
                live_session_put(all[i]);
        free(all);
        status |= json_object_set(o, "sessions", list);
        status |= json_object_set(o, "next", next);
        reply_json(r, 200, status == 0 ? TAKE_PTR(o) : NULL);
}

/* ---- changing and ending ---- */

struct patch {
        uint64_t idle_usec, lifetime_usec;
        const char *name;
        json_t *metadata;
};

/* All of it or nothing. */
static int apply(struct live_session *s, const struct fields *f, const struct patch *p)
{
        bool has_name = json_object_get(f->object, "name");
        _cleanup_free_ char *name = p->name ? strdup(p->name) : NULL;
        _cleanup_json_ json_t *metadata = p->metadata ? json_deep_copy(p->metadata) : NULL;

        if ((p->name && !name) || (p->metadata && !metadata) || live_texts_scrub(session_scrub(s->session), &name, &metadata) < 0)
                return -ENOMEM;
        pthread_mutex_lock(&s->lock);
        s->idle_usec = p->idle_usec > 0 ? p->idle_usec : s->idle_usec;
        s->lifetime_usec = p->lifetime_usec > 0 ? p->lifetime_usec : s->lifetime_usec;
        if (has_name) {
                free(s->name);
                s->name = TAKE_PTR(name);
        }
        if (metadata) {
                json_decref(s->metadata);
                s->metadata = TAKE_PTR(metadata);
        }
        pthread_mutex_unlock(&s->lock);
        return 0;
}

void api_session_patch(struct request *r)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        _cleanup_json_ json_t *body = NULL;
        struct fields f = {.prefix = ""};
        struct patch p = {0};
        gb_error err = {0};

        int status = request_check_query(r, no_query, &err);
        if (status == 0)
                status = live_session_get(r->server->live, &r->caller, r->params[0], true, &s, &err);
        if (status == 0)
                status = request_json(r, false, &body, &err);
        f.object = body;
        if (status == 0)
                status = fields_check(&f, patch_names, &err);
        if (status == 0)
                status = session_read_times(&f, &r->server->config, &p.idle_usec, &p.lifetime_usec, &err);
        if (status == 0)
                status = session_read_name(&f, &p.name, &err);
        if (status == 0)
                status = session_read_metadata(&f, &p.metadata, &err);
        if (status == 0 && apply(s, &f, &p) < 0)
                status = error_set(&err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (status < 0)
                fields_refuse(r, &f, &err);
        else
                reply_json(r, 200, session_to_json(s, &r->caller));
}

void api_session_delete(struct request *r)
{
        struct live_session *s = NULL;
        gb_error err = {0};

        int status = request_check_query(r, no_query, &err);
        if (status == 0)
                status = live_session_get(r->server->live, &r->caller, r->params[0], false, &s, &err);
        if (status == 0 && !live_session_end(s, "deleted"))
                status = error_set(&err, GB_E_LOST, ETIMEDOUT, "the session was told to end, and its end was not seen: "
                                   "something in it may still run; if that lasts, restart the server");
        if (status < 0)
                reply_error(r, &err);
        else
                reply_empty(r, 204);
}
