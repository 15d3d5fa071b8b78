/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts of TLS are used by the loop's thread. A new certificate is read and checked by main, in a context of its own, and handed over: the loop puts certificate, chain
 * and key into the context that its listeners have, between two handshakes. Connections that stand keep what they have. */
#include "server/serve.h"

#include "base/fd.h"
#include "base/quote.h"
#include "guard/rules.h"
#include "server/log.h"
#include "server/loop.h"
#include "server/notify.h"
#include "server/tls.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void on_beat(evutil_socket_t fd, short what, void *data)
{
        struct serve *s = data;

        atomic_store(&s->loop_alive_usec, monotonic_usec());
}

static void on_reload(evutil_socket_t fd, short what, void *data)
{
        struct serve *s = data;
        STACK_OF(X509) *chain = NULL;
        uint64_t n;

        if (read(s->reload, &n, sizeof(n)) < 0)
                return;
        SSL_CTX *next = atomic_exchange(&s->next_tls, NULL);
        if (!next)
                return;
        SSL_CTX_get0_chain_certs(next, &chain);
        if (SSL_CTX_use_cert_and_key(s->tls, SSL_CTX_get0_certificate(next), SSL_CTX_get0_privatekey(next), chain, 1) == 1)
                log_info("certificate", "was read again");
        else
                log_error("certificate", "could not be taken; the old one stays");
        SSL_CTX_free(next);
}

int serve_join_loop(struct serve *s, gb_error *err)
{
        struct event_base *base = loop_base(s->server.loop);
        struct timeval beat = {.tv_sec = LOOP_BEAT_USEC / 1000000};

        s->reload = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        s->beat_event = event_new(base, -1, EV_PERSIST, on_beat, s);
        s->reload_event = event_new(base, s->reload, EV_READ | EV_PERSIST, on_reload, s);
        atomic_store(&s->loop_alive_usec, monotonic_usec());
        if (s->reload < 0 || !s->beat_event || !s->reload_event || event_add(s->beat_event, &beat) < 0 || event_add(s->reload_event, NULL) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot add an event to the loop");
        return 0;
}

/* ---- rules ---- */

/* Compiling them can take many seconds, in which main has to hear of signals: a thread does it. It knows nothing of the server, and outlives it if it must. */
struct rules_reading {
        int tell; /* a pipe: this struct's address, at the end */
        int result;
        gb_error error;
};

static void *read_rules(void *data)
{
        struct rules_reading *reading = data;
        _cleanup_close_ int tell = reading->tell;

        reading->result = rules_reload(&reading->error);
        if (write(tell, &reading, sizeof(reading)) != sizeof(reading)) /* NOLINT: pointers are meant */
                free(reading);
        return NULL;
}

static void begin_rules(struct serve *s)
{
        struct rules_reading *reading = calloc(1, sizeof(*reading));
        int pair[2] = {-1, -1};
        pthread_attr_t detached;
        pthread_t thread;

        if (s->rules_told >= 0) {
                s->rules_again = true;
                free(reading);
                return;
        }
        pthread_attr_init(&detached);
        pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        if (reading && pipe2(pair, O_CLOEXEC) == 0) {
                reading->tell = pair[1];
                if (pthread_create(&thread, &detached, read_rules, reading) == 0) {
                        s->rules_told = pair[0];
                        pthread_attr_destroy(&detached);
                        return;
                }
        }
        pthread_attr_destroy(&detached);
        safe_close(pair[0]);
        safe_close(pair[1]);
        free(reading);
        log_error("rules", "cannot be read again: there is no memory, or no thread; the old ones stay");
}

/* Sessions that live keep those that they have. */
void serve_take_rules(struct serve *s)
{
        struct rules_reading *told = NULL;
        gb_error err = {.code = GB_E_INTERNAL, .message = "they could not be read"};
        int r = -EIO;

        if (read(s->rules_told, &told, sizeof(told)) == sizeof(told)) { /* NOLINT: pointers are meant */
                err = told->error;
                r = told->result;
                free(told);
        }
        s->rules_told = safe_close(s->rules_told);
        if (r == 0) {
                r = serve_check_rules(&s->server, &err);
                if (r < 0)
                        rules_reload_undo();
        }
        if (r < 0)
                log_error("rules", "%s; the old ones stay", err.message);
        else
                log_info("rules", "were read again");
        if (s->rules_again) {
                s->rules_again = false;
                begin_rules(s);
        }
}

/* ---- both ---- */

void serve_reload(struct serve *s)
{
        static const uint64_t one = 1;
        const struct server_config *c = &s->server.config;
        gb_error err = {0};
        SSL_CTX *next = NULL;

        begin_rules(s);
        if (!s->tls) {
                log_info("reload", "SIGHUP: there is no certificate to read again; tokens are always read anew, and rules are being read");
                return;
        }
        if (tls_context_new(c->certificate, c->key, &next, &err) < 0) {
                log_error("certificate", "%s; the old one stays", err.message);
                return;
        }
        SSL_CTX_free(atomic_exchange(&s->next_tls, next)); /* one that nobody took yet */
        if (write(s->reload, &one, sizeof(one)) < 0)
                log_error("certificate", "the loop could not be told: %s", strerror(errno));
}

void serve_leave_loop(struct serve *s)
{
        if (s->beat_event)
                event_free(TAKE_PTR(s->beat_event));
        if (s->reload_event)
                event_free(TAKE_PTR(s->reload_event));
        SSL_CTX_free(atomic_exchange(&s->next_tls, NULL));
        s->reload = safe_close(s->reload);
        s->rules_told = safe_close(s->rules_told);
}
