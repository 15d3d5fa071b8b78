/* SPDX-License-Identifier: Apache-2.0
 *
 * A machine that goes from byte to byte. What it keeps of a head lies in the message's buffer (method, target, names and
 * values, each with a NUL in the place of its separator), so that it never needs more than was sent; everything
 * else it knows is in the state. Every limit is looked at before the byte that would pass it is kept.
 *
 *   METHOD -> TARGET -> VERSION -> LINE_LF -> FIELD <-----------------+
 *                                              |  \-> NAME -> BLANK -> VALUE -> VALUE_LF
 *                                              v
 *                                           HEAD_LF -> (HTTP_HEAD) -> BODY | CHUNK_SIZE ... -> END
 *
 * An answer begins with ANSWER_VERSION -> STATUS -> REASON instead, and may end with the connection (UNTIL_CLOSE).
 * Chunks: CHUNK_SIZE -> CHUNK_LF -> CHUNK -> CHUNK_CR -> CHUNK_END_LF -> CHUNK_SIZE; after one of size 0: LAST_CR -> LAST_LF -> END. Trailers of an
 * answer: LAST_CR -> TRAILER -> TRAILER_LF -> LAST_CR. */
#include "http/parser.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum state {
        METHOD, TARGET, VERSION, ANSWER_VERSION, STATUS, REASON, LINE_LF, FIELD, NAME, BLANK, VALUE, VALUE_LF, HEAD_LF,
        BODY, UNTIL_CLOSE, CHUNK_SIZE, CHUNK_LF, CHUNK, CHUNK_CR, CHUNK_END_LF, LAST_CR, TRAILER, TRAILER_LF, LAST_LF, END, FAILED,
};

/* Fields that may come once: two programs would choose differently between two of them. Some are read here. */
enum known { OTHER, HOST, LENGTH, ENCODING, EXPECT, AUTHORIZATION, ORIGIN, TYPE, KEY, LAST_EVENT, CONTENT_ENCODING, ONCE_MAX, CONNECTION };

static const struct {
        const char *name;
        enum known known;
} known_fields[] = {
        {"host", HOST}, {"content-length", LENGTH}, {"transfer-encoding", ENCODING}, {"connection", CONNECTION}, {"expect", EXPECT},
        {"authorization", AUTHORIZATION}, {"origin", ORIGIN}, {"content-type", TYPE}, {"idempotency-key", KEY}, {"last-event-id", LAST_EVENT},
        {"content-encoding", CONTENT_ENCODING},
};

enum { IS_TOKEN = 1, IS_TARGET = 2, IS_VALUE = 4 };

/* RFC 9110 5.6.2 (token), RFC 3986 3.3 and 3.4 (path and query, with % for whoever decodes), RFC 9110 5.5 (values). */
static unsigned classes(unsigned char c)
{
        bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        unsigned r = 0;

        if (alnum || (c && strchr("!#$%&'*+-.^_`|~", c)))
                r |= IS_TOKEN;
        if (alnum || (c && strchr("-._~%!$&'()*+,;=:@/?", c)))
                r |= IS_TARGET;
        if (c == '\t' || (c >= ' ' && c != 0x7f))
                r |= IS_VALUE;
        return r;
}

static unsigned char class_of[256];

__attribute__((constructor)) static void classes_init(void)
{
        for (unsigned i = 0; i < 256; i++)
                class_of[i] = (unsigned char)classes((unsigned char)i);
}

void http_parser_init(struct http_parser *p)
{
        *p = (struct http_parser){0};
}

void http_parser_done(struct http_parser *p)
{
        http_message_free(p->message);
        p->message = NULL;
}

void http_parser_reset(struct http_parser *p)
{
        enum http_kind kind = p->kind;

        http_parser_done(p);
        http_parser_init(p);
        p->kind = kind;
}

bool http_parser_has_begun(const struct http_parser *p)
{
        return p->state != METHOD || p->count > 0;
}

static enum http_step fail(struct http_parser *p, int status, const char *why)
{
        p->state = FAILED;
        p->status = status;
        p->why = why;
        return HTTP_FAILED;
}

