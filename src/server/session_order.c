/* SPDX-License-Identifier: Apache-2.0
 *
 * Everybody who wants a session gets it here, so that policy, guard, network and secrets are the same for all of them. */
#include "server/session_order.h"

#include "server/scrubbing.h"
#include "server/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TTL_MIN_USEC 1000000ULL

static const char *const names[] = {"policy", "secrets", "template", "idle_timeout", "max_lifetime", "workspace", "name", "metadata", NULL};

/* ---- reading ---- */

/* Characters, not bytes. */
static size_t count_characters(const char *text)
{
        size_t n = 0;

        for (; *text; text++)
                n += ((unsigned char)*text & 0xc0) != 0x80;
        return n;
}

int session_read_name(struct fields *f, const char **ret, gb_error *err)
{
        if (json_is_null(json_object_get(f->object, "name")))
                return 0;
        int r = fields_text(f, "name", ret, NULL, err);
        if (r == 0 && *ret && count_characters(*ret) > SESSION_NAME_MAX)
                return fields_error(f, "name", GB_E_LIMIT, err, "at most %d characters are taken", SESSION_NAME_MAX);
        return r;
}

int session_read_metadata(struct fields *f, json_t **ret, gb_error *err)
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

int session_read_times(struct fields *f, const struct server_config *c, uint64_t *idle, uint64_t *lifetime, gb_error *err)
{
        int r = fields_duration(f, "idle_timeout", TTL_MIN_USEC, c->idle_max_usec, idle, err);

        return r < 0 ? r : fields_duration(f, "max_lifetime", TTL_MIN_USEC, c->lifetime_max_usec, lifetime, err);
}

int session_order_read(struct server *server, const struct caller *caller, const json_t *body, struct session_order *ret, gb_error *err)
{
        const struct server_config *config = &server->config;
        struct live_session_request *q = &ret->request;
        struct fields *f = &ret->fields;

        *ret = (struct session_order){
                .request = {.caller = caller, .idle_usec = config->idle_usec, .lifetime_usec = config->lifetime_usec},
                .fields = {.object = body, .prefix = ""},
        };
        int r = fields_check(f, names, err);
        if (r == 0)
                r = fields_policy(f, server->live, caller, &q->policy, err);
        if (r == 0)
                r = fields_secrets(f, q->policy, err);
        if (r == 0)
                r = fields_template(f, server->templates, q->policy, &q->template, err);
        if (r == 0)
                r = fields_workspace(f, caller, &q->kept, &q->workspace, err);
        if (r == 0 && q->kept && !config->workspaces)
                r = fields_error(f, "workspace", GB_E_USAGE, err, "this server keeps no workspaces: its configuration has no place for them");
        if (r == 0)
                r = session_read_times(f, config, &q->idle_usec, &q->lifetime_usec, err);
        if (r == 0)
                r = session_read_name(f, &q->name, err);
        return r < 0 ? r : session_read_metadata(f, &q->metadata, err);
}

void session_order_done(struct session_order *o)
{
        policy_free(o->request.policy);
        o->request.policy = NULL;
}

/* ---- making ---- */

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

static int begin(struct server *server, const struct caller *caller, const struct live_session *s, const struct journal_key *key,
                 char ret_id[static JOURNAL_ID_MAX], gb_error *err)
{
        struct journal_session record = {.created_usec = s->created_usec};

        snprintf(record.id, sizeof(record.id), "%s", s->id);
        snprintf(record.tenant, sizeof(record.tenant), "%s", s->tenant);
        snprintf(record.token, sizeof(record.token), "%s", caller->token);
        snprintf(record.trust, sizeof(record.trust), "%s", s->policy->trust);
        snprintf(record.template, sizeof(record.template), "%s", s->template ? s->template->name : "");
        return journal_session_begin(server->journal, &record, key, ret_id, err);
}

int session_order_open(struct server *server, struct session_order *o, const struct journal_key *key, struct live_session **ret,
                       char ret_id[static JOURNAL_ID_MAX], gb_error *err)
{
        static const struct journal_key no_key;
        const struct caller *caller = o->request.caller;
        struct live_session *s = NULL;
        gb_error why = {0};

        key = key ? key : &no_key;
        int r = live_session_new(server->live, &o->request, &s, err);
        o->request.policy = NULL; /* it was taken */
        if (r < 0)
                return r;
        r = begin(server, caller, s, key, ret_id, err);
        if (r != 0) {
                (void)live_session_end(s, NULL);
                return r;
        }
        r = o->request.kept ? make_workspace(server, s, &why) : 0;
        if (r == 0)
                r = live_session_open(s, &why);
        if (r == 0) {
                *ret = s;
                return 0;
        }
        if (o->request.kept && s->workspace)
                (void)rmdir(s->workspace);
        scrubbing_error(server->scrubbing, living_secrets_scrub(s->secrets), &why);
        (void)live_session_end(s, "failed");
        /* For want of something that comes back: who obeys Retry-After may use the key again. */
        if (key->key && why.code == GB_E_UNAVAILABLE)
                (void)journal_key_forget(server->journal, caller->tenant, key, ret_id, NULL);
        if (err)
                *err = why;
        return r;
}
