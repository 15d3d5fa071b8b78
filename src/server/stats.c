/* SPDX-License-Identifier: Apache-2.0
 *
 * A sample costs a dozen reads of counters that are open already, and nothing else: a thousand sessions take some tens of milliseconds. Rates
 * are between two samples of the same watcher, who therefore remembers the one before; who asks once gets none. */
#include "server/stats.h"

#include "base/fd.h"
#include "base/json.h"
#include "engine/network.h"
#include "engine/session.h"
#include "server/metrics.h"
#include "server/run_object.h"
#include "server/workers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- the process ---- */

static bool count_descriptors(uint64_t *ret)
{
        DIR *dir = opendir("/proc/self/fd");
        uint64_t n = 0;

        if (!dir)
                return false;
        errno = 0;
        while (readdir(dir))
                n++;
        bool whole = errno == 0 && n >= 3;
        closedir(dir);
        *ret = whole ? n - 3 : 0; /* ".", "..", and its own */
        return whole;
}

void process_numbers(struct process_numbers *ret)
{
        struct rusage usage = {0};
        unsigned long long size = 0, resident = 0;
        char text[128];

        *ret = (struct process_numbers){0};
        int n = file_read_at(AT_FDCWD, "/proc/self/statm", text, sizeof(text));
        ret->resident_known = n > 0 && sscanf(text, "%llu %llu", &size, &resident) == 2;
        ret->resident_bytes = resident * (uint64_t)sysconf(_SC_PAGESIZE);
        ret->cpu_known = getrusage(RUSAGE_SELF, &usage) == 0;
        ret->cpu_usec = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                        (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
        ret->descriptors_known = count_descriptors(&ret->descriptors);
}

/* ---- memory of a stream ---- */

void stats_memory_done(struct stats_memory *m)
{
        free(m->last);
        *m = (struct stats_memory){0};
}

static int by_id(const void *a, const void *b)
{
        return strcmp(((const struct stats_last *)a)->id, ((const struct stats_last *)b)->id);
}

static const struct stats_last *remembered(const struct stats_memory *m, const char *id)
{
        struct stats_last key = {0};

        snprintf(key.id, sizeof(key.id), "%s", id);
        return m->n > 0 ? bsearch(&key, m->last, m->n, sizeof(m->last[0]), by_id) : NULL;
}

static void remember(struct stats_memory *m, struct stats_last *last, size_t n)
{
        if (n > 0)
                qsort(last, n, sizeof(last[0]), by_id);
        free(m->last);
        *m = (struct stats_memory){last, n};
}

/* ---- one ---- */

static json_t *json_number(uint64_t n)
{
        return json_integer((json_int_t)MIN(n, (uint64_t)INT64_MAX));
}

/* With so many digits as mean something. */
static json_t *json_rate(double rate)
{
        return json_real((double)(int64_t)(rate * 1000.0 + 0.5) / 1000.0);
}

static json_t *id_or_null(const char *id)
{
        return id && id[0] ? json_string(id) : json_null();
}

static uint64_t wall_usec(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t grown(uint64_t now, uint64_t before)
{
        return now > before ? now - before : 0;
}

static json_t *number_or_null(bool known, uint64_t n)
{
        return known ? json_number(n) : json_null();
}

/* Only the proxy of an allowlist counts: with the host's network nobody does. */
static json_t *network_to_json(struct live_session *s)
{
        const struct policy *p = s->policy;
        _cleanup_free_ struct ledger_copy *l = p->network_mode == NETWORK_ALLOWLIST ? session_network_ledger(s->session) : NULL;
        bool known = p->network_mode == NETWORK_NONE || l;
        struct ledger_copy none = {0};
        const struct ledger_copy *c = l ? l : &none;

        return json_pack("{s:o, s:o, s:o, s:o, s:o}", "requests", number_or_null(known, c->requests), "denied", number_or_null(known, c->denied), "bytes_up",
                         number_or_null(known, c->bytes_up), "bytes_down", number_or_null(known, c->bytes_down), "open", number_or_null(known, c->open));
}

/* A number that is not counted on this host, or could not be read (u NULL), is null, not 0. */
static json_t *sample_to_json(struct live_session *s, const char *run, const struct box_usage *u, const struct stats_last *now, const struct stats_last *before)
{
        static const struct box_usage unknown;
        bool disk_known = u && !u->disk_unknown;
        const struct policy *p = s->policy;
        uint64_t usec = before ? grown(now->at_usec, before->at_usec) : 0;
        unsigned active;
        uint64_t total;

        u = u ? u : &unknown;
        pthread_mutex_lock(&s->lock);
        active = s->runs_active;
        total = s->runs_total;
        pthread_mutex_unlock(&s->lock);
        json_t *percent = usec > 0 && u->cpu_known ? json_rate((double)grown(now->cpu_usec, before->cpu_usec) * 100.0 / (double)usec) : json_null();
        json_t *rate = usec > 0 ? json_rate((double)grown(now->output_bytes, before->output_bytes) * 1e6 / (double)usec) : json_null();
        return json_pack("{s:o, s:o, s:o, s:{s:o, s:o, s:o}, s:{s:o, s:o, s:o}, s:{s:o, s:o, s:o}, s:{s:o, s:o, s:o, s:o}, s:{s:o, s:o}, s:o, s:{s:o, s:o}, s:{s:i, s:o}}",
                         "time", time_to_json(wall_usec()), "session", s->one_shot ? json_null() : id_or_null(s->id), "run", id_or_null(run),
                         "cpu", "usec", number_or_null(u->cpu_known, u->cpu_usec), "percent", percent,
                         "limit_milli", json_number(p->cpu_milli),
                         "memory", "bytes", number_or_null(u->memory_known, u->memory_bytes),
                         "peak_bytes", number_or_null(u->memory_peak_known, u->memory_peak_bytes),
                         "limit_bytes", json_number(p->mem_limit_bytes),
                         "pids", "current", number_or_null(u->pids_known, u->pids),
                         "peak", number_or_null(u->pids_peak_known, u->pids_peak),
                         "limit", json_number(p->pids_limit),
                         "disk", "bytes", number_or_null(disk_known, u->disk_bytes),
                         "inodes", number_or_null(disk_known, u->inodes), "limit_bytes", json_number(p->disk_limit_bytes),
                         "limit_inodes", json_number(p->inode_limit),
                         "io", "read_bytes", number_or_null(u->io_known, u->io_read_bytes),
                         "write_bytes", number_or_null(u->io_known, u->io_write_bytes),
                         "network", network_to_json(s),
                         "output", "bytes", json_number(now->output_bytes), "bytes_per_second", rate,
                         "runs", "active", (int)active, "total", json_number(total));
}

/* GB_E_NOT_FOUND: the session has ended. A failure to read the counters of a live one is another error. */
static int sample(struct live_session *s, const char *run, const struct stats_memory *m, struct stats_last *ret_last, json_t **ret, gb_error *err)
{
        struct box_usage usage = {0};
        gb_error why = {0};

        if (atomic_load(&s->ended) || !s->session)
                return error_set(err, GB_E_NOT_FOUND, ESRCH, "the session has ended");
        int r = session_sample(s->session, &usage, &why);
        if (r < 0 && (why.code == GB_E_LOST || why.code == GB_E_NOT_FOUND))
                return error_set(err, GB_E_NOT_FOUND, ESRCH, "the session has ended by itself");
        if (r < 0) {
                if (err)
                        *err = why;
                return r;
        }
        *ret_last = (struct stats_last){.at_usec = monotonic_usec(), .cpu_usec = usage.cpu_usec, .output_bytes = atomic_load(&s->output_bytes)};
        snprintf(ret_last->id, sizeof(ret_last->id), "%s", s->id);
        *ret = sample_to_json(s, run, &usage, ret_last, remembered(m, s->id));
        return *ret ? 0 : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

int stats_sample(struct live_session *s, const char *run, struct stats_memory *m, json_t **ret, gb_error *err)
{
        struct stats_last *last = malloc(sizeof(*last));

        if (!last)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = sample(s, run, m, last, ret, err);
        if (r == 0)
                remember(m, last, 1);
        else
                free(last);
        return r;
}

/* ---- all ---- */

static json_t *server_to_json(struct server *server, const char *tenant, bool whole)
{
        struct live_counts counts = {0};
        struct process_numbers p = {0};
        struct workers_counts workers = {0};

        live_count(server->live, tenant, &counts);
        workers_count(server->workers, &workers);
        if (whole)
                process_numbers(&p);
        uint64_t now = wall_usec();
        return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "uptime", json_rate((double)grown(now, server->started_usec) / 1e6),
                         "sessions", json_number(counts.sessions), "runs", json_number(counts.runs), "memory_limit_bytes", json_number(counts.memory_bytes),
                         "connections", whole ? json_integer(metrics_get(server->metrics, METRICS_CONNECTIONS)) : json_null(),
                         "threads", whole ? json_number(workers.threads) : json_null(),
                         "memory_bytes", number_or_null(p.resident_known, p.resident_bytes),
                         "descriptors", number_or_null(p.descriptors_known, p.descriptors));
}

struct session_list {
        struct live_session **sessions;
        size_t n;
};

static void session_list_done(struct session_list *l)
{
        for (size_t i = 0; i < l->n; i++)
                live_session_put(l->sessions[i]);
        free(l->sessions);
}

/* 1: last has been filled in. 0: it has just ended, or nothing could be read of it, which its sample says. */
static int add_sample(json_t *samples, struct live_session *s, const char *run, const struct stats_memory *m,
                      struct stats_last *last)
{
        gb_error why = {0};
        json_t *json = NULL;

        int r = sample(s, run, m, last, &json, &why);
        if (r < 0 && why.code == GB_E_NOT_FOUND)
                return 0;
        if (r < 0) {
                *last = (struct stats_last){.at_usec = monotonic_usec(), .output_bytes = atomic_load(&s->output_bytes)};
                json = sample_to_json(s, run, NULL, last, NULL);
        }
        return json_array_append_new(samples, json) < 0 ? -ENOMEM : r == 0;
}

int stats_sample_all(struct server *server, const char *tenant, bool whole, struct stats_memory *m, json_t **ret, gb_error *err)
{
        _cleanup_(session_list_done) struct session_list list = {0};
        _cleanup_json_ json_t *samples = json_array();
        _cleanup_free_ struct stats_last *last = NULL;
        size_t n = 0;

        int r = live_sessions(server->live, tenant, true, &list.sessions, &list.n);
        if (r == 0)
                last = calloc(list.n + 1, sizeof(*last));
        if (r < 0 || !last || !samples)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        for (size_t i = 0; i < list.n; i++) {
                struct live_session *s = list.sessions[i];
                _cleanup_live_run_ struct live_run *run = s->one_shot ? live_run_of(server->live, s) : NULL;
                if (s->one_shot && !run)
                        continue;
                int added = add_sample(samples, s, run ? run->id : NULL, m, &last[n]);
                if (added < 0)
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
                n += (size_t)added;
        }
        remember(m, TAKE_PTR(last), n);
        *ret = json_pack("{s:o, s:O}", "server", server_to_json(server, tenant, whole), "samples", samples);
        return *ret ? 0 : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}
