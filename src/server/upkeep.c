/* SPDX-License-Identifier: Apache-2.0
 *
 * A template is started by the first session that comes from it, which has to wait for its imports; so the keeper opens one and closes it again. It
 * also tells the warden which sessions to have ready. When the template ends (its warden died, or somebody killed it) the keeper does so again,
 * after a pause that grows with each time it did not help. */
#include "server/upkeep.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/quote.h"
#include "engine/network.h"
#include "engine/session.h"
#include "server/log.h"
#include "server/mcp.h"
#include "server/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TIDY_USEC 1000000ULL
#define SWEEP_USEC 60000000ULL
#define RETRY_USEC 500000ULL
#define RETRY_MAX_USEC 60000000ULL
#define STAYED_USEC 10000000ULL /* one that lived so long ended for another reason than the one before */
#define BOX_USER 1000           /* inside, as sessions have it */

struct kept {
        const struct template *template;
        bool tried;
        uint64_t ready_usec, retry_usec, delay_usec; /* retry 0: it waits */
};

struct upkeep {
        struct server *server;
        struct kept kept[16];
        size_t n;
        int stop, warm; /* eventfds */
        pthread_t tidier, keeper, sweeper;
        bool tidying, keeping, sweeping;
        _Atomic bool is_warm;
};

static bool stops(const struct upkeep *u, int msec)
{
        struct pollfd p = {.fd = u->stop, .events = POLLIN};

        return poll(&p, 1, msec) > 0;
}

/* What was open through the proxy has ended then, and somebody may want to know why. */
static unsigned tell_restarts(unsigned told)
{
        unsigned now = network_restarts();

        if (now != told)
                log_warning("egress", "the proxy of networks with an allowlist has died and was started again (%u in all): connections that were open have ended", now);
        return now;
}

static void *tidy(void *data)
{
        struct upkeep *u = data;
        unsigned restarts = 0;
        gb_error err = {0};
        bool failed = false;

        while (!stops(u, (int)(TIDY_USEC / 1000))) {
                int r = journal_tidy(u->server->journal, &err);
                if (r == 0)
                        r = tokens_tidy(u->server->tokens, u->server->journal, &err);
                if (r < 0 && !failed) /* once, and not each second */
                        log_warning("journal", "the journal cannot be tidied: %s", err.message);
                failed = r < 0;
                mcp_tidy(u->server->mcp);
                restarts = tell_restarts(restarts);
        }
        return NULL;
}

/* Containers outlive their makers: what others left that were killed goes. An engine may take its time, so nobody waits for this. */
static void *sweep(void *data)
{
        static const struct backend_sweep silently;
        struct upkeep *u = data;
        bool failed = false;

        do {
                gb_error err = {0};
                int r = backends_sweep(&silently, &err);
                if (r < 0 && !failed) /* once, and not each minute */
                        log_warning("backend", "what dead processes have left cannot be removed: %s", err.message);
                failed = r < 0;
        } while (!stops(u, (int)(SWEEP_USEC / 1000)));
        return NULL;
}

static void say_ready(struct upkeep *u)
{
        static const uint64_t one = 1;

        for (size_t i = 0; i < u->n; i++)
                if (!u->kept[i].tried)
                        return;
        if (!atomic_exchange(&u->is_warm, true) && write(u->warm, &one, sizeof(one)) < 0) {
                /* It is full: it wakes anyway. */
        }
}

/* It has ended, or cannot be started. */
static void put_off(struct kept *k, uint64_t now)
{
        if (k->ready_usec > 0 && now - k->ready_usec >= STAYED_USEC)
                k->delay_usec = 0;
        else if (k->ready_usec == 0)
                k->delay_usec = MAX(k->delay_usec, (uint64_t)RETRY_USEC);
        k->retry_usec = now + k->delay_usec;
        k->delay_usec = k->delay_usec == 0 ? RETRY_USEC : MIN(2 * k->delay_usec, RETRY_MAX_USEC);
        k->ready_usec = 0;
}

static void start(struct upkeep *u, struct kept *k)
{
        struct session_options options = {.policy = u->server->policy, .template = k->template, .languages = u->server->languages,
                                          .uid = BOX_USER, .gid = BOX_USER};
        _cleanup_session_ struct session *session = NULL;
        gb_error err = {0};
        uint64_t begin = monotonic_usec();

        int r = session_open(&options, &session, &err);
        const struct control_status *layout = r == 0 ? &session_controls(session)->status[CONTROL_LAYOUT] : NULL;
        if (layout && layout->state != CONTROL_WEAKER)
                r = error_set(&err, GB_E_UNENFORCEABLE, ENOTSUP, "sessions of the server's policy cannot come from it (%s)", layout->how);
        uint64_t now = monotonic_usec();
        k->tried = true;
        if (r == 0) {
                k->ready_usec = now;
                k->retry_usec = 0;
                log_info("template", "the template %s waits, after %.1f s", k->template->name, (double)(now - begin) / 1e6);
        } else {
                put_off(k, now);
                log_warning("template", "the template %s cannot be started: %s; the next try is in %.1f s", k->template->name, err.message,
                            (double)(k->retry_usec - now) / 1e6);
        }
        say_ready(u);
}

