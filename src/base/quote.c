/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quote.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* Room kept at the end of a quoted text: "...", the closing quote, NUL. */
#define QUOTED_TAIL 6
#define QUOTED_PATH_BYTES 80

bool quote_is_printable(uint32_t c)
{
        if (c < 0x20 || (c >= 0x7f && c < 0xa0))
                return false;
        if (c == 0xad || c == 0xfeff || c == 0x61c || (c >= 0x200b && c <= 0x200f))
                return false;
        return !((c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f));
}

/* Adds text to q from `used` on; returns the new length, which leaves QUOTED_TAIL free. */
static size_t add_escaped(struct quoted *q, size_t used, const char *text, bool in_quotes)
{
        size_t left = strlen(text);

        while (left > 0) {
                char piece[8];
                uint32_t c;
                size_t n = utf8_decode(text, left, &c), size;

                if (n > 0 && quote_is_printable(c)) {
                        bool escaped = in_quotes && (c == '"' || c == '\\');
                        size = (size_t)snprintf(piece, sizeof(piece), "%s%.*s", escaped ? "\\" : "", (int)n, text);
                } else {
                        n = 1;
                        size = (size_t)snprintf(piece, sizeof(piece), "\\x%02x", (unsigned char)*text);
                }
                if (used + size + QUOTED_TAIL > sizeof(q->text)) {
                        memcpy(q->text + used, "...", 3);
                        return used + 3;
                }
                memcpy(q->text + used, piece, size);
                used += size;
                text += n;
                left -= n;
        }
        return used;
}

struct quoted quote(const char *text)
{
        struct quoted q = {.text = "\""};
        size_t used = add_escaped(&q, 1, text, true);

        q.text[used] = '"';
        q.text[used + 1] = '\0';
        return q;
}

struct quoted quote_path(const char *path)
{
        struct quoted q = {0};
        size_t size = strlen(path), used = 0;

        if (size > QUOTED_PATH_BYTES) {
                path += size - QUOTED_PATH_BYTES;
                while (((unsigned char)*path & 0xc0) == 0x80) /* not into the middle of a character */
                        path++;
                memcpy(q.text, "...", 3);
                used = 3;
        }
        used = add_escaped(&q, used, path, false);
        q.text[used] = '\0';
        return q;
}
