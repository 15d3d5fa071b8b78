/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels: sockets to fronts. Each stands for at most one thing (protocol.h). */
#ifndef WARDEN_CHANNEL_H
#define WARDEN_CHANNEL_H

#include "warden/protocol.h"

#include <stdbool.h>

struct box;
struct program;
struct template;

enum channel_kind { CHANNEL_UNUSED, CHANNEL_FREE, CHANNEL_BOX, CHANNEL_SESSION, CHANNEL_PROGRAM, CHANNEL_TEMPLATE };

struct channel {
        _Alignas(16) enum channel_kind kind;
        int fd;
        bool first; /* the one the warden was started with: its end is the warden's */
        union {
                struct box *box;
                struct program *program;
                struct template *template;
        };
};

/* Keeps the table of all of them from children. */
void channel_keep_private(void);
/* Takes fd, also when there is no room for one more (NULL). */
struct channel *channel_new(int fd);
/* Ends what it stands for, and itself. */
void channel_close(struct channel *c);
/* What it stood for is over; it can be used for something else. NULL: nothing. */
void channel_release(struct channel *c);

/* Sends an event; a front that does not read loses its channel. event->version and t_usec are set here. */
void channel_send(struct channel *c, struct warden_event *event, const int *fds, int n_fds);

/* A request can be read. */
void channel_serve(void *channel);
/* Another front connects to the socket at listen_fd. */
void channel_accept(int listen_fd);

/* Who started the warden: itself, as a rule. Root's warden may work for an ordinary user; it then does for him only what makes nothing his that is not. */
struct warden_front {
        uint32_t uid, gid;
};
extern struct warden_front warden_front;

/* True once the front that started the warden is gone, or the box it was wanted for. */
extern bool warden_over;

#endif
