/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation. libedit reads through take_character(), which waits for a key and for signals at once. A signal
 * that counts (signals.c) makes it give up: the line is dropped. The window's size and Ctrl-Z are for us while a
 * line is edited; they are blocked but for the wait, so that none falls between a look and a sleep. libedit's own
 * handlers are not used: they send each signal on to the whole process group. */
#include "cli/editor.h"

#include "base/limits.h"
#include "base/macro.h"
#include "base/utf8.h"
#include "cli/history_file.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDENT "    "

struct editor {
        EditLine *el;
        History *history;
        FILE *nowhere; /* for what libedit complains about */
        struct history_file file;
        editor_is_secret *is_secret; /* NULL: nobody looks */
        void *data;
        int cancel_fd;
        const char *prompt;
        sigset_t outside; /* the signal mask of others */
        bool interrupted;
        char last[HISTORY_LINE_BYTES_MAX + 1]; /* the line before: one that is repeated is kept once */
};

static volatile sig_atomic_t window_changed, stop_asked;

static void on_signal(int number)
{
        if (number == SIGWINCH)
                window_changed = 1;
        else
                stop_asked = 1;
}

static struct editor *editor_of(EditLine *el)
{
        struct editor *e = NULL;

        el_get(el, EL_CLIENTDATA, &e);
        return e;
}

static char *give_prompt(EditLine *el)
{
        return (char *)(uintptr_t)editor_of(el)->prompt;
}

static unsigned char insert_indent(EditLine *el, int _unused_ key)
{
        return el_insertstr(el, INDENT) < 0 ? CC_ERROR : CC_REFRESH;
}

/* Ctrl-Z, with the terminal as it was. In a process group that nobody could continue the kernel ignores it. */
static void stop_here(struct editor *e)
{
        struct sigaction ours, usual = {.sa_handler = SIG_DFL};
        sigset_t stop;

        sigemptyset(&stop);
        sigaddset(&stop, SIGTSTP);
        el_set(e->el, EL_PREP_TERM, 0);
        sigaction(SIGTSTP, &usual, &ours);
        raise(SIGTSTP);
        sigprocmask(SIG_UNBLOCK, &stop, NULL);
        sigprocmask(SIG_BLOCK, &stop, NULL);
        sigaction(SIGTSTP, &ours, NULL);
        el_set(e->el, EL_PREP_TERM, 1);
        el_set(e->el, EL_REFRESH);
}

/* Waits until there is a byte. 0, or -1: a signal came. */
static int wait_for_byte(struct editor *e)
{
        for (;;) {
                struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = e->cancel_fd, .events = POLLIN}};
                if (window_changed)
                        el_resize(e->el);
                window_changed = 0;
                if (stop_asked)
                        stop_here(e);
                stop_asked = 0;
                int n = ppoll(fds, ARRAY_SIZE(fds), NULL, &e->outside);
                if (n > 0 && fds[1].revents) {
                        e->interrupted = true;
                        return -1;
                }
                if (n > 0)
                        return 0;
                if (n < 0 && errno != EINTR)
                        return -1;
        }
}

/* One character; 1, 0 at the end, or -1. */
static int take_character(EditLine *el, wchar_t *ret)
{
        struct editor *e = editor_of(el);
        char bytes[UTF8_SEQUENCE_MAX];
        size_t n = 0;
        uint32_t c;

        do {
                if (wait_for_byte(e) < 0)
                        return -1;
                ssize_t got = read(STDIN_FILENO, bytes + n, 1);
                if (got < 0 && (errno == EINTR || errno == EAGAIN))
                        continue;
                if (got <= 0)
                        return (int)got;
                n++;
        } while (n == 0 || (n < sizeof(bytes) && utf8_incomplete_tail(bytes, n) == n));
        *ret = utf8_decode(bytes, n, &c) == n ? (wchar_t)c : L'\ufffd';
        return 1;
}

static void remember(void *data, const char *line)
{
        struct editor *e = data;
        HistEvent event;

        history(e->history, &event, H_ENTER, line);
        snprintf(e->last, sizeof(e->last), "%s", line);
}