/* The channel of the template that stands behind a row; -1: none does. */
static int channel_of(const struct kept *k)
{
        return k->retry_usec == 0 && k->tried ? backend_native.warm->event_fd(k->template) : -1;
}

static void look_after(struct upkeep *u, struct kept *k)
{
        struct pollfd p = {.fd = channel_of(k), .events = POLLIN};
        uint64_t now = monotonic_usec();

        if (!k->tried) {
                start(u, k);
                return;
        }
        if (k->retry_usec == 0) {
                if (p.fd >= 0 && poll(&p, 1, 0) == 0)
                        return;
                put_off(k, now);
                log_warning("template", "the template %s has ended; it is started again", k->template->name);
        }
        if (now >= k->retry_usec)
                start(u, k);
}

static void *keep(void *data)
{
        struct upkeep *u = data;

        for (;;) {
                struct pollfd p[1 + ARRAY_SIZE(u->kept)] = {{.fd = u->stop, .events = POLLIN}};
                int wait = -1;

                for (size_t i = 0; i < u->n; i++) {
                        uint64_t now = monotonic_usec(), retry = u->kept[i].retry_usec;
                        p[1 + i] = (struct pollfd){channel_of(&u->kept[i]), POLLIN, 0};
                        int msec = !u->kept[i].tried || (retry == 0 && p[1 + i].fd < 0) ? 0 : retry == 0 ? -1 : retry <= now ? 0 : (int)((retry - now) / 1000 + 1);
                        if (msec >= 0 && (wait < 0 || msec < wait))
                                wait = msec;
                }
                if (poll(p, 1 + u->n, wait) < 0 && errno != EINTR)
                        return NULL;
                for (size_t i = 0; i < u->n; i++) {
                        if (stops(u, 0))
                                return NULL;
                        look_after(u, &u->kept[i]);
                }
                if (stops(u, 0))
                        return NULL;
        }
}

int upkeep_start(struct server *server, struct upkeep **ret, gb_error *err)
{
        struct upkeep *u = calloc(1, sizeof(*u));
        int r = 0;

        if (!u)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        _Static_assert(ARRAY_SIZE(u->kept) == ARRAY_SIZE(server->config.warm), "a place for each");
        u->server = server;
        u->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        u->warm = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        for (size_t i = 0; r == 0 && i < server->config.n_warm; i++)
                r = template_by_name(server->templates, server->config.warm[i], &u->kept[u->n++].template, err);
        if (r == 0 && (u->stop < 0 || u->warm < 0))
                r = error_set(err, GB_E_INTERNAL, EMFILE, "cannot make an eventfd");
        if (r == 0) {
                say_ready(u);
                u->tidying = pthread_create(&u->tidier, NULL, tidy, u) == 0;
                u->keeping = u->n > 0 && pthread_create(&u->keeper, NULL, keep, u) == 0;
                bool engine = server_may_use(server, BACKEND_DOCKER);
                u->sweeping = engine && pthread_create(&u->sweeper, NULL, sweep, u) == 0;
                if (!u->tidying || (u->n > 0 && !u->keeping) || (engine && !u->sweeping))
                        r = error_set(err, GB_E_INTERNAL, EAGAIN, "cannot start a thread");
        }
        if (r < 0) {
                upkeep_stop(u);
                return r;
        }
        *ret = u;
        return 0;
}

bool upkeep_is_warm(struct upkeep *u)
{
        return atomic_load(&u->is_warm);
}

int upkeep_warm_fd(const struct upkeep *u)
{
        return u->warm;
}

void upkeep_stop(struct upkeep *u)
{
        static const uint64_t one = 1;

        if (!u)
                return;
        if (u->stop >= 0 && write(u->stop, &one, sizeof(one)) < 0) {
                /* It is full: it wakes anyway. */
        }
        if (u->tidying)
                pthread_join(u->tidier, NULL);
        if (u->keeping)
                pthread_join(u->keeper, NULL);
        if (u->sweeping)
                pthread_join(u->sweeper, NULL);
        safe_close(u->stop);
        safe_close(u->warm);
        free(u);
}
