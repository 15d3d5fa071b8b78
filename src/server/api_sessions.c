/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions: docs/api.md. */
#include "server/routes.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "policy/network.h"
#include "server/fields.h"
#include "server/idempotency.h"
#include "server/reply.h"
#include "server/run_object.h"
#include "server/scrubbing.h"
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TTL_MIN_USEC 1000000ULL

static const char *const no_query[] = {NULL};
static const char *const create_names[] = {"policy", "secrets", "template", "idle_timeout", "max_lifetime", "workspace", "name", "metadata", NULL};
static const char *const patch_names[] = {"idle_timeout", "max_lifetime", "name", "metadata", NULL};

/* ---- as an object ---- */

static json_t *seconds(uint64_t usec)
{
        return json_real((double)usec / 1e6);
}

static json_t *policy_to_json(const struct policy *p)
{
        return json_pack("{s:s, s:s, s:b, s:s, s:s, s:o}", "trust", p->trust, "network", network_mode_name(p->network_mode), "read_only",
                         p->read_only, "guard", watch_mode_name(p->guard), "scrub", watch_mode_name(p->scrub), "limits", policy_limits_to_json(p));
}

/* Their names. */
static json_t *secrets_to_json(const struct live_session *s)
{
        _cleanup_json_ json_t *names = json_array();
        const struct policy *p = s->policy;

        for (size_t i = 0; i < p->n_secrets; i++)
                if (json_array_append_new(names, scrubbed_text(session_scrub(s->session), p->secrets[i].name, strlen(p->secrets[i].name), NULL)) < 0)
                        return NULL;
        return TAKE_PTR(names);
}

static json_t *workspace_to_json(const struct live_session *s, const struct caller *caller)
{
        json_t *o = json_pack("{s:s}", "kind", s->kept ? "kept" : s->workspace ? "path" : "private");

        /* Where the host keeps things is nobody's business from afar. */
        if (s->workspace && caller->local)
                (void)json_object_set_new(o, "path", json_readable(s->workspace, strlen(s->workspace)));
        return o;
}

/* With the session's lock. */
static int set_times(json_t *o, const struct live_session *s)
{
        uint64_t now = monotonic_usec(), wall = live_wall_usec(), end = s->born_usec + s->lifetime_usec;

        if (s->runs_active == 0 && s->idle_usec < end - MIN(end, s->used_usec))
                end = s->used_usec + s->idle_usec;
        /* Of two clocks: their difference may lie a little before what the one has said then. */
        uint64_t used = s->runs_active > 0 ? wall : wall - (now - MIN(now, s->used_usec));
        int r = json_object_set_new(o, "created_at", time_to_json(s->created_usec));
        r |= json_object_set_new(o, "last_used_at", time_to_json(MAX(used, s->created_usec)));
        r |= json_object_set_new(o, "expires_at", time_to_json(end > now ? wall + (end - now) : wall));
        r |= json_object_set_new(o, "idle_timeout", seconds(s->idle_usec));
        r |= json_object_set_new(o, "max_lifetime", seconds(s->lifetime_usec));
        return r;
}

static json_t *session_to_json(struct live_session *s, const struct caller *caller)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        pthread_mutex_lock(&s->lock);
        r |= json_object_set_new(o, "id", json_string(s->id));
        r |= json_object_set_new(o, "name", s->name ? json_string(s->name) : json_null());
        r |= json_object_set_new(o, "state", json_string("ready"));
        r |= set_times(o, s);
        r |= json_object_set_new(o, "policy", policy_to_json(s->policy));
        r |= json_object_set_new(o, "secrets", secrets_to_json(s));
        r |= json_object_set_new(o, "template", s->template ? json_string(s->template->name) : json_null());
        r |= json_object_set_new(o, "warm", json_boolean(s->warm));
        r |= json_object_set_new(o, "backend", json_string(backend_for(s->policy)->name));
        r |= json_object_set_new(o, "runtime", s->policy->runtime ? json_string(s->policy->runtime) : json_null());
        r |= json_object_set_new(o, "image", s->policy->image ? json_string(s->policy->image) : json_null());
        r |= json_object_set_new(o, "workspace", workspace_to_json(s, caller));
        r |= json_object_set(o, "metadata", s->metadata);
        r |= json_object_set_new(o, "runs", json_pack("{s:i, s:I}", "active", (int)s->runs_active, "total", (json_int_t)s->runs_total));
        r |= json_object_set_new(o, "controls", controls_to_json(session_controls(s->session)));
        pthread_mutex_unlock(&s->lock);
        return r == 0 ? TAKE_PTR(o) : NULL;
}

