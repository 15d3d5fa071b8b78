/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation. One loop waits for standard input, for the reader of standard output, for the connections of all calls, for signals and for a server of
 * our own. Nothing else waits, but for the start of such a server, and at the end.
 *
 * Messages go to the server in the order they came as far as that matters: what follows a handshake or a notification waits until that was taken; requests
 * run beside each other. A message that cannot be sent yet is `pending`, and no further line is looked at.
 *
 * The end: standard input ends, a signal comes, or nobody reads our output. At the end of standard input what is under way gets a moment to be answered. Then
 * the session is given back, connections are closed (which cancels what stands alone), and a server of our own ends. */
#include "cli/mcp.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/request.h"
#include "cli/secrets.h"
#include "cli/service.h"
#include "cli/signals.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define GRACE_USEC 1000000ULL    /* for answers, after standard input has ended */
#define GIVE_BACK_USEC 250000ULL /* for the server to take our session back */
#define STOP_USEC 1000000ULL     /* for a server of our own to end, while we wait */
#define FLUSH_USEC 100000ULL     /* for the reader of standard output, at the end */
#define CANCEL_WAIT_USEC 500000ULL
#define OUTPUT_KEPT_MAX (2 * MCP_MESSAGE_BYTES_MAX) /* that nobody has read: then nothing more is asked of the server */
#define FDS_MAX (MCP_CALLS_MAX + 32)

/* ---- a message to the server ---- */

/* A server of our own that is gone: with it all that it knew. */
static void on_server_end(struct bridge *b)
{
        char how[64], why[256];

        private_end_text(&b->server, how, sizeof(how));
        snprintf(why, sizeof(why), "the server %s; its sessions are lost, with their variables and files. The next call starts a new one", how);
        message_print(MESSAGE_WARNING, "the private server %s", how);
        b->again = true;
        if (b->initialize)
                b->handshake = HANDSHAKE_LOST;
        for (struct call *c = b->calls; c; c = c->next) {
                if (c->state == CALL_OVER)
                        continue;
                if (c->kind == CALL_REQUEST && !c->sent && !message_is(&c->message, "initialize"))
                        c->state = CALL_WAITS;
                else
                        call_fail(b, c, why);
        }
}

static bool waits_any(const struct bridge *b)
{
        for (const struct call *c = b->calls; c; c = c->next)
                if (c->state == CALL_WAITS)
                        return true;
        return false;
}

/* A server is there, as far as we know. */
static int ensure_server(struct bridge *b, gb_error *err)
{
        if (!b->is_private || b->server.keeper != 0)
                return 0;
        int r = private_start(&b->server, b->arguments, b->cancel_fd, err);
        if (r == 0)
                r = client_address_unix(b->server.socket, &b->address);
        return r;
}

/* Those that wait while nobody shakes hands: after the end of a server of our own. */
static void wake_waiting(struct bridge *b)
{
        gb_error err = {0};

        if (!waits_any(b) || answer_shakes_hands(b))
                return;
        int r = ensure_server(b, &err);
        for (struct call *c = b->calls; c; c = c->next)
                if (c->state == CALL_WAITS && (r < 0 || c->message.version || !b->initialize)) {
                        if (r < 0)
                                call_fail(b, c, err.message);
                        else
                                call_begin(b, c);
                }
        if (waits_any(b) && !answer_shake_hands(b))
                answer_no_handshake(b, "out of memory");
}

static void send_message(struct bridge *b, struct message *m)
{
        gb_error err = {0};
        bool of_handshake = !m->version && !message_is(m, "initialize");
        enum call_kind kind = m->id ? CALL_REQUEST : CALL_NOTIFICATION;

        b->alone = b->alone || m->version;
        if (ensure_server(b, &err) < 0) {
                if (m->id)
                        answer_error(b, m->id, MCP_INTERNAL, "%s", err.message);
                message_done(m);
                return;
        }
        struct call *c = call_new(b, kind, m);
        if (!c)
                return;
        if (of_handshake && b->handshake == HANDSHAKE_LOST) {
                c->state = kind == CALL_REQUEST ? CALL_WAITS : CALL_OVER; /* what it is about is lost, too */
                wake_waiting(b);
        } else
                call_begin(b, c);
}

/* Whether what follows has to wait for this one. */
static bool is_in_order(const struct call *c)
{
        return c->state != CALL_OVER && !c->answered &&
               (c->kind == CALL_NOTIFICATION || c->kind == CALL_HANDSHAKE || c->kind == CALL_INITIALIZED || message_is(&c->message, "initialize"));
}

