/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation. While a run lasts these functions are called from inside the engine's
 * loop, which also keeps the time. So a reader that does not read (a pager, a stalled pipe) may
 * hold up the output, which in turn holds up the program, but neither its timeout nor Ctrl-C:
 * past the deadline or after a signal nothing waits any more, and the rest is kept in memory (it
 * is bounded by the output limit) until the run is over. Descriptors are shared with others, so
 * they are never made non-blocking; instead poll() says when a piece of PIPE_BUF bytes fits. */
#include "cli/output.h"

#include "base/error.h"
#include "base/fd.h"
#include "cli/signals.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHOWN_PIECE_BYTES 16384
#define REAL_DIGITS 12 /* microseconds of a day, in milliseconds */

void sink_init(struct sink *s, int fd, bool raw)
{
        struct stat st;

        *s = (struct sink){.fd = fd, .cancel_fd = -1, .terminal = {.colours = true}};
        s->may_block = fstat(fd, &st) < 0 || !S_ISREG(st.st_mode);
        s->is_terminal = s->may_block && isatty(fd);
        s->neutralise = s->is_terminal && !raw;
        buffer_init(&s->shown, SHOWN_PIECE_BYTES * TERMINAL_GROWTH_MAX + TERMINAL_SLACK_BYTES);
        buffer_init(&s->late, SIZE_MAX / 2);
}

/* The terminal's sink that is behind: it may have stopped within a colour sequence, which the bytes of another
 * must not complete. */
static struct sink *behind;

void sink_done(struct sink *s)
{
        buffer_done(&s->shown);
        buffer_done(&s->late);
        if (behind == s)
                behind = NULL;
}

/* 1: there is room. 0: nobody may wait any longer. Or a negative errno. */
static int wait_for_room(struct sink *s)
{
        for (;;) {
                int timeout = -1;
                if (s->deadline_usec) {
                        uint64_t now = monotonic_usec();
                        uint64_t left = now >= s->deadline_usec ? 0 : s->deadline_usec - now;
                        timeout = (int)MIN(left / 1000 + (left > 0), (uint64_t)INT_MAX);
                }
                if (s->cancel_fd >= 0 && signals_pending())
                        timeout = 0;

                struct pollfd fds[] = {{.fd = s->fd, .events = POLLOUT}, {.fd = s->cancel_fd, .events = POLLIN}};
                int n = poll(fds, ARRAY_SIZE(fds), timeout);
                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n > 0 && fds[0].revents)
                        return 1;
                if (n >= 0)
                        return 0;
        }
}

/* Writes until nobody may wait any longer; returns how much that was. */
static long write_while_room(struct sink *s, const char *bytes, size_t size)
{
        size_t done = 0;

        while (done < size) {
                size_t piece = size - done;
                if (s->may_block) {
                        int r = wait_for_room(s);
                        if (r < 0)
                                return r;
                        if (r == 0)
                                break;
                        piece = MIN(piece, (size_t)PIPE_BUF);
                }
                ssize_t n = write(s->fd, bytes + done, piece);
                if (n < 0 && errno != EINTR && errno != EAGAIN)
                        return -errno;
                if (n > 0)
                        done += (size_t)n;
        }
        return (long)done;
}

static bool must_keep(const struct sink *s)
{
        return s->late.size > 0 || (s->neutralise && behind && behind != s);
}

static int write_or_keep(struct sink *s, const char *bytes, size_t size)
{
        long n = must_keep(s) ? 0 : write_while_room(s, bytes, size);
        if (n < 0)
                return (int)n;
        if ((size_t)n == size)
                return 0;
        if (s->neutralise && !behind)
                behind = s;
        return buffer_add(&s->late, bytes + n, size - (size_t)n);
}

int sink_write(struct sink *s, const void *bytes, size_t size)
{
        const char *p = bytes;

        if (!s->neutralise && s->error == 0)
                s->error = write_or_keep(s, p, size);
        while (s->neutralise && size > 0 && s->error == 0) {
                size_t piece = MIN(size, (size_t)SHOWN_PIECE_BYTES);
                s->shown.size = 0;
                s->error = terminal_add(&s->terminal, &s->shown, p, piece);
                if (s->error == 0)
                        s->error = write_or_keep(s, s->shown.data, s->shown.size);
                p += piece;
                size -= piece;
        }
        return s->error;
}

