/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a server.
 *
 *   starting   everything that can be wrong is looked at: configuration, policy, languages, templates, journal, tokens, sockets, certificate.
 *              Nothing answers before all of it is there
 *   ready      threads: this one waits for signals, for the end of who started us, and for time; the loop accepts and reads (loop.h); workers
 *              do what was asked (workers.h); the keeper of templates starts those of `warm` and starts them again; the tidier
 *              keeps the journal within its bounds
 *   draining   after the first SIGTERM or SIGINT: new work is refused, what goes on may end, up to `drain`
 *   stopping   at once after a second signal: what still runs is ended, and told so in the journal; then the threads, the loop, the journal
 *
 * Signals are blocked in every thread and read here. */
#include "server/serve.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/quote.h"
#include "engine/watch.h"
#include "guard/reader.h"
#include "image/store.h"
#include "server/commands.h"
#include "server/live.h"
#include "server/log.h"
#include "server/loop.h"
#include "server/mcp.h"
#include "server/metrics.h"
#include "server/notify.h"
#include "server/privilege.h"
#include "server/scrubbing.h"
#include "server/tls.h"
#include "server/upkeep.h"
#include "server/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static uint64_t realtime_usec(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- starting ---- */

static int check_warm(const struct server *server, gb_error *err)
{
        const struct template *t;

        if (server->config.n_warm > 0 && !server->policy->warm)
                return error_set(err, GB_E_USAGE, EINVAL, "warm: the policy says warm: false, nothing would use a template");
        if (server->config.n_warm > 0 && (server->policy->backend != BACKEND_NATIVE || server->policy->image))
                return error_set(err, GB_E_USAGE, EINVAL, "warm: the policy has %s, nothing would use a template",
                                 server->policy->image ? "an image" : "the backend docker");
        for (size_t i = 0; i < server->config.n_warm; i++)
                if (template_by_name(server->templates, server->config.warm[i], &t, err) < 0)
                        return error_prefix(err, "warm");
        return 0;
}

/* Who starts a server for himself chooses by his own environment, as for a run without one. A service has that of its manager, and only its files count. */
static int take_environment(struct policy *p, gb_error *err)
{
        static const struct {
                const char *name, *key;
        } rows[] = {{"GLOVEBOX_BACKEND", "backend"}, {"GLOVEBOX_RUNTIME", "runtime"}, {"GLOVEBOX_IMAGE", "image"}, {"GLOVEBOX_ALLOW_WEAKER", "allow_weaker"}};
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(rows) && r == 0; i++) {
                const char *value = getenv(rows[i].name);
                _cleanup_free_ char *list = value ? strdup(value) : NULL;
                char *state = NULL;
                if (value && !list)
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
                for (char *word = list ? strtok_r(list, ",", &state) : NULL; word && r == 0; word = strtok_r(NULL, ",", &state))
                        r = policy_set(p, rows[i].key, word, rows[i].name, err);
        }
        return r < 0 ? r : policy_validate(p, err);
}

static int open_policy(struct server *server, gb_error *err)
{
        int r = policy_load(server->config.policy_file, NULL, &server->policy, err);
        if (r == 0)
                r = policy_load_levels(server->config.policy_file, &server->levels, err);
        if (r < 0 || server->config.parent_fd < 0)
                return r;
        r = take_environment(server->policy, err);
        for (size_t i = 0; i < server->levels.n && r == 0; i++)
                r = take_environment(server->levels.rows[i], err);
        return r;
}

int serve_check_rules(const struct server *server, gb_error *err)
{
        const struct rules *rules;
        int r = rules_get(&rules, err);

        for (size_t i = 0; r == 0 && i <= server->levels.n; i++) {
                _cleanup_watch_ struct watch *watch = NULL;
                r = watch_open(i < server->levels.n ? server->levels.rows[i] : server->policy, &watch, err);
        }
        return r;
}

static int open_files(struct serve *s, gb_error *err)
{
        struct server *server = &s->server;

        int r = open_policy(server, err);
        if (r == 0)
                r = serve_check_rules(server, err);
        if (r == 0)
                r = languages_load(NULL, &server->languages, err);
        if (r == 0)
                r = templates_load(NULL, &server->templates, err);
        return r < 0 ? r : check_warm(server, err);
}

static int open_state(struct serve *s, gb_error *err)
{
        struct server *server = &s->server;
        uint64_t lost = 0;

        int r = journal_open(server->config.directory, &server->config.journal, &server->journal, &lost, err);
        if (r == 0)
                r = tokens_open(server->config.directory, false, &server->tokens, err);
        if (r == 0 && lost > 0)
                log_warning("lost", "%llu run%s had not ended when the last server died; their outcome is not known", (unsigned long long)lost,
                            lost == 1 ? "" : "s");
        return r;
}

