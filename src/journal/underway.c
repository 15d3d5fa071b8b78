/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs that go on, by their id. Only the writer (who has writer.lock) changes the table and its entries, except for the start of a run, which its own
 * thread notes; underway_lock keeps them whole for those who only look. */
#include "journal/state.h"

#include "base/hash.h"

#include <errno.h>
#include <string.h>

static struct underway **bucket(struct journal *j, const char *id)
{
        return &j->underway[hash_string(HASH_INIT, id) % UNDERWAY_BUCKETS];
}

void underway_add(struct journal *j, struct underway *e)
{
        struct underway **b = bucket(j, e->run.id);

        pthread_mutex_lock(&j->underway_lock);
        e->next = *b;
        *b = e;
        pthread_mutex_unlock(&j->underway_lock);
}

struct underway *underway_find(struct journal *j, const char *id)
{
        struct underway *e = *bucket(j, id);

        while (e && strcmp(e->run.id, id) != 0)
                e = e->next;
        return e;
}

bool underway_get(struct journal *j, const char *id, struct journal_run *ret)
{
        pthread_mutex_lock(&j->underway_lock);
        const struct underway *e = underway_find(j, id);
        if (e)
                *ret = e->run;
        pthread_mutex_unlock(&j->underway_lock);
        return e;
}

void underway_event(struct journal *j, struct underway *e, enum journal_kind kind, size_t size, uint64_t started_usec)
{
        struct journal_run *run = &e->run;

        pthread_mutex_lock(&j->underway_lock);
        run->next_seq++;
        if (kind == JOURNAL_STDOUT)
                run->out_bytes += size;
        if (kind == JOURNAL_STDERR)
                run->err_bytes += size;
        if (kind == JOURNAL_STARTED) {
                run->state = JOURNAL_RUNNING;
                run->started_usec = started_usec;
        }
        pthread_mutex_unlock(&j->underway_lock);
}

bool underway_start(struct journal *j, const char *id, uint64_t t_usec)
{
        pthread_mutex_lock(&j->underway_lock);
        struct underway *e = underway_find(j, id);
        bool first = e && e->run.next_seq == 0;
        if (first) {
                e->run.next_seq = 1;
                e->run.state = JOURNAL_RUNNING;
                e->run.started_usec = journal_now();
                e->start_usec = t_usec;
                e->owes_start = true;
        }
        pthread_mutex_unlock(&j->underway_lock);
        return first;
}

bool underway_owes_start(struct journal *j, const char *id)
{
        pthread_mutex_lock(&j->underway_lock);
        const struct underway *e = underway_find(j, id);
        bool owes = e && e->owes_start;
        pthread_mutex_unlock(&j->underway_lock);
        return owes;
}

void underway_paid_start(struct journal *j, struct underway *e)
{
        pthread_mutex_lock(&j->underway_lock);
        e->owes_start = false;
        pthread_mutex_unlock(&j->underway_lock);
}

struct underway *underway_debtor(struct journal *j, uint64_t before_usec)
{
        struct underway *found = NULL;

        pthread_mutex_lock(&j->underway_lock);
        for (size_t i = 0; i < UNDERWAY_BUCKETS && !found; i++)
                for (struct underway *e = j->underway[i]; e && !found; e = e->next)
                        if (e->owes_start && e->run.started_usec < before_usec)
                                found = e;
        pthread_mutex_unlock(&j->underway_lock);
        return found;
}

void underway_remove(struct journal *j, struct underway *e)
{
        pthread_mutex_lock(&j->underway_lock);
        struct underway **p = bucket(j, e->run.id);
        while (*p != e)
                p = &(*p)->next;
        *p = e->next;
        pthread_mutex_unlock(&j->underway_lock);
}

void underway_clear(struct journal *j)
{
        for (size_t i = 0; i < UNDERWAY_BUCKETS; i++)
                while (j->underway[i]) {
                        struct underway *e = j->underway[i];
                        j->underway[i] = e->next;
                        free(e);
                }
}

uint64_t underway_floor(struct journal *j, uint64_t fallback)
{
        uint64_t number = fallback;

        pthread_mutex_lock(&j->underway_lock);
        for (size_t i = 0; i < UNDERWAY_BUCKETS; i++)
                for (const struct underway *e = j->underway[i]; e; e = e->next)
                        number = MIN(number, e->number);
        pthread_mutex_unlock(&j->underway_lock);
        return number;
}

static bool matches(const struct underway *e, const struct journal_query *q)
{
        return (int)e->run.state == q->state && (!q->tenant || strcmp(q->tenant, e->run.tenant) == 0) && (!q->session || strcmp(q->session, e->run.session) == 0) &&
               (q->before == 0 || e->number < q->before);
}

static int compare(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x < y ? 1 : x > y ? -1 : 0;
}

int underway_numbers(struct journal *j, const struct journal_query *q, uint64_t **ret, size_t *ret_n)
{
        _cleanup_free_ uint64_t *numbers = NULL;
        size_t n = 0, room = 0;
        bool failed = false;

        pthread_mutex_lock(&j->underway_lock);
        for (size_t i = 0; i < UNDERWAY_BUCKETS && !failed; i++)
                for (const struct underway *e = j->underway[i]; e && !failed; e = e->next) {
                        if (!matches(e, q))
                                continue;
                        if (n == room) {
                                room = room ? 2 * room : 64;
                                uint64_t *more = reallocarray(numbers, room, sizeof(*numbers));
                                failed = !more;
                                numbers = more ? more : numbers;
                        }
                        if (!failed)
                                numbers[n++] = e->number;
                }
        pthread_mutex_unlock(&j->underway_lock);
        if (failed)
                return -ENOMEM;
        if (n > 0)
                qsort(numbers, n, sizeof(*numbers), compare);
        *ret = TAKE_PTR(numbers);
        *ret_n = n;
        return 0;
}