/* ---- what can be said of one ---- */

/* Characters, not bytes. */
static size_t count_characters(const char *text)
{
        size_t n = 0;

        for (; *text; text++)
                n += ((unsigned char)*text & 0xc0) != 0x80;
        return n;
}

static int read_name(struct fields *f, const char **ret, gb_error *err)
{
        if (json_is_null(json_object_get(f->object, "name")))
                return 0;
        int r = fields_text(f, "name", ret, NULL, err);
        if (r == 0 && *ret && count_characters(*ret) > SESSION_NAME_MAX)
                return fields_error(f, "name", GB_E_LIMIT, err, "at most %d characters are taken", SESSION_NAME_MAX);
        return r;
}

static int read_metadata(struct fields *f, json_t **ret, gb_error *err)
{
        const json_t *object = NULL;
        const char *key;
        json_t *value;

        int r = fields_object(f, "metadata", &object, err);
        if (r < 0 || !object)
                return r;
        if (json_object_size(object) > METADATA_MAX)
                return fields_error(f, "metadata", GB_E_LIMIT, err, "at most %d are taken", METADATA_MAX);
        json_object_foreach((json_t *)(uintptr_t)object, key, value) {
                if (!json_is_string(value))
                        return fields_error(f, "metadata", GB_E_USAGE, err, "an object of texts is wanted");
                if (count_characters(key) > METADATA_KEY_MAX || count_characters(json_string_value(value)) > METADATA_VALUE_MAX)
                        return fields_error(f, "metadata", GB_E_LIMIT, err, "a key has %d characters at most, and a value %d", METADATA_KEY_MAX,
                                            METADATA_VALUE_MAX);
        }
        *ret = (json_t *)(uintptr_t)object;
        return 0;
}

static int read_times(struct fields *f, const struct server_config *c, uint64_t *idle, uint64_t *lifetime, gb_error *err)
{
        int r = fields_duration(f, "idle_timeout", TTL_MIN_USEC, c->idle_max_usec, idle, err);

        return r < 0 ? r : fields_duration(f, "max_lifetime", TTL_MIN_USEC, c->lifetime_max_usec, lifetime, err);
}

/* ---- creating one ---- */

struct create {
        struct live_session_request request;
        struct fields fields;
        json_t *body;
        const char *path; /* of the host */
};

static int read_create(struct request *r, struct create *c, gb_error *err)
{
        struct live_session_request *q = &c->request;
        const struct server_config *config = &r->server->config;

        c->fields = (struct fields){.object = c->body, .prefix = ""};
        *q = (struct live_session_request){.caller = &r->caller, .idle_usec = config->idle_usec, .lifetime_usec = config->lifetime_usec};
        int s = fields_check(&c->fields, create_names, err);
        if (s == 0)
                s = fields_policy(&c->fields, r->server->live, &r->caller, &q->policy, err);
        if (s == 0)
                s = fields_secrets(&c->fields, q->policy, err);
        if (s == 0)
                s = fields_template(&c->fields, r->server->templates, q->policy, &q->template, err);
        if (s == 0)
                s = fields_workspace(&c->fields, &r->caller, &q->kept, &q->workspace, err);
        if (s == 0 && q->kept && !config->workspaces)
                s = fields_error(&c->fields, "workspace", GB_E_USAGE, err, "this server keeps no workspaces: its configuration has no place for them");
        if (s == 0)
                s = read_times(&c->fields, config, &q->idle_usec, &q->lifetime_usec, err);
        if (s == 0)
                s = read_name(&c->fields, &q->name, err);
        return s < 0 ? s : read_metadata(&c->fields, &q->metadata, err);
}

