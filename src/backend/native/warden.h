/* SPDX-License-Identifier: Apache-2.0
 *
 * The front's side of a warden: how one is started, and the one that all sessions of this process share. */
#ifndef NATIVE_WARDEN_H
#define NATIVE_WARDEN_H

#include "backend/backend.h"
#include "warden/protocol.h"

/* A warden of ours: a child, or one that the keeper has started for us. */
struct warden_process {
        pid_t pid; /* 0: not our child */
        int pidfd; /* of the keeper's; -1: none */
};
#define WARDEN_NOBODY ((struct warden_process){.pidfd = -1})

/* Starts a warden of our own. listen_fd: where it serves other fronts of this user, -1: nowhere. */
int warden_spawn(int listen_fd, int *ret_socket, struct warden_process *ret, gb_error *err);
/* The same with its end of the socket, which is taken; always a child. */
int warden_spawn_at(int socket, int listen_fd, pid_t *ret_pid, gb_error *err);
/* Looks up where its program is, once: afterwards the environment and who we are do not matter. */
void warden_find_program(void);
/* The end of its socket tells a warden to end its boxes and itself. It is waited for, so that nothing
 * is left to whoever inherits our orphans. */
void warden_end(int *socket, struct warden_process *process);

/* The layers that a build for the escape tests leaves out. */
uint32_t warden_layers_off(void);

/* A new channel to the warden that all sessions share: one that `glovebox warm` keeps for this user, or one that is
 * started now and ends with this process. */
int warden_channel(int *ret, gb_error *err);
/* From here on never somebody else's. Starts ours when there is none. */
int warden_own(gb_error *err);
/* Whether that is somebody else's, who has made templates ready. */
bool warden_is_shared(void);
/* Starts our own, which serves others through listen_fd; one that we had is ended. */
int warden_serve(int listen_fd, gb_error *err);
/* Whether somebody else's is there; starts none. */
bool warden_find_served(void);
/* Whether that of warden_serve() lives. */
bool warden_serves(void);
/* Forgets the one we have when it is dead; true: it was. */
bool warden_bury(void);
/* Ends our own, when there is one: no session may be open. */
void warden_forget(void);

/* Waits for one event, with up to *n_fds descriptors; -ETIMEDOUT. An event of failure becomes err. */
int warden_wait(int channel, uint64_t timeout_usec, struct warden_event *ret, int *fds, int *n_fds, gb_error *err);

bool warden_place_is_full(int fd);
/* What is used of a private workspace. False: it cannot be read. */
bool warden_measure_place(int fd, struct box_usage *ret);
/* Which enum full_place each tmpfs of a box is, in the order in which every plan makes them (root.c); 0: there are no more. */
struct warden_places {
        unsigned kinds[5];
};
struct warden_places warden_places_of(const struct policy *policy, bool has_own_workspace);
/* enum full_place of those that come with WARDEN_OPENED and are full. */
unsigned warden_full_places(const int places[static OPENED_PLACES_MAX], const struct warden_places *of);
void warden_fill_end(struct box_end *end, const struct box_report *report, const struct warden_places *of);

#endif
