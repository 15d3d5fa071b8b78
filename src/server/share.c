/* SPDX-License-Identifier: Apache-2.0 */
#include "server/share.h"

#include "base/hash.h"
#include "base/limits.h"
#include "base/macro.h"
#include "journal/tokens.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_BUCKETS 256

/* Of one tenant, for as long as it has any. */
struct share {
        char tenant[TENANT_NAME_MAX];
        uint64_t requests;
        struct share *next;
};

static struct {
        pthread_mutex_t lock;
        uint64_t requests;
        struct share *buckets[SHARE_BUCKETS];
} shares = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Where it is, or would be. */
static struct share **place_of(const char *tenant)
{
        struct share **at = &shares.buckets[hash_string(HASH_INIT, tenant) % SHARE_BUCKETS];

        while (*at && strcmp((*at)->tenant, tenant) != 0)
                at = &(*at)->next;
        return at;
}

static int take(const char *tenant, uint64_t threads, struct share **ret, gb_error *err)
{
        struct share **at = place_of(tenant);
        uint64_t left = threads - MIN(threads, shares.requests), spare = MIN(left, threads / REQUEST_SPARE), has = *at ? (*at)->requests : 0;

        if (has >= REQUEST_SHARE * (left - spare) && (has >= REQUEST_FIRST || left == 0))
                return error_set(err, GB_E_QUOTA, EAGAIN, "the tenant has as many requests under way as it may have: end some, or try again later");
        if (!*at) {
                struct share *s = calloc(1, sizeof(*s));
                if (!s)
                        return error_set(err, GB_E_UNAVAILABLE, ENOMEM, "there is no memory for the request");
                snprintf(s->tenant, sizeof(s->tenant), "%s", tenant);
                *at = s;
        }
        (*at)->requests++;
        shares.requests++;
        *ret = *at;
        return 0;
}

int share_take(const char *tenant, uint64_t threads, struct share **ret, gb_error *err)
{
        pthread_mutex_lock(&shares.lock);
        int r = take(tenant, threads, ret, err);
        pthread_mutex_unlock(&shares.lock);
        return r;
}

void share_give(struct share *s)
{
        if (!s)
                return;
        pthread_mutex_lock(&shares.lock);
        shares.requests--;
        if (--s->requests == 0) {
                *place_of(s->tenant) = s->next;
                free(s);
        }
        pthread_mutex_unlock(&shares.lock);
}