/* A directory of its own below the configured one, by tenant and id. */
static int make_workspace(const struct server *server, struct live_session *s, gb_error *err)
{
        _cleanup_free_ char *path = NULL;

        if (asprintf(&path, "%s/%s", server->config.workspaces, s->tenant) < 0) {
                path = NULL;
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        int r = mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
        _cleanup_free_ char *own = NULL;
        if (asprintf(&own, "%s/%s", path, s->id) < 0) {
                own = NULL;
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        if (r == 0 && mkdir(own, 0700) < 0)
                r = -errno;
        if (r < 0)
                return error_set(err, r == -ENOSPC ? GB_E_DISK_FULL : GB_E_INTERNAL, -r, "cannot make a directory for the workspace: %s", strerror(-r));
        s->workspace = TAKE_PTR(own);
        return 0;
}

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

static int begin(struct request *r, struct live_session *s, const struct journal_key *key, char ret_id[static JOURNAL_ID_MAX], gb_error *err)
{
        struct journal_session record = {.created_usec = s->created_usec};

        snprintf(record.id, sizeof(record.id), "%s", s->id);
        snprintf(record.tenant, sizeof(record.tenant), "%s", s->tenant);
        snprintf(record.token, sizeof(record.token), "%s", r->caller.token);
        snprintf(record.trust, sizeof(record.trust), "%s", s->policy->trust);
        snprintf(record.template, sizeof(record.template), "%s", s->template ? s->template->name : "");
        return journal_session_begin(r->server->journal, &record, key, ret_id, err);
}

/* From the request that was read to the answer. */
static void create(struct request *r, struct create *c, const struct journal_key *key)
{
        struct live_session *s = NULL;
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        int status = live_session_new(r->server->live, &c->request, &s, &err);
        c->request.policy = NULL; /* it was taken */
        if (status < 0) {
                fields_refuse(r, &c->fields, &err);
                return;
        }
        status = begin(r, s, key, id, &err);
        if (status != 0) {
                live_session_end(s, NULL);
                if (status > 0)
                        replay(r, id);
                else
                        reply_error(r, &err);
                return;
        }
        status = c->request.kept ? make_workspace(r->server, s, &err) : 0;
        if (status == 0)
                status = live_session_open(s, &err);
        if (status < 0) {
                if (c->request.kept && s->workspace)
                        (void)rmdir(s->workspace);
                scrubbing_error(r->server->scrubbing, living_secrets_scrub(s->secrets), &err);
                live_session_end(s, "failed");
                /* For want of something that comes back: who obeys Retry-After may use the key again. */
                if (key->key && err.code == GB_E_UNAVAILABLE)
                        (void)journal_key_forget(r->server->journal, r->caller.tenant, key, id, NULL);
                reply_error(r, &err);
                return;
        }
        reply_created(r, s);
        live_session_put(s);
}

void api_session_create(struct request *r)
{
        struct create c = {0};
        struct journal_key key = {0};
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        int status = request_check_query(r, no_query, &err);
        if (status == 0)
                status = request_json(r, true, &c.body, &err);
        if (status == 0)
                status = idempotency_read(r, &key, &err);
        if (status == 0)
                status = read_create(r, &c, &err);
        fields_wipe_secrets(c.body);
        request_forget_body(r); /* its hash is known */
        if (status == 0)
                status = idempotency_look(r, &key, id, &err);
        if (status > 0)
                replay(r, id);
        else if (status < 0)
                fields_refuse(r, &c.fields, &err);
        else
                create(r, &c, &key);
        policy_free(c.request.policy);
        json_decref(c.body);
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
                status = read_times(&f, &r->server->config, &p.idle_usec, &p.lifetime_usec, &err);
        if (status == 0)
                status = read_name(&f, &p.name, &err);
        if (status == 0)
                status = read_metadata(&f, &p.metadata, &err);
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
        if (status < 0) {
                reply_error(r, &err);
                return;
        }
        live_session_end(s, "deleted");
        reply_empty(r, 204);
}
