/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes, as requests that follow each other on a connection, whole and cut at places that their own values choose: both must be
 * read in the same way. What is accepted has nothing in it that another reader could take for something else. */
#include "base/buffer.h"
#include "http/parser.h"
#include "http/uri.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
        if (!holds)
                abort();
}

static void check_texts(const struct http_message *m)
{
        const char *target = http_message_target(m);
        struct uri_query *query = NULL;
        struct uri_host host;
        bool secure;

        check(target[0] == '/' && strlen(target) <= HTTP_TARGET_MAX && m->size <= m->allocated);
        check(strpbrk(target, " #\\\r\n\t\"") == NULL);
        check(!m->chunked || !m->has_length);
        if (uri_query_parse(strchr(target, '?') ? strchr(target, '?') + 1 : NULL, &query) == 0)
                uri_query_free(query);
        for (size_t i = 0; i < m->n_fields; i++) {
                const char *name = m->bytes + m->fields[i].name, *value = m->bytes + m->fields[i].value;
                size_t length = strlen(value);
                check(name[0] && strpbrk(name, " :\t\r\n") == NULL && strpbrk(value, "\r\n\x7f") == NULL);
                check(length == 0 || (!strchr(" \t", value[0]) && !strchr(" \t", value[length - 1])));
                (void)uri_host_parse(value, &host);
                (void)uri_origin_parse(value, &secure, &host);
                (void)http_list_has(value, "close");
        }
}

/* What is seen of all requests, up to the first that is bad. step 0: in one piece. */
static void run(const uint8_t *data, size_t size, bool cut, struct buffer *seen)
{
        struct http_parser p;
        size_t at = 0, end = 0;

        http_parser_init(&p);
        while (at < size || end < size || p.state) {
                if (at == end && end < size)
                        end += cut ? MIN((size_t)data[end] % 7 + 1, size - end) : size - end;
                const char *piece;
                size_t used, n;
                enum http_step step = http_parser_feed(&p, (const char *)data + at, end - at, &used, &piece, &n);
                at += used;
                check(at <= end);
                if (step == HTTP_HEAD) {
                        check_texts(p.message);
                        check(buffer_add(seen, p.message->bytes, p.message->size) == 0);
                        p.body_max = 4096;
                        if (at % 2) /* the owner may take it */
                                http_message_free(TAKE_PTR(p.message));
                } else if (step == HTTP_BODY) {
                        check(n > 0 && p.body_bytes <= 4096);
                        check(buffer_add(seen, piece, n) == 0);
                } else if (step == HTTP_END) {
                        check(buffer_add_string(seen, "\nEND\n") == 0);
                        http_parser_reset(&p);
                } else if (step == HTTP_FAILED) {
                        check(p.status >= 400 && p.why);
                        check(buffer_printf(seen, "\nFAILED %d %s\n", p.status, p.why) == 0);
                        break;
                } else {
                        check(at == end);
                        if (end == size)
                                break;
                }
        }
        http_parser_done(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_buffer_ struct buffer whole = {0}, cut = {0};

        buffer_init(&whole, 1 << 26);
        buffer_init(&cut, 1 << 26);
        run(data, size, false, &whole);
        run(data, size, true, &cut);
        check(whole.size == cut.size && (whole.size == 0 || memcmp(whole.data, cut.data, whole.size) == 0));
        return 0;
}