/* A request could be cancelled before the server has begun with it: then it would not know it. */
static bool is_too_early(const struct call *c, uint64_t now)
{
        return c && !c->message.version && c->state == CALL_RUNS && !client_has_head(&c->client) && now < c->began_usec + CANCEL_WAIT_USEC;
}

static bool may_send(struct bridge *b, const struct message *m)
{
        if (m->id && b->n_requests >= MCP_CALLS_MAX)
                return false;
        for (const struct call *c = b->calls; c; c = c->next)
                if (is_in_order(c))
                        return false;
        return !m->cancels || !is_too_early(call_find(b, m->cancels), monotonic_usec());
}

/* What cancels a request that stands alone is for us: the end of its connection says it. */
static void send_pending(struct bridge *b)
{
        struct message m = b->pending;
        struct call *cancelled = m.cancels ? call_find(b, m.cancels) : NULL;

        b->pending = (struct message){0};
        if (cancelled)
                call_cancel(cancelled);
        if (m.cancels && (cancelled ? cancelled->message.version != NULL : b->handshake != HANDSHAKE_DONE))
                message_done(&m);
        else
                send_message(b, &m);
}

/* The next line becomes the pending message. False: there is none. */
static bool next_message(struct bridge *b)
{
        const char *why = NULL;
        char *text = NULL;
        size_t size = 0;

        switch (input_next(&b->input, &text, &size)) {
        case INPUT_NONE:
                return false;
        case INPUT_TOO_LONG:
                answer_error(b, NULL, MCP_PARSE, "a line is longer than %llu MiB, or there is no memory for it: it was skipped",
                             (unsigned long long)(MCP_LINE_BYTES_MAX / MIB));
                return true;
        case INPUT_LINE:
                break;
        }
        int code = message_read(&b->pending, text, size, &why);
        if (code != 0) {
                answer_error(b, b->pending.id, code, "%s", why);
                message_done(&b->pending);
        }
        return true;
}

static void send_lines(struct bridge *b)
{
        for (;;) {
                calls_tidy(b);
                if (b->out.late.size > OUTPUT_KEPT_MAX)
                        return; /* errors are answers, too */
                if (!b->pending.text && !next_message(b))
                        return;
                if (b->pending.text && !may_send(b, &b->pending))
                        return;
                if (b->pending.text)
                        send_pending(b);
        }
}

/* ---- the loop ---- */

enum { FD_INPUT, FD_OUTPUT, FD_CANCEL, FD_LIFE, FD_LOG, FD_CALLS };

/* Milliseconds until something is due. */
static int wait_msec(const struct bridge *b, uint64_t until)
{
        uint64_t now = monotonic_usec();

        for (const struct call *c = b->calls; c; c = c->next)
                until = MIN(until, call_time(c));
        if (b->pending.cancels)
                until = MIN(until, now + 20000); /* it may have become old enough */
        if (until == UINT64_MAX)
                return -1;
        return until <= now ? 0 : (int)MIN((until - now) / 1000 + 1, (uint64_t)60000);
}

static size_t fill_fds(struct bridge *b, struct pollfd *fds, struct call **calls)
{
        bool full = b->out.late.size > OUTPUT_KEPT_MAX;
        size_t n = FD_CALLS;

        fds[FD_INPUT] = (struct pollfd){.fd = b->input.ended || b->pending.text || full ? -1 : STDIN_FILENO, .events = POLLIN};
        fds[FD_OUTPUT] = (struct pollfd){.fd = STDOUT_FILENO, .events = sink_waits_at(&b->out) >= 0 ? POLLOUT : 0};
        fds[FD_CANCEL] = (struct pollfd){.fd = b->cancel_fd, .events = POLLIN};
        fds[FD_LIFE] = (struct pollfd){.fd = b->server.life, .events = POLLIN};
        fds[FD_LOG] = (struct pollfd){.fd = b->server.log, .events = POLLIN};
        for (struct call *c = b->calls; c && n < FDS_MAX && !full; c = c->next)
                if (c->state == CALL_RUNS && c->client.fd >= 0) {
                        calls[n] = c;
                        fds[n++] = (struct pollfd){.fd = c->client.fd, .events = client_events(&c->client)};
                }
        return n;
}

