/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lines.h"

#include "base/fd.h"
#include "base/limits.h"
#include "cli/editor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define INPUT_PIECE_BYTES 16384

void lines_init(struct lines *l, int ask_fd, int cancel_fd)
{
        *l = (struct lines){.cancel_fd = cancel_fd};
        buffer_init(&l->input, CODE_BYTES_MAX + INPUT_PIECE_BYTES);
        _cleanup_close_ int fd = ask_fd >= 0 ? fcntl(ask_fd, F_DUPFD_CLOEXEC, 3) : -1;
        if (fd < 0)
                return;
        l->terminal = fdopen(fd, "w");
        if (!l->terminal)
                return;
        (void)TAKE_FD(fd);
        l->editor = editor_new(l->terminal, cancel_fd);
}

void lines_done(struct lines *l)
{
        editor_free(l->editor);
        if (l->terminal)
                fclose(l->terminal);
        buffer_done(&l->input);
}

/* Waits for input or a signal, and reads what there is. 1, 0 at the end, or a negative errno. */
static int read_some(struct lines *l)
{
        struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = l->cancel_fd, .events = POLLIN}};
        char piece[INPUT_PIECE_BYTES];

        if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
                return -errno;
        if (fds[1].revents)
                return -EINTR;
        ssize_t n = read(STDIN_FILENO, piece, sizeof(piece));
        if (n < 0)
                return errno == EAGAIN ? 1 : -errno;
        if (n == 0)
                return 0;
        int r = buffer_add(&l->input, piece, (size_t)n);
        return r < 0 ? r : 1;
}

/* What was given already makes room, when the rest is no whole line. */
static void forget_given(struct lines *l)
{
        if (l->at == 0)
                return;
        memmove(l->input.data, l->input.data + l->at, l->input.size - l->at);
        l->input.size -= l->at;
        l->at = 0;
}

/* Gives the next size bytes, and takes `behind` more with them. */
static int give(struct lines *l, size_t size, size_t behind, const char **ret, size_t *ret_size)
{
        char *line = l->input.data + l->at;

        line[size] = '\0'; /* in the place of the newline, or of the buffer's own NUL */
        l->at += size + behind;
        *ret = line;
        *ret_size = size;
        return 1;
}

static int read_plain(struct lines *l, const char **ret, size_t *ret_size)
{
        size_t looked = 0;

        for (;;) {
                size_t left = l->input.size - l->at;
                const char *line = l->input.data + l->at, *end = left > looked ? memchr(line + looked, '\n', left - looked) : NULL;
                if (end)
                        return give(l, (size_t)(end - line), 1, ret, ret_size);
                looked = left;
                forget_given(l);
                int r = read_some(l);
                if (r == 0 && left > 0)
                        return give(l, left, 0, ret, ret_size);
                if (r <= 0)
                        return r;
        }
}

int lines_read(struct lines *l, const char *prompt, const char **ret, size_t *ret_size)
{
        if (l->editor)
                return editor_read(l->editor, prompt, ret, ret_size);
        if (l->terminal && l->at == l->input.size) {
                fputs(prompt, l->terminal);
                fflush(l->terminal);
        }
        return read_plain(l, ret, ret_size);
}
