/* SPDX-License-Identifier: Apache-2.0 */
#include "client/response.h"

#include "base/limits.h"
#include "base/parse.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CHUNK_DIGITS_MAX 12 /* of a chunk's size in hex */
#define VERSION "HTTP/1.1 "
#define END_OF_HEAD "\r\n\r\n"

void response_init(struct response *r)
{
        *r = (struct response){0};
        buffer_init(&r->head, CLIENT_HEAD_BYTES_MAX);
}

void response_done(struct response *r)
{
        buffer_done(&r->head);
}

static int refuse(struct response *r, const char *why)
{
        r->why = why;
        return -EBADMSG;
}

static bool is_token(char c)
{
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* ---- the head ---- */

static int take_length(struct response *r, const char *value)
{
        if (r->sized)
                return refuse(r, "its length is there twice");
        if (parse_count(value, &r->size) < 0)
                return refuse(r, "its length is no number");
        r->sized = true;
        r->left = r->size;
        return 0;
}

static int take_encoding(struct response *r, const char *value)
{
        if (r->chunked || strcasecmp(value, "chunked") != 0)
                return refuse(r, "its transfer encoding is not plain chunked");
        r->chunked = true;
        return 0;
}

static int take_connection(struct response *r, const char *value)
{
        r->closes = strcasecmp(value, "close") == 0;
        return 0;
}

static int take_run(struct response *r, const char *value)
{
        if (strlen(value) != RESPONSE_ID_MAX - 1 || strspn(value, "0123456789abcdef") != RESPONSE_ID_MAX - 1)
                return refuse(r, "the id of its run is none");
        memcpy(r->run, value, RESPONSE_ID_MAX);
        return 0;
}

static int take_type(struct response *r, const char *value)
{
        snprintf(r->type, sizeof(r->type), "%.*s", (int)strcspn(value, "; "), value);
        return 0;
}

/* It goes into the head of the next request as it is. */
static int take_session(struct response *r, const char *value)
{
        size_t length = strlen(value);

        if (length == 0 || length >= sizeof(r->session))
                return refuse(r, "the id of its session is none");
        for (const char *p = value; *p; p++)
                if (*p <= ' ' || *p >= 0x7f)
                        return refuse(r, "the id of its session is none");
        memcpy(r->session, value, length + 1);
        return 0;
}

static int take_retry(struct response *r, const char *value)
{
        if (parse_count(value, &r->retry_after) < 0)
                r->retry_after = 0; /* a date: nobody here waits for one */
        return 0;
}

static const struct {
        const char *name;
        int (*take)(struct response *r, const char *value);
} fields[] = {
        {"Content-Length", take_length}, {"Transfer-Encoding", take_encoding}, {"Connection", take_connection},
        {"Glovebox-Run", take_run},      {"Content-Type", take_type},          {"Retry-After", take_retry},
        {"Mcp-Session-Id", take_session},
};

/* "Name: value", NUL-terminated. */
static int take_field(struct response *r, char *line)
{
        char *value = line;

        while (is_token(*value))
                value++;
        if (value == line || *value != ':')
                return refuse(r, "a line of its head is no field");
        *value++ = '\0';
        value += strspn(value, " \t");
        size_t length = strlen(value);
        while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t'))
                value[--length] = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
                if (strcasecmp(line, fields[i].name) == 0)
                        return fields[i].take(r, value);
        return 0;
}

static int take_status(struct response *r, const char *line)
{
        if (strncmp(line, VERSION, strlen(VERSION)) != 0)
                return refuse(r, "it is not HTTP/1.1");
        const char *digits = line + strlen(VERSION);
        if (strspn(digits, "0123456789") != 3 || (digits[3] != ' ' && digits[3] != '\0'))
                return refuse(r, "it has no status");
        r->status = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + digits[2] - '0';
        if (r->foreign && r->status == 101)
                return 0;
        return r->status < 200 || r->status > 599 ? refuse(r, "its status is none of an answer") : 0;
}

/* How the end of the body is known. */
static int decide_body(struct response *r)
{
        if (r->chunked && r->sized)
                return refuse(r, "it has two lengths");
        if (r->status == 204 || r->status == 304) {
                if (!r->foreign && (r->chunked || r->size > 0))
                        return refuse(r, "it has a body where there is none");
                r->stage = RESPONSE_DONE;
                return 0;
        }
        if (r->foreign && (r->status == 101 || (!r->chunked && !r->sized))) {
                r->chunked = r->sized = false;
                r->until_close = true;
                r->left = UINT64_MAX;
        } else if (!r->chunked && !r->sized)
                return refuse(r, "its length is not there");
        r->stage = r->sized && r->left == 0 ? RESPONSE_DONE : RESPONSE_BODY;
        return 0;
}

/* The head is whole. Lines end with CR LF and have no other controls. */
static int parse_head(struct response *r)
{
        char *line = r->head.data, *end = line + r->head.size - 2; /* the last line is empty */
        bool first = true;

        for (char *p = line; p < end; p++)
                if ((*p == '\r') != (p[1] == '\n') || (*p == '\n' && (p == line || p[-1] != '\r')) || *p == 0x7f ||
                    ((unsigned char)*p < 0x20 && !strchr("\r\n\t", *p)) || *p == '\0')
                        return refuse(r, "its head has a control character");
        while (line < end) {
                char *next = strstr(line, "\r\n");
                *next = '\0';
                int t = first ? take_status(r, line) : take_field(r, line);
                if (t < 0)
                        return t;
                first = false;
                line = next + 2;
        }
        return decide_body(r);
}

static long take_head(struct response *r, const char *bytes, size_t size)
{
        size_t before = r->head.size;
        long n = buffer_add_some(&r->head, bytes, size);
        if (n < 0)
                return n;

        size_t from = before > 3 ? before - 3 : 0;
        char *end = r->head.size > 0 ? memmem(r->head.data + from, r->head.size - from, END_OF_HEAD, strlen(END_OF_HEAD)) : NULL;
        if (!end)
                return (size_t)n < size ? refuse(r, "its head does not end") : n;
        r->head.size = (size_t)(end - r->head.data) + strlen(END_OF_HEAD);
        size_t taken = r->head.size - before;
        int p = parse_head(r);
        return p < 0 ? p : (long)taken;
}

/* ---- the body ---- */

static int expect(struct response *r, char c, char wanted, enum response_chunk next)
{
        if (c != wanted)
                return refuse(r, "a chunk does not end where it should");
        r->chunk = next;
        return 0;
}

/* Fields after a chunked body: nobody here looks at them. */
static int take_trailer_byte(struct response *r, char c)
{
        if (++r->trailer_bytes > CLIENT_HEAD_BYTES_MAX)
                return refuse(r, "its trailer does not end");
        if (r->chunk == CHUNK_LAST_CR && !is_token(c))
                return refuse(r, "a chunk does not end where it should");
        r->chunk = c == '\n' ? CHUNK_LAST_CR : CHUNK_TRAILER;
        return 0;
}

/* A byte that is not of the body itself. */
static int take_frame_byte(struct response *r, char c)
{
        int digit;

        switch (r->chunk) {
        case CHUNK_SIZE:
                digit = hex_digit(c);
                if (digit < 0 && (r->digits == 0 || c != '\r'))
                        return refuse(r, "the size of a chunk is no number");
                if (digit < 0) {
                        r->chunk = CHUNK_SIZE_LF;
                        return 0;
                }
                if (++r->digits > CHUNK_DIGITS_MAX)
                        return refuse(r, "a chunk is too large");
                r->left = r->left * 16 + (uint64_t)digit;
                return 0;
        case CHUNK_SIZE_LF:
                return expect(r, c, '\n', r->left > 0 ? CHUNK_DATA : CHUNK_LAST_CR);
        case CHUNK_DATA:
                return refuse(r, "a chunk is broken"); /* not reached */
        case CHUNK_CR:
                return expect(r, c, '\r', CHUNK_LF);
        case CHUNK_LF:
                r->digits = 0;
                return expect(r, c, '\n', CHUNK_SIZE);
        case CHUNK_LAST_CR:
                if (r->foreign && c != '\r')
                        return take_trailer_byte(r, c);
                return expect(r, c, '\r', CHUNK_LAST_LF);
        case CHUNK_TRAILER:
                return take_trailer_byte(r, c);
        case CHUNK_LAST_LF:
                r->stage = RESPONSE_DONE;
                return expect(r, c, '\n', CHUNK_SIZE);
        }
        return 0;
}

static long take_data(struct response *r, const char *bytes, size_t size, struct buffer *body)
{
        size_t n = (size_t)MIN((uint64_t)size, r->left);
        int b = buffer_add(body, bytes, n);
        if (b < 0)
                return b;
        r->left -= n;
        if (r->left == 0 && r->chunked)
                r->chunk = CHUNK_CR;
        else if (r->left == 0)
                r->stage = RESPONSE_DONE;
        return (long)n;
}

bool response_end(struct response *r)
{
        if (r->stage == RESPONSE_BODY && r->until_close)
                r->stage = RESPONSE_DONE;
        return r->stage == RESPONSE_DONE;
}

long response_take(struct response *r, const char *bytes, size_t size, struct buffer *body)
{
        size_t taken = 0;

        if (r->stage == RESPONSE_HEAD)
                return take_head(r, bytes, size);
        while (taken < size && r->stage == RESPONSE_BODY) {
                long n = 1;
                if (!r->chunked || r->chunk == CHUNK_DATA)
                        n = take_data(r, bytes + taken, size - taken, body);
                else {
                        int t = take_frame_byte(r, bytes[taken]);
                        if (t < 0)
                                return t;
                }
                if (n < 0)
                        return n;
                taken += (size_t)n;
        }
        return (long)taken;
}