/* One round. False: that was the last. */
static bool turn(struct bridge *b, uint64_t until)
{
        struct pollfd fds[FDS_MAX];
        struct call *calls[FDS_MAX];
        size_t n = fill_fds(b, fds, calls);

        if (poll(fds, n, wait_msec(b, until)) < 0) {
                if (errno == EINTR)
                        return true;
                message_print(MESSAGE_ERROR, "cannot wait: %s", strerror(errno));
                return false;
        }
        if (fds[FD_CANCEL].revents)
                return false;
        if (fds[FD_OUTPUT].revents & POLLOUT)
                (void)sink_catch_up(&b->out);
        if (fds[FD_OUTPUT].revents & (POLLERR | POLLHUP | POLLNVAL) || b->out.error < 0)
                return false;
        if (fds[FD_LOG].revents)
                private_read_log(&b->server);
        for (size_t i = FD_CALLS; i < n; i++)
                if (fds[i].revents && calls[i]->state == CALL_RUNS)
                        call_step(b, calls[i]);
        if (fds[FD_LIFE].revents && private_has_ended(&b->server))
                on_server_end(b);
        uint64_t now = monotonic_usec();
        for (struct call *c = b->calls; c; c = c->next)
                call_look(b, c, now);
        wake_waiting(b);
        if (fds[FD_INPUT].revents) {
                int r = input_read(&b->input, STDIN_FILENO);
                if (r < 0) {
                        message_print(MESSAGE_ERROR, "cannot read standard input: %s", strerror(-r));
                        b->input.ended = b->input.failed = true;
                }
        }
        return b->out.error == 0;
}

/* Something is under way that a client may wait for, or has not read yet. */
static bool is_busy(const struct bridge *b)
{
        for (const struct call *c = b->calls; c; c = c->next)
                if (c->kind != CALL_LISTEN && c->state != CALL_OVER)
                        return true;
        return b->pending.text || b->out.late.size > 0;
}

static void run_loop(struct bridge *b)
{
        uint64_t until = UINT64_MAX;

        do {
                send_lines(b);
                if (b->input.ended && until == UINT64_MAX)
                        until = monotonic_usec() + GRACE_USEC;
                if (b->input.ended && (!is_busy(b) || monotonic_usec() >= until))
                        return;
        } while (turn(b, until));
}

/* ---- the end ---- */

/* The server has nothing of us any more: of the session of a handshake, or (NULL) of who goes by our name. */
static void give_back(struct bridge *b, const char *session)
{
        _cleanup_client_ struct client c;
        _cleanup_buffer_ struct buffer headers;

        buffer_init(&headers, CLIENT_HEAD_BYTES_MAX);
        headers.secret = true;
        client_init(&c, &b->address, b->token);
        c.head.secret = true;
        int r = buffer_add(&headers, b->headers.data, b->headers.size);
        if (r == 0 && session)
                r = buffer_printf(&headers, "Mcp-Session-Id: %s\r\n", session);
        if (r == 0 && session && b->version[0])
                r = buffer_printf(&headers, "MCP-Protocol-Version: %s\r\n", b->version);
        struct client_request request = {.method = "DELETE", .target = MCP_TARGET, .headers = headers.data, .body_fd = -1};
        if (r == 0 && client_start(&c, &request, NULL) == 0)
                (void)client_wait(&c, CLIENT_HEAD, monotonic_usec() + GIVE_BACK_USEC, -1, NULL);
}

static void bridge_done(struct bridge *b)
{
        calls_free(b);
        message_done(&b->pending);
        input_done(&b->input);
        sink_done(&b->out);
        buffer_done(&b->headers);
        if (b->initialize)
                explicit_bzero(b->initialize, b->initialize_size);
        free(b->initialize);
}

static void end(struct bridge *b)
{
        uint64_t until = monotonic_usec() + FLUSH_USEC;

        calls_free(b);
        /* One of our own has somebody who waits for news of it: he ends at once when he hears this. */
        bool there = !b->is_private || b->server.keeper != 0;
        if (there && b->session[0] && b->handshake == HANDSHAKE_DONE)
                give_back(b, b->session);
        if (there && b->alone && !b->is_private)
                give_back(b, NULL);
        b->server.hold = safe_close(b->server.hold); /* it ends while we do the rest */
        while (sink_waits_at(&b->out) >= 0 && monotonic_usec() < until) {
                struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
                if (poll(&p, 1, (int)(FLUSH_USEC / 1000)) > 0)
                        (void)sink_catch_up(&b->out);
        }
        private_stop(&b->server, monotonic_usec() + STOP_USEC);
}

/* ---- the beginning ---- */

static int random_name(char ret[static MCP_NAME_BYTES], gb_error *err)
{
        unsigned char bytes[(MCP_NAME_BYTES - 1) / 2];

        if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
                return error_set(err, GB_E_INTERNAL, EIO, "there are no random numbers");
        for (size_t i = 0; i < sizeof(bytes); i++)
                snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
        return 0;
}

