/* SPDX-License-Identifier: Apache-2.0 */
#include "server/notify.h"

#include "base/fd.h"
#include "base/parse.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NOTIFY_MAX 512

static int notify_fd = -1;
static uint64_t watchdog_usec;

static void open_socket(const char *path)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        size_t n = strlen(path);

        /* @name is one without a file. */
        if ((path[0] != '/' && path[0] != '@') || n < 2 || n >= sizeof(address.sun_path))
                return;
        memcpy(address.sun_path, path, n);
        if (path[0] == '@')
                address.sun_path[0] = '\0';
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return;
        if (connect(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (path[0] == '/'))) < 0)
                safe_close(fd);
        else
                notify_fd = fd;
}

void notify_open(void)
{
        const char *path = secure_getenv("NOTIFY_SOCKET"), *usec = secure_getenv("WATCHDOG_USEC"), *pid = secure_getenv("WATCHDOG_PID");
        uint64_t value, us;

        if (path)
                open_socket(path);
        if (notify_fd >= 0 && usec && parse_count(usec, &value) == 0 && (!pid || (parse_count(pid, &us) == 0 && us == (uint64_t)getpid())))
                watchdog_usec = value / 2;
        unsetenv("NOTIFY_SOCKET");
        unsetenv("WATCHDOG_USEC");
        unsetenv("WATCHDOG_PID");
}

void notify_send(const char *format, ...)
{
        char text[NOTIFY_MAX];

        if (notify_fd < 0)
                return;
        va_list ap;
        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        (void)send(notify_fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

uint64_t notify_watchdog_usec(void)
{
        return watchdog_usec;
}
