/* SPDX-License-Identifier: Apache-2.0
 *
 * One lock around all counters. A tenant has an entry for as long as it holds anything. */
#include "server/admission.h"

#include "base/limits.h"
#include "base/parse.h"
#include "server/host_memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct admission_tenant {
        char name[JOURNAL_TENANT_MAX];
        struct admission_counts now;
        unsigned reservations;
        struct admission_tenant *next;
};

struct admission {
        const struct server_config *config;
        struct host_memory memory;
        pthread_mutex_t lock;
        struct admission_counts now;
        struct admission_tenant *tenants;
        bool closed;
};

int admission_new(const struct server_config *config, struct admission **ret, gb_error *err)
{
        struct admission *a = calloc(1, sizeof(*a));

        if (!a)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        a->config = config;
        pthread_mutex_init(&a->lock, NULL);
        host_memory_init(&a->memory);
        *ret = a;
        return 0;
}

void admission_free(struct admission *a)
{
        if (!a)
                return;
        while (a->tenants) {
                struct admission_tenant *t = a->tenants;
                a->tenants = t->next;
                free(t);
        }
        host_memory_done(&a->memory);
        pthread_mutex_destroy(&a->lock);
        free(a);
}

static struct admission_tenant *find(struct admission *a, const char *name)
{
        for (struct admission_tenant *t = a->tenants; t; t = t->next)
                if (strcmp(t->name, name) == 0)
                        return t;
        return NULL;
}

static struct admission_tenant *find_or_add(struct admission *a, const char *name)
{
        struct admission_tenant *t = find(a, name);

        if (t)
                return t;
        t = calloc(1, sizeof(*t));
        if (!t)
                return NULL;
        strncpy(t->name, name, sizeof(t->name) - 1);
        t->next = a->tenants;
        a->tenants = t;
        return t;
}

static void drop_if_empty(struct admission *a, struct admission_tenant *tenant)
{
        if (tenant->reservations > 0)
                return;
        for (struct admission_tenant **at = &a->tenants; *at; at = &(*at)->next)
                if (*at == tenant) {
                        *at = tenant->next;
                        free(tenant);
                        return;
                }
}

static bool is_over(uint64_t now, uint64_t wanted, uint64_t limit)
{
        return wanted > 0 && (now >= limit || wanted > limit - now);
}

/* What is over its quota; NULL: nothing. */
static const char *what_is_over(const struct admission_counts *now, const struct admission_counts *wanted, const struct server_quota *quota)
{
        if (is_over(now->runs, wanted->runs, quota->runs))
                return "runs";
        if (is_over(now->sessions, wanted->sessions, quota->sessions))
                return "sessions";
        return is_over(now->memory_bytes, wanted->memory_bytes, quota->memory_bytes) ? "memory" : NULL;
}

/* What will never be let in is no matter of waiting. */
static int check_size(const struct admission *a, const struct admission_counts *wanted, gb_error *err)
{
        uint64_t most = MIN(a->config->tenant.memory_bytes, a->config->all.memory_bytes);
        char asked[FORMAT_MAX], max[FORMAT_MAX];

        if (wanted->memory_bytes <= most)
                return 0;
        return error_set(err, GB_E_LIMIT, ERANGE, "memory of %s is more than a tenant of this server may have, which is %s",
                         format_size(wanted->memory_bytes, asked), format_size(most, max));
}

static int check(struct admission *a, const struct admission_tenant *tenant, const struct admission_counts *wanted, gb_error *err)
{
        if (a->closed)
                return error_set(err, GB_E_UNAVAILABLE, ESHUTDOWN, "the server ends: nothing new is begun");
        const char *over = what_is_over(&tenant->now, wanted, &a->config->tenant);
        if (over)
                return error_set(err, GB_E_QUOTA, EAGAIN, "the tenant has as many %s as it may have: end some, or try again later",
                                 strcmp(over, "memory") == 0 ? "sessions and runs for its memory" : over);
        over = what_is_over(&a->now, wanted, &a->config->all);
        if (over)
                return error_set(err, GB_E_UNAVAILABLE, EAGAIN, "the server is full (%s): try again later", over);
        /* A run in a session takes none that was not counted with the session. */
        if (wanted->memory_bytes > 0 && host_memory_available(&a->memory) < a->config->free_memory_bytes)
                return error_set(err, GB_E_UNAVAILABLE, ENOMEM, "the host has too little memory left: try again later");
        return 0;
}

int admission_take(struct admission *a, const char *tenant, const struct admission_counts *wanted, struct reservation *ret, gb_error *err)
{
        int r = check_size(a, wanted, err);

        if (r < 0)
                return r;
        pthread_mutex_lock(&a->lock);
        struct admission_tenant *t = find_or_add(a, tenant);
        r = t ? check(a, t, wanted, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r == 0) {
                for (struct admission_counts *c = &t->now; c; c = c == &a->now ? NULL : &a->now) {
                        c->sessions += wanted->sessions;
                        c->runs += wanted->runs;
                        c->memory_bytes += wanted->memory_bytes;
                }
                t->reservations++;
                *ret = (struct reservation){a, t, wanted->sessions, wanted->runs, wanted->memory_bytes};
        } else if (t) {
                drop_if_empty(a, t);
        }
        pthread_mutex_unlock(&a->lock);
        return r;
}

void admission_release(struct reservation *r)
{
        struct admission *a = r->admission;

        if (!a)
                return;
        pthread_mutex_lock(&a->lock);
        for (struct admission_counts *c = &r->tenant->now; c; c = c == &a->now ? NULL : &a->now) {
                c->sessions -= r->sessions;
                c->runs -= r->runs;
                c->memory_bytes -= r->memory_bytes;
        }
        r->tenant->reservations--;
        drop_if_empty(a, r->tenant);
        pthread_mutex_unlock(&a->lock);
        *r = (struct reservation){0};
}

void admission_count(struct admission *a, const char *tenant, struct admission_counts *ret)
{
        *ret = (struct admission_counts){0};
        pthread_mutex_lock(&a->lock);
        const struct admission_tenant *t = tenant ? find(a, tenant) : NULL;
        if (!tenant)
                *ret = a->now;
        else if (t)
                *ret = t->now;
        pthread_mutex_unlock(&a->lock);
}

void admission_close(struct admission *a)
{
        pthread_mutex_lock(&a->lock);
        a->closed = true;
        pthread_mutex_unlock(&a->lock);
}