int sink_write_json(struct sink *s, const json_t *json, size_t flags)
{
        flags |= JSON_REAL_PRECISION(REAL_DIGITS) | (s->is_terminal ? JSON_ENSURE_ASCII : 0);
        _cleanup_free_ char *text = json ? json_dumps(json, flags) : NULL;
        if (!text) {
                if (s->error == 0)
                        s->error = -ENOMEM;
                return s->error;
        }
        size_t size = strlen(text);
        text[size] = '\n'; /* in the place of its NUL: one write makes one line */
        return sink_write(s, text, size + 1);
}

int sink_waits_at(const struct sink *s)
{
        bool may_write = !s->neutralise || !behind || behind == s;

        return s->late.size > 0 && s->error == 0 && may_write ? s->fd : -1;
}

int sink_catch_up(struct sink *s)
{
        if (sink_waits_at(s) < 0)
                return s->error;
        long n = write_while_room(s, s->late.data, s->late.size);
        if (n < 0)
                return s->error = (int)n;
        s->late.size -= (size_t)n;
        memmove(s->late.data, s->late.data + n, s->late.size);
        if (s->late.size == 0 && behind == s)
                behind = NULL;
        return 0;
}

int sink_finish(struct sink *s)
{
        if (s->neutralise && behind && behind != s)
                sink_finish(behind);
        s->deadline_usec = 0;
        s->cancel_fd = -1;
        if (s->error == 0 && s->late.size > 0) {
                long n = write_while_room(s, s->late.data, s->late.size);
                s->error = n < 0 ? (int)n : 0;
                s->late.size = 0;
        }
        if (behind == s)
                behind = NULL;
        if (s->neutralise && s->error == 0) {
                s->shown.size = 0;
                s->error = terminal_flush(&s->terminal, &s->shown);
                if (s->error == 0 && s->shown.size > 0)
                        s->error = write_or_keep(s, s->shown.data, s->shown.size);
        }
        return s->error;
}

static int finish_status(struct sink *s)
{
        int r = sink_finish(s);
        if (r == 0)
                return 0;
        if (r == -EPIPE)
                return 128 + 13; /* as if SIGPIPE had ended us */
        message_print(MESSAGE_ERROR, "cannot write to standard output: %s", strerror(-r));
        return error_exit_status(GB_E_INTERNAL);
}

int output_text(const struct buffer *text)
{
        _cleanup_sink_ struct sink s;

        sink_init(&s, STDOUT_FILENO, false);
        if (text->size > 0)
                sink_write(&s, text->data, text->size);
        return finish_status(&s);
}

int output_json(const json_t *json)
{
        _cleanup_sink_ struct sink s;

        sink_init(&s, STDOUT_FILENO, false);
        sink_write_json(&s, json, s.is_terminal ? JSON_INDENT(2) : JSON_COMPACT);
        return finish_status(&s);
}

bool output_wants_colour(int fd)
{
        const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

        return isatty(fd) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

void message_print(enum message_kind kind, const char *format, ...)
{
        char text[2048];
        va_list ap;
        va_start(ap, format);
        int n = vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        if (n < 0)
                return;

        _cleanup_buffer_ struct buffer line;
        struct terminal t = {.one_line = true};
        static const char *const colours[] = {[MESSAGE_ERROR] = "\033[31m", [MESSAGE_WARNING] = "\033[33m"};
        bool coloured = kind != MESSAGE_PLAIN && output_wants_colour(STDERR_FILENO);
        buffer_init(&line, sizeof(text) * TERMINAL_GROWTH_MAX + TERMINAL_SLACK_BYTES);
        if (buffer_printf(&line, "%sglovebox:%s %s", coloured ? colours[kind] : "", coloured ? "\033[0m" : "",
                          kind == MESSAGE_WARNING ? "warning: " : "") < 0 ||
            terminal_add(&t, &line, text, strlen(text)) < 0 || terminal_flush(&t, &line) < 0 ||
            buffer_add_string(&line, "\n") < 0)
                return;

        struct sink s;
        sink_init(&s, STDERR_FILENO, true);
        sink_write(&s, line.data, line.size);
        sink_finish(&s);
        sink_done(&s);
}