static bool set_up(struct editor *e, FILE *terminal)
{
        HistEvent event;

        e->nowhere = fopen("/dev/null", "we");
        e->history = history_init();
        e->el = e->nowhere ? el_init("glovebox", stdin, terminal, e->nowhere) : NULL;
        if (!e->el || !e->history)
                return false;
        /* One that nobody has described here: almost all of them do what an xterm does. */
        if (el_set(e->el, EL_TERMINAL, NULL) < 0 && el_set(e->el, EL_TERMINAL, "xterm") < 0)
                return false;
        history(e->history, &event, H_SETSIZE, HISTORY_LINES_MAX);
        history(e->history, &event, H_SETUNIQUE, 1);
        el_set(e->el, EL_CLIENTDATA, e);
        el_set(e->el, EL_PROMPT, give_prompt);
        el_set(e->el, EL_EDITOR, "emacs");
        el_set(e->el, EL_HIST, history, e->history);
        el_wset(e->el, EL_ADDFN, L"indent", L"Insert four spaces", insert_indent); /* el_set() would leak the texts */
        el_set(e->el, EL_BIND, "^I", "indent", NULL);
        el_set(e->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
        el_source(e->el, NULL); /* the caller's ~/.editrc, if there is one */
        /* After it: the signals are ours whatever it says. */
        el_set(e->el, EL_SIGNAL, 0);
        el_set(e->el, EL_GETCFN, take_character);
        history_file_open(&e->file, remember, e);
        return true;
}

struct editor *editor_new(FILE *terminal, int cancel_fd)
{
        const char *type = getenv("TERM");

        if (!type || !*type || strcmp(type, "dumb") == 0 || !setlocale(LC_CTYPE, "C.UTF-8"))
                return NULL;
        struct editor *e = calloc(1, sizeof(*e));
        if (!e)
                return NULL;
        e->cancel_fd = cancel_fd;
        e->file.fd = -1;
        if (set_up(e, terminal))
                return e;
        editor_free(e);
        return NULL;
}

void editor_free(struct editor *e)
{
        if (!e)
                return;
        if (e->history)
                history_end(e->history);
        if (e->el)
                el_end(e->el);
        if (e->nowhere)
                fclose(e->nowhere);
        history_file_close(&e->file);
        free(e);
}

/* Puts a line into the history, unless it is empty or the same again. */
static void keep(struct editor *e, const char *line, size_t size)
{
        if (strspn(line, " \t") == size || strcmp(line, e->last) == 0)
                return;
        remember(e, line);
        if (!e->is_secret || !e->is_secret(e->data, line, size))
                history_file_add(&e->file, line, size);
}

void editor_keep_out(struct editor *e, editor_is_secret *is_secret, void *data)
{
        e->is_secret = is_secret;
        e->data = data;
}

/* With our handlers for the signals of a terminal. */
static const char *edit(struct editor *e, int *ret_count)
{
        struct sigaction act = {.sa_handler = on_signal}, old_window, old_stop;
        sigset_t ours;

        sigemptyset(&ours);
        sigaddset(&ours, SIGWINCH);
        sigaddset(&ours, SIGTSTP);
        sigprocmask(SIG_BLOCK, &ours, &e->outside);
        sigaction(SIGWINCH, &act, &old_window);
        sigaction(SIGTSTP, NULL, &old_stop);
        if (old_stop.sa_handler != SIG_IGN)
                sigaction(SIGTSTP, &act, NULL);
        el_set(e->el, EL_PREP_TERM, 1); /* before the prompt: what is typed at once would be shown twice */
        const char *line = el_gets(e->el, ret_count);
        sigaction(SIGWINCH, &old_window, NULL);
        sigaction(SIGTSTP, &old_stop, NULL);
        sigprocmask(SIG_SETMASK, &e->outside, NULL);
        return line;
}

int editor_read(struct editor *e, const char *prompt, const char **ret, size_t *ret_size)
{
        int count = 0;

        e->prompt = prompt;
        e->interrupted = false;
        const char *line = edit(e, &count);
        if (e->interrupted)
                return -EINTR;
        if (!line || count <= 0)
                return 0;
        size_t size = (size_t)count;
        if (line[size - 1] == '\n')
                size--;
        /* It is libedit's own memory, and it says so by const; it is written anew at the next call. */
        ((char *)(uintptr_t)line)[size] = '\0';
        keep(e, line, size);
        *ret = line;
        *ret_size = size;
        return 1;
}