static int open_tls(void *data, gb_error *err)
{
        struct serve *s = data;
        const struct server_config *c = &s->server.config;

        return c->certificate ? tls_context_new(c->certificate, c->key, &s->tls, err) : 0;
}

/* What starting would find, without making anything. */
int serve_look(struct serve *s, gb_error *err)
{
        const char *directory = s->server.config.directory;
        struct account account;
        struct stat info;

        int r = open_files(s, err);
        if (r == 0 && directory && stat(directory, &info) == 0 && !S_ISDIR(info.st_mode))
                r = error_set(err, GB_E_USAGE, ENOTDIR, "directory: %s is not a directory", directory);
        if (r == 0 && privilege_is_to_drop(&s->server.config))
                r = account_find(s->user, s->server.config.directory, &account, err);
        return r < 0 ? r : open_tls(s, err);
}

static int make_parts(struct serve *s, gb_error *err)
{
        struct server *server = &s->server;

        int r = metrics_new(&server->metrics, err);
        if (r == 0)
                r = scrubbing_new(&server->scrubbing, err);
        if (r == 0)
                log_scrub_by(scrubbing_line, server->scrubbing);
        if (r == 0)
                r = live_new(server, &server->live, err);
        if (r == 0)
                r = mcp_new(server, &server->mcp, err);
        if (r == 0)
                r = workers_new(server->config.threads, &server->workers, err);
        if (r == 0)
                r = loop_new(server, &server->loop, err);
        for (size_t i = 0; r == 0 && i < s->listeners.n; i++) {
                struct listener *l = &s->listeners.rows[i];
                r = loop_add_listener(server->loop, TAKE_FD(l->fd), l->local ? LISTENER_UNIX : LISTENER_TCP, l->tls ? s->tls : NULL, err);
        }
        return r;
}

static void *run_loop(void *data)
{
        struct serve *s = data;
        static const uint64_t one = 1;

        s->loop_result = loop_run(s->server.loop, &s->loop_error);
        if (write(s->loop_over, &one, sizeof(one)) < 0) {
                /* It is full: it wakes anyway. */
        }
        return NULL;
}

static int block_signals(struct serve *s, gb_error *err)
{
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGHUP);
        if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0 || (s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot wait for signals: %s", strerror(errno));
        signal(SIGPIPE, SIG_IGN);
        return 0;
}

bool server_may_use(const struct server *server, enum backend_kind kind)
{
        for (size_t i = 0; i < server->levels.n; i++)
                if (server->levels.rows[i]->backend == kind)
                        return true;
        for (size_t i = 0; i < server->config.n_backends; i++)
                if (strcmp(server->config.backends[i], backend_kind_name(kind)) == 0)
                        return true;
        return server->policy->backend == kind;
}

/* Of all rights of root one may have to stay: to talk to an engine, who makes anybody root that asks. */
static void keep_access(const struct server *server, struct privilege_drop *drop)
{
        gb_error err = {0};

        if (!backend_docker.keep_access || !server_may_use(server, BACKEND_DOCKER))
                return;
        if (backend_docker.keep_access(&drop->groups[0], &err) < 0) {
                log_warning("engine", "boxes of the backend docker cannot be made until the server is started anew: %s", err.message);
                return;
        }
        drop->n_groups = 1;
        log_warning("engine", "the server keeps the group %u to talk to the engine: who takes the server over can be root on this host", (unsigned)drop->groups[0]);
}

static bool has_images(const struct server *server)
{
        if (!server_may_use(server, BACKEND_NATIVE))
                return false;
        for (size_t i = 0; i < server->levels.n; i++)
                if (server->levels.rows[i]->image)
                        return true;
        return server->policy->image || server->config.n_images > 0;
}

/* Images of root's store stay those that are meant, and the account can get to them. */
static int keep_store(const struct server *server, gid_t group, gb_error *err)
{
        _cleanup_free_ char *store = NULL;
        gb_error why = {0};

        int r = image_store_path(&store, err);
        if (r == 0 && setenv("GLOVEBOX_IMAGES", store, 1) < 0)
                r = error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        /* Made now, when it is not there: what root imports later is found. */
        if (r == 0 && has_images(server) && (privilege_make_directory(store, &why) < 0 || image_store_share(group, &why) < 0))
                log_warning("images", "boxes of the backend native cannot be made from images until the server is started anew: %s", why.message);
        return r;
}

