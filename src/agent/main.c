/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent: process 1 of a container. glovebox tells it through its standard input what to start, and hears through its standard output what
 * becomes of that (agent/wire.h). It runs as the user of the code, without a capability, and never needs one.
 *
 * One loop around poll(). Nothing in it waits for a program: the slow work (locking in, writing the code, ending a tree of processes) is done by a
 * supervisor for each program, see supervisor.c.
 *
 * Should: end everything when the host says something wrong or is gone. Mustn't: allocate what a program can make grow; trust what a supervisor's
 * end means, since the code can kill it. */
#include "agent/connection.h"
#include "agent/facts.h"
#include "agent/link.h"
#include "agent/program.h"
#include "agent/spare.h"
#include "agent/supervisor.h"
#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { SLOT_IN, SLOT_OUT, SLOT_CHILDREN, SLOT_FIRST };

static _noreturn_ void give_up(int r, const char *what)
{
        dprintf(STDERR_FILENO, "glovebox-agent: cannot %s: %s\n", what, strerror(-r));
        programs_end_all();
}

static void check(int r, const char *what)
{
        if (r < 0)
                give_up(r, what);
}

static int negative(int r)
{
        return r < 0 ? -errno : 0;
}

/* For programs with many streams, and connections; each program gets a limit of its own. */
static void raise_descriptors(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
                limit.rlim_cur = MIN(limit.rlim_max, (rlim_t)2 * (PROGRAM_SLOTS_MAX + CONNECTION_SLOTS_MAX));
                (void)setrlimit(RLIMIT_NOFILE, &limit);
        }
}

/* Returns a signalfd of SIGCHLD. */
static int prepare(void)
{
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        sigset_t child;

        close_all_but(3, NULL, 0);
        raise_descriptors();
        check(programs_init(), "look around in the container");
        check(negative(prctl(PR_SET_DUMPABLE, 0)), "forbid dumps");
        check(negative(prctl(PR_SET_CHILD_SUBREAPER, 1)), "become the parent of orphans");
        check(negative(sigaction(SIGPIPE, &ignore, NULL)), "ignore SIGPIPE");
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        check(negative(sigprocmask(SIG_SETMASK, &child, NULL)), "block SIGCHLD");
        int children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
        check(negative(children), "make a signal descriptor");
        check(link_init(), "prepare standard output");
        return children;
}

static void say_hello(void)
{
        struct wire_hello hello;
        struct wire_frame frame = {.type = WIRE_HELLO, .size = sizeof(hello)};

        memset(&hello, 0, sizeof(hello));
        check(facts_hello(&hello), "read the facts about the container");
        facts_note_start();
        link_send(&frame, &hello);
}

static void take_frames(void)
{
        struct wire_frame frame;
        const char *payload;
        int r = 0;

        while (link_can_answer() && (r = link_next(&frame, &payload)) > 0)
                if ((connections_know(frame.type) ? connections_take(&frame, payload) : programs_take(&frame, payload)) < 0)
                        give_up(-EPROTO, "understand what glovebox says");
        check(r, "understand what glovebox says");
}

/* Milliseconds until something is to be done, or -1. */
static int tick(void)
{
        int programs = programs_tick(), connections = connections_tick();

        return programs < 0 || (connections >= 0 && connections < programs) ? connections : programs;
}

int main(void)
{
        static struct pollfd slots[SLOT_FIRST + PROGRAM_SLOTS_MAX + CONNECTION_SLOTS_MAX];
        struct signalfd_siginfo drop;
        int children = prepare();

        say_hello();
        spare_adjust(0);
        for (;;) {
                bool full = !link_has_room();
                int timeout = tick();
                check(link_flush(), "send anything to glovebox");
                size_t n = programs_fill(slots + SLOT_FIRST), n_connections = connections_fill(slots + SLOT_FIRST + n);
                full = full || !link_has_room();
                check(link_flush(), "send anything to glovebox");
                if (full && link_has_room())
                        timeout = 0; /* something was left undone for want of room */
                slots[SLOT_IN] = (struct pollfd){link_can_answer() ? STDIN_FILENO : -1, POLLIN, 0};
                slots[SLOT_OUT] = (struct pollfd){STDOUT_FILENO, link_is_waiting() ? POLLOUT : 0, 0};
                slots[SLOT_CHILDREN] = (struct pollfd){children, POLLIN, 0};
                if (poll(slots, SLOT_FIRST + n + n_connections, timeout) < 0) {
                        /* The code can take our descriptors away (prlimit): who hears nothing of the host's end must not stay. */
                        check(errno == EINTR ? 0 : -errno, "wait for anything");
                        continue;
                }
                if (slots[SLOT_OUT].revents & (POLLERR | POLLHUP))
                        give_up(-EPIPE, "send anything to glovebox");
                programs_serve(slots + SLOT_FIRST, n);
                connections_serve(slots + SLOT_FIRST + n, n_connections);
                if (slots[SLOT_CHILDREN].revents) {
                        (void)!read(children, &drop, sizeof(drop));
                        programs_reap();
                }
                int r = slots[SLOT_IN].revents ? link_receive() : 0;
                if (r == -EPIPE)
                        programs_end_all(); /* glovebox has closed its end: all is over */
                check(r, "hear anything from glovebox");
                take_frames();
        }
}
