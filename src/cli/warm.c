/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox warm: keeps templates warm for this user's other processes.
 *
 * Starting a template takes as long as its imports, and nothing else is done meanwhile. A signal that comes then ends the
 * process from its handler, which is well: what it has started ends with it. At other times the signal wakes the loop,
 * and the end is an orderly one. */
#include "engine/warm.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "policy/template.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TEMPLATE_DEFAULT "python"
/* A template that does not stay is started again after this time, and twice that for each further time. */
#define RETRY_USEC 500000ULL
#define RETRY_MAX_USEC 60000000ULL
/* One that has lived so long died for another reason than the one before. */
#define STAYED_USEC 10000000ULL

struct kept {
        struct template template; /* as in the table, with the pool that was asked for */
        uint64_t ready_usec, retry_usec, delay_usec;
};

struct warm {
        struct warm_server *server;
        struct policy *policy;
        struct templates *all;
        struct kept kept[TEMPLATES_MAX];
        size_t n;
        bool json, quiet;
};

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t is_starting, wake_fd = -1;
static const struct warm_server *volatile serving;

static void on_signal(int number)
{
        static const uint64_t one = 1;
        int saved = errno;

        if (is_starting) {
                if (serving)
                        warm_server_abandon(serving);
                _exit(0);
        }
        if (write(wake_fd, &one, sizeof(one)) < 0) {
                /* It is full: the loop will wake anyway. */
        }
        errno = saved;
}

static int watch_signals(gb_error *err)
{
        struct sigaction act = {.sa_handler = on_signal}, old;

        int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make an eventfd: %s", strerror(errno));
        wake_fd = fd;
        signal(SIGPIPE, SIG_IGN);
        for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
                sigaddset(&act.sa_mask, signals[i]);
        for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
                if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
                        sigaction(signals[i], &act, NULL);
        return fd;
}

/* ---- what is said ---- */

/* Of the names that came from inside, those that are in the table. */
static json_t *list_missing(const struct template *t, const char *missing)
{
        json_t *list = json_array();

        for (size_t i = 0; t->modules[i]; i++) {
                size_t n = strlen(t->modules[i]);
                for (const char *at = missing; *at; at += strcspn(at, " "), at += strspn(at, " "))
                        if (strcspn(at, " ") == n && strncmp(at, t->modules[i], n) == 0) {
                                json_array_append_new(list, json_string(t->modules[i]));
                                break;
                        }
        }
        return list;
}

static void say_ready(const struct warm *w, const struct kept *k, const struct warm_status *status)
{
        _cleanup_json_ json_t *missing = list_missing(&k->template, status->missing);
        _cleanup_buffer_ struct buffer line;
        double seconds = (double)status->took_usec / 1e6;

        if (w->quiet)
                return;
        buffer_init(&line, TEXT_BYTES_MAX);
        if (w->json) {
                _cleanup_json_ json_t *json = json_pack("{s:s, s:s, s:f, s:i, s:O}", "event", "ready", "template", k->template.name, "seconds",
                                                        seconds, "pool", (int)k->template.pool, "missing", missing);
                (void)output_json(json);
                return;
        }
        (void)buffer_printf(&line, "%s ready in %.1f s, %u session%s ahead", k->template.name, seconds, k->template.pool,
                            k->template.pool == 1 ? "" : "s");
        for (size_t i = 0; i < json_array_size(missing); i++)
                (void)buffer_printf(&line, "%s%s", i == 0 ? "; not found: " : ", ", json_string_value(json_array_get(missing, i)));
        (void)buffer_add_string(&line, "\n");
        (void)output_text(&line);
}

/* ---- the templates ---- */

static int start(struct warm *w, struct kept *k, gb_error *err)
{
        struct warm_status status;

        is_starting = 1;
        int r = warm_server_start(w->server, &k->template, w->policy, &status, err);
        is_starting = 0;
        if (r < 0)
                return r;
        k->ready_usec = monotonic_usec();
        k->retry_usec = 0;
        say_ready(w, k, &status);
        return 0;
}

/* It has ended, or could not be started. */
static void put_off(struct kept *k, uint64_t now)
{
        if (k->ready_usec > 0 && now - k->ready_usec >= STAYED_USEC)
                k->delay_usec = 0;
        k->retry_usec = now + k->delay_usec;
        k->delay_usec = k->delay_usec == 0 ? RETRY_USEC : MIN(2 * k->delay_usec, RETRY_MAX_USEC);
        k->ready_usec = 0;
}

