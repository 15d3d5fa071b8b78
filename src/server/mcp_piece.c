/* SPDX-License-Identifier: Apache-2.0
 *
 * Around the piece that was asked for a few bytes more are read: by those before it is known whether it begins inside of a character, by those after it
 * whether the last one goes on. */
#include "server/mcp_piece.h"

#include "base/utf8.h"
#include "mcp/content.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AROUND (UTF8_SEQUENCE_MAX - 1)

void mcp_piece_done(struct mcp_piece *p)
{
        free(TAKE_PTR(p->memory));
}

bool mcp_piece_has_more(const struct mcp_piece *p)
{
        return p->size > 0 && p->offset + p->size < p->total;
}

const char *mcp_piece_type(const struct mcp_piece *p, const char *name)
{
        const char *type = media_type_of(name);

        return p->text && strcmp(type, "application/octet-stream") == 0 ? "text/plain" : type;
}

json_t *mcp_piece_to_text(const struct mcp_piece *p)
{
        _cleanup_buffer_ struct buffer text = {0};
        uint64_t left_out;

        if (p->text)
                return json_stringn_nocheck(p->bytes, p->size);
        buffer_init(&text, 3 * p->size); /* each byte may become three */
        return content_add_cut(&text, p->bytes, p->size, p->size, NULL, &left_out) < 0 ? NULL : json_stringn_nocheck(text.data ? text.data : "", text.size);
}

/* ---- where characters begin and end ---- */

/* What was read: `before` bytes of it lie before the piece that is asked for. */
struct window {
        char *bytes;
        size_t size, before, limit;
        uint64_t from;
};

static int window_init(struct window *w, uint64_t offset, size_t limit)
{
        w->before = (size_t)MIN(offset, (uint64_t)AROUND);
        w->from = offset - w->before;
        w->limit = limit;
        w->size = w->before + limit + 2 * (size_t)AROUND; /* room; later what was read */
        w->bytes = malloc(w->size);
        return w->bytes ? 0 : -ENOMEM;
}

static size_t first_character(const struct window *w)
{
        uint32_t c;

        for (size_t back = 1; back <= w->before; back++) {
                size_t n = utf8_decode(w->bytes + w->before - back, w->size - (w->before - back), &c);
                if (n > 0)
                        return n > back ? w->before - back + n : w->before;
        }
        return w->before;
}

static size_t last_character(const struct window *w, size_t start)
{
        size_t end = MIN(w->size, start + w->limit), tail = utf8_incomplete_tail(w->bytes + start, end - start);
        uint32_t c;

        if (tail == 0 || end == w->size)
                return end;
        if (end - tail > start)
                return end - tail;
        size_t n = utf8_decode(w->bytes + start, w->size - start, &c);
        return n > 0 ? start + n : end;
}

/* Takes the bytes of the window. any: also what is no text is cut where characters end, as far as there are some. */
static void piece_take(struct mcp_piece *p, struct window *w, bool any)
{
        size_t before = MIN(w->before, w->size), start = before, end = before;

        if (w->size > before) {
                start = first_character(w);
                end = last_character(w, start);
        }
        bool text = utf8_is_valid(w->bytes + start, end - start) && !memchr(w->bytes + start, '\0', end - start);
        if (!text && !any) {
                start = before;
                end = MIN(w->size, start + w->limit);
        }
        p->memory = TAKE_PTR(w->bytes);
        p->bytes = p->memory + start;
        p->size = end - start;
        p->offset = w->from + w->before + (start - before);
        p->text = text;
}

/* ---- files ---- */

static ssize_t read_at(int fd, char *bytes, size_t size, uint64_t from)
{
        size_t got = 0;

        while (got < size && from <= INT64_MAX - size) {
                ssize_t n = pread(fd, bytes + got, size - got, (off_t)(from + got));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                got += (size_t)n;
        }
        return (ssize_t)got;
}

int mcp_piece_of_file(int fd, uint64_t offset, size_t limit, struct mcp_piece *ret, gb_error *err)
{
        struct window w;
        struct stat st;

        if (window_init(&w, offset, limit) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        _cleanup_free_ char *bytes = w.bytes;
        ssize_t n = read_at(fd, bytes, w.size, w.from);
        /* Its size now, and not when it was opened: it may have changed meanwhile. */
        if (n >= 0 && fstat(fd, &st) < 0)
                n = -errno;
        if (n < 0)
                return error_set(err, GB_E_INTERNAL, (int)-n, "the file cannot be read: %s", strerror((int)-n));
        w.size = (size_t)n;
        TAKE_PTR(bytes);
        piece_take(ret, &w, false);
        ret->total = (uint64_t)st.st_size;
        return 0;
}

/* ---- outputs ---- */

struct gathering {
        struct window *window;
        enum journal_kind kind;
        size_t got;
        uint64_t next;
};

/* Its negative return is not an error: enough is there. */
static int gather(void *data, const struct journal_event *e)
{
        struct gathering *g = data;
        struct window *w = g->window;
        uint64_t at = w->from + g->got;

        g->next = e->seq + 1;
        if (e->kind != g->kind || e->offset + e->size <= at || e->offset > at)
                return 0;
        size_t skip = (size_t)(at - e->offset), n = MIN(e->size - skip, w->size - g->got);
        memcpy(w->bytes + g->got, e->data + skip, n);
        g->got += n;
        return g->got == w->size ? -ECANCELED : 0;
}

static int gather_all(struct journal *j, const char *run, struct gathering *g, gb_error *err)
{
        int64_t n;

        do
                n = journal_events(j, run, g->next, FOLLOW_BYTES_MAX, gather, g, err);
        while (n > 0);
        return n < 0 && n != -ECANCELED ? (int)n : 0;
}

int mcp_piece_of_output(struct journal *j, const char *tenant, const struct resource_uri *uri, uint64_t offset, size_t limit, struct mcp_piece *ret,
                        struct journal_run *ret_run, gb_error *err)
{
        struct window w;
        struct gathering g = {.window = &w, .kind = uri->kind == RESOURCE_STDOUT ? JOURNAL_STDOUT : JOURNAL_STDERR};

        int r = journal_run_get(j, tenant, uri->id, ret_run, err);
        if (r < 0)
                return r;
        uint64_t total = uri->kind == RESOURCE_STDOUT ? ret_run->out_bytes : ret_run->err_bytes;
        if (window_init(&w, offset, limit) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        _cleanup_free_ char *bytes = w.bytes;
        r = w.from < total ? gather_all(j, uri->id, &g, err) : 0;
        if (r < 0)
                return r;
        w.size = g.got;
        TAKE_PTR(bytes);
        piece_take(ret, &w, true);
        ret->total = g.got > 0 ? MAX(total, w.from + g.got) : total; /* more may have come since */
        return 0;
}
