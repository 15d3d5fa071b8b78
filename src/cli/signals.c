/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals to the command become counts on an eventfd, which the engine watches: the first count
 * interrupts the program, the second kills it. The handler does nothing else, so nothing here
 * can happen in the middle of something. */
#include "cli/signals.h"

#include "base/macro.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const struct {
        int number;
        unsigned count;
} rows[] = {{SIGINT, 1}, {SIGTERM, 2}, {SIGHUP, 2}};

static volatile sig_atomic_t cancelled, must_end, event_fd = -1;

void signals_cancel(unsigned count)
{
        uint64_t value = count;
        int saved = errno;

        cancelled = 1;
        if (event_fd >= 0 && write(event_fd, &value, sizeof(value)) < 0) {
                /* The counter is full: there are enough counts already. */
        }
        errno = saved;
}

static void handler(int number)
{
        if (number != SIGINT)
                must_end = 1;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (rows[i].number == number)
                        signals_cancel(rows[i].count);
}

int signals_start(void)
{
        int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd < 0)
                return -errno;
        event_fd = fd;

        signal(SIGPIPE, SIG_IGN);
        /* No SA_RESTART: a write that waits for a slow reader is to notice. */
        struct sigaction act = {.sa_handler = handler}, old;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (sigaction(rows[i].number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
                        sigaction(rows[i].number, &act, NULL);
        return fd;
}

void signals_stop(void)
{
        struct sigaction old;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (sigaction(rows[i].number, NULL, &old) == 0 && old.sa_handler == handler)
                        signal(rows[i].number, SIG_DFL);
}

bool signals_pending(void)
{
        return cancelled;
}

bool signals_must_end(void)
{
        return must_end;
}

void signals_clear(void)
{
        uint64_t count;

        if (must_end)
                return;
        cancelled = 0;
        if (event_fd >= 0 && read(event_fd, &count, sizeof(count)) < 0) {
                /* There was none. */
        }
}