/* Room for as many bytes of the head as come now. */
static bool reserve(struct http_parser *p, size_t size)
{
        if (!p->message) {
                p->message = http_message_new();
                if (!p->message)
                        return false;
        }
        struct http_message *m = p->message;
        size_t most = p->kind == HTTP_ANSWER ? HTTP_REASON_MAX + HTTP_ANSWER_FIELDS_BYTES_MAX + 4
                                             : HTTP_METHOD_MAX + HTTP_TARGET_MAX + HTTP_FIELDS_BYTES_MAX + 4; /* and their NULs */
        size_t need = MIN(m->size + size, most), twice = MIN(2 * (size_t)m->allocated, most), grown = MAX(need, twice);

        if (need <= m->allocated)
                return true;
        /* Not realloc(): it would leave behind what may be a part of a token. */
        char *bytes = malloc(grown);
        if (!bytes)
                return false;
        if (m->bytes) {
                memcpy(bytes, m->bytes, m->size);
                explicit_bzero(m->bytes, m->allocated);
                free(m->bytes);
        }
        m->bytes = bytes;
        m->allocated = (uint32_t)grown;
        return true;
}

static void keep(struct http_parser *p, char c)
{
        p->message->bytes[p->message->size++] = c;
}

/* Ends the text that is being read; the next begins behind it. */
static void keep_end(struct http_parser *p)
{
        keep(p, '\0');
        p->mark = (uint16_t)p->message->size;
}

/* "HTTP/1.1 200 and why": the reason may be empty, and then the blank before it, too. */
static enum http_step read_status_line(struct http_parser *p, char c)
{
        static const char expected[] = "HTTP/1.";
        uint32_t i = p->count++;

        if (p->state == ANSWER_VERSION) {
                if (i < 7 ? c != expected[i] : i == 7 ? c != '0' && c != '1' : c != ' ')
                        return fail(p, 502, "it does not begin with a version of HTTP/1");
                if (i == 7)
                        p->message->version = c == '1' ? 11 : 10;
                else if (i == 8) {
                        p->count = 0;
                        p->state = STATUS;
                }
                return HTTP_MORE;
        }
        if (p->state == STATUS && i < 3) {
                if (c < '0' || c > '9')
                        return fail(p, 502, "its status is no number");
                p->message->status = (uint16_t)(p->message->status * 10 + (c - '0'));
                return HTTP_MORE;
        }
        if (c == '\r') {
                p->message->reason = p->mark;
                keep_end(p);
                p->state = LINE_LF;
                return HTTP_MORE;
        }
        if (p->state == STATUS) {
                if (c != ' ')
                        return fail(p, 502, "its status is no number");
                p->state = REASON;
                return HTTP_MORE;
        }
        if (!(class_of[(unsigned char)c] & IS_VALUE))
                return fail(p, 502, "its first line has a control character");
        if (i > HTTP_REASON_MAX)
                return fail(p, 502, "its first line is too long");
        keep(p, c);
        return HTTP_MORE;
}

static enum http_step read_version(struct http_parser *p, char c)
{
        static const char expected[] = "HTTP/1.";
        uint32_t i = p->count++;

        if (i < 7 && c == expected[i])
                return HTTP_MORE;
        if ((i == 5 || i == 7) && c >= '0' && c <= '9') {
                if (i != 7 || c > '1')
                        return fail(p, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
                p->message->version = c == '1' ? 11 : 10;
                return HTTP_MORE;
        }
        if (i != 8 || c != '\r')
                return fail(p, 400, "the request line does not end with a version of HTTP");
        p->state = LINE_LF;
        return HTTP_MORE;
}

/* Plain digits, and no more than fit. */
static bool parse_length(const char *text, uint64_t *ret)
{
        uint64_t n = 0;

        if (!*text)
                return false;
        for (; *text; text++)
                if (*text < '0' || *text > '9' || __builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(*text - '0'), &n))
                        return false;
        *ret = n;
        return true;
}

static enum http_step name_ends(struct http_parser *p)
{
        struct http_message *m = p->message;
        const char *name = m->bytes + p->mark;

