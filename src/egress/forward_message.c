/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/forward_message.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

/* ---- what is asked ---- */

/* The path of a request inside of TLS: every % has its two digits, as in an absolute target. */
static bool is_path(const char *text)
{
        for (const char *p = text; *p; p++)
                if (*p == '%' && !(isxdigit((unsigned char)p[1]) && isxdigit((unsigned char)p[2])))
                        return false;
        return text[0] == '/';
}

static bool refuse(struct forward_refusal *ret, int status, enum egress_decision decision, const char *why)
{
        *ret = (struct forward_refusal){status, decision, why};
        return false;
}

static bool read_target(const char *text, const struct target *fixed, struct target *ret, struct forward_refusal *no)
{
        if (fixed) {
                *ret = *fixed;
                ret->path = text;
                return is_path(text) || refuse(no, 400, EGRESS_MALFORMED, "inside of a tunnel the target of a request is a path that begins with a slash");
        }
        *ret = (struct target){.path = "/"};
        switch (target_parse_absolute(text, ret)) {
        case 0:
                return true;
        case -EPROTONOSUPPORT:
                return refuse(no, 400, EGRESS_MALFORMED,
                              "only http:// is asked for in this way; for https:// open a tunnel with CONNECT, as clients do that know of HTTPS_PROXY");
        default:
                return refuse(no, 400, EGRESS_MALFORMED, "this is a proxy: its requests have a target such as http://example.com/path, and without a user or a fragment");
        }
}

bool forward_read_request(const struct http_message *m, const struct target *fixed, struct target *ret, struct forward_refusal *no)
{
        const char *method = http_message_method(m), *host = http_message_field(m, "host");

        *ret = fixed ? *fixed : (struct target){.path = "/"};
        if (strcmp(method, "CONNECT") == 0)
                return refuse(no, 400, EGRESS_MALFORMED, "CONNECT must be the first request of a connection, and stands in no tunnel");
        if (!read_target(http_message_target(m), fixed, ret, no))
                return false;
        if (strcmp(method, "TRACE") == 0)
                return refuse(no, 403, EGRESS_NO_METHOD, "TRACE passes to nobody, since it shows what the proxy adds to requests");
        if (http_message_field(m, "upgrade") || http_message_field(m, "http2-settings"))
                return refuse(no, 403, EGRESS_NO_PROTOCOL, "Upgrade to another protocol does not pass; only HTTP/1.1 is spoken here");
        if (!host && fixed)
                return refuse(no, 400, EGRESS_MALFORMED, "there is no Host");
        if (host && !target_is_host_field(ret, host, fixed ? HTTPS_USUAL_PORT : HTTP_USUAL_PORT))
                return refuse(no, 400, EGRESS_MALFORMED, "the Host field names another host than the request is for");
        return true;
}

/* ---- what is sent ---- */

/* Whether an upstream may take one name for the other: many give "_" and "-" to a program as the same. */
static bool is_same_name(const char *a, const char *b)
{
        for (; *a && *b; a++, b++)
                if ((*a == '_' ? '-' : tolower((unsigned char)*a)) != (*b == '_' ? '-' : tolower((unsigned char)*b)))
                        return false;
        return *a == *b;
}

/* Fields that are between two neighbours, and those that we say anew. */
static bool is_ours(const char *name)
{
        static const char *const names[] = {
                "connection", "keep-alive", "te", "trailer", "transfer-encoding", "content-length", "upgrade", "http2-settings",
        };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (is_same_name(name, names[i]))
                        return true;
        return strncasecmp(name, "proxy-", strlen("proxy-")) == 0 || strncasecmp(name, "proxy_", strlen("proxy_")) == 0;
}

/* By which some servers do something else than what the first line says. */
static bool is_override(const char *name)
{
        static const char *const names[] = {
                "x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url", "x-original-uri", "x-forwarded-uri", "x-forwarded-path",
        };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (is_same_name(name, names[i]))
                        return true;
        return false;
}

/* Whether Connection says that a field goes no further. */
static bool is_named(const struct http_message *m, const char *name)
{
        size_t i = 0;

        for (const char *list; (list = http_message_next(m, "connection", &i)) != NULL;)
                if (http_list_has(list, name))
                        return true;
        return false;
}

/* headers: NULL, or those of the rule: what the client said there does not count. */
static bool is_replaced(const char *headers, const char *name)
{
        for (const char *h = headers; h && *h;) {
                const char *value = h + strlen(h) + 1;
                if (is_same_name(h, name))
                        return true;
                h = value + strlen(value) + 1;
        }
        return false;
}

