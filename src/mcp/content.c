/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/content.h"

#include "base/limits.h"
#include "base/utf8.h"
#include "mcp/content_words.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define NONCE_DIGITS 8
#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
#define MARK_END " untrusted>\n" /* of the mark that opens */

/* ---- text ---- */

void content_nonce(char ret[static CONTENT_NONCE_MAX])
{
        static const char digits[] = "0123456789abcdef";
        unsigned char random[NONCE_DIGITS / 2];

        /* So few bytes are never given in part; before the kernel has some, a signal may come between. */
        while (getrandom(random, sizeof(random), 0) != sizeof(random))
                ;
        for (size_t i = 0; i < sizeof(random); i++) {
                ret[2 * i] = digits[random[i] >> 4];
                ret[2 * i + 1] = digits[random[i] & 15];
        }
        ret[NONCE_DIGITS] = '\0';
}

/* NUL is UTF-8, but there are readers of JSON that end a text there, or refuse it. Needs up to three times the size. */
static int add_readable(struct buffer *out, const char *text, size_t size)
{
        int r = 0;

        while (size > 0 && r == 0) {
                const char *nul = memchr(text, '\0', size);
                size_t n = nul ? (size_t)(nul - text) : size;
                r = utf8_replace(out, text, n);
                if (r == 0 && nul)
                        r = buffer_add_string(out, REPLACEMENT);
                n += nul ? 1 : 0;
                text += n;
                size -= n;
        }
        return r;
}

static bool is_continuation(char c)
{
        return ((unsigned char)c & 0xc0) == 0x80;
}

/* What is kept before the gap: up to max bytes, less to end with a line when one ends in the last quarter, else with a character. */
static size_t head_size(const char *text, size_t max)
{
        const char *line = memrchr(text + max - max / 4, '\n', max / 4);

        if (line)
                return (size_t)(line + 1 - text);
        for (size_t n = max; n > 0 && max - n < UTF8_SEQUENCE_MAX; n--)
                if (!is_continuation(text[n]))
                        return n;
        return max < UTF8_SEQUENCE_MAX ? 0 : max; /* of bytes that are no UTF-8 nothing is given up */
}

/* What is kept behind the gap, the same way. */
static size_t tail_size(const char *text, size_t size, size_t max)
{
        const char *start = text + size - max;
        const char *line = memchr(start, '\n', max / 4);

        if (line)
                return (size_t)(text + size - (line + 1));
        for (size_t n = 0; n < UTF8_SEQUENCE_MAX && n < max; n++)
                if (!is_continuation(start[n]))
                        return max - n;
        return max < UTF8_SEQUENCE_MAX ? 0 : max;
}

int content_add_cut(struct buffer *out, const char *text, size_t size, size_t max, const char *rest, uint64_t *ret_left_out)
{
        *ret_left_out = 0;
        if (size <= max)
                return add_readable(out, text, size);

        size_t head = head_size(text, max / 2), tail = tail_size(text, size, max - max / 2);
        bool line_ended = head == 0 || text[head - 1] == '\n';
        int r = add_readable(out, text, head);
        if (r == 0)
                r = buffer_printf(out, "%s[... %zu bytes left out here%s%s ...]\n", line_ended ? "" : "\n", size - head - tail, rest ? "; " : "", rest ? rest : "");
        if (r == 0)
                r = add_readable(out, text + size - tail, tail);
        *ret_left_out = size - head - tail;
        return r;
}

int content_add_marked(struct buffer *out, const char *nonce, const char *label, const char *text, size_t size, size_t max, const char *rest)
{
        char fresh[CONTENT_NONCE_MAX];
        uint64_t left_out;

        /* Nobody could know it; should it be in there all the same, another is taken. */
        while (nonce[0] && size > 0 && memmem(text, size, nonce, strlen(nonce))) {
                content_nonce(fresh);
                nonce = fresh;
        }
        int r = buffer_printf(out, "<%s-%s" MARK_END, label, nonce);
        if (r == 0)
                r = content_add_cut(out, text, size, max, rest, &left_out);
        if (r == 0 && out->data[out->size - 1] != '\n')
                r = buffer_add_string(out, "\n");
        return r == 0 ? buffer_printf(out, "</%s-%s>\n", label, nonce) : r;
}

/* ---- items ---- */

/* A string of what may be any bytes. */
static json_t *readable(const char *text, size_t size)
{
        _cleanup_buffer_ struct buffer clean = {0};

        if (utf8_is_valid(text, size))
                return json_stringn_nocheck(size > 0 ? text : "", size);
        buffer_init(&clean, 3 * size);
        if (utf8_replace(&clean, text, size) < 0)
                return NULL;
        return json_stringn_nocheck(clean.data, clean.size);
}

int content_set_untrusted(json_t *item)
{
        return json_object_set_new(item, "_meta", json_pack("{s:b}", "glovebox/untrusted", 1));
}

json_t *content_text(const char *text, size_t size)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "type", json_string("text"));
        r |= json_object_set_new(o, "text", readable(text, size));
        if (size > 0 && memmem(text, size, MARK_END, strlen(MARK_END)))
                r |= content_set_untrusted(o);
        return r == 0 ? TAKE_PTR(o) : NULL;
}

json_t *content_link(const char *uri, const char *name, const char *type, int64_t size)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "type", json_string("resource_link"));
        r |= json_object_set_new(o, "uri", readable(uri, strlen(uri)));
        r |= json_object_set_new(o, "name", readable(name, strlen(name)));
        if (type)
                r |= json_object_set_new(o, "mimeType", readable(type, strlen(type)));
        if (size >= 0)
                r |= json_object_set_new(o, "size", json_integer(size));
        r |= content_set_untrusted(o);
        return r == 0 ? TAKE_PTR(o) : NULL;
}

json_t *content_picture(const char *type, const char *base64, size_t size)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "type", json_string("image"));
        r |= json_object_set_new(o, "data", json_stringn_nocheck(base64, size));
        r |= json_object_set_new(o, "mimeType", json_string(type));
        r |= content_set_untrusted(o);
        return r == 0 ? TAKE_PTR(o) : NULL;
}

/* ---- results that are no run's ---- */

/* Takes both; structured may be NULL when there is none. */
static json_t *result_of(json_t *item, json_t *structured, bool is_error)
{
        _cleanup_json_ json_t *o = json_object(), *content = json_array(), *kept = structured;
        int r = json_array_append_new(content, item);

        r |= json_object_set_new(o, "content", TAKE_PTR(content));
        if (kept)
                r |= json_object_set_new(o, "structuredContent", TAKE_PTR(kept));
        r |= json_object_set_new(o, "isError", json_boolean(is_error));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

json_t *content_of_error(const gb_error *err, const char *hint)
{
        _cleanup_buffer_ struct buffer text = {0};
        size_t size = err ? strnlen(err->message, sizeof(err->message)) : 0;

        buffer_init(&text, MCP_MESSAGE_BYTES_MAX);
        int r = size > 0 ? buffer_add(&text, err->message, size) : buffer_add_string(&text, "It failed, and nothing is known of why.");
        if (r == 0 && hint)
                r = buffer_printf(&text, " (%s)", hint);
        return r == 0 ? result_of(content_text(text.data, text.size), NULL, true) : NULL;
}

json_t *content_of_object(json_t *structured, const struct buffer *text)
{
        if (!structured)
                return NULL;
        return result_of(content_text(text->size > 0 ? text->data : "", text->size), structured, false);
}
