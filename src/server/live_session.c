/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions in the table.
 *
 * Found by id is only one that is ready. While it is opened the table knows it, so that a retry of the request that opens it can wait, and
 * so that an ending server ends it. Whoever ends it takes it out of the table, once; the box is closed by whoever gives up the last
 * reference, and only then does it stop to count. */
#include "server/live.h"

#include "base/fd.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/quote.h"
#include "image/choose.h"
#include "server/live_table.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/scrubbing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct live_session **bucket_of(struct live *l, const char *id)
{
        return &l->sessions[hash_string(HASH_INIT, id) % LIVE_BUCKETS];
}

static struct live_session *find(struct live *l, const char *tenant, const char *id)
{
        for (struct live_session *s = *bucket_of(l, id); s; s = s->next)
                if (strcmp(s->id, id) == 0 && strcmp(s->tenant, tenant) == 0 && !s->one_shot)
                        return s;
        return NULL;
}

/* ---- making one ---- */

static void fill(struct live_session *s, struct live *l, const struct live_session_request *q)
{
        s->live = l;
        s->template = q->template;
        s->one_shot = q->one_shot;
        s->kept = q->kept;
        s->created_usec = live_wall_usec();
        s->born_usec = s->used_usec = monotonic_usec();
        s->idle_usec = q->idle_usec;
        s->lifetime_usec = q->lifetime_usec;
        s->references = 2; /* the table's and the caller's */
        strcpy(s->tenant, q->caller->tenant);
        pthread_mutex_init(&s->lock, NULL);
        live_cond_init(&s->freed);
}

/* What it can take of the host's memory: a private workspace is memory, too, and files that are put there from outside are not
 * counted by the box. */
static uint64_t memory_of(const struct policy *p, bool private)
{
        uint64_t disk = private ? p->disk_limit_bytes : 0;

        return p->mem_limit_bytes + disk; /* each is a tebibyte at most */
}

static int copy_texts(struct live_session *s, const struct live_session_request *q)
{
        s->defaults = calloc(LANGUAGE_COUNT_MAX, sizeof(*s->defaults));
        s->metadata = q->metadata ? json_deep_copy(q->metadata) : json_object();
        s->name = q->name ? strdup(q->name) : NULL;
        s->workspace = q->workspace ? strdup(q->workspace) : NULL;
        bool good = s->defaults && s->metadata && (s->name || !q->name) && (s->workspace || !q->workspace) && result_make_id(s->id) == 0;
        return good ? 0 : -ENOMEM;
}

int live_session_new(struct live *l, const struct live_session_request *q, struct live_session **ret, gb_error *err)
{
        struct live_session *s = calloc(1, sizeof(*s));

        if (!s) {
                policy_free(q->policy);
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        fill(s, l, q);
        s->policy = q->policy;
        int r = 0;
        s->memory_bytes = memory_of(q->policy, !q->workspace && !q->kept);
        struct admission_counts wanted = {.sessions = 1, .memory_bytes = s->memory_bytes};
        if (r == 0 && copy_texts(s, q) < 0)
                r = error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r == 0)
                r = admission_take(l->admission, s->tenant, &wanted, &s->reservation, err);
        /* Last: it costs more than all before, and who is refused shall cost little. */
        if (r == 0)
                r = scrubbing_add(l->server->scrubbing, s->policy, &s->secrets, err);
        if (r < 0) {
                session_free(s);
                return r;
        }
        live_lock(l);
        bool stopping = l->stopping;
        if (!stopping) {
                struct live_session **bucket = bucket_of(l, s->id);
                s->next = *bucket;
                *bucket = s;
                l->n_sessions++;
        }
        live_unlock(l);
        if (stopping) {
                session_free(s);
                return error_set(err, GB_E_UNAVAILABLE, ESHUTDOWN, "the server ends: nothing new is begun");
        }
        *ret = s;
        return 0;
}

void session_free(struct live_session *s)
{
        admission_release(&s->reservation);
        scrubbing_remove(s->live->server->scrubbing, s->secrets);
        policy_free(s->policy);
        free(s->workspace);
        free(s->name);
        free(s->defaults);
        json_decref(s->metadata);
        pthread_cond_destroy(&s->freed);
        pthread_mutex_destroy(&s->lock);
        free(s);
}

