/* SPDX-License-Identifier: Apache-2.0
 *
 * What the test lets the agent start, under the filter and the limits of a program, which a sanitizer does not survive. */
#include "agent/wire.h"
#include "base/macro.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Answers on its control channel. */
static _noreturn_ void echo(void)
{
        char bytes[65536];

        for (;;) {
                union {
                        char space[CMSG_SPACE(sizeof(int))];
                        struct cmsghdr align;
                } control;
                struct iovec iov = {bytes, sizeof(bytes)};
                struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof(control.space)};
                ssize_t n = recvmsg(WIRE_CONTROL_FD, &m, 0);
                if (n <= 0)
                        _exit(9);
                if (CMSG_FIRSTHDR(&m)) { /* what comes through the pipe is answered instead */
                        int fd;
                        size_t size = 0;
                        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
                        while ((n = read(fd, bytes, sizeof(bytes))) > 0)
                                size += (size_t)n;
                        close(fd);
                        n = snprintf(bytes, sizeof(bytes), "%zu bytes", size);
                } else if (bytes[0] == 'q') { /* twice as much output first */
                        for (int i = 0; i < 2; i++)
                                (void)!write(1, bytes, (size_t)n);
                } else if (bytes[0] == 'o') { /* output first */
                        (void)!write(1, bytes, (size_t)n);
                        (void)!write(2, bytes, (size_t)n);
                }
                (void)!write(WIRE_CONTROL_FD, bytes, (size_t)n);
        }
}

static void *leave_later(void *unused)
{
        usleep(50000);
        (void)!write(1, "later", 5);
        _exit(4);
}

static _noreturn_ void leave_first(void)
{
        pthread_t thread;

        pthread_create(&thread, NULL, leave_later, NULL);
        pthread_exit(NULL);
}

/* A process that is dead as soon as it has a child, and so on; by its name they can be found. It goes on for some time after its leader's end. */
static _noreturn_ void chain(const char *name)
{
        prctl(PR_SET_NAME, name);
        if (fork() == 0)
                for (int i = 0; i < 100000; i++)
                        if (fork() > 0)
                                _exit(0);
        usleep(30000);
        _exit(0);
}

/* Ends by itself when its parent is another one. */
static _noreturn_ void outlive(void)
{
        char text[16];
        pid_t parent = getppid();

        prctl(PR_SET_PDEATHSIG, 0);
        (void)!write(1, text, (size_t)snprintf(text, sizeof(text), "%d\n", (int)parent));
        while (getppid() == parent)
                ;
        _exit(5);
}

int main(int argc, char **argv)
{
        if (argc > 1 && strcmp(argv[1], "outlive") == 0)
                outlive();
        if (argc > 2 && strcmp(argv[1], "chain") == 0)
                chain(argv[2]);
        if (argc > 1 && strcmp(argv[1], "leave") == 0)
                leave_first();
        echo();
}
