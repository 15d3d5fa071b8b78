/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation. Signals that end the command first put the terminal back, with two calls that are safe in a handler
 * (tcsetattr and write), then take their usual course. A stop (Ctrl-Z) does the same and comes back after it. SIGWINCH only
 * writes a byte into a pipe; what waits for keys waits for that pipe, too. */
#include "cli/screen.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <termios.h>
#include <unistd.h>

/* Another screen, no cursor, and lines that are too long end at its edge. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"
#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_BELOW "\033[J"

static struct termios before;
static volatile sig_atomic_t is_open, pipe_reader = -1, pipe_writer = -1;
static int watcher = -1;
static char typed[64];
static size_t n_typed, at_typed;

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGPIPE};

static void set_keys(void)
{
        struct termios t = before;

        t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        t.c_cc[VMIN] = 0;
        t.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &t);
}

static void put_back(void)
{
        if (!is_open)
                return;
        is_open = 0;
        if (write(STDOUT_FILENO, LEAVE, strlen(LEAVE)) < 0) {
                /* The terminal is gone. */
        }
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void on_end(int number)
{
        put_back();
        signal(number, SIG_DFL);
        raise(number);
}

static void wake(void)
{
        int saved = errno;

        if (write(pipe_writer, "", 1) < 0) {
                /* It is full: somebody will look anyway. */
        }
        errno = saved;
}

static void on_size(int number)
{
        (void)number;
        wake();
}

static void on_stop(int number)
{
        struct sigaction act;

        put_back();
        /* The default action, now: it is blocked while its handler runs. */
        sigset_t set;
        signal(number, SIG_DFL);
        sigemptyset(&set);
        sigaddset(&set, number);
        raise(number);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        /* Continued. */
        memset(&act, 0, sizeof(act));
        act.sa_handler = on_stop;
        sigaction(number, &act, NULL);
        is_open = 1;
        set_keys();
        if (write(STDOUT_FILENO, ENTER, strlen(ENTER)) < 0) {
                /* The terminal is gone. */
        }
        wake();
}

static int watch(void)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
                return -errno;
        pipe_reader = fds[0];
        pipe_writer = fds[1];
        watcher = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event keys = {.events = EPOLLIN, .data.fd = STDIN_FILENO}, woken = {.events = EPOLLIN, .data.fd = fds[0]};
        if (watcher < 0 || epoll_ctl(watcher, EPOLL_CTL_ADD, STDIN_FILENO, &keys) < 0 ||
            epoll_ctl(watcher, EPOLL_CTL_ADD, fds[0], &woken) < 0)
                return -errno;
        return 0;
}

int screen_open(void)
{
        struct sigaction act = {.sa_handler = on_end}, size = {.sa_handler = on_size, .sa_flags = SA_RESTART}, stop = {.sa_handler = on_stop}, old;

        if (tcgetattr(STDIN_FILENO, &before) < 0)
                return -errno;
        int r = watch();
        if (r < 0)
                return r;
        is_open = 1;
        for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
                if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
                        sigaction(ending[i], &act, NULL);
        if (sigaction(SIGTSTP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
                sigaction(SIGTSTP, &stop, NULL);
        sigaction(SIGWINCH, &size, NULL);
        set_keys();
        return fd_write_all(STDOUT_FILENO, ENTER, strlen(ENTER));
}

void screen_close(void)
{
        put_back();
        for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
                signal(ending[i], SIG_DFL);
        signal(SIGTSTP, SIG_DFL);
        signal(SIGWINCH, SIG_DFL);
        watcher = safe_close(watcher);
        safe_close(pipe_reader);
        safe_close(pipe_writer);
        pipe_reader = pipe_writer = -1;
}

int screen_event_fd(void)
{
        return watcher;
}

/* ---- keys ---- */

static const struct {
        const char *bytes;
        enum screen_key key;
} keys[] = {
        {"\033[A", KEY_UP},       {"\033OA", KEY_UP},        {"\033[B", KEY_DOWN},  {"\033OB", KEY_DOWN},  {"\033[5~", KEY_PAGE_UP},
        {"\033[6~", KEY_PAGE_DOWN}, {"\033[H", KEY_HOME},    {"\033[1~", KEY_HOME}, {"\033[F", KEY_END},   {"\033[4~", KEY_END},
        {"q", KEY_QUIT},          {"Q", KEY_QUIT},           {"\004", KEY_QUIT},    {"c", KEY_CPU},        {"m", KEY_MEMORY},
        {"k", KEY_UP},            {"j", KEY_DOWN},           {" ", KEY_PAGE_DOWN},  {"b", KEY_PAGE_UP},    {"g", KEY_HOME},
        {"G", KEY_END},           {"\f", KEY_REDRAW},
};

static enum screen_key next_typed(void)
{
        while (at_typed < n_typed) {
                for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
                        size_t n = strlen(keys[i].bytes);
                        if (n <= n_typed - at_typed && memcmp(typed + at_typed, keys[i].bytes, n) == 0) {
                                at_typed += n;
                                return keys[i].key;
                        }
                }
                at_typed++; /* a key that means nothing here */
        }
        return KEY_NONE;
}

enum screen_key screen_key(void)
{
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        char woken[16];

        enum screen_key key = next_typed();
        if (key != KEY_NONE)
                return key;
        if (read(pipe_reader, woken, sizeof(woken)) > 0)
                return KEY_REDRAW;
        if (poll(&p, 1, 0) <= 0)
                return KEY_NONE;
        ssize_t n = read(STDIN_FILENO, typed, sizeof(typed));
        if (n <= 0)
                return n < 0 && errno == EINTR ? KEY_NONE : KEY_QUIT; /* the terminal is gone */
        n_typed = (size_t)n;
        at_typed = 0;
        return next_typed();
}

/* ---- drawing ---- */

int screen_draw(const struct buffer *lines, unsigned rows)
{
        _cleanup_buffer_ struct buffer out;
        const char *at = lines->data ? lines->data : "";

        /* One write, so that nothing flickers. */
        buffer_init(&out, lines->size + (size_t)rows * 16 + 64);
        int r = buffer_add_string(&out, HOME);
        for (unsigned row = 0; r == 0 && row < rows; row++) {
                size_t n = strcspn(at, "\n");
                r = buffer_add(&out, at, n);
                if (r == 0)
                        r = buffer_add_string(&out, row + 1 < rows ? CLEAR_LINE "\r\n" : CLEAR_LINE);
                at += n + (at[n] == '\n');
                if (!*at)
                        break;
        }
        if (r == 0)
                r = buffer_add_string(&out, CLEAR_BELOW);
        return r < 0 ? r : fd_write_all(STDOUT_FILENO, out.data, out.size);
}