        p->known = OTHER;
        keep(p, '\0');
        for (size_t i = 0; i < ARRAY_SIZE(known_fields); i++)
                if (strcasecmp(name, known_fields[i].name) == 0)
                        p->known = (unsigned char)known_fields[i].known;
        if (p->kind == HTTP_ANSWER && p->known != LENGTH && p->known != ENCODING && p->known != CONNECTION)
                p->known = OTHER;
        if (p->known && p->known < ONCE_MAX) {
                if (p->seen & 1u << p->known)
                        return fail(p, 400, "a header field came twice that may come once");
                p->seen |= (uint16_t)(1u << p->known);
        }
        if (m->n_fields == HTTP_FIELDS_MAX)
                return fail(p, 431, "there are too many header fields");
        m->fields[m->n_fields].name = p->mark;
        m->fields[m->n_fields].value = (uint16_t)m->size;
        p->mark = (uint16_t)m->size;
        p->state = BLANK;
        return HTTP_MORE;
}

static enum http_step value_ends(struct http_parser *p)
{
        struct http_message *m = p->message;
        const char *value = m->bytes + p->mark;

        while (m->size > p->mark && (m->bytes[m->size - 1] == ' ' || m->bytes[m->size - 1] == '\t'))
                m->size--;
        keep_end(p);
        m->n_fields++;
        p->state = VALUE_LF;
        if (p->known == LENGTH) {
                if (!parse_length(value, &m->content_length))
                        return fail(p, 400, "Content-Length is no number");
                m->has_length = true;
        } else if (p->known == ENCODING) {
                if (p->kind == HTTP_ANSWER ? strcasecmp(value, "chunked") != 0 : strcmp(value, "chunked") != 0)
                        return fail(p, 400, "Transfer-Encoding is not \"chunked\"");
                m->chunked = true;
        } else if (p->known == EXPECT && m->version == 11) {
                if (strcasecmp(value, "100-continue") != 0)
                        return fail(p, 417, "Expect is not \"100-continue\"");
                m->expect_continue = true;
        } else if (p->known == CONNECTION && http_list_has(value, "close")) {
                m->close = true;
        }
        return HTTP_MORE;
}

/* How the end of an answer's body is known (RFC 9112 6.3). */
static enum http_step answer_ends(struct http_parser *p)
{
        struct http_message *m = p->message;

        if (m->status < 100 || m->status > 599)
                return fail(p, 502, "its status is none of an answer");
        p->left = m->content_length;
        p->count = 0;
        if (p->no_body || m->status < 200 || m->status == 204 || m->status == 304) {
                p->state = END;
        } else if (m->chunked || m->has_length) {
                p->state = m->chunked ? CHUNK_SIZE : p->left > 0 ? BODY : END;
        } else {
                m->until_close = m->close = true;
                p->state = UNTIL_CLOSE;
        }
        return HTTP_HEAD;
}

static enum http_step head_ends(struct http_parser *p)
{
        struct http_message *m = p->message;

        if (m->chunked && m->has_length)
                return fail(p, 400, "both Content-Length and Transfer-Encoding say where the body ends");
        if (m->chunked && m->version == 10)
                return fail(p, 400, "HTTP/1.0 has no Transfer-Encoding");
        if (m->version == 10)
                m->close = true;
        if (p->kind == HTTP_ANSWER)
                return answer_ends(p);
        if (!(p->seen & 1u << HOST) && m->version == 11)
                return fail(p, 400, "there is no Host");
        p->left = m->content_length;
        p->count = 0;
        p->state = m->chunked ? CHUNK_SIZE : p->left > 0 ? BODY : END;
        return HTTP_HEAD;
}

/* What may begin a line behind the request line: a field, or the end of the head. */
static enum http_step read_field_start(struct http_parser *p, char c)
{
        if (c == '\r') {
                p->state = HEAD_LF;
                return HTTP_MORE;
        }
        if (c == ' ' || c == '\t')
                return fail(p, 400, "a header line begins with a blank");
        if (!(class_of[(unsigned char)c] & IS_TOKEN))
                return fail(p, 400, c == '\n' ? "a line ends without a carriage return" : "the name of a header field has a character that no name has");
        keep(p, c);
        p->state = NAME;
        return HTTP_MORE;
}

