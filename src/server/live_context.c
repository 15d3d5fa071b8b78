/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts of a session: who uses one. The engine closes a context under whoever has found it, so they are found here: each has a
 * place, under the session's lock, with the number of its users. One that is used is not closed, and one that is to be closed loses its place first. */
#include "server/live.h"

#include "base/quote.h"
#include "server/live_table.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static struct live_context *find(struct live_session *s, const char *id)
{
        for (size_t i = 0; i < ARRAY_SIZE(s->contexts); i++)
                if (s->contexts[i].context && strcmp(context_id(s->contexts[i].context), id) == 0)
                        return &s->contexts[i];
        return NULL;
}

static struct live_context *find_by_context(struct live_session *s, const struct context *c)
{
        for (size_t i = 0; i < ARRAY_SIZE(s->contexts); i++)
                if (s->contexts[i].context == c)
                        return &s->contexts[i];
        return NULL;
}

/* With the lock. */
static int take(struct live_session *s, const char *id, bool run, struct context **ret, gb_error *err)
{
        struct live_context *use = find(s, id);

        if (!use)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no context %s in this session", quote(id).text);
        if (run && use->running)
                return error_set(err, GB_E_CONFLICT, EBUSY, "context %s runs something already: wait for it, interrupt it, or use another context",
                                 context_id(use->context));
        use->users++;
        use->running |= run;
        *ret = use->context;
        return 0;
}

/* A place for a new one, with its first user; not when the default that it was opened for is there meanwhile: 1. */
static int enter(struct live_session *s, struct context *c, bool run, char *by_default, gb_error *err)
{
        int r = 0;

        pthread_mutex_lock(&s->lock);
        struct live_context *place = find_by_context(s, NULL);
        if (by_default && find(s, by_default))
                r = 1;
        else if (!place)
                r = error_set(err, GB_E_LIMIT, ENOSPC, "the session has too many contexts: close one");
        else {
                *place = (struct live_context){.context = c, .users = 1, .running = run};
                if (by_default)
                        memcpy(by_default, context_id(c), strlen(context_id(c)) + 1);
        }
        pthread_mutex_unlock(&s->lock);
        return r;
}

static int open_one(struct live_session *s, const struct language *language, bool run, char *by_default, struct context **ret, gb_error *err)
{
        struct context *c;

        int r = context_open(s->session, language, &c, err);
        if (r < 0)
                return r;
        r = enter(s, c, run, by_default, err);
        if (r == 0)
                *ret = c;
        else
                (void)context_close(c, NULL);
        return r;
}

int live_context_open(struct live_session *s, const struct language *language, struct context **ret, gb_error *err)
{
        return open_one(s, language, false, NULL, ret, err);
}

char *live_context_default(struct live_session *s, const char *language)
{
        const struct languages *all = s->live->server->languages;

        for (size_t i = 0; i < all->n; i++)
                if (strcmp(all->rows[i].name, language) == 0)
                        return s->defaults[i];
        return NULL;
}

int live_context_get(struct live_session *s, const char *id, const struct language *language, bool run, struct context **ret, gb_error *err)
{
        char *by_default = id ? NULL : live_context_default(s, language->name);

        for (;;) {
                pthread_mutex_lock(&s->lock);
                int r = take(s, id ? id : by_default, run, ret, err);
                pthread_mutex_unlock(&s->lock);
                if (id || r != -ENOENT)
                        return r;
                /* Takes milliseconds, so two at the same time may both open one: then the second closes his, and takes the first's. */
                r = open_one(s, language, run, by_default, ret, err);
                if (r <= 0)
                        return r;
        }
}

void live_context_put(struct live_session *s, struct context *c, bool run)
{
        pthread_mutex_lock(&s->lock);
        struct live_context *use = find_by_context(s, c);
        if (use) {
                use->users--;
                use->running &= !run;
                pthread_cond_broadcast(&s->freed);
        }
        pthread_mutex_unlock(&s->lock);
}

void live_context_wait(struct live_session *s, const struct language *language, uint64_t until_usec)
{
        struct timespec until = {.tv_sec = (time_t)(until_usec / 1000000), .tv_nsec = (long)(until_usec % 1000000) * 1000};
        const char *by_default = live_context_default(s, language->name);
        const struct live_context *use;

        pthread_mutex_lock(&s->lock);
        while (!s->ended && (use = find(s, by_default)) && use->running && pthread_cond_timedwait(&s->freed, &s->lock, &until) == 0)
                ;
        pthread_mutex_unlock(&s->lock);
}

int live_context_close(struct live_session *s, const char *id, gb_error *err)
{
        struct context *c = NULL;
        int r = 0;

        pthread_mutex_lock(&s->lock);
        struct live_context *use = find(s, id);
        if (!use)
                r = error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no context %s in this session", quote(id).text);
        else if (use->users > 0)
                r = error_set(err, GB_E_CONFLICT, EBUSY, "context %s is in use: wait for it, or interrupt it", context_id(use->context));
        else
                c = TAKE_PTR(use->context);
        pthread_mutex_unlock(&s->lock);
        return r < 0 ? r : context_close(c, err);
}
