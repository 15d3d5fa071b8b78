/* SPDX-License-Identifier: Apache-2.0
 *
 * Both ends of what ./dev bench egress measures: an upstream, and a client that reaches it directly or through a proxy (CONNECT).
 *
 *   egress_load serve PORT                          answers on 127.0.0.1
 *   egress_load bytes UPSTREAM PROXY BYTES TIMES    downloads; bytes per second, one line each (PROXY 0: directly)
 *   egress_load connect UPSTREAM PROXY TIMES        until the connection or tunnel stands; microseconds, one line each
 *   egress_load echo UPSTREAM PROXY TIMES           until the first byte of an echo is back, with the time to connect
 *   egress_load hold UPSTREAM PROXY COUNT           opens tunnels, says "open", keeps them until its standard input ends */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (256 * 1024)

static char chunk[CHUNK];

static _Noreturn void die(const char *what)
{
        perror(what);
        exit(1);
}

static double now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct sockaddr_in at(int port)
{
        return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void send_all(int fd, const void *bytes, size_t size)
{
        for (const char *p = bytes; size > 0;) {
                ssize_t n = send(fd, p, size, MSG_NOSIGNAL);
                if (n <= 0)
                        return;
                p += n;
                size -= (size_t)n;
        }
}

/* ---- the upstream ---- */

/* "e": one byte back. "d" and 8 bytes: that many bytes. */
static void serve_one(int fd)
{
        char command;
        uint64_t size;
        ssize_t n = recv(fd, &command, 1, 0);

        if (n == 1 && command == 'e') {
                send_all(fd, "e", 1);
        } else if (n == 1 && recv(fd, &size, sizeof(size), MSG_WAITALL) == sizeof(size)) {
                if (fork() != 0) {
                        close(fd);
                        return;
                }
                for (; size > 0; size -= size < CHUNK ? size : CHUNK)
                        send_all(fd, chunk, size < CHUNK ? size : CHUNK);
                _exit(0);
        } else {
                close(fd);
        }
}

static void serve(int port)
{
        struct sockaddr_in a = at(port);
        int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), loop = epoll_create1(0);
        struct epoll_event e = {.events = EPOLLIN, .data.fd = listener}, got[64];

        signal(SIGCHLD, SIG_IGN);
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(listener, 8192) < 0)
                die("listen");
        epoll_ctl(loop, EPOLL_CTL_ADD, listener, &e);
        puts("ready");
        fflush(stdout);
        for (;;) {
                int n = epoll_wait(loop, got, 64, -1);
                for (int i = 0; i < n; i++) {
                        if (got[i].data.fd != listener) {
                                serve_one(got[i].data.fd);
                                continue;
                        }
                        int fd = accept(listener, NULL, NULL);
                        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
                        e = (struct epoll_event){.events = EPOLLIN, .data.fd = fd};
                        epoll_ctl(loop, EPOLL_CTL_ADD, fd, &e);
                }
        }
}

/* ---- the client ---- */

static int reach(int upstream, int proxy)
{
        struct sockaddr_in a = at(proxy ? proxy : upstream);
        char text[128], answer[512];
        int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
        size_t got = 0;

        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
                die("connect");
        if (!proxy)
                return fd;
        int n = snprintf(text, sizeof(text), "CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", upstream, upstream);
        send_all(fd, text, (size_t)n);
        while (got < sizeof(answer) - 1) {
                ssize_t r = recv(fd, answer + got, sizeof(answer) - 1 - got, 0);
                if (r <= 0)
                        die("the proxy's answer");
                got += (size_t)r;
                answer[got] = '\0';
                if (strstr(answer, "\r\n\r\n"))
                        break;
        }
        if (strncmp(answer + 9, "200", 3) != 0) {
                fprintf(stderr, "%s\n", answer);
                exit(1);
        }
        return fd;
}

static void measure_bytes(int upstream, int proxy, uint64_t bytes, int times)
{
        for (int i = 0; i < times; i++) {
                int fd = reach(upstream, proxy);
                uint64_t left = bytes;
                double begin = now();
                send_all(fd, "d", 1);
                send_all(fd, &bytes, sizeof(bytes));
                while (left > 0) {
                        ssize_t n = recv(fd, chunk, CHUNK, 0);
                        if (n <= 0)
                                die("recv");
                        left -= (uint64_t)n;
                }
                printf("%.0f\n", (double)bytes / (now() - begin));
                close(fd);
        }
}

static void measure_connect(int upstream, int proxy, int times, int echo)
{
        char byte;

        for (int i = 0; i < times; i++) {
                double begin = now();
                int fd = reach(upstream, proxy);
                double stands = now();
                send_all(fd, "e", 1);
                if (recv(fd, &byte, 1, 0) != 1)
                        die("recv");
                printf("%.1f\n", ((echo ? now() : stands) - begin) * 1e6);
                close(fd);
        }
}

static void hold(int upstream, int proxy, int count)
{
        struct rlimit limit;
        char byte;

        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        for (int i = 0; i < count; i++) {
                int fd = reach(upstream, proxy);
                send_all(fd, "e", 1);
                if (recv(fd, &byte, 1, 0) != 1)
                        die("recv");
        }
        puts("open");
        fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0)
                ;
}

int main(int argc, char **argv)
{
        if (argc == 3 && strcmp(argv[1], "serve") == 0)
                serve(atoi(argv[2]));
        else if (argc == 6 && strcmp(argv[1], "bytes") == 0)
                measure_bytes(atoi(argv[2]), atoi(argv[3]), strtoull(argv[4], NULL, 10), atoi(argv[5]));
        else if (argc == 5 && (strcmp(argv[1], "connect") == 0 || strcmp(argv[1], "echo") == 0))
                measure_connect(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), argv[1][0] == 'e');
        else if (argc == 5 && strcmp(argv[1], "hold") == 0)
                hold(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
        else
                return 2;
        return 0;
}
