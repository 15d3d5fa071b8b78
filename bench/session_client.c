/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program that uses sessions would do, timed, for sessions.py and backends.py: the public C API and nothing else. It takes
 * orders as lines on standard input and answers each with one line of JSON, so that others can be measured between them.
 *
 *   session_client TEMPLATE [KEY=VALUE...]
 *
 * TEMPLATE may be empty: none. Keys are those of the policy.
 *
 *   fresh COUNT PAUSE      sleeps PAUSE, opens a session, runs a line in a context, closes it
 *   once COUNT PAUSE       the same, but the line is a program of its own
 *   live COUNT PAUSE       sleeps PAUSE, runs a line in one context that lives on
 *   rate MSEC THREADS      as fresh, without pauses, each thread for itself
 *   hold COUNT             opens sessions with a context each, and keeps them
 *   ask                    runs a line in each of those, in turn
 *   drop                   closes them
 *
 * PAUSE is in microseconds. Times are in nanoseconds. Whatever is not what it should be ends the program. */
#include <glovebox/glovebox.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define COUNT_MAX 100000
#define HOLD_MAX 4096
#define THREADS_MAX 64

enum phase { OPEN, CONTEXT, RUN, CLOSE, PHASES };

struct held {
        gb_session *session;
        gb_context *context;
};

static gb_policy *policy;
static const char *template_name;
static struct held held[HOLD_MAX];
static unsigned n_held;
static uint64_t samples[COUNT_MAX][PHASES];

static __attribute__((format(printf, 1, 2), noreturn)) void die(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        fputs("session_client: ", stderr);
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        va_end(args);
        exit(1);
}