/* Who we are and what sessions are made of, on each request. */
static int write_headers(struct bridge *b, const json_t *body, gb_error *err)
{
        _cleanup_wiped_ char *options = json_object_size(body) > 0 ? json_dumps(body, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
        char name[MCP_NAME_BYTES];

        if (json_object_size(body) > 0 && !options)
                return service_out_of_memory(err);
        if (options && strlen(options) > MCP_OPTIONS_BYTES_MAX)
                return error_set(err, GB_E_USAGE, E2BIG,
                                 "what the flags say takes %zu bytes, and more than %llu cannot be sent along: give fewer or shorter ones, or a policy file (--policy)",
                                 strlen(options), (unsigned long long)MCP_OPTIONS_BYTES_MAX);
        int r = random_name(name, err);
        if (r < 0)
                return r;
        r = buffer_printf(&b->headers, "Glovebox-Client: %s\r\n", name);
        if (r == 0 && options)
                r = buffer_printf(&b->headers, "Glovebox-Session: %s\r\n", options);
        return r < 0 ? service_out_of_memory(err) : 0;
}

/* Somebody else's server: it is there, it is one of ours, and it knows the token. */
static int use_server(struct bridge *b, struct service *s, const json_t *body, gb_error *err)
{
        if (json_object_get(json_object_get(body, "workspace"), "path") && s->client.address.address.ss_family != AF_UNIX)
                return error_set(err, GB_E_USAGE, EINVAL, "--workspace is a directory of this host: only a server at a unix socket can show it");
        secrets_warn(body, &s->client.address);
        int r = service_call(s, "GET", "/v1/info", NULL, NULL, err);
        if (r < 0)
                return error_prefix(err, "the server at %s", s->client.address.authority);
        b->address = s->client.address;
        b->token = s->client.token;
        return 0;
}

static int choose_server(struct bridge *b, const struct command *command, const json_t *body, gb_error *err)
{
        static const enum option_id ours[] = {OPT_PRIVATE, OPT_POLICY, OPT_WARM};
        const struct arguments *a = b->arguments;
        _cleanup_service_ struct service s = {.client = {.fd = -1}};
        const char *private = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
                for (size_t j = 0; j < a->n_uses; j++)
                        if (a->uses[j].option.id == ours[i])
                                private = a->uses[j].option.name;
        if (private && arguments_has(a, OPT_SERVER))
                return error_set(err, GB_E_USAGE, EINVAL, "--%s is for a server of its own, and --server names another one", private);
        if (!private && service_is_named(&command->options, a)) {
                int r = service_open(&command->options, a, &s, err);
                return r < 0 ? r : use_server(b, &s, body, err);
        }
        if (!private && service_try(&s) == 1)
                return use_server(b, &s, body, err);
        b->is_private = true;
        return ensure_server(b, err);
}

int command_mcp(const struct command *command, const struct arguments *arguments)
{
        _cleanup_(bridge_done) struct bridge b = {.arguments = arguments};
        _cleanup_json_ json_t *body = NULL;
        gb_error err = {0};

        private_init(&b.server, arguments_has(arguments, OPT_VERBOSE));
        input_init(&b.input);
        buffer_init(&b.headers, CLIENT_HEAD_BYTES_MAX);
        b.headers.secret = true;
        sink_init(&b.out, STDOUT_FILENO, true);
        b.out.deadline_usec = 1; /* nobody waits for the reader: the loop goes on writing */
        b.cancel_fd = signals_start();
        int r = b.cancel_fd < 0 ? error_set(&err, GB_E_INTERNAL, -b.cancel_fd, "cannot watch signals: %s", strerror(-b.cancel_fd)) : 0;
        if (r == 0)
                r = request_session(&command->options, arguments, &body, &err);
        if (r == 0)
                r = write_headers(&b, body, &err);
        if (r == 0)
                r = choose_server(&b, command, body, &err);
        if (r < 0 && signals_pending())
                return 0; /* whoever has started us has changed his mind */
        if (r < 0)
                return command_fail(arguments, &err);
        if (isatty(STDIN_FILENO))
                message_print(MESSAGE_PLAIN, "glovebox mcp speaks MCP on standard input; 'glovebox mcp install' prints the configuration for your client");
        run_loop(&b);
        end(&b);
        /* That nobody reads any more is an end like another. */
        if (b.out.error < 0 && b.out.error != -EPIPE)
                message_print(MESSAGE_ERROR, "cannot write to standard output: %s", strerror(-b.out.error));
        return b.input.failed || (b.out.error < 0 && b.out.error != -EPIPE) ? error_exit_status(GB_E_INTERNAL) : 0;
}
