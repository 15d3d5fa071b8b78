/* SPDX-License-Identifier: Apache-2.0 */
#include "server/metrics.h"

#include "base/buffer.h"
#include "base/fd.h"
#include "base/limits.h"
#include "engine/network.h"
#include "engine/verdict.h"
#include "server/live.h"
#include "server/log.h"
#include "server/reply.h"
#include "server/routes.h"
#include "server/server.h"
#include "server/stats.h"
#include "server/workers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define CLASSES 6 /* 1xx to 5xx; 0: the client was gone before there was a status */

static const uint64_t bounds_usec[] = {1000,   2500,    5000,    10000,   25000,    50000,    100000,   250000,
                                       500000, 1000000, 2500000, 5000000, 10000000, 30000000, 60000000, 300000000};

struct histogram {
        _Atomic uint64_t buckets[ARRAY_SIZE(bounds_usec) + 1]; /* each its own; the text adds them up */
        _Atomic uint64_t sum_usec;
};

struct route_metrics {
        _Atomic uint64_t by_class[CLASSES];
        struct histogram took;
};

static const char *const verdicts[] = {
#define VERDICT_NAME(id, name, exit_status) name,
        VERDICTS(VERDICT_NAME)
#undef VERDICT_NAME
        "none", /* nothing was run */
};

static const char *const actions[] = {"log", "warn", "block"};

struct metrics {
        _Atomic int64_t numbers[METRICS_NUMBERS];
        _Atomic uint64_t journal_failed_usec; /* CLOCK_MONOTONIC: the last time; 0: never */
        _Atomic uint64_t runs[ARRAY_SIZE(verdicts)];
        _Atomic uint64_t findings[ARRAY_SIZE(actions)];
        struct histogram run_took;
        struct route_metrics routes[]; /* n_routes, and one for requests without a route */
};

int metrics_new(struct metrics **ret, gb_error *err)
{
        struct metrics *m = calloc(1, sizeof(*m) + (n_routes + 1) * sizeof(m->routes[0]));

        if (!m)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        *ret = m;
        return 0;
}

void metrics_free(struct metrics *m)
{
        free(m);
}

static void count(_Atomic uint64_t *counter, uint64_t n)
{
        atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *counter)
{
        return atomic_load_explicit(counter, memory_order_relaxed);
}

static void observe(struct histogram *h, uint64_t took_usec)
{
        size_t i = 0;

        while (i < ARRAY_SIZE(bounds_usec) && took_usec > bounds_usec[i])
                i++;
        count(&h->buckets[i], 1);
        count(&h->sum_usec, took_usec);
}

void metrics_add(struct metrics *m, enum metrics_number number, int64_t n)
{
        if (!m)
                return;
        atomic_fetch_add_explicit(&m->numbers[number], n, memory_order_relaxed);
        if (number == METRICS_JOURNAL_ERRORS)
                atomic_store_explicit(&m->journal_failed_usec, monotonic_usec(), memory_order_relaxed);
}

bool metrics_is_degraded(const struct metrics *m)
{
        uint64_t failed = m ? atomic_load_explicit(&m->journal_failed_usec, memory_order_relaxed) : 0;

        return failed > 0 && monotonic_usec() - failed < METRICS_DEGRADED_USEC;
}

int64_t metrics_get(const struct metrics *m, enum metrics_number number)
{
        return m ? atomic_load_explicit(&m->numbers[number], memory_order_relaxed) : 0;
}

void metrics_request(struct metrics *m, const struct route *route, int status, uint64_t took_usec)
{
        if (!m)
                return;
        struct route_metrics *r = &m->routes[route ? (size_t)(route - routes) : n_routes];
        count(&r->by_class[status >= 100 && status < 600 ? status / 100 : 0], 1);
        observe(&r->took, took_usec);
}

void metrics_run(struct metrics *m, const char *verdict, const uint64_t *took_usec)
{
        size_t i = 0;

        if (!m)
                return;
        while (i + 1 < ARRAY_SIZE(verdicts) && (!verdict || strcmp(verdicts[i], verdict) != 0))
                i++;
        count(&m->runs[i], 1);
        if (verdict && took_usec)
                observe(&m->run_took, *took_usec);
}

void metrics_finding(struct metrics *m, const char *action)
{
        for (size_t i = 0; m && i < ARRAY_SIZE(actions); i++)
                if (strcmp(actions[i], action) == 0)
                        count(&m->findings[i], 1);
}

/* ---- the text ---- */

