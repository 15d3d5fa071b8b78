/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a request to the proxy or as an upstream's answer (the first byte says which). Where they were cut changes nothing; and what is sent on is
 * read back: it ends where the original does, is for whom it was judged for, and has nothing in it that is between two neighbours. */
#include "egress/forward_message.h"
#include "http/parser.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADERS "Authorization\0Bearer x\0X-Key\0\0"
#define HOST "a.test"

static void check(bool holds)
{
        if (!holds)
                abort();
}

/* Reads a head of ours; NULL: it has grown beyond what the parser takes. The caller frees it. */
static struct http_message *read_back(enum http_kind kind, bool no_body, const struct buffer *head)
{
        struct http_parser p;
        const char *piece;
        size_t used, n;

        http_parser_init(&p);
        p.kind = kind;
        p.no_body = no_body;
        enum http_step step = http_parser_feed(&p, head->data, head->size, &used, &piece, &n);
        if (step == HTTP_FAILED && p.status == 431) {
                http_parser_done(&p);
                return NULL;
        }
        check(step == HTTP_HEAD && used == head->size);
        struct http_message *m = TAKE_PTR(p.message);
        http_parser_done(&p);
        return m;
}

static size_t count(const struct http_message *m, const char *name)
{
        size_t i = 0, n = 0;

        while (http_message_next(m, name, &i))
                n++;
        return n;
}

