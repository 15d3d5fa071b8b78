/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures: put into the workspace as figure-1.png and so on, and shown in terminals that can. To a terminal goes nothing
 * of the box as it is: only a sequence of ours, with the picture as base64. Whether the picture is a sane PNG is
 * looked at before, because the terminal will decode it. */
#include "cli/repl.h"

#include "base/base64.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PICTURE_SIDE_MAX 8192               /* pixels of what is shown */
#define PICTURE_SHOWN_BYTES_MAX (8ULL << 20) /* of the file that is shown */
#define KITTY_PIECE_BYTES 4096              /* of base64 in one sequence, by its protocol */
#define PICTURE_NAME_MAX 32

enum protocol { PROTOCOL_NONE, PROTOCOL_KITTY, PROTOCOL_ITERM };

static bool is_set(const char *name)
{
        const char *value = getenv(name);

        return value && *value;
}

static bool equals(const char *name, const char *expected)
{
        const char *value = getenv(name);

        return value && strcmp(value, expected) == 0;
}

/* What the terminal can do, by what it says about itself. Nobody asks it: the answer would be typed at our prompt.
 * In tmux and screen the variables are those of the terminal outside. */
static enum protocol find_protocol(void)
{
        const char *term = getenv("TERM");

        if (!term || is_set("TMUX") || is_set("STY") || strncmp(term, "screen", 6) == 0 || strncmp(term, "tmux", 4) == 0)
                return PROTOCOL_NONE;
        if (strcmp(term, "xterm-kitty") == 0 || is_set("KITTY_WINDOW_ID"))
                return PROTOCOL_KITTY;
        if (equals("TERM_PROGRAM", "iTerm.app") || equals("TERM_PROGRAM", "WezTerm"))
                return PROTOCOL_ITERM;
        return PROTOCOL_NONE;
}

static unsigned long read_big_endian(const char *p)
{
        const unsigned char *b = (const unsigned char *)p;

        return (unsigned long)b[0] << 24 | (unsigned long)b[1] << 16 | (unsigned long)b[2] << 8 | b[3];
}

/* Its signature, its header, and a size that a terminal can be asked to decode. */
static bool is_png(const struct result_part *p)
{
        static const char head[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
        const size_t n = sizeof(head) - 1;

        if (p->size < n + 8 || p->size > PICTURE_SHOWN_BYTES_MAX || memcmp(p->bytes, head, n) != 0)
                return false;
        unsigned long width = read_big_endian(p->bytes + n), height = read_big_endian(p->bytes + n + 4);
        return width > 0 && height > 0 && width <= PICTURE_SIDE_MAX && height <= PICTURE_SIDE_MAX;
}

static int add_kitty(struct buffer *out, const char *text, size_t size)
{
        int r = 0;

        for (size_t at = 0; at < size && r == 0; at += KITTY_PIECE_BYTES) {
                size_t n = MIN(size - at, (size_t)KITTY_PIECE_BYTES);
                /* q=2: no answer, which would be typed at our prompt. */
                r = buffer_printf(out, "\033_G%sm=%d;", at == 0 ? "a=T,f=100,q=2," : "", at + n < size);
                if (r == 0)
                        r = buffer_add(out, text + at, n);
                if (r == 0)
                        r = buffer_add_string(out, "\033\\");
        }
        return r;
}

static int add_iterm(struct buffer *out, const char *text, size_t size, size_t bytes)
{
        int r = buffer_printf(out, "\033]1337;File=inline=1;size=%zu:", bytes);

        if (r == 0)
                r = buffer_add(out, text, size);
        return r < 0 ? r : buffer_add_string(out, "\a");
}

static void show_inline(struct repl *r, const struct result_part *p)
{
        const struct sink *out = &r->sinks[RUN_STDOUT];
        enum protocol protocol = out->is_terminal ? find_protocol() : PROTOCOL_NONE;
        _cleanup_free_ char *text = NULL;
        _cleanup_buffer_ struct buffer sequence;
        size_t size;

        buffer_init(&sequence, 2 * PICTURE_SHOWN_BYTES_MAX);
        /* Behind what nobody has taken yet it would come too early. */
        if (protocol == PROTOCOL_NONE || out->late.size > 0 || !is_png(p) || base64_encode(p->bytes, p->size, &text, &size) < 0)
                return;
        int e = protocol == PROTOCOL_KITTY ? add_kitty(&sequence, text, size) : add_iterm(&sequence, text, size, p->size);
        if (e < 0 || buffer_add_string(&sequence, "\n") < 0)
                return;
        /* Raw, and whole: half of it would swallow what comes after it. */
        _cleanup_sink_ struct sink raw;
        sink_init(&raw, out->fd, true);
        sink_write(&raw, sequence.data, sequence.size);
        sink_finish(&raw);
}

static bool is_taken(const struct file_list *files, const char *name)
{
        for (size_t i = 0; i < files->n; i++)
                if (strcmp(files->entries[i].name, name) == 0)
                        return true;
        return false;
}

/* The next name that no file has. */
static int choose_name(struct repl *r, const char *extension, char ret[static PICTURE_NAME_MAX], gb_error *err)
{
        _cleanup_file_list_ struct file_list *files = NULL;

        int e = session_file_list(r->session, ".", &files, err);
        if (e < 0)
                return e;
        do
                snprintf(ret, PICTURE_NAME_MAX, "figure-%u.%s", ++r->picture, extension);
        while (is_taken(files, ret));
        return 0;
}

static const struct result_part *find_picture(const struct result_value *value, const char **ret_extension)
{
        static const struct {
                const char *mime, *extension;
        } rows[] = {{"image/png", "png"}, {"image/jpeg", "jpg"}, {"image/gif", "gif"}, {"image/svg+xml", "svg"}};

        for (size_t row = 0; row < ARRAY_SIZE(rows); row++)
                for (size_t i = 0; i < value->n_parts; i++)
                        if (strcmp(value->parts[i].mime, rows[row].mime) == 0) {
                                *ret_extension = rows[row].extension;
                                return &value->parts[i];
                        }
        return NULL;
}

bool repl_show_picture(struct repl *r, const struct result_value *value)
{
        const char *extension = NULL;
        const struct result_part *p = find_picture(value, &extension);
        char name[PICTURE_NAME_MAX];
        gb_error err = {0};

        if (!p)
                return false;
        int e = choose_name(r, extension, name, &err);
        if (e == 0)
                e = session_file_write(r->session, name, p->bytes, p->size, 0644, &err);
        repl_fresh_line(r, RUN_STDOUT);
        show_inline(r, p);
        if (e < 0)
                repl_say(r, MESSAGE_ERROR, "a picture of %zu bytes cannot be saved: %s", p->size, err.message);
        else if (r->workspace)
                repl_print(r, "picture: %s/%s\n", r->workspace, name);
        else
                repl_print(r, "picture: /sandbox/%s (%%get %s takes it out)\n", name, name);
        return true;
}