static const struct {
        const char *name, *help;
} numbers[METRICS_NUMBERS] = {
        [METRICS_BYTES_IN] = {"glovebox_received_bytes_total", "Bytes of requests."},
        [METRICS_BYTES_OUT] = {"glovebox_sent_bytes_total", "Bytes of answers."},
        [METRICS_ACCEPTED] = {"glovebox_connections_accepted_total", "Connections that were taken."},
        [METRICS_REFUSED] = {"glovebox_connections_refused_total", "Connections that were one too many."},
        [METRICS_PROTOCOL] = {"glovebox_protocol_errors_total", "Requests that were not HTTP as it should be."},
        [METRICS_UNAUTHORIZED] = {"glovebox_unauthorized_total", "Requests without a token that counts."},
        [METRICS_QUOTA] = {"glovebox_quota_refusals_total", "Requests refused because a tenant had as much as it may have."},
        [METRICS_UNAVAILABLE] = {"glovebox_unavailable_total", "Requests refused because the server had as much as it can bear."},
        [METRICS_SESSIONS] = {"glovebox_sessions_opened_total", "Sessions that were opened."},
        [METRICS_JOURNAL_ERRORS] = {"glovebox_journal_errors_total", "Writes to the journal that failed."},
        [METRICS_SCRUBBED] = {"glovebox_scrubbed_total", "Secrets that were taken out of what runs gave."},
        [METRICS_CONNECTIONS] = {"glovebox_connections", "Connections now."},
};

