/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/docker/test_player.h"

#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define REQUEST_MAX 65536

#define DOCKER_VERSION                                                                                                                     \
        "{\"Platform\":{\"Name\":\"\"},\"Components\":[{\"Name\":\"Engine\",\"Version\":\"20.10.24+dfsg1\",\"Details\":{}},"               \
        "{\"Name\":\"containerd\",\"Version\":\"1.6.20~ds1\",\"Details\":{}},{\"Name\":\"runc\",\"Version\":\"1.1.5+ds1\",\"Details\":{}}]," \
        "\"Version\":\"20.10.24+dfsg1\",\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\"}\n"
#define PODMAN_VERSION                                                                                                                    \
        "{\"Components\":[{\"Name\":\"Podman Engine\",\"Version\":\"4.3.1\"},{\"Name\":\"OCI Runtime (/usr/sbin/runc)\",\"Version\":"      \
        "\"runc version 1.1.5+ds1\\ncommit: 1.1.5+ds1-1+deb12u1\\nspec: 1.0.2-dev\"}],\"Version\":\"4.3.1\",\"ApiVersion\":\"1.41\","      \
        "\"MinAPIVersion\":\"1.24\"}"
#define PODMAN_INFO                                                                                                                   \
        "{\"MemoryLimit\":true,\"PidsLimit\":true,\"Runtimes\":{\"runc\":{\"path\":\"/usr/bin/runc\"},\"runsc\":{\"path\":\"/x\"}},"   \
        "\"DefaultRuntime\":\"/usr/sbin/runc\",\"CgroupVersion\":\"1\",\"SecurityOptions\":[\"name=seccomp,profile=default\"]}"

/* One by length, one in chunks with a trailer, one to the end of the connection. */
const struct player_answer player_docker[] = {
        {"/version",
         "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\nDocker-Experimental: false\r\nOstype: linux\r\n"
         "Server: Docker/20.10.24+dfsg1 (linux)\r\nContent-Length: 277\r\n\r\n" DOCKER_VERSION,
         0, PLAYER_CLOSE},
        {"/v1.41/info",
         "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
         "10\r\n{\"ServerVersion\"\r\n1\r\n:\r\n115\r\n\"20.10.24+dfsg1\",\"MemoryLimit\":true,\"SwapLimit\":true,\"CpuCfsPeriod\":true,\"CpuCfsQuota\":true,"
         "\"PidsLimit\":true,\"CgroupVersion\":\"2\",\"Runtimes\":{\"runc\":{},\"runsc\":{}},\"DefaultRuntime\":\"runc\",\"SecurityOptions\":"
         "[\"name=apparmor\",\"name=seccomp,profile=default\",\"name=rootless\"]}\n      \r\n0\r\nDigest: none\r\n\r\n",
         0, PLAYER_CLOSE},
        {NULL, "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 29\r\n\r\n{\"message\":\"page not found\"}\n", 0, PLAYER_CLOSE},
};
const struct player_answer player_podman[] = {
        {"/version", "HTTP/1.1 200 OK\r\nLibpod-Api-Version: 4.3.1\r\nX-Reference-Id: 0xc0001225b8\r\nContent-Type: application/json\r\n\r\n" PODMAN_VERSION, 0,
         PLAYER_CLOSE},
        {"/v1.41/info", PLAYER_JSON(PODMAN_INFO), 0, PLAYER_CLOSE},
        {NULL, "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 10\r\n\r\nNot Found\n", 0, PLAYER_CLOSE},
};