static enum http_step read_value(struct http_parser *p, char c)
{
        if (class_of[(unsigned char)c] & IS_VALUE) {
                if (p->state == BLANK && (c == ' ' || c == '\t'))
                        return HTTP_MORE;
                p->state = VALUE;
                keep(p, c);
                return HTTP_MORE;
        }
        if (c == '\r')
                return value_ends(p);
        return fail(p, 400, c == '\n' ? "a line ends without a carriage return" : "a header field has a control character");
}

static enum http_step read_fields(struct http_parser *p, char c)
{
        if (++p->count > (p->kind == HTTP_ANSWER ? HTTP_ANSWER_FIELDS_BYTES_MAX : HTTP_FIELDS_BYTES_MAX))
                return fail(p, 431, "the header fields are too long");
        switch (p->state) {
        case FIELD:
                return read_field_start(p, c);
        case NAME:
                if (class_of[(unsigned char)c] & IS_TOKEN) {
                        keep(p, c);
                        return HTTP_MORE;
                }
                if (c == ':')
                        return name_ends(p);
                return fail(p, 400, "the name of a header field has a character that no name has");
        case BLANK:
        case VALUE:
                return read_value(p, c);
        case VALUE_LF:
        case HEAD_LF:
                if (c != '\n')
                        return fail(p, 400, "a carriage return that ends no line");
                if (p->state == HEAD_LF)
                        return head_ends(p);
                p->state = FIELD;
                return HTTP_MORE;
        }
        return fail(p, 400, "unreachable");
}

static enum http_step read_request_line(struct http_parser *p, char c)
{
        switch (p->state) {
        case METHOD:
                if (class_of[(unsigned char)c] & IS_TOKEN) {
                        if (++p->count > HTTP_METHOD_MAX)
                                return fail(p, 400, "the method is too long");
                        keep(p, c);
                        return HTTP_MORE;
                }
                if (c != ' ' || p->count == 0)
                        return fail(p, 400, "this does not begin with a method");
                keep_end(p);
                p->message->target = p->mark;
                p->count = 0;
                p->state = TARGET;
                return HTTP_MORE;
        case TARGET:
                if (c == ' ' && p->count > 0) {
                        keep_end(p);
                        p->count = 0;
                        p->state = VERSION;
                        return HTTP_MORE;
                }
                if (p->kind == HTTP_REQUEST && p->count == 0 && c != '/')
                        return fail(p, 400, "the target does not begin with a slash");
                /* Addresses of IPv6 have brackets, and so has the query of many a client. */
                if (!(class_of[(unsigned char)c] & IS_TARGET) && (p->kind == HTTP_REQUEST || (c != '[' && c != ']')))
                        return fail(p, 400, "the target has a character that must be percent-encoded");
                if (++p->count > HTTP_TARGET_MAX)
                        return fail(p, 414, "the target is too long");
                keep(p, c);
                return HTTP_MORE;
        case VERSION:
                return read_version(p, c);
        case ANSWER_VERSION:
        case STATUS:
        case REASON:
                return read_status_line(p, c);
        case LINE_LF:
                if (c != '\n')
                        return fail(p, 400, "a carriage return that ends no line");
                p->count = 0;
                p->state = FIELD;
                return HTTP_MORE;
        }
        return read_fields(p, c);
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

static enum http_step read_chunk_size(struct http_parser *p, char c)
{
        int digit = hex_digit(c);

        if (digit >= 0) {
                if (++p->count > HTTP_CHUNK_DIGITS_MAX)
                        return fail(p, 400, "the size of a chunk is too long");
                p->left = p->left << 4 | (unsigned)digit;
                return HTTP_MORE;
        }
        if (c == ';')
                return fail(p, 400, "chunk extensions are not read here");
        if (c != '\r' || p->count == 0)
                return fail(p, 400, "the size of a chunk is no number");
        if (p->left > p->body_max || p->body_bytes > p->body_max - p->left)
                return fail(p, 413, "the body is too large");
        p->state = CHUNK_LF;
        return HTTP_MORE;
}

/* Fields behind a body; nobody looks at them. */
static enum http_step read_trailer(struct http_parser *p, char c)
{
        unsigned char wanted = p->state == LAST_CR ? IS_TOKEN : IS_VALUE;