static int drop_privilege(struct serve *s, gb_error *err)
{
        const struct server_config *c = &s->server.config;
        struct account account;

        struct privilege_drop drop = {.config = c, .listeners = &s->listeners, .last = open_tls, .data = s};

        int r = privilege_make_directory(c->directory, err); /* the account may come from its real path */
        if (r == 0)
                r = account_find(s->user, c->directory, &account, err);
        if (r == 0)
                r = privilege_hand_over(c, &s->listeners, &account, err);
        if (r == 0)
                r = keep_store(&s->server, account.gid, err);
        if (r == 0) {
                keep_access(&s->server, &drop);
                r = privilege_drop(&drop, &account, err);
        }
        if (r == 0)
                log_info("user", "runs as user %u, without privilege", (unsigned)account.uid);
        return r;
}

int serve_start(struct serve *s, gb_error *err)
{
        struct server *server = &s->server;

        server->started_usec = realtime_usec();
        atomic_store(&server->state, SERVER_STARTING);
        int r = block_signals(s, err); /* before any thread */
        if (r == 0)
                r = open_files(s, err);
        if (r == 0)
                r = listeners_open(&s->listeners, &server->config, err);
        if (r == 0)
                r = privilege_is_to_drop(&server->config) ? drop_privilege(s, err) : open_tls(s, err);
        if (r == 0)
                r = open_state(s, err);
        if (r == 0)
                r = listeners_listen(&s->listeners, &server->config, tokens_count(server->tokens) > 0, err);
        /* As whom we have become, and before the first code is there to be read. */
        if (r == 0)
                reader_prepare((unsigned)MIN(server->config.threads, (uint64_t)SERVER_READERS_AHEAD));
        if (r == 0)
                r = make_parts(s, err);
        if (r == 0)
                r = serve_join_loop(s, err);
        s->loop_over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return r;
}

/* ---- ready ---- */

struct times {
        uint64_t drain_until; /* 0: not draining */
        uint64_t watchdog;    /* the next time; 0: never */
};

static void begin_drain(struct serve *s, struct times *t)
{
        struct live_counts now = {0};

        live_count(s->server.live, NULL, &now);
        log_info("draining", "ends when what goes on (%llu run%s) has ended, in %.0f s at the latest; a second signal ends it at once",
                 (unsigned long long)now.runs, now.runs == 1 ? "" : "s", (double)s->server.config.drain_usec / 1e6);
        notify_send("STOPPING=1\nSTATUS=draining, %llu runs", (unsigned long long)now.runs);
        atomic_store(&s->server.state, SERVER_DRAINING);
        loop_drain(s->server.loop);
        t->drain_until = monotonic_usec() + s->server.config.drain_usec;
}

/* Whether to end now. */
static bool on_signals(struct serve *s, struct times *t)
{
        struct signalfd_siginfo info;

        while (read(s->signals, &info, sizeof(info)) == sizeof(info)) {
                if (info.ssi_signo == SIGHUP)
                        serve_reload(s);
                else if (t->drain_until > 0)
                        return true;
                else
                        begin_drain(s, t);
        }
        return false;
}

/* Whether who started us is gone. What he writes there means nothing. */
static bool parent_is_gone(const struct pollfd *p)
{
        char bytes[64];

        if (p->revents & POLLIN)
                return read(p->fd, bytes, sizeof(bytes)) <= 0;
        return p->revents & (POLLHUP | POLLERR | POLLNVAL);
}

static bool is_quiet(struct serve *s)
{
        uint64_t connections, requests;
        struct live_counts live = {0};

        loop_count(s->server.loop, &connections, &requests);
        live_count(s->server.live, NULL, &live);
        return requests == 0 && live.runs == 0;
}

static int wait_msec(const struct times *t)
{
        uint64_t now = monotonic_usec(), wait = UINT64_MAX;

        if (t->watchdog > 0)
                wait = t->watchdog > now ? t->watchdog - now : 0;
        if (t->drain_until > 0)
                wait = MIN(wait, DRAIN_LOOK_USEC);
        return wait == UINT64_MAX ? -1 : (int)(wait / 1000 + 1);
}

/* The manager hears of us only as long as the loop comes round: a server that hangs is started anew. */
static void on_watchdog(struct serve *s, struct times *t)
{
        uint64_t now = monotonic_usec(), every = notify_watchdog_usec();
        struct live_counts live = {0};

        if (t->watchdog == 0 || now < t->watchdog)
                return;
        t->watchdog = now + every;
        live_count(s->server.live, NULL, &live);
        if (now - atomic_load(&s->loop_alive_usec) < every + 2 * LOOP_BEAT_USEC)
                notify_send("WATCHDOG=1\nSTATUS=%llu sessions, %llu runs", (unsigned long long)live.sessions, (unsigned long long)live.runs);
}

