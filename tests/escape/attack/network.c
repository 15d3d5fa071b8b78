/* SPDX-License-Identifier: Apache-2.0
 *
 * Group G of the catalogue: the network, as far as a layer stands for it. */
#include "attack.h"

#include <arpa/inet.h>
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

/* Every protocol of the internet that there are sockets for, to every kind of address. */
static void network_ways(void)
{
        static const struct {
                const char *name;
                int type, protocol;
                int only; /* a family, or 0 */
        } ways[] = {
                {"tcp", SOCK_STREAM, 0, 0}, {"udp", SOCK_DGRAM, 0, 0}, {"icmp", SOCK_DGRAM, IPPROTO_ICMP, AF_INET}, {"icmp6", SOCK_DGRAM, IPPROTO_ICMPV6, AF_INET6},
                {"raw", SOCK_RAW, 255, 0}, {"raw_icmp", SOCK_RAW, IPPROTO_ICMP, AF_INET}, {"sctp", SOCK_STREAM, 132, 0}, {"sctp_many", SOCK_SEQPACKET, 132, 0},
                {"dccp", 6, 33, 0}, {"udplite", SOCK_DGRAM, 136, 0}, {"mptcp", SOCK_STREAM, 262, 0},
        };
        static const struct {
                const char *name, *address;
        } targets[] = {
                {"public", "93.184.216.34"}, {"private", "10.1.2.3"}, {"metadata", "169.254.169.254"}, {"multicast", "224.0.0.251"}, {"broadcast", "255.255.255.255"},
                {"reserved", "240.0.0.1"}, {"public6", "2606:2800:220::1"}, {"local6", "fd00::1"}, {"link6", "fe80::1"}, {"multicast6", "ff02::fb"}, {"wrapped6", "64:ff9b::808:808"},
        };

        for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
                for (size_t t = 0; t < sizeof(targets) / sizeof(targets[0]); t++) {
                        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(80)};
                        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
                        int family = inet_pton(AF_INET, targets[t].address, &in.sin_addr) == 1 ? AF_INET : AF_INET6, on = 1;
                        char step[64];
                        long r;

                        if (ways[w].only && ways[w].only != family)
                                continue;
                        if (family == AF_INET6)
                                inet_pton(AF_INET6, targets[t].address, &in6.sin6_addr);
                        snprintf(step, sizeof(step), "%s_%s", ways[w].name, targets[t].name);
                        int fd = socket(family, ways[w].type | SOCK_NONBLOCK, ways[w].protocol);
                        if (fd < 0) {
                                try(step, -1);
                                continue;
                        }
                        setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
                        const struct sockaddr *to = family == AF_INET ? (struct sockaddr *)&in : (struct sockaddr *)&in6;
                        socklen_t size = family == AF_INET ? sizeof(in) : sizeof(in6);
                        r = ways[w].type == SOCK_STREAM || ways[w].type == 6 ? connect(fd, to, size) : sendto(fd, "\10\0\0\0\0\0\0\0", 8, 0, to, size);
                        try(step, r < 0 && errno == EINPROGRESS ? 0 : r);
                        close(fd);
                }
}

const struct attack network_attacks[] = {
        ROW(network_out),
        ROW(network_ways),
        {NULL, NULL},
};
