/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's side of `glovebox verify`: what the attacks are aimed at, and what can be seen of
 * them from outside. */
#ifndef CLI_VERIFY_HOST_H
#define CLI_VERIFY_HOST_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define VERIFY_PATH_MAX 512
#define VERIFY_CGROUP_MAX 64

struct verify_host {
        char token[33], secret[33];           /* random, so that nothing else can be meant */
        char directory[VERIFY_PATH_MAX];      /* of our own, removed with all in it */
        char workspace[VERIFY_PATH_MAX + 32]; /* in it; made anew for each box */
        char file[VERIFY_PATH_MAX + 32];
        char socket_path[VERIFY_PATH_MAX + 32];
        char socket_name[80]; /* abstract, without its NUL */
        uint16_t port;
        int listeners[3];     /* tcp on loopback, abstract, by path */
        pid_t bystander;      /* a process of the caller's that no box may harm */
};

#define VERIFY_HOST_INIT {.listeners = {-1, -1, -1}}

int verify_host_init(struct verify_host *h, gb_error *err);
void verify_host_done(struct verify_host *h);
#define _cleanup_verify_host_ _cleanup_(verify_host_done)

/* An empty workspace. */
int verify_host_clear(struct verify_host *h, gb_error *err);

/* Somebody connected to one of the listeners since the last call. */
bool verify_host_was_reached(struct verify_host *h);
/* The listeners can be reached, from here at least: otherwise the test is none. */
bool verify_host_can_be_reached(struct verify_host *h);
bool verify_host_bystander_lives(const struct verify_host *h);

/* How many processes of this host have the token among their arguments; the name of the cgroup of
 * one of them, when it has one of ours (else it stays as it is). A negative errno. */
int verify_host_find(const struct verify_host *h, char cgroup[static VERIFY_CGROUP_MAX]);

#endif