        if (++p->count > HTTP_ANSWER_FIELDS_BYTES_MAX)
                return fail(p, 431, "its trailers are too long");
        if (c == '\r' && p->state == TRAILER)
                p->state = TRAILER_LF;
        else if (class_of[(unsigned char)c] & wanted)
                p->state = TRAILER;
        else
                return fail(p, 400, "a trailer has a control character");
        return HTTP_MORE;
}

static enum http_step read_chunk_line(struct http_parser *p, char c)
{
        bool lf = p->state == CHUNK_LF || p->state == CHUNK_END_LF || p->state == TRAILER_LF || p->state == LAST_LF;

        if (p->state == CHUNK_SIZE)
                return read_chunk_size(p, c);
        if (p->kind == HTTP_ANSWER && (p->state == TRAILER || (p->state == LAST_CR && c != '\r' && c != '\n')))
                return read_trailer(p, c);
        if (p->state == LAST_CR && c != '\r')
                return fail(p, 400, c == '\n' ? "a line ends without a carriage return" : "trailers are not read here");
        if (c != (lf ? '\n' : '\r'))
                return fail(p, 400, "a chunk does not end where its size says");
        switch (p->state) {
        case CHUNK_LF:
                p->state = p->left > 0 ? CHUNK : LAST_CR;
                break;
        case CHUNK_CR:
                p->state = CHUNK_END_LF;
                break;
        case CHUNK_END_LF:
                p->count = 0;
                p->left = 0;
                p->state = CHUNK_SIZE;
                break;
        case TRAILER_LF:
                p->state = LAST_CR;
                break;
        case LAST_CR:
                p->state = LAST_LF;
                break;
        case LAST_LF:
                p->state = END;
                break;
        }
        return HTTP_MORE;
}

static enum http_step read_piece(struct http_parser *p, const char *bytes, size_t size, size_t *ret_used, const char **ret_piece, size_t *ret_size)
{
        size_t n = p->state == UNTIL_CLOSE ? size : (size_t)MIN((uint64_t)size, p->left);

        *ret_piece = bytes;
        *ret_size = n;
        *ret_used += n;
        p->body_bytes += n;
        if (p->state == UNTIL_CLOSE)
                return HTTP_BODY;
        p->left -= n;
        if (p->left == 0)
                p->state = p->state == CHUNK ? CHUNK_CR : END;
        return HTTP_BODY;
}

enum http_step http_parser_feed(struct http_parser *p, const char *bytes, size_t size, size_t *ret_used, const char **ret_piece, size_t *ret_piece_size)
{
        *ret_used = 0;
        *ret_piece = NULL;
        *ret_piece_size = 0;
        if (p->state == FAILED)
                return HTTP_FAILED;
        if (p->state == END)
                return HTTP_END;
        if (p->state == BODY && p->left > p->body_max - p->body_bytes)
                return fail(p, 413, "the body is too large");
        if (p->state < BODY && size > 0 && !reserve(p, size))
                return fail(p, 500, "there is no memory for the head");
        if (p->kind == HTTP_ANSWER && p->state == METHOD && size > 0)
                p->state = ANSWER_VERSION;
        while (*ret_used < size) {
                if (p->state == BODY || p->state == CHUNK || p->state == UNTIL_CLOSE)
                        return read_piece(p, bytes + *ret_used, size - *ret_used, ret_used, ret_piece, ret_piece_size);
                char c = bytes[(*ret_used)++];
                enum http_step step = p->state < BODY ? read_request_line(p, c) : read_chunk_line(p, c);
                if (step != HTTP_MORE)
                        return step;
                if (p->state == END)
                        return HTTP_END;
        }
        return HTTP_MORE;
}

bool http_parser_close(struct http_parser *p)
{
        if (p->state == UNTIL_CLOSE)
                p->state = END;
        return p->state == END;
}