/* Piece by piece: a text that is put together elsewhere would stay in memory. */
static int write_field(struct buffer *ret, const char *name, const char *value)
{
        int r = buffer_add_string(ret, name);

        if (r == 0)
                r = buffer_add_string(ret, ": ");
        if (r == 0)
                r = buffer_add_string(ret, value);
        return r == 0 ? buffer_add_string(ret, "\r\n") : r;
}

static int write_fields(const struct http_message *m, bool is_request, bool limited, const char *headers, struct buffer *ret)
{
        int r = 0;

        for (size_t i = 0; i < m->n_fields && r == 0; i++) {
                const char *name = m->bytes + m->fields[i].name, *value = m->bytes + m->fields[i].value;
                if (is_ours(name) || is_named(m, name) || is_replaced(headers, name) || (limited && is_override(name)))
                        continue;
                if (is_request && (is_same_name(name, "host") || is_same_name(name, "expect")))
                        continue;
                r = write_field(ret, name, value);
        }
        return r;
}

static int write_headers(const char *headers, struct buffer *ret)
{
        int r = 0;

        for (const char *h = headers; h && *h && r == 0;) {
                const char *value = h + strlen(h) + 1;
                /* Where a message ends and whom it is for is no rule's to say. */
                if (!is_ours(h) && !is_same_name(h, "host") && !is_same_name(h, "expect"))
                        r = write_field(ret, h, value);
                h = value + strlen(value) + 1;
        }
        return r;
}

int forward_write_request(const struct http_message *m, const struct target *to, uint16_t usual_port, const char *headers, bool limited, struct buffer *ret)
{
        bool brackets = to->host.kind == HOST_ADDRESS && !address_is_ipv4(&to->host.address);
        int r = buffer_printf(ret, "%s %s HTTP/1.1\r\nHost: %s%s%s", http_message_method(m), to->path, brackets ? "[" : "", to->host.text, brackets ? "]" : "");

        if (r == 0)
                r = to->port == usual_port ? buffer_add_string(ret, "\r\n") : buffer_printf(ret, ":%u\r\n", to->port);
        if (r == 0)
                r = write_fields(m, true, limited, headers, ret);
        if (r == 0)
                r = write_headers(headers, ret);
        if (r == 0 && m->chunked)
                r = buffer_add_string(ret, "Transfer-Encoding: chunked\r\n");
        else if (r == 0 && m->has_length)
                r = buffer_printf(ret, "Content-Length: %" PRIu64 "\r\n", m->content_length);
        if (r == 0 && m->expect_continue)
                r = buffer_add_string(ret, "Expect: 100-continue\r\n");
        if (r == 0 && m->close)
                r = buffer_add_string(ret, "Connection: close\r\n");
        return r == 0 ? buffer_add_string(ret, "\r\n") : r;
}

enum forward_framing forward_answer_framing(const struct http_message *request, const struct http_message *answer)
{
        if (answer->status < 200 || answer->status == 204 || answer->status == 304 || strcmp(http_message_method(request), "HEAD") == 0)
                return FRAMING_NONE;
        if (answer->has_length)
                return FRAMING_LENGTH;
        return request->version == 11 ? FRAMING_CHUNKED : FRAMING_CLOSE;
}

int forward_write_answer(const struct http_message *request, const struct http_message *answer, bool close, struct buffer *ret)
{
        enum forward_framing framing = forward_answer_framing(request, answer);
        int r = buffer_printf(ret, "HTTP/1.1 %03u %s\r\n", answer->status, answer->bytes + answer->reason);

        if (r == 0)
                r = write_fields(answer, false, false, NULL, ret);
        /* An answer to HEAD, or 304, tells the length of a body that is not there. */
        if (r == 0 && answer->has_length && answer->status >= 200 && answer->status != 204)
                r = buffer_printf(ret, "Content-Length: %" PRIu64 "\r\n", answer->content_length);
        if (r == 0 && framing == FRAMING_CHUNKED)
                r = buffer_add_string(ret, "Transfer-Encoding: chunked\r\n");
        if (r == 0 && (close || framing == FRAMING_CLOSE) && answer->status >= 200)
                r = buffer_add_string(ret, "Connection: close\r\n");
        return r == 0 ? buffer_add_string(ret, "\r\n") : r;
}
