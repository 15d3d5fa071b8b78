/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of the warden to a process that builds or enters a box: which descriptors stand where. */
#include "base/fd.h"
#include "base/message.h"
#include "warden/setup.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Calls visit for the place of every descriptor that the order has, in the order in which they travel. */
static int for_each_place(const struct setup_order *o, struct setup_fds *fds, int *list[static BOX_FDS_MAX + 16])
{
        int n = 0;

        list[n++] = &fds->payload;
        for (int i = 0; o->has_stdio && i < 3; i++)
                list[n++] = &fds->stdio[i];
        if (o->has_control)
                list[n++] = &fds->control;
        if (o->has_ruleset)
                list[n++] = &fds->ruleset;
        if (o->has_listener)
                list[n++] = &fds->listener;
        if (o->is_template) {
                list[n++] = &fds->foreman;
                list[n++] = &fds->orders;
        }
        for (uint32_t i = 0; i < o->n_join; i++)
                list[n++] = &fds->join[i];
        for (uint32_t i = 0; i < o->n_sources; i++)
                list[n++] = &fds->sources[i];
        return n;
}

#define CLAIM_SIZE 1 /* bytes of the message */
static unsigned claims; /* that have come and were not waited for yet */

void setup_say_claimed(int socket)
{
        (void)message_send_now(socket, "c", CLAIM_SIZE, NULL, 0); /* its reader may be dead: that shows elsewhere */
}

bool setup_await_claim(int socket)
{
        char claim;

        if (claims == 0)
                return read(socket, &claim, sizeof(claim)) == CLAIM_SIZE;
        claims--;
        return true;
}

ssize_t setup_frame_receive(int socket, struct setup_frame *ret, int fds[static BOX_FDS_MAX], int *n_fds)
{
        ssize_t n = message_receive(socket, MSG_DONTWAIT, ret, sizeof(*ret), fds, n_fds);

        if (n == -EMSGSIZE) /* without its descriptors: who waits for a claim gives up then */
                shutdown(socket, SHUT_WR);
        return n == -ECONNRESET ? message_receive(socket, MSG_DONTWAIT, ret, sizeof(*ret), fds, n_fds) : n;
}

int setup_order_send(int socket, const struct setup_order *order, const struct setup_fds *fds)
{
        struct setup_fds copy = *fds;
        int *places[BOX_FDS_MAX + 16], values[BOX_FDS_MAX];

        int n = for_each_place(order, &copy, places);
        if (n > BOX_FDS_MAX)
                return -E2BIG;
        for (int i = 0; i < n; i++)
                values[i] = *places[i];
        return message_send(socket, order, sizeof(*order), values, n);
}

int setup_order_receive(int socket, struct setup_order *ret, struct setup_fds *ret_fds)
{
        int values[BOX_FDS_MAX], n_values, *places[BOX_FDS_MAX + 16];

        claims = 0; /* those of the process that this one was cloned from are not its own */
        memset(ret_fds, -1, sizeof(*ret_fds));
        ssize_t size;
        while ((size = message_receive(socket, 0, ret, sizeof(*ret), values, &n_values)) == CLAIM_SIZE)
                claims++; /* the program was claimed before there was an order for it */
        if (size == 0)
                return -EPIPE;
        if (size != sizeof(*ret) || ret->n_join > CGROUP_KIND_COUNT || ret->n_sources > BOX_FDS_MAX ||
            for_each_place(ret, ret_fds, places) != n_values)
                return -EPROTO; /* the caller ends, and its descriptors with it */
        for (int i = 0; i < n_values; i++)
                *places[i] = values[i];
        return 0;
}