static void say_ready(struct serve *s)
{
        char text[LISTEN_ADDRESS_TEXT_MAX];

        if (atomic_load(&s->server.state) != SERVER_STARTING)
                return;
        atomic_store(&s->server.state, SERVER_READY);
        for (size_t i = 0; i < s->listeners.n; i++)
                log_info("listening", "at %s%s", quote_path(listen_address_text(&s->listeners.rows[i].address, text)).text, s->listeners.rows[i].tls ? " (TLS)" : "");
        log_info("ready", "glovebox-server %s, process %d, state in %s", GLOVEBOX_VERSION, (int)getpid(), quote_path(s->server.config.directory).text);
        notify_send("READY=1\nSTATUS=ready");
}

static void wait_for_end(struct serve *s)
{
        struct times t = {.watchdog = notify_watchdog_usec() > 0 ? monotonic_usec() : 0};
        struct pollfd p[] = {
                {.fd = s->signals, .events = POLLIN},
                {.fd = s->loop_over, .events = POLLIN},
                {.fd = s->server.config.parent_fd, .events = POLLIN},
                {.fd = upkeep_warm_fd(s->upkeep), .events = POLLIN},
                {.fd = backend_native.separated_fd()}, /* its end only */
                {.fd = -1, .events = POLLIN},
        };

        for (;;) {
                p[5].fd = s->rules_told;
                if (poll(p, ARRAY_SIZE(p), wait_msec(&t)) < 0 && errno != EINTR)
                        return;
                if (p[0].revents && on_signals(s, &t))
                        return;
                if (p[1].revents)
                        return;
                if (p[2].revents && parent_is_gone(&p[2])) {
                        log_info("parent", "who started the server is gone");
                        return;
                }
                if (p[3].revents) {
                        say_ready(s);
                        p[3].fd = -1;
                }
                if (p[4].revents) {
                        log_error("degraded", "the keeper has died: when the warden does too, nothing can be run any more. Start the server anew");
                        notify_send("STATUS=degraded: the keeper has died");
                        atomic_store(&s->server.degraded, true);
                        p[4].fd = -1;
                }
                if (p[5].revents)
                        serve_take_rules(s);
                on_watchdog(s, &t);
                if (t.drain_until > 0 && (is_quiet(s) || monotonic_usec() >= t.drain_until))
                        return;
        }
}

/* Runs that still go on are ended first, so that who waits for them hears of it. */
static void stop(struct serve *s)
{
        uint64_t end = monotonic_usec() + STOP_ANSWERS_USEC, connections, requests;

        atomic_store(&s->server.state, SERVER_DRAINING);
        notify_send("STOPPING=1");
        alarm(STOP_SEC); /* whatever hangs: what we have started ends with us */
        loop_drain(s->server.loop);
        s->left = live_stop(s->server.live);
        for (;;) {
                loop_count(s->server.loop, &connections, &requests);
                if (requests == 0 || monotonic_usec() >= end)
                        break;
                (void)poll(NULL, 0, 10);
        }
        loop_stop(s->server.loop);
        pthread_join(s->loop_thread, NULL);
        s->loop_started = false;
}

int serve_run(struct serve *s, gb_error *err)
{
        int r = upkeep_start(&s->server, &s->upkeep, err);

        if (r < 0)
                return r;
        if (pthread_create(&s->loop_thread, NULL, run_loop, s) != 0)
                return error_set(err, GB_E_INTERNAL, EAGAIN, "cannot start a thread");
        s->loop_started = true;
        wait_for_end(s);
        stop(s);
        if (s->loop_result < 0 && err)
                *err = s->loop_error;
        return s->loop_result;
}

/* ---- the end ---- */

void serve_done(struct serve *s)
{
        struct server *server = &s->server;

        upkeep_stop(TAKE_PTR(s->upkeep));
        if (server->live)
                (void)live_stop(server->live);
        workers_free(TAKE_PTR(server->workers));
        serve_leave_loop(s);
        loop_free(TAKE_PTR(server->loop));
        mcp_free(TAKE_PTR(server->mcp));
        live_free(TAKE_PTR(server->live));
        metrics_free(TAKE_PTR(server->metrics));
        reader_forget();
        log_scrub_by(NULL, NULL);
        scrubbing_free(TAKE_PTR(server->scrubbing));
        tokens_close(TAKE_PTR(server->tokens));
        journal_close(TAKE_PTR(server->journal));
        templates_free(TAKE_PTR(server->templates));
        languages_free(TAKE_PTR(server->languages));
        policy_levels_done(&server->levels);
        policy_free(TAKE_PTR(server->policy));
        tls_context_free(TAKE_PTR(s->tls));
        listeners_close(&s->listeners);
        s->loop_over = safe_close(s->loop_over);
        s->signals = safe_close(s->signals);
}