static int scrub_texts_of(const struct scrub *scrub, json_t *object)
{
        const char *key;
        json_t *value;
        void *next;

        json_object_foreach_safe(object, next, key, value) {
                bool in_key = false, in_value = false;
                _cleanup_json_ json_t *name = scrubbed_text(scrub, key, strlen(key), &in_key);
                _cleanup_json_ json_t *text = scrubbed_text(scrub, json_string_value(value), json_string_length(value), &in_value);
                if (!name || !text)
                        return -ENOMEM;
                if (!in_key && !in_value)
                        continue;
                if (in_key)
                        (void)json_object_del(object, key);
                if (json_object_set(object, json_string_value(name), text) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int live_texts_scrub(const struct scrub *scrub, char **name, json_t **metadata)
{
        bool found = false;

        if (!scrub)
                return 0;
        _cleanup_json_ json_t *text = *name ? scrubbed_text(scrub, *name, strlen(*name), &found) : NULL;
        if (*name && !text)
                return -ENOMEM;
        if (found) {
                free(*name);
                *name = strdup(json_string_value(text));
                if (!*name)
                        return -ENOMEM;
        }
        return *metadata ? scrub_texts_of(scrub, *metadata) : 0;
}

static int open_box(struct live_session *s, struct session **ret, gb_error *err)
{
        struct live *l = s->live;
        _cleanup_free_ char *root = NULL;
        struct opening turn;

        int r = image_choose(s->policy, NULL, s->template ? s->template->name : NULL, &root, err);
        if (r == 0)
                r = opening_begin(l->openings, &turn, s->tenant, err);
        if (r < 0)
                return r;
        struct session_options options = {
                .policy = s->policy, .template = s->template, .languages = l->server->languages, .workspace = s->workspace, .rootfs = root,
                .uid = BOX_USER, .gid = BOX_USER,
        };
        r = session_open(&options, ret, err);
        opening_end(l->openings, &turn);
        return r;
}

/* With the lock. A box that nobody watches could die and still be listed as ready: it goes with the last reference. */
static int make_ready(struct live_session *s, gb_error *err)
{
        s->watch = live_watch_add(s->live, session_event_fd(s->session), s, NULL, false);
        if (s->watch > 0) {
                s->state = LIVE_READY;
                return 0;
        }
        error_set(&s->error, GB_E_UNAVAILABLE, EMFILE,
                  "the server has no descriptor or memory left to watch the session with");
        if (err)
                *err = s->error;
        return -EMFILE;
}

int live_session_open(struct live_session *s, gb_error *err)
{
        struct live *l = s->live;
        struct session *box = NULL;

        int r = open_box(s, &box, err);
        if (r == 0 && live_texts_scrub(session_scrub(box), &s->name, &s->metadata) < 0) {
                session_close(TAKE_PTR(box));
                r = error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        live_lock(l);
        if (r < 0 && err)
                s->error = *err;
        if (r == 0) {
                s->session = box;
                s->warm = session_controls(box)->status[CONTROL_LAYOUT].state == CONTROL_WEAKER;
        }
        /* Somebody may have ended it meanwhile: then the box goes with the last reference. */
        if (r == 0 && s->state == LIVE_ENDED)
                r = error_set(err, GB_E_UNAVAILABLE, ESHUTDOWN, "the session was ended before it was opened");
        else if (r == 0)
                r = make_ready(s, err);
        pthread_cond_broadcast(&l->changed);
        live_unlock(l);
        if (r == 0)
                metrics_add(l->server->metrics, METRICS_SESSIONS, !s->one_shot);
        return r;
}

/* ---- ending one ---- */

bool session_take_out(struct live_session *s, const char *why, bool cancel)
{
        struct live *l = s->live;

        if (s->state == LIVE_ENDED)
                return false;
        for (struct live_session **at = bucket_of(l, s->id); *at; at = &(*at)->next)
                if (*at == s) {
                        *at = s->next;
                        break;
                }
        s->state = LIVE_ENDED;
        s->end = why;
        s->ended = true;
        live_watch_remove(l, s->watch);
        s->watch = 0;
        for (size_t i = 0; cancel && i < LIVE_BUCKETS; i++)
                for (struct live_run *r = l->runs[i]; r; r = r->next)
                        if (r->session == s)
                                live_run_cancel(r, true);
        pthread_cond_broadcast(&l->changed); /* who waits for its opening */
        return true;
}

/* Nobody is inside any more. */
static void close_box(struct live_session *s)
{
        _cleanup_free_ struct ledger_copy *rest = NULL;
        _cleanup_free_ char *text = NULL;
        const char *network = NULL; /* nothing was sent */
        gb_error err = {0};

        s->gone = session_close_telling(s->session, &rest);
        s->session = NULL;
        if (!s->gone)
                log_warning("session", "the end of session %s was not seen: something in it may still run", s->id);
        if (network_ledger_says(rest)) {
                _cleanup_json_ json_t *o = network_ledger_to_json(rest, AUDIT_HOSTS_MAX);
                text = o ? json_print(o, 0) : NULL;
                network = text ? text : "null"; /* something was, and there is no memory for it */
        }
        /* One that never was has no record; nor has the box of a single run. */
        if (!s->one_shot && s->end &&
            journal_session_end(s->live->server->journal, s->id, s->gone ? s->end : "lost", network, &err) < 0) {
                metrics_add(s->live->server->metrics, METRICS_JOURNAL_ERRORS, 1);
                log_error("journal", "the end of session %s cannot be written: %s", s->id, err.message);
        }
        admission_release(&s->reservation);
}

struct live_session *live_session_ref(struct live_session *s)
{
        live_lock(s->live);
        s->references++;
        live_unlock(s->live);
        return s;
}

/* With the lock; gives it up and takes it again for the last reference. */
static void drop(struct live_session *s)
{
        struct live *l = s->live;

        if (--s->references > 0)
                return;
        live_unlock(l);
        close_box(s);
        live_lock(l);
        s->closed = true;
        l->n_sessions--;
        pthread_cond_broadcast(&l->changed);
        if (s->waiters == 0)
                session_free(s);
}

void live_session_put(struct live_session *s)
{
        if (!s)
                return;
        struct live *l = s->live;
        live_lock(l);
        drop(s);
        live_unlock(l);
}

bool live_session_end(struct live_session *s, const char *why)
{
        struct live *l = s->live;

        live_lock(l);
        s->waiters++;
        bool mine = session_take_out(s, why, true);
        if (mine)
                drop(s); /* the table's; the caller has one */
        drop(s);
        while (!s->closed)
                pthread_cond_wait(&l->changed, &l->lock);
        bool gone = s->gone;
        if (--s->waiters == 0)
                session_free(s);
        live_unlock(l);
        return gone;
}

/* ---- finding one ---- */

static int not_found(const char *id, gb_error *err)
{
        return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no session %s", quote(id).text);
}

int live_session_get(struct live *l, const struct caller *caller, const char *id, bool touch, struct live_session **ret, gb_error *err)
{
        live_lock(l);
        struct live_session *s = find(l, caller->tenant, id);
        if (s && s->state != LIVE_READY)
                s = NULL;
        if (s) {
                s->references++;
                if (touch) {
                        pthread_mutex_lock(&s->lock);
                        s->used_usec = monotonic_usec();
                        pthread_mutex_unlock(&s->lock);
                }
        }
        live_unlock(l);
        if (!s)
                return not_found(id, err);
        *ret = s;
        return 0;
}

int live_session_join(struct live *l, const char *tenant, const char *id, struct live_session **ret, gb_error *err)
{
        int r = 0;

        live_lock(l);
        struct live_session *s = find(l, tenant, id);
        if (s)
                s->references++;
        while (s && s->state == LIVE_OPENING && s->error.code == GB_E_NONE)
                pthread_cond_wait(&l->changed, &l->lock);
        if (s && s->state != LIVE_READY) {
                if (err)
                        *err = s->error;
                r = s->error.code == GB_E_NONE ? not_found(id, err) : -EIO;
                drop(s);
                s = NULL;
        }
        live_unlock(l);
        if (r == 0 && !s)
                r = not_found(id, err);
        if (r == 0)
                *ret = s;
        return r;
}