/* Reads a request's head, and as much of its body as is wanted. false: the client has gone. */
static bool read_request(const struct player *p, int fd, char target[static 256])
{
        static _Thread_local char buf[REQUEST_MAX];
        size_t used = 0, body = p->body;
        const char *end = NULL;

        while (!end || used - (size_t)(end + 4 - buf) < body) {
                if (end && used > REQUEST_MAX / 2) { /* of a long body only the number counts */
                        char rest[4096];
                        size_t have = used - (size_t)(end + 4 - buf);
                        while (have < body) {
                                ssize_t n = read(fd, rest, MIN(sizeof(rest), body - have));
                                if (n <= 0)
                                        return false;
                                have += (size_t)n;
                        }
                        break;
                }
                ssize_t n = read(fd, buf + used, sizeof(buf) - 1 - used);
                if (n <= 0)
                        return false;
                used += (size_t)n;
                buf[used] = '\0';
                end = strstr(buf, "\r\n\r\n");
        }
        return sscanf(buf, "%*15s %255s", target) == 1;
}

static void send_bytes(int fd, const char *bytes, size_t size, bool each)
{
        while (size > 0) {
                ssize_t n = send(fd, bytes, each ? 1 : size, MSG_NOSIGNAL);
                if (n <= 0)
                        return;
                bytes += n;
                size -= (size_t)n;
        }
}

static void finish(const struct player *p, int fd, const struct player_answer *a, size_t size)
{
        char buf[4096];
        ssize_t n;

        switch (a->end) {
        case PLAYER_CLOSE:
        case PLAYER_BYTES:
                shutdown(fd, SHUT_WR);
                break;
        case PLAYER_HANG: {
                struct pollfd fds[] = {{fd, POLLIN, 0}, {p->stop[0], POLLIN, 0}};
                while (poll(fds, 2, -1) >= 0 && !fds[1].revents && read(fd, buf, sizeof(buf)) > 0)
                        ;
                break;
        }
        case PLAYER_REPEAT:
                while (send(fd, a->bytes, size, MSG_NOSIGNAL) > 0)
                        ;
                break;
        case PLAYER_ECHO:
                while ((n = read(fd, buf, sizeof(buf))) > 0 && send(fd, buf, (size_t)n, MSG_NOSIGNAL) == n)
                        ;
                break;
        }
}

static void serve(struct player *p, int fd)
{
        char target[256];

        if (!read_request(p, fd, target))
                return;
        p->asked++;
        const struct player_answer *a = p->answers;
        while (a->target && strncmp(target, a->target, strlen(a->target)) != 0)
                a++;
        size_t cut = p->cut, size = MIN(a->size > 0 ? a->size : strlen(a->bytes), cut);
        send_bytes(fd, a->bytes, size, a->end == PLAYER_BYTES);
        finish(p, fd, a, size);
}

static void *play(void *data)
{
        struct player *p = data;

        for (;;) {
                struct pollfd fds[] = {{p->listener, POLLIN, 0}, {p->stop[0], POLLIN, 0}};
                if (poll(fds, 2, -1) < 0 || fds[1].revents)
                        return NULL;
                _cleanup_close_ int fd = accept(p->listener, NULL, NULL);
                if (fd >= 0)
                        serve(p, fd);
        }
}

void player_start(struct player *p, const struct player_answer *answers)
{
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        char host[96];

        *p = (struct player){.directory = "/tmp/gbengine-XXXXXX", .cut = SIZE_MAX};
        p->answers = answers;
        assert_non_null(mkdtemp(p->directory));
        snprintf(p->socket, sizeof(p->socket), "%s/s", p->directory);
        strcpy(un.sun_path, p->socket);
        p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(p->listener >= 0);
        assert_int_equal(bind(p->listener, (struct sockaddr *)&un, sizeof(un)), 0);
        assert_int_equal(listen(p->listener, 64), 0);
        assert_int_equal(pipe(p->stop), 0);
        assert_int_equal(pthread_create(&p->thread, NULL, play, p), 0);
        snprintf(host, sizeof(host), "unix://%s", p->socket);
        setenv("DOCKER_HOST", host, 1);
}

void player_stop(struct player *p)
{
        assert_int_equal(write(p->stop[1], "x", 1), 1);
        assert_int_equal(pthread_join(p->thread, NULL), 0);
        safe_close(p->listener);
        safe_close(p->stop[0]);
        safe_close(p->stop[1]);
        unlink(p->socket);
        rmdir(p->directory);
}