static uint64_t now_nsec(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static void sleep_usec(uint64_t usec)
{
        struct timespec t = {.tv_sec = (time_t)(usec / 1000000), .tv_nsec = (long)(usec % 1000000) * 1000};

        while (usec > 0 && nanosleep(&t, &t) < 0 && errno == EINTR)
                ;
}

/* ---- one of each ---- */

static void open_one(struct held *h, uint64_t *phases)
{
        gb_session_options options = GB_SESSION_OPTIONS_INIT;
        gb_error err = {0};

        options.template_name = template_name;
        uint64_t start = now_nsec();
        if (gb_session_open(policy, &options, &h->session, &err) < 0)
                die("cannot open a session: %s", err.message);
        uint64_t opened = now_nsec();
        if (gb_context_open(h->session, "python", &h->context, &err) < 0)
                die("cannot open a context: %s", err.message);
        phases[OPEN] = opened - start;
        phases[CONTEXT] = now_nsec() - opened;
}

static uint64_t run_one(gb_context *context, const char *code, const char *expected)
{
        gb_context_run_options options = GB_CONTEXT_RUN_OPTIONS_INIT;
        gb_result *result = NULL;
        gb_error err = {0};

        options.code = code;
        uint64_t start = now_nsec();
        int r = gb_context_run(context, &options, &result, &err);
        uint64_t took = now_nsec() - start;
        if (r < 0)
                die("cannot run: %s", err.message);
        if (strcmp(gb_result_verdict(result), "ok") != 0 || strcmp(gb_result_stdout(result, NULL), expected) != 0)
                die("%s, and it printed '%s' instead of '%s'; %s%s", gb_result_verdict(result), gb_result_stdout(result, NULL), expected,
                    gb_result_message(result), gb_result_stderr(result, NULL));
        gb_result_free(result);
        return took;
}

static void fresh_one(uint64_t *phases)
{
        struct held h = {0};

        open_one(&h, phases);
        phases[RUN] = run_one(h.context, "print(1+1)", "2\n");
        uint64_t start = now_nsec();
        gb_session_close(h.session);
        phases[CLOSE] = now_nsec() - start;
}

static void once_one(uint64_t *phases)
{
        gb_session_options options = GB_SESSION_OPTIONS_INIT;
        gb_run_options run = GB_RUN_OPTIONS_INIT;
        gb_session *session = NULL;
        gb_result *result = NULL;
        gb_error err = {0};

        options.template_name = template_name;
        run.language = "python";
        run.code = "print(1+1)";
        uint64_t start = now_nsec();
        if (gb_session_open(policy, &options, &session, &err) < 0)
                die("cannot open a session: %s", err.message);
        uint64_t opened = now_nsec();
        if (gb_session_run(session, &run, &result, &err) < 0)
                die("cannot run: %s", err.message);
        uint64_t ran = now_nsec();
        if (strcmp(gb_result_verdict(result), "ok") != 0 || strcmp(gb_result_stdout(result, NULL), "2\n") != 0)
                die("%s, and it printed '%s'; %s", gb_result_verdict(result), gb_result_stdout(result, NULL), gb_result_message(result));
        gb_result_free(result);
        gb_session_close(session);
        phases[OPEN] = opened - start;
        phases[CONTEXT] = 0;
        phases[RUN] = ran - opened;
        phases[CLOSE] = now_nsec() - ran;
}

/* The imports are there, and it is the template that did them: a fresh interpreter would need half a second. */
static void check_template(void)
{
        struct held h = {0};
        uint64_t phases[PHASES];
        bool data = strncmp(template_name, "python-data", strlen("python-data")) == 0;

        open_one(&h, phases);
        run_one(h.context, template_name[0] == '\0' ? "print([])" : data ? "import sys; print([m for m in ('numpy', 'pandas', 'matplotlib') if m not in sys.modules])"
                                : "import sys; print([m for m in ('json', 'asyncio') if m not in sys.modules])", "[]\n");
        gb_session_close(h.session);
}

/* ---- orders ---- */

static void print_samples(unsigned count, int first, int last)
{
        printf("{\"samples\":[");
        for (unsigned i = 0; i < count; i++) {
                printf(i > 0 ? ",[" : "[");
                for (int phase = first; phase <= last; phase++)
                        printf("%s%" PRIu64, phase > first ? "," : "", samples[i][phase]);
                putchar(']');
        }
        printf("]");
}

static void order_fresh(unsigned count, unsigned pause, void (*one)(uint64_t *phases))
{
        for (unsigned i = 0; i < count; i++) {
                sleep_usec(pause);
                one(samples[i]);
        }
        print_samples(count, OPEN, CLOSE);
        puts("}");
}

static void order_live(unsigned count, unsigned pause)
{
        static struct held live;
        static unsigned x;
        char expected[32];

        if (!live.session) {
                open_one(&live, samples[0]);
                run_one(live.context, "x = 0", "");
        }
        for (unsigned i = 0; i < count; i++) {
                snprintf(expected, sizeof(expected), "%u\n", ++x);
                sleep_usec(pause);
                samples[i][RUN] = run_one(live.context, "x += 1; print(x)", expected);
        }
        print_samples(count, RUN, RUN);
        puts("}");
}

struct racer {
        pthread_t thread;
        uint64_t end;
        unsigned n;
};

static void *race(void *data)
{
        struct racer *racer = data;
        uint64_t phases[PHASES];

        while (now_nsec() < racer->end) {
                fresh_one(phases);
                racer->n++;
        }
        return NULL;
}

static void order_rate(unsigned msec, unsigned threads)
{
        static struct racer racers[THREADS_MAX];
        unsigned n = 0;

        if (threads < 1 || threads > THREADS_MAX)
                die("1 to %d threads", THREADS_MAX);
        uint64_t start = now_nsec();
        for (unsigned i = 0; i < threads; i++) {
                racers[i] = (struct racer){.end = start + msec * 1000000ULL};
                if (pthread_create(&racers[i].thread, NULL, race, &racers[i]) != 0)
                        die("cannot start a thread");
        }
        for (unsigned i = 0; i < threads; i++) {
                pthread_join(racers[i].thread, NULL);
                n += racers[i].n;
        }
        printf("{\"sessions\":%u,\"nsec\":%" PRIu64 "}\n", n, now_nsec() - start);
}

static void order_hold(unsigned count)
{
        if (n_held > 0 || count > HOLD_MAX)
                die("at most %d sessions, once", HOLD_MAX);
        uint64_t start = now_nsec();
        for (; n_held < count; n_held++)
                open_one(&held[n_held], samples[n_held]);
        uint64_t took = now_nsec() - start;
        print_samples(count, OPEN, CONTEXT);
        printf(",\"nsec\":%" PRIu64 "}\n", took);
}

static void order_ask(void)
{
        for (unsigned i = 0; i < n_held; i++)
                samples[i][RUN] = run_one(held[i].context, "print(1+1)", "2\n");
        print_samples(n_held, RUN, RUN);
        puts("}");
}

static void order_drop(void)
{
        uint64_t start = now_nsec();

        for (unsigned i = 0; i < n_held; i++)
                gb_session_close(held[i].session);
        n_held = 0;
        printf("{\"nsec\":%" PRIu64 "}\n", now_nsec() - start);
}

static void obey(const char *line)
{
        unsigned a = 0, b = 0;
        char verb[16];

        if (sscanf(line, "%15s %u %u", verb, &a, &b) < 1)
                return;
        if ((strcmp(verb, "fresh") == 0 || strcmp(verb, "once") == 0 || strcmp(verb, "live") == 0) && a > COUNT_MAX)
                die("at most %d at a time", COUNT_MAX);
        if (strcmp(verb, "fresh") == 0)
                order_fresh(a, b, fresh_one);
        else if (strcmp(verb, "once") == 0)
                order_fresh(a, b, once_one);
        else if (strcmp(verb, "live") == 0)
                order_live(a, b);
        else if (strcmp(verb, "rate") == 0)
                order_rate(a, b);
        else if (strcmp(verb, "hold") == 0)
                order_hold(a);
        else if (strcmp(verb, "ask") == 0)
                order_ask();
        else if (strcmp(verb, "drop") == 0)
                order_drop();
        else
                die("there is no order '%s'", verb);
        fflush(stdout);
}

/* A session holds some ten descriptors. */
static void raise_descriptor_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                die("cannot read the limit of descriptors");
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* "backend=docker" */
static void set_value(const char *text)
{
        const char *equals = strchr(text, '=');
        gb_error err = {0};
        char key[64];

        if (!equals || (size_t)(equals - text) >= sizeof(key))
                die("'%s' is not KEY=VALUE", text);
        snprintf(key, sizeof(key), "%.*s", (int)(equals - text), text);
        if (gb_policy_set(policy, key, equals + 1, &err) < 0)
                die("%s", err.message);
}

int main(int argc, char **argv)
{
        gb_error err = {0};
        char line[128];

        if (argc < 2)
                die("name a template");
        template_name = argv[1];
        raise_descriptor_limit();
        if (gb_policy_load(NULL, NULL, &policy, &err) < 0)
                die("%s", err.message);
        for (int i = 2; i < argc; i++)
                set_value(argv[i]);
        uint64_t start = now_nsec();
        check_template();
        printf("{\"version\":\"%s\",\"ready_nsec\":%" PRIu64 "}\n", gb_version(), now_nsec() - start);
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin))
                obey(line);
        gb_policy_free(policy);
        return 0;
}
