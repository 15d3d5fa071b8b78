/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARDEN_SETUP_H
#define WARDEN_SETUP_H

#include "base/macro.h"
#include "kernel/userns.h"
#include "runner/runner.h"
#include "warden/protocol.h"

#include <stdbool.h>
#include <stddef.h>

/* What is known when the process that builds a box is cloned. */
struct setup {
        uint32_t uid, gid; /* inside */
        bool host_network;
        uint32_t layers_off;
        bool is_template; /* programs that may fork into other namespaces, and namespaces for them, are wanted */
        int socket;
        pid_t warden; /* whose child we are */
};

#define BOX_NAMESPACES \
        (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWNET)

/* What it is told to do when there is something to run. */
struct setup_order {
        struct box_spec spec;
        uint32_t has_stdio;   /* the three standard streams of a program come along */
        uint32_t has_control; /* and its control channel */
        uint32_t has_ruleset; /* the box's Landlock ruleset comes along, it need not be made */
        uint32_t has_listener; /* the socket for the box's listener comes along */
        uint32_t is_template; /* the sockets of the foreman and of the interpreter come along */
        uint32_t session;     /* no program: what later ones need is sent back */
        uint32_t wants_namespaces; /* of that: the warden may not open them itself */
        uint32_t n_join;      /* files through which the program joins its cgroups */
        uint32_t n_sources;
        uint32_t detached; /* the warden, as root, has made the sources detached mounts already */
        uint32_t landlock_abi;
        uint32_t mount_flags[BOX_FDS_MAX]; /* enum mount_flags of each source */
};

/* Its descriptors, in the order in which they are sent; -1 where there is none. */
struct setup_fds {
        int payload, stdio[3], control, ruleset, listener, foreman, orders;
        int join[CGROUP_KIND_COUNT], sources[BOX_FDS_MAX];
};
int setup_order_send(int socket, const struct setup_order *order, const struct setup_fds *fds);
/* -EPIPE: nobody has an order for us. */
int setup_order_receive(int socket, struct setup_order *ret, struct setup_fds *ret_fds);

/* The warden's side of that socket. One frame, as message_receive() with MSG_DONTWAIT. A process that ends before it
 * has read all that was sent to it resets the socket; its last frames are still there. */
ssize_t setup_frame_receive(int socket, struct setup_frame *ret, int fds[static BOX_FDS_MAX], int *n_fds);
/* Tells the process that has sent a program that the warden owns it: from now on the program may run user code. Tells
 * the init of a template's session the same of itself: from now on it may stay. */
void setup_say_claimed(int socket);
/* The other side: waits for that. False: the warden is gone. */
bool setup_await_claim(int socket);

/* Runs in a fresh child; ends by itself. */
_noreturn_ void setup_main(const struct setup *given);
/* A box that stands, to be entered: by its namespaces when they are there, else by its init. */
struct setup_door {
        int init_pidfd;
        int namespaces[FORK_NAMESPACE_COUNT];
};
/* The same for one more program in a box that stands. */
_noreturn_ void setup_enter(const struct setup *given, const struct setup_door *door);
/* Enters a box that stands and kills everything in it but its init. */
_noreturn_ void setup_kill_all(const struct setup_door *door);

/* Says why the box cannot be built, and ends. */
_noreturn_ void _printf_(4, 5) setup_fail(const struct setup *s, int code, int errnum, const char *format, ...);
void setup_check(const struct setup *s, int r, const char *what);

/* Steps that the init of a template's session takes by itself (foreman.c). */
void setup_lower_user_limits(int proc);
void setup_raise_loopback(const struct setup *s);
int setup_attach_root(const struct setup *s);
/* Remembers our namespaces for the warden, through this /proc; pid_name: which of our pid namespaces is meant. */
void setup_open_namespaces(int proc, const char *pid_name);
const struct payload *setup_map_payload(const struct setup *s, int fd);
/* Builds the root directory below root, enters it and tells the warden. Returns the Landlock ruleset, -1: none. */
int setup_build(const struct setup *s, const struct setup_order *order, struct setup_fds *fds, int proc, int root);

/* ---- foreman.c ---- */

/* What the warden asks of a template's foreman; with the socket through which the box's frames go. */
struct foreman_order {
        struct userns_map map; /* outside: in the template's user namespace */
        uint32_t host_network;
        uint32_t wants_namespaces; /* the warden may not open them itself */
};

/* Should: stay, and clone an init into fresh namespaces for every order. Mustn't: run anything of the image. */
_noreturn_ void foreman_main(const struct setup *s, int socket);

/* ---- root.c ---- */

struct root_plan {
        const struct payload *payload;
        const struct setup_order *order;
        int *sources; /* taken as they are used */
        int proc;     /* init's mount of /proc, for the op that wants it */
        int watch[BOX_WRITABLE_MAX]; /* out: descriptors of the tmpfs mounts that were made */
        int n_watch;
        const struct box_op *failed; /* out: the op that could not be done */
};

/* Carries out the payload's ops on root_fd, an attached and empty tmpfs. */
int root_build(struct root_plan *p, int root_fd);

#endif
