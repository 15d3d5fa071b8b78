/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox-egress: the proxy of boxes whose network is an allowlist. The front starts it with a socket at EGRESS_SOCKET_FD; it seals itself, takes orders, and ends with the
 * front. `glovebox-egress authority` prints a certificate and a key for one session instead. */
#include "base/fd.h"
#include "egress/core.h"
#include "egress/intercept.h"
#include "egress/orders.h"
#include "egress/protocol.h"
#include "egress/seal.h"
#include "kernel/sys.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct event_base *egress_base;

static int print_authority(void)
{
        struct buffer pem;
        gb_error err = {0};

        buffer_init(&pem, 64 * KIB);
        pem.secret = true;
        int r = authority_make(&pem, &err);
        if (r == 0)
                r = fd_write_all(STDOUT_FILENO, pem.data, pem.size);
        buffer_done(&pem);
        return r < 0 ? 1 : 0;
}

static void drop_log(int severity, const char *message)
{
}

static int serve(void)
{
        sys_close_range(EGRESS_SOCKET_FD + 1, ~0U, 0);
        signal(SIGPIPE, SIG_IGN);
        event_set_log_callback(drop_log);
        boxes_init();
        egress_base = event_base_new();
        if (!egress_base || orders_watch(EGRESS_SOCKET_FD) < 0 || egress_seal() < 0)
                return 1;
        event_base_dispatch(egress_base);
        return 0;
}

int main(int argc, char **argv)
{
        if (argc == 2 && strcmp(argv[1], "authority") == 0)
                return print_authority();
        if (argc != 1 || fcntl(EGRESS_SOCKET_FD, F_GETFD) < 0) {
                fprintf(stderr, "glovebox-egress: glovebox starts this program by itself\n");
                return 2;
        }
        return serve();
}
