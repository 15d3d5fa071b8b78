/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include "base/error.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "cli/output.h"
#include "cli/terminal.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP 2           /* between columns */
#define CELL_BYTES_MAX 256
#define CUT "~"         /* ends a cell that was cut */

void table_init(struct table *t, const struct table_column *columns, size_t n_columns)
{
        *t = (struct table){.columns = columns};
        t->n_columns = MIN(n_columns, (size_t)TABLE_COLUMNS_MAX);
}

void table_clear(struct table *t)
{
        for (size_t i = 0; i < t->n_rows * t->n_columns; i++)
                free(t->cells[i]);
        t->n_rows = 0;
        t->failed = false;
}

void table_done(struct table *t)
{
        table_clear(t);
        free(t->cells);
        t->cells = NULL;
        t->allocated = 0;
}

/* A copy on one line, without controls. */
static char *make_cell(const char *text)
{
        struct terminal terminal = {.one_line = true};
        struct buffer shown;

        buffer_init(&shown, CELL_BYTES_MAX * TERMINAL_GROWTH_MAX + TERMINAL_SLACK_BYTES);
        if (!text || !*text)
                text = "-";
        if (terminal_add(&terminal, &shown, text, strnlen(text, CELL_BYTES_MAX)) < 0 || terminal_flush(&terminal, &shown) < 0) {
                buffer_done(&shown);
                return NULL;
        }
        return shown.data;
}

void table_add(struct table *t, const char *const cells[])
{
        if (t->n_rows == t->allocated && !t->failed) {
                size_t more = t->allocated > 0 ? 2 * t->allocated : 32;
                char **grown = reallocarray(t->cells, more * t->n_columns, sizeof(*grown));
                t->failed = !grown;
                t->cells = grown ? grown : t->cells;
                t->allocated = grown ? more : t->allocated;
        }
        if (t->failed)
                return;
        char **row = t->cells + t->n_rows * t->n_columns;
        for (size_t i = 0; i < t->n_columns; i++) {
                row[i] = make_cell(cells[i]);
                t->failed |= !row[i];
        }
        if (t->failed)
                for (size_t i = 0; i < t->n_columns; i++)
                        free(row[i]);
        else
                t->n_rows++;
}

/* ---- widths ---- */

/* Characters that take two places, roughly: East Asian ones and pictures. */
static const struct {
        uint32_t first, last;
} wide[] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe30, 0xfe6f},
            {0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};

static unsigned character_width(uint32_t c)
{
        if ((c >= 0x300 && c <= 0x36f) || (c >= 0x200b && c <= 0x200d) || (c >= 0xfe00 && c <= 0xfe0f))
                return 0; /* they join what is before them */
        for (size_t i = 0; i < ARRAY_SIZE(wide); i++)
                if (c >= wide[i].first && c <= wide[i].last)
                        return 2;
        return 1;
}

/* The bytes of text that take at most max places, and how many places those are. */
static size_t fitting(const char *text, unsigned max, unsigned *ret_width)
{
        size_t size = strlen(text), at = 0;
        unsigned width = 0;

        while (at < size) {
                uint32_t c = 0;
                size_t n = utf8_decode(text + at, size - at, &c);
                unsigned w = n > 0 ? character_width(c) : 1;
                if (width + w > max)
                        break;
                width += w;
                at += n > 0 ? n : 1;
        }
        *ret_width = width;
        return at;
}

unsigned text_width(const char *text)
{
        unsigned width;

        fitting(text, UINT32_MAX, &width);
        return width;
}

#define LEFT_OUT UINT32_MAX /* as a width */

static unsigned sum_of(const unsigned *widths, size_t n)
{
        unsigned sum = 0, shown = 0;

        for (size_t i = 0; i < n; i++)
                if (widths[i] != LEFT_OUT) {
                        sum += widths[i];
                        shown++;
                }
        return sum + (shown > 0 ? GAP * (shown - 1) : 0);
}

/* The widest of those that can be narrower; n: none. */
static size_t widest(const struct table *t, const unsigned *widths)
{
        size_t found = t->n_columns;

        for (size_t i = 0; i < t->n_columns; i++)
                if (t->columns[i].min > 0 && widths[i] != LEFT_OUT && widths[i] > t->columns[i].min &&
                    (found == t->n_columns || widths[i] > widths[found]))
                        found = i;
        return found;
}

