/* SPDX-License-Identifier: Apache-2.0 */
#include "server/scrubbing.h"

#include "base/json.h"
#include "base/utf8.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What stands in the place of a text that could not be looked at. */
#define NOT_LOOKED_AT "(there was no memory to look for secrets in this)"

struct living_secrets {
        struct scrub *scrub;
        struct living_secrets *next;
};

struct scrubbing {
        struct scrub *shapes;
        pthread_mutex_t lock; /* nothing else is locked under it */
        struct living_secrets *living;
};

int scrubbing_new(struct scrubbing **ret, gb_error *err)
{
        struct scrubbing *s = calloc(1, sizeof(*s));
        const struct rules *rules;

        if (!s)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        pthread_mutex_init(&s->lock, NULL);
        int r = rules_get(&rules, err);
        if (r == 0)
                r = scrub_new(rules, SCRUB_ON, NULL, 0, &s->shapes, err);
        if (r < 0) {
                scrubbing_free(s);
                return r;
        }
        *ret = s;
        return 0;
}

void scrubbing_free(struct scrubbing *s)
{
        if (!s)
                return;
        while (s->living)
                scrubbing_remove(s, s->living);
        scrub_free(s->shapes);
        pthread_mutex_destroy(&s->lock);
        free(s);
}

/* ---- secrets of what lives ---- */

int scrubbing_add(struct scrubbing *s, const struct policy *p, struct living_secrets **ret, gb_error *err)
{
        struct scrub_secret secrets[SECRETS_MAX];
        struct living_secrets *l;

        *ret = NULL;
        if (!s || p->n_secrets == 0)
                return 0;
        l = calloc(1, sizeof(*l));
        if (!l)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        for (size_t i = 0; i < p->n_secrets; i++)
                secrets[i] = (struct scrub_secret){p->secrets[i].name, p->secrets[i].value, p->secrets[i].size};
        int r = scrub_new(NULL, SCRUB_ON, secrets, p->n_secrets, &l->scrub, err);
        if (r < 0) {
                free(l);
                return r;
        }
        pthread_mutex_lock(&s->lock);
        l->next = s->living;
        s->living = l;
        pthread_mutex_unlock(&s->lock);
        *ret = l;
        return 0;
}

void scrubbing_remove(struct scrubbing *s, struct living_secrets *secrets)
{
        if (!s || !secrets)
                return;
        pthread_mutex_lock(&s->lock);
        for (struct living_secrets **at = &s->living; *at; at = &(*at)->next)
                if (*at == secrets) {
                        *at = secrets->next;
                        break;
                }
        pthread_mutex_unlock(&s->lock);
        scrub_free(secrets->scrub);
        free(secrets);
}

const struct scrub *living_secrets_scrub(const struct living_secrets *secrets)
{
        return secrets ? secrets->scrub : NULL;
}

/* ---- texts in place ---- */

static void put_back(const char *text, size_t size, char *to, size_t room)
{
        size_t n = MIN(size, room - 1);

        if (n < size)
                n -= utf8_incomplete_tail(text, n);
        memcpy(to, text, n);
        to[n] = '\0';
}

static void scrub_in_place(const struct scrub *scrub, char *text, size_t room)
{
        _cleanup_buffer_ struct buffer out;

        buffer_init(&out, SIZE_MAX / 2);
        int r = scrub ? scrub_text(scrub, text, strlen(text), &out, NULL) : 0;
        if (r > 0)
                put_back(out.data, out.size, text, room);
        else if (r < 0)
                put_back(NOT_LOOKED_AT, strlen(NOT_LOOKED_AT), text, room);
}

void scrubbing_line(void *scrubbing, char *text, size_t room)
{
        struct scrubbing *s = scrubbing;

        /* Secrets by their names before shapes, which could take a part of one. */
        pthread_mutex_lock(&s->lock);
        for (const struct living_secrets *l = s->living; l; l = l->next)
                scrub_in_place(l->scrub, text, room);
        pthread_mutex_unlock(&s->lock);
        scrub_in_place(s->shapes, text, room);
}

void scrubbing_error(const struct scrubbing *s, const struct scrub *session, gb_error *err)
{
        if (!s)
                return;
        scrub_in_place(session, err->message, sizeof(err->message));
        scrub_in_place(s->shapes, err->message, sizeof(err->message));
}

/* ---- JSON ---- */

static json_t *readable(const char *text, size_t size)
{
        _cleanup_buffer_ struct buffer good = {0};

        if (utf8_is_valid(text, size))
                return json_stringn(text, size);
        buffer_init(&good, 3 * size);
        return utf8_replace(&good, text, size) < 0 ? NULL : json_stringn(good.data, good.size);
}

json_t *scrubbed_text(const struct scrub *scrub, const char *text, size_t size, bool *ret_found)
{
        _cleanup_buffer_ struct buffer out;

        buffer_init(&out, SIZE_MAX / 2);
        int r = scrub ? scrub_text(scrub, text, size, &out, NULL) : 0;
        if (ret_found)
                *ret_found = r > 0;
        if (r < 0)
                return NULL;
        return r > 0 ? readable(out.data, out.size) : readable(text, size);
}

static void scrub_member(const struct scrub *scrub, json_t *object, const char *key)
{
        const json_t *value = json_object_get(object, key);
        bool found = false;

        if (!scrub || !json_is_string(value))
                return;
        json_t *text = scrubbed_text(scrub, json_string_value(value), json_string_length(value), &found);
        if (!text || found)
                (void)json_object_set_new(object, key, text ? text : json_string(NOT_LOOKED_AT));
        else
                json_decref(text);
}

void scrubbing_details(const struct scrubbing *s, const struct scrub *session, json_t *details)
{
        const char *key;
        json_t *value;
        void *next;

        if (!s || !details)
                return;
        json_object_foreach_safe(details, next, key, value) {
                scrub_member(session, details, key);
                scrub_member(s->shapes, details, key);
        }
}
