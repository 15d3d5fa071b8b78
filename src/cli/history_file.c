/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines are appended as they come, each in one write, so several sessions can share the file and nothing is lost by
 * a kill. At the start and at the end it is cut to its last HISTORY_LINES_MAX lines. */
#include "cli/history_file.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define HISTORY_FILE_BYTES_MAX (2 * HISTORY_LINES_MAX * HISTORY_LINE_BYTES_MAX)

/* The directory below parent, made when it is missing. Takes parent. */
static int enter_directory(int parent, const char *name)
{
        if (parent < 0)
                return -1;
        if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST) {
                safe_close(parent);
                return -1;
        }
        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        safe_close(parent);
        return fd;
}

/* $XDG_STATE_HOME/glovebox, or ~/.local/state/glovebox. */
static int open_state_directory(void)
{
        const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
        int fd = -1;

        if (state && state[0] == '/') {
                (void)mkdir(state, 0700); /* the specification wants so; its parents are not ours to make */
                fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        } else if (home && home[0] == '/') {
                fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                fd = enter_directory(enter_directory(fd, ".local"), "state");
        }
        return enter_directory(fd, "glovebox");
}

/* Ours alone, or not at all: what was typed may be secret, and a file of somebody else is not to be written to. */
static int open_file(void)
{
        _cleanup_close_ int dir = open_state_directory();
        struct stat st;

        if (dir < 0 || fstat(dir, &st) < 0 || st.st_uid != geteuid())
                return -1;
        _cleanup_close_ int fd =
                openat(dir, "history", O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
                return -1;
        if ((st.st_mode & 0777) != 0600 && fchmod(fd, 0600) < 0)
                return -1;
        return TAKE_FD(fd);
}

/* The last lines of the file, as one text; *ret_all tells whether these are all. NULL when there are none. */
static char *read_tail(int fd, size_t *ret_size, bool *ret_all)
{
        char *text = NULL;
        struct stat st;

        if (fstat(fd, &st) < 0)
                return NULL;
        off_t begin = st.st_size > (off_t)HISTORY_FILE_BYTES_MAX ? st.st_size - (off_t)HISTORY_FILE_BYTES_MAX : 0;
        if (lseek(fd, begin, SEEK_SET) < 0 || fd_read_all(fd, HISTORY_FILE_BYTES_MAX, &text, ret_size) < 0)
                return NULL;
        size_t n = 0, at = *ret_size;
        if (at > 0 && text[at - 1] == '\n')
                at--;
        while (at > 0 && (text[at - 1] != '\n' || ++n < HISTORY_LINES_MAX))
                at--;
        *ret_all = at == 0 && begin == 0;
        memmove(text, text + at, *ret_size - at + 1);
        *ret_size -= at;
        return text;
}

/* Two that do this at once would mix their lines; the one that comes late leaves it to the other. */
static void cut(int fd, const char *text, size_t size)
{
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return;
        if (ftruncate(fd, 0) == 0)
                (void)fd_write_all(fd, text, size);
        (void)flock(fd, LOCK_UN);
}

void history_file_open(struct history_file *h, void (*each)(void *data, const char *line), void *data)
{
        size_t size = 0;
        bool all = true;

        h->fd = open_file();
        _cleanup_free_ char *text = h->fd >= 0 ? read_tail(h->fd, &size, &all) : NULL;
        if (!text)
                return;
        if (!all)
                cut(h->fd, text, size);
        char *state = NULL;
        for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
                each(data, line);
}

void history_file_add(struct history_file *h, const char *line, size_t size)
{
        char copy[HISTORY_LINE_BYTES_MAX + 1];

        if (h->fd < 0 || size == 0 || size > HISTORY_LINE_BYTES_MAX || memchr(line, '\n', size) || memchr(line, '\0', size))
                return;
        memcpy(copy, line, size);
        copy[size] = '\n';
        if (fd_write_all(h->fd, copy, size + 1) < 0)
                h->fd = safe_close(h->fd); /* the disk is full: it would be no better the next time */
}

void history_file_close(struct history_file *h)
{
        size_t size = 0;
        bool all = true;
        _cleanup_free_ char *text = h->fd >= 0 ? read_tail(h->fd, &size, &all) : NULL;

        if (text && !all)
                cut(h->fd, text, size);
        h->fd = safe_close(h->fd);
}