/* The next to be left out; n: none. */
static size_t least_wanted(const struct table *t, const unsigned *widths)
{
        size_t found = t->n_columns;

        for (size_t i = 0; i < t->n_columns; i++)
                if (t->columns[i].drop > 0 && widths[i] != LEFT_OUT &&
                    (found == t->n_columns || t->columns[i].drop >= t->columns[found].drop))
                        found = i;
        return found;
}

/* What every column needs; then they give way until all of it fits. */
static void find_widths(const struct table *t, unsigned limit, unsigned *widths)
{
        for (size_t i = 0; i < t->n_columns; i++) {
                widths[i] = text_width(t->columns[i].title);
                for (size_t row = 0; row < t->n_rows; row++)
                        widths[i] = MAX(widths[i], text_width(t->cells[row * t->n_columns + i]));
        }
        while (limit > 0 && sum_of(widths, t->n_columns) > limit) {
                size_t i = widest(t, widths);
                if (i < t->n_columns) {
                        widths[i]--;
                        continue;
                }
                i = least_wanted(t, widths);
                if (i == t->n_columns)
                        return;
                widths[i] = LEFT_OUT;
        }
}

/* ---- writing ---- */

static int add_cell(struct buffer *out, const char *text, unsigned width, bool right, bool last)
{
        unsigned used = text_width(text);
        size_t size = strlen(text);
        bool cut = used > width;

        if (cut)
                size = fitting(text, width > 0 ? width - 1 : 0, &used);
        used += cut;
        int r = right && used < width ? buffer_printf(out, "%*s", (int)(width - used), "") : 0;
        if (r == 0)
                r = buffer_add(out, text, size);
        if (r == 0 && cut)
                r = buffer_add_string(out, CUT);
        if (r == 0 && !right && !last && used < width)
                r = buffer_printf(out, "%*s", (int)(width - used), "");
        return r;
}

static int add_row(const struct table *t, const char *const *cells, const unsigned *widths, struct buffer *out)
{
        bool first = true;
        int r = 0;

        for (size_t i = 0; i < t->n_columns && r == 0; i++) {
                if (widths[i] == LEFT_OUT)
                        continue;
                r = first ? 0 : buffer_printf(out, "%*s", GAP, "");
                if (r == 0)
                        r = add_cell(out, cells[i], widths[i], t->columns[i].right, i + 1 == t->n_columns);
                first = false;
        }
        return r;
}

int table_write(const struct table *t, size_t from, size_t max, unsigned width, bool bold, struct buffer *out)
{
        unsigned widths[TABLE_COLUMNS_MAX];
        const char *titles[TABLE_COLUMNS_MAX];

        if (t->failed)
                return -ENOMEM;
        find_widths(t, width, widths);
        for (size_t i = 0; i < t->n_columns; i++)
                titles[i] = t->columns[i].title;
        int r = buffer_add_string(out, bold ? "\033[1m" : "");
        if (r == 0)
                r = add_row(t, titles, widths, out);
        if (r == 0)
                r = buffer_add_string(out, bold ? "\033[0m\n" : "\n");
        for (size_t row = from; row < t->n_rows && row - from < max && r == 0; row++) {
                r = add_row(t, (const char *const *)t->cells + row * t->n_columns, widths, out);
                if (r == 0)
                        r = buffer_add_string(out, "\n");
        }
        return r;
}

unsigned terminal_size(int fd, unsigned *ret_rows)
{
        struct winsize size = {0};

        if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) < 0)
                return 0;
        if (ret_rows)
                *ret_rows = size.ws_row > 0 ? size.ws_row : 24;
        return size.ws_col > 0 ? size.ws_col : 80;
}

int table_print(const struct table *t)
{
        _cleanup_buffer_ struct buffer text;

        buffer_init(&text, TEXT_BYTES_MAX);
        if (table_write(t, 0, SIZE_MAX, terminal_size(STDOUT_FILENO, NULL), output_wants_colour(STDOUT_FILENO), &text) < 0) {
                message_print(MESSAGE_ERROR, "out of memory");
                return error_exit_status(GB_E_INTERNAL);
        }
        return output_text(&text);
}
