/* SPDX-License-Identifier: Apache-2.0
 *
 * Group G of the catalogue: the network, as far as a layer stands for it. */
#include "attack.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

static void network_out(void)
{
        static const char *const addresses[] = {"\177\0\0\1", "\10\10\10\10", "\251\376\251\376", "\12\0\0\1", "\254\20\0\1"};
        static const char *const names[] = {"loopback_host", "public", "metadata", "private", "docker"};
        unsigned short port = (unsigned short)atoi(arg(0)); /* where a server of the host listens */

        for (size_t i = 0; i < 5; i++) {
                struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(i == 0 ? port : 80)};
                memcpy(&to.sin_addr, addresses[i], 4);
                int fd = socket(AF_INET, SOCK_STREAM | (i > 0 ? SOCK_NONBLOCK : 0), 0);
                long r = connect(fd, (struct sockaddr *)&to, sizeof(to));
                /* On its way is as bad as there. */
                try(names[i], r < 0 && errno == EINPROGRESS ? 0 : r);
                close(fd);
        }
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "%s", arg(1)); /* abstract, of the host */
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        try("abstract_host", connect(fd, (struct sockaddr *)&un, (socklen_t)(sizeof(sa_family_t) + 1 + strlen(arg(1)))));
}

const struct attack network_attacks[] = {
        ROW(network_out),
        {NULL, NULL},
};
