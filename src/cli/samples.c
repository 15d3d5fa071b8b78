/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/samples.h"

#include "cli/human.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct table_column sample_columns[] = {
        {.title = "ID"},
        {.title = "KIND"},
        {.title = "CPU%", .right = true},
        {.title = "TIME", .right = true},
        {.title = "MEMORY", .right = true},
        {.title = "PEAK", .right = true, .drop = 3},
        {.title = "LIMIT", .right = true, .drop = 2},
        {.title = "PIDS", .right = true},
        {.title = "DISK", .right = true, .drop = 1},
        {.title = "READ", .right = true, .drop = 5},
        {.title = "WRITTEN", .right = true, .drop = 5},
        {.title = "OUTPUT", .right = true, .drop = 4},
        {.title = "RATE", .right = true, .drop = 4},
        {.title = "RUNS", .right = true, .drop = 1},
};
const size_t n_sample_columns = ARRAY_SIZE(sample_columns);

/* Of a session its id; of a run in a box of its own the run's. */
static const char *sample_id(const json_t *sample)
{
        const char *session = json_member(sample, "session", NULL);

        return session ? session : json_member(sample, "run", "");
}

const json_t *samples_find(const json_t *stats, const char *id)
{
        const json_t *sample;
        size_t i;

        json_array_foreach(json_object_get(stats, "samples"), i, sample) {
                if (strcmp(sample_id(sample), id) == 0)
                        return sample;
        }
        return NULL;
}

void samples_add(struct table *t, const json_t *s)
{
        char text[14][HUMAN_TEXT_MAX];
        bool session = json_member(s, "session", NULL) != NULL;
        const char *row[] = {
                human_id(sample_id(s), text[0]),
                session ? "session" : "run",
                human_json_percent(json_inner(s, "cpu", "percent"), text[2]),
                human_json_time(json_inner(s, "cpu", "usec"), text[3]),
                human_json_size(json_inner(s, "memory", "bytes"), text[4]),
                human_json_size(json_inner(s, "memory", "peak_bytes"), text[5]),
                human_json_size(json_inner(s, "memory", "limit_bytes"), text[6]),
                human_json_count(json_inner(s, "pids", "current"), text[7]),
                human_json_size(json_inner(s, "disk", "bytes"), text[8]),
                human_json_size(json_inner(s, "io", "read_bytes"), text[9]),
                human_json_size(json_inner(s, "io", "write_bytes"), text[10]),
                human_json_size(json_inner(s, "output", "bytes"), text[11]),
                human_json_size(json_inner(s, "output", "bytes_per_second"), text[12]),
                human_json_count(json_inner(s, "runs", "active"), text[13]),
        };

        _Static_assert(ARRAY_SIZE(row) == ARRAY_SIZE(sample_columns), "a cell for each column");
        table_add(t, row);
}

static double key_of(const json_t *sample, enum samples_order order)
{
        const json_t *value = order == SAMPLES_BY_CPU ? json_inner(sample, "cpu", "percent") : json_inner(sample, "memory", "bytes");

        return value ? json_number_value(value) : -1;
}

struct ranked {
        json_t *sample;
        double key;
};

/* The largest first; equal ones by their id, so that they keep their places. */
static int compare(const void *a, const void *b)
{
        const struct ranked *x = a, *y = b;

        if (x->key != y->key)
                return x->key < y->key ? 1 : -1;
        return strcmp(sample_id(x->sample), sample_id(y->sample));
}

json_t *samples_sorted(const json_t *samples, enum samples_order order)
{
        size_t n = json_array_size(samples);
        _cleanup_free_ struct ranked *ranked = calloc(n + 1, sizeof(*ranked));
        _cleanup_json_ json_t *sorted = json_array();

        if (!ranked || !sorted)
                return NULL;
        for (size_t i = 0; i < n; i++) {
                json_t *sample = json_array_get(samples, i);
                ranked[i] = (struct ranked){sample, key_of(sample, order)};
        }
        qsort(ranked, n, sizeof(*ranked), compare);
        for (size_t i = 0; i < n; i++)
                if (json_array_append(sorted, ranked[i].sample) < 0)
                        return NULL;
        return TAKE_PTR(sorted);
}

/* A sum, and how many of its parts are not known. */
struct sum {
        double value;
        size_t known, unknown;
};

static void sum_add(struct sum *s, const json_t *value)
{
        if (!json_is_number(value)) {
                s->unknown++;
                return;
        }
        s->known++;
        s->value += json_number_value(value);
}

/* Without a measured part there is no sum; with some, the sum is a lower bound. */
static const char *sum_words(const struct sum *s)
{
        return s->unknown > 0 && s->known > 0 ? "at least " : "";
}

int samples_summary(const json_t *stats, struct buffer *out)
{
        const json_t *sample;
        size_t i, sessions = 0, runs = 0;
        struct sum percent = {0}, memory = {0};
        char cpu[HUMAN_TEXT_MAX] = "-", size[HUMAN_TEXT_MAX] = "-";

        json_array_foreach(json_object_get(stats, "samples"), i, sample) {
                bool session = json_member(sample, "session", NULL) != NULL;
                sessions += session;
                runs += session ? (size_t)json_integer_value(json_inner(sample, "runs", "active")) : 1;
                sum_add(&percent, json_inner(sample, "cpu", "percent"));
                sum_add(&memory, json_inner(sample, "memory", "bytes"));
        }
        if (percent.known > 0 || percent.unknown == 0)
                snprintf(cpu, sizeof(cpu), "%.1f%%", percent.value);
        if (memory.known > 0 || memory.unknown == 0)
                human_size((uint64_t)memory.value, size);
        return buffer_printf(out, "%zu session%s, %zu run%s, cpu %s%s, memory %s%s", sessions,
                             sessions == 1 ? "" : "s", runs, runs == 1 ? "" : "s",
                             sum_words(&percent), cpu, sum_words(&memory), size);
}
