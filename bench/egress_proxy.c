/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy by itself, for ./dev bench egress: without a box, on a port of the host's loopback.
 *
 *   egress_proxy PORT PROTOCOL HOST...    lets every port of these hosts pass; private addresses, too. Prints the number of the proxy's process */
#include "base/fd.h"
#include "egress/client.h"
#include "egress/rules_write.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOSTS_MAX 16

static int listen_at(uint16_t port)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        return bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 8192) < 0 ? -1 : fd;
}

int main(int argc, char **argv)
{
        static const uint16_t all[][2] = {{1, 65535}};
        struct egress_rule_source rules[HOSTS_MAX] = {0};
        static struct egress_rules head = {.version = EGRESS_RULES_VERSION, .n_ranges = 2, .connections_max = 65536};
        struct buffer block;
        struct egress_box *box;
        gb_error err = {0};

        if (argc < 4 || argc - 3 > HOSTS_MAX)
                return 2;
        for (int i = 3; i < argc; i++) {
                struct egress_rule_source *r = &rules[i - 3];
                *r = (struct egress_rule_source){
                        .protocol = strcmp(argv[2], "tcp") == 0 ? EGRESS_TCP : strcmp(argv[2], "http") == 0 ? EGRESS_HTTP : EGRESS_HTTPS, .n_ports = 1, .ports = all, .text = argv[i],
                };
                if (host_pattern_parse(argv[i], strlen(argv[i]), &r->pattern) < 0)
                        return 2;
        }
        buffer_init(&block, EGRESS_POLICY_BYTES_MAX);
        block.secret = true;
        address_range_parse("0.0.0.0/0", 9, &head.ranges[0]);
        address_range_parse("::/0", 4, &head.ranges[1]);
        int fd = listen_at((uint16_t)atoi(argv[1]));
        if (fd < 0 || egress_rules_write(&head, rules, (size_t)argc - 3, &block) < 0 || egress_box_new(&block, NULL, &box, &err) < 0 ||
            egress_box_attach(box, fd, &err) < 0) {
                fprintf(stderr, "egress_proxy: %s\n", err.message);
                return 1;
        }
        printf("%d\n", egress_pid());
        fflush(stdout);
        char byte;
        while (read(STDIN_FILENO, &byte, 1) > 0)
                ;
        egress_box_free(box);
        return 0;
}