static void check_fields(const struct http_message *m)
{
        static const char *const names[] = {"keep-alive", "te", "trailer", "upgrade", "proxy-authorization", "proxy-connection", "proxy-authenticate", "http2-settings"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                check(!http_message_field(m, names[i]));
        check(count(m, "content-length") <= 1 && count(m, "transfer-encoding") <= 1 && count(m, "connection") <= 1);
        const char *connection = http_message_field(m, "connection");
        check(!connection || strcmp(connection, "close") == 0);
}

static void see_request(const struct http_message *m, bool is_fixed, struct buffer *seen)
{
        struct target fixed = {.port = 443}, to, again;
        struct forward_refusal no = {0};
        _cleanup_buffer_ struct buffer head = {0};

        check(host_parse(HOST, strlen(HOST), &fixed.host) == 0);
        if (!forward_read_request(m, is_fixed ? &fixed : NULL, &to, &no)) {
                check((no.status == 400 || no.status == 403) && no.why && egress_is_denied(no.decision));
                check(buffer_printf(seen, "refused %d %s %s\n", no.status, no.why, to.host.text) == 0);
                return;
        }
        check(to.path[0] == '/' && to.port > 0 && to.host.text[0]);
        buffer_init(&head, FORWARD_HEAD_MAX);
        check(forward_write_request(m, &to, is_fixed ? 443 : 80, HEADERS, is_fixed, &head) == 0);
        check(buffer_add(seen, head.data, head.size) == 0);
        struct http_message *sent = read_back(HTTP_PROXY_REQUEST, false, &head);
        if (!sent)
                return;
        check_fields(sent);
        check(strcmp(http_message_method(sent), http_message_method(m)) == 0 && strcmp(http_message_target(sent), to.path) == 0);
        check(sent->chunked == m->chunked && sent->has_length == m->has_length && sent->content_length == m->content_length && sent->close == m->close);
        check(sent->expect_continue == m->expect_continue);
        check(count(sent, "host") == 1 && target_is_host_field(&to, http_message_field(sent, "host"), is_fixed ? 443 : 80));
        check(count(sent, "authorization") == 1 && strcmp(http_message_field(sent, "authorization"), "Bearer x") == 0);
        check(count(sent, "x-key") == 1 && count(sent, "x_key") == 0 && strcmp(http_message_field(sent, "x-key"), "") == 0);
        /* Sent to a proxy once more, inside of a tunnel, it would mean the same. */
        if (is_fixed)
                check(forward_read_request(sent, &fixed, &again, &no) && strcmp(again.path, to.path) == 0);
        http_message_free(sent);
}

static void see_answer(const struct http_message *m, const struct http_message *request, struct buffer *seen)
{
        _cleanup_buffer_ struct buffer head = {0};
        bool no_body = strcmp(http_message_method(request), "HEAD") == 0;
        enum forward_framing framing = forward_answer_framing(request, m);

        check(m->status >= 100 && m->status <= 599);
        buffer_init(&head, FORWARD_HEAD_MAX);
        check(forward_write_answer(request, m, request->close, &head) == 0);
        check(buffer_add(seen, head.data, head.size) == 0);
        struct http_message *sent = read_back(HTTP_ANSWER, no_body, &head);
        if (!sent)
                return;
        check_fields(sent);
        check(sent->status == m->status && strcmp(sent->bytes + sent->reason, m->bytes + m->reason) == 0);
        check(sent->chunked == (framing == FRAMING_CHUNKED) && sent->until_close == (framing == FRAMING_CLOSE));
        check(framing != FRAMING_LENGTH || (sent->has_length && sent->content_length == m->content_length));
        check(framing != FRAMING_CLOSE || sent->close);
        http_message_free(sent);
}

/* Everything that is seen of the messages, up to the first bad one. */
static void run(enum http_kind kind, bool is_fixed, const struct http_message *request, const char *data, size_t size, bool cut, struct buffer *seen)
{
        struct http_parser p;
        size_t at = 0, end = 0;
        bool no_body = kind == HTTP_ANSWER && strcmp(http_message_method(request), "HEAD") == 0;

        http_parser_init(&p);
        p.kind = kind;
        p.no_body = no_body;
        for (;;) {
                if (at == end && end < size)
                        end += cut ? MIN((size_t)(unsigned char)data[end] % 7 + 1, size - end) : size - end;
                const char *piece;
                size_t used, n;
                enum http_step step = http_parser_feed(&p, data + at, end - at, &used, &piece, &n);
                at += used;
                check(at <= end);
                if (step == HTTP_HEAD) {
                        p.body_max = UINT64_MAX;
                        if (kind == HTTP_ANSWER)
                                see_answer(p.message, request, seen);
                        else
                                see_request(p.message, is_fixed, seen);
                } else if (step == HTTP_BODY) {
                        check(buffer_add(seen, piece, n) == 0);
                } else if (step == HTTP_END) {
                        check(buffer_add_string(seen, "\nEND\n") == 0);
                        http_parser_reset(&p);
                        p.no_body = no_body;
                } else if (step == HTTP_FAILED) {
                        check(buffer_printf(seen, "\nFAILED %d %s\n", p.status, p.why) == 0);
                        break;
                } else if (end == size) {
                        check(buffer_printf(seen, "\nMORE %d\n", http_parser_close(&p)) == 0);
                        break;
                }
                if (at == size && step == HTTP_END)
                        break;
        }
        http_parser_done(&p);
}

static struct http_message *make_request(const char *text)
{
        struct buffer b = {.data = (char *)(uintptr_t)text, .size = strlen(text)};
        struct http_message *m = read_back(HTTP_PROXY_REQUEST, false, &b);

        check(m);
        return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const char *const requests[] = {
                "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.0\r\n\r\n",
        };
        _cleanup_buffer_ struct buffer whole = {0}, cut = {0};

        if (size == 0)
                return 0;
        unsigned mode = (data[0] + 2u) % 5; /* '0': answers, '1': to HEAD, '2': to a client of HTTP/1.0; '3': requests in a tunnel; '4': to the proxy */
        enum http_kind kind = mode < 3 ? HTTP_ANSWER : HTTP_PROXY_REQUEST;
        struct http_message *request = make_request(requests[mode % 3]);
        buffer_init(&whole, 1 << 26);
        buffer_init(&cut, 1 << 26);
        run(kind, mode == 3, request, (const char *)data + 1, size - 1, false, &whole);
        run(kind, mode == 3, request, (const char *)data + 1, size - 1, true, &cut);
        check(whole.size == cut.size && (whole.size == 0 || memcmp(whole.data, cut.data, whole.size) == 0));
        http_message_free(request);
        return 0;
}