static int add_head(struct buffer *b, const char *name, const char *type, const char *help)
{
        return buffer_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static int add_number(struct buffer *b, const char *name, const char *type, const char *help, int64_t value)
{
        int r = add_head(b, name, type, help);

        return r < 0 ? r : buffer_printf(b, "%s %" PRId64 "\n", name, value);
}

/* labels: with a comma behind them, or empty. */
static int add_histogram(struct buffer *b, const char *name, const char *labels, const struct histogram *h)
{
        uint64_t sum = 0;
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(bounds_usec) && r == 0; i++) {
                sum += get(&h->buckets[i]);
                r = buffer_printf(b, "%s_bucket{%sle=\"%g\"} %" PRIu64 "\n", name, labels, (double)bounds_usec[i] / 1e6, sum);
        }
        sum += get(&h->buckets[ARRAY_SIZE(bounds_usec)]);
        if (r == 0)
                r = buffer_printf(b, "%s_bucket{%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, sum);
        size_t size = strlen(labels);
        const char *open = size > 0 ? "{" : "", *close = size > 0 ? "}" : "";
        int plain = size > 0 ? (int)size - 1 : 0; /* without its comma */
        if (r == 0)
                r = buffer_printf(b, "%s_sum%s%.*s%s %.6f\n", name, open, plain, labels, close, (double)get(&h->sum_usec) / 1e6);
        return r < 0 ? r : buffer_printf(b, "%s_count%s%.*s%s %" PRIu64 "\n", name, open, plain, labels, close, sum);
}

static void route_labels(size_t i, char *ret, size_t size)
{
        if (i < n_routes)
                snprintf(ret, size, "method=\"%s\",route=\"%s\",", routes[i].method, routes[i].pattern);
        else
                snprintf(ret, size, "method=\"\",route=\"\",");
}

/* Rows of routes that nobody asked for are left out. */
static int add_requests(struct buffer *b, const struct metrics *m)
{
        char labels[160];
        int r = add_head(b, "glovebox_requests_total", "counter", "Requests that were answered, by the class of the status.");

        for (size_t i = 0; i <= n_routes && r == 0; i++) {
                route_labels(i, labels, sizeof(labels));
                for (size_t c = 0; c < CLASSES && r == 0; c++) {
                        uint64_t n = get(&m->routes[i].by_class[c]);
                        if (n > 0)
                                r = buffer_printf(b, "glovebox_requests_total{%sstatus=\"%zuxx\"} %" PRIu64 "\n", labels, c, n);
                }
        }
        if (r == 0)
                r = add_head(b, "glovebox_request_duration_seconds", "histogram", "From the first byte of a request to the last of its answer.");
        for (size_t i = 0; i <= n_routes && r == 0; i++) {
                uint64_t n = 0;
                for (size_t c = 0; c < CLASSES; c++)
                        n += get(&m->routes[i].by_class[c]);
                route_labels(i, labels, sizeof(labels));
                if (n > 0)
                        r = add_histogram(b, "glovebox_request_duration_seconds", labels, &m->routes[i].took);
        }
        return r;
}

static int add_runs(struct buffer *b, const struct metrics *m)
{
        int r = add_head(b, "glovebox_runs_total", "counter", "Runs that have ended, by verdict; none: nothing was run.");

        for (size_t i = 0; i < ARRAY_SIZE(verdicts) && r == 0; i++)
                r = buffer_printf(b, "glovebox_runs_total{verdict=\"%s\"} %" PRIu64 "\n", verdicts[i], get(&m->runs[i]));
        if (r == 0)
                r = add_head(b, "glovebox_guard_findings_total", "counter", "What rules found in the code of runs, by what was done about it.");
        for (size_t i = 0; i < ARRAY_SIZE(actions) && r == 0; i++)
                r = buffer_printf(b, "glovebox_guard_findings_total{action=\"%s\"} %" PRIu64 "\n", actions[i], get(&m->findings[i]));
        if (r == 0)
                r = add_head(b, "glovebox_run_duration_seconds", "histogram", "From the request of a run to its end.");
        return r < 0 ? r : add_histogram(b, "glovebox_run_duration_seconds", "", &m->run_took);
}

static int add_counters(struct buffer *b, const struct metrics *m)
{
        int r = 0;

        for (int i = 0; i < METRICS_NUMBERS && r == 0; i++)
                r = add_number(b, numbers[i].name, i < METRICS_CONNECTIONS ? "counter" : "gauge", numbers[i].help,
                               metrics_get(m, (enum metrics_number)i));
        return r;
}

static int add_state(struct buffer *b, struct server *s)
{
        struct live_counts counts = {0};
        struct journal_stats journal = {0};
        struct workers_counts workers = {0};

        live_count(s->live, NULL, &counts);
        workers_count(s->workers, &workers);
        bool read = journal_stats(s->journal, &journal, NULL) == 0; /* rows of one that cannot be read are left out */
        const struct {
                const char *name, *type, *help;
                uint64_t value;
                bool unknown;
        } rows[] = {
                {"glovebox_sessions", "gauge", "Sessions that live.", counts.sessions},
                {"glovebox_runs", "gauge", "Runs that go on.", counts.runs},
                {"glovebox_memory_limit_bytes", "gauge", "The sum of the memory limits of what lives.", counts.memory_bytes},
                {"glovebox_journal_bytes", "gauge", "Size of the journal with its log.",
                 journal.bytes + journal.wal_bytes, !read},
                {"glovebox_journal_runs", "gauge", "Records of runs in the journal.", journal.runs, !read},
                {"glovebox_journal_removed_runs_total", "counter", "Records that were removed for its limits.",
                 journal.removed_runs, !read},
                {"glovebox_worker_threads", "gauge", "Worker threads.", workers.threads},
                {"glovebox_worker_threads_busy", "gauge", "Worker threads with something to do.", workers.busy},
                {"glovebox_requests_waiting", "gauge", "Requests that wait for a thread.", workers.waiting},
                {"glovebox_egress_restarts_total", "counter", "Times that the proxy of networks with an allowlist had died and was started again.", network_restarts()},
                {"glovebox_log_dropped_total", "counter", "Lines of the log that nobody took in time.", log_dropped()},
                {"glovebox_ready", "gauge", "1 when new work is taken.", atomic_load(&s->state) == SERVER_READY},
        };
        int r = 0;
        for (size_t i = 0; i < ARRAY_SIZE(rows) && r == 0; i++)
                r = rows[i].unknown ? 0 : add_number(b, rows[i].name, rows[i].type, rows[i].help,
                                                     (int64_t)rows[i].value);
        return r;
}

static int add_process(struct buffer *b, const struct server *s)
{
        struct process_numbers p;

        process_numbers(&p);
        int r = p.resident_known ? add_number(b, "process_resident_memory_bytes", "gauge",
                                              "Memory of the server itself.", (int64_t)p.resident_bytes) : 0;
        if (r == 0 && p.descriptors_known)
                r = add_number(b, "process_open_fds", "gauge", "Descriptors of the server.", (int64_t)p.descriptors);
        if (r == 0 && p.cpu_known)
                r = add_head(b, "process_cpu_seconds_total", "counter", "Processor time of the server itself.");
        if (r == 0 && p.cpu_known)
                r = buffer_printf(b, "process_cpu_seconds_total %.6f\n", (double)p.cpu_usec / 1e6);
        if (r == 0)
                r = add_head(b, "process_start_time_seconds", "gauge", "When it was started, since 1970.");
        if (r == 0)
                r = buffer_printf(b, "process_start_time_seconds %.6f\n", (double)s->started_usec / 1e6);
        if (r == 0)
                r = add_head(b, "glovebox_build_info", "gauge", "The version.");
        return r < 0 ? r : buffer_printf(b, "glovebox_build_info{version=\"%s\"} 1\n", GLOVEBOX_VERSION);
}

void api_metrics(struct request *r)
{
        static const char *const none[] = {NULL};
        _cleanup_buffer_ struct buffer text;
        gb_error err = {0};

        buffer_init(&text, METRICS_BYTES_MAX);
        if (request_check_query(r, none, &err) < 0) {
                reply_error(r, &err);
                return;
        }
        if (add_requests(&text, r->server->metrics) < 0 || add_runs(&text, r->server->metrics) < 0 || add_counters(&text, r->server->metrics) < 0 ||
            add_state(&text, r->server) < 0 || add_process(&text, r->server) < 0) {
                error_set(&err, GB_E_INTERNAL, ENOMEM, "out of memory");
                reply_error(r, &err);
                return;
        }
        if (reply_begin(r, 200, "text/plain; version=0.0.4; charset=utf-8", (int64_t)text.size) == 0 && reply_write(r, text.data, text.size) == 0)
                (void)reply_end(r);
}
