/* SPDX-License-Identifier: Apache-2.0
 *
 * A front that asks and never reads an answer, for test_warden.py:
 *
 *   deaf_front SOCKET COUNT      sends so many requests for a session of a template that is not there; prints how many went out
 *                                before the warden had enough of it; stays until its standard input ends */
#include "warden/protocol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        struct timeval patience = {.tv_sec = 20};
        static struct warden_request request;
        char byte;
        long sent = 0;

        if (argc != 3 || strlen(argv[1]) >= sizeof(address.sun_path))
                return 2;
        strcpy(address.sun_path, argv[1]);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
            connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
                perror("deaf_front");
                return 1;
        }
        request = (struct warden_request){.version = WARDEN_PROTOCOL_VERSION, .kind = WARDEN_OPEN, .spec = {.uid = 1000, .gid = 1000}};
        memset(request.spec.template.bytes, 0x5a, sizeof(request.spec.template.bytes));
        while (sent < atol(argv[2]) && send(fd, &request, sizeof(request), MSG_NOSIGNAL) == (ssize_t)sizeof(request))
                sent++;
        printf("%ld %s\n", sent, sent < atol(argv[2]) ? strerror(errno) : "all");
        fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0)
                ;
        return 0;
}