static void look_after(struct warm *w, struct kept *k)
{
        struct pollfd p = {.fd = warm_server_event_fd(&k->template), .events = POLLIN};
        uint64_t now = monotonic_usec();
        gb_error err = {0};

        if (k->retry_usec == 0 && p.fd >= 0 && poll(&p, 1, 0) == 0)
                return;
        if (k->retry_usec == 0) {
                put_off(k, now);
                message_print(MESSAGE_WARNING, "the template %s has ended; it is started again", k->template.name);
        }
        if (now < k->retry_usec)
                return;
        if (start(w, k, &err) < 0) {
                now = monotonic_usec();
                put_off(k, now);
                message_print(MESSAGE_WARNING, "%s; the next try is in %.1f s", err.message, (double)(k->retry_usec - now) / 1e6);
        }
}

/* Until the next that is to be tried again. */
static int wait_msec(const struct warm *w)
{
        uint64_t now = monotonic_usec(), next = UINT64_MAX;

        for (size_t i = 0; i < w->n; i++)
                if (w->kept[i].retry_usec > 0)
                        next = MIN(next, w->kept[i].retry_usec);
        if (next == UINT64_MAX)
                return -1;
        return next <= now ? 0 : (int)((next - now) / 1000 + 1);
}

static void serve(struct warm *w)
{
        struct pollfd p[1 + TEMPLATES_MAX] = {{.fd = wake_fd, .events = POLLIN}};

        for (;;) {
                for (size_t i = 0; i < w->n; i++)
                        p[1 + i] = (struct pollfd){w->kept[i].retry_usec > 0 ? -1 : warm_server_event_fd(&w->kept[i].template), POLLIN, 0};
                if (poll(p, 1 + w->n, wait_msec(w)) < 0 && errno != EINTR)
                        return;
                if (p[0].revents)
                        return;
                for (size_t i = 0; i < w->n; i++)
                        look_after(w, &w->kept[i]);
        }
}

/* ---- the verb ---- */

static int keep(struct warm *w, const char *name, const char *pool, gb_error *err)
{
        const struct template *t;
        uint64_t n;

        int r = template_by_name(w->all, name, &t, err);
        if (r < 0)
                return r;
        for (size_t i = 0; i < w->n; i++)
                if (strcmp(w->kept[i].template.name, t->name) == 0)
                        return error_set(err, GB_E_USAGE, 0, "the template %s is named twice", t->name);
        w->kept[w->n].template = *t;
        if (pool && (parse_count(pool, &n) < 0 || n > TEMPLATE_POOL_MAX))
                return error_set(err, GB_E_USAGE, ERANGE, "--pool takes a number from 0 to %d, not %s", TEMPLATE_POOL_MAX, quote(pool).text);
        if (pool)
                w->kept[w->n].template.pool = (unsigned)n;
        w->n++;
        return 0;
}

static int prepare(struct warm *w, const struct option_set *set, const struct arguments *a, gb_error *err)
{
        const char *pool = arguments_get(a, OPT_POOL);

        w->json = arguments_has(a, OPT_JSON);
        w->quiet = arguments_has(a, OPT_QUIET);
        int r = settings_policy(set, a, &w->policy, err);
        if (r == 0)
                r = templates_load(NULL, &w->all, err);
        for (size_t i = 0; r == 0 && i < a->n_words; i++)
                r = keep(w, a->words[i], pool, err);
        if (r == 0 && a->n_words == 0)
                r = keep(w, TEMPLATE_DEFAULT, pool, err);
        if (r == 0 && !w->policy->warm)
                r = error_set(err, GB_E_USAGE, EINVAL, "the policy says warm: false: nothing would use a template");
        return r;
}

static int run(struct warm *w, gb_error *err)
{
        _cleanup_close_ int fd = watch_signals(err);
        int r = fd;

        if (r >= 0)
                r = warm_server_open(&w->server, err);
        if (r < 0)
                return r;
        serving = w->server;
        for (size_t i = 0; r == 0 && i < w->n; i++)
                r = start(w, &w->kept[i], err);
        if (r == 0)
                serve(w);
        /* A second signal ends what takes too long. */
        warm_server_abandon(w->server);
        serving = NULL;
        is_starting = 1;
        return r;
}

int command_warm(const struct command *command, const struct arguments *arguments)
{
        gb_error err = {.code = GB_E_INTERNAL, .message = "unknown failure"};
        struct warm *w = calloc(1, sizeof(*w));
        int r;

        if (!w)
                r = error_set(&err, GB_E_INTERNAL, ENOMEM, "out of memory");
        else if (arguments_has(arguments, OPT_STOP))
                r = arguments->n_words > 0 ? error_set(&err, GB_E_USAGE, 0, "--stop takes no template: it ends all") : warm_stop(&err);
        else {
                r = prepare(w, &command->options, arguments, &err);
                if (r == 0)
                        r = run(w, &err);
                warm_server_close(w->server);
                templates_free(w->all);
                policy_free(w->policy);
        }
        free(w);
        return r < 0 ? command_fail(arguments, &err) : 0;
}
