/* SPDX-License-Identifier: Apache-2.0
 *
 * A front that was started as root and does not stay it. What still needs root later, a new warden when one has died, is done by a process that does
 * nothing else: the keeper. */
#ifndef NATIVE_KEEPER_H
#define NATIVE_KEEPER_H

#include "backend/backend.h"

/* backend.h: separate(). */
int native_separate(const struct separation *s, gb_error *err);
int native_separated_fd(void);

/* Whether this process has given up its privilege to a keeper. */
bool keeper_is_used(void);
/* The front ends: so does the keeper, and is waited for. */
void keeper_end(void);
/* Has it start a warden: our end of its socket, and a pidfd. */
int keeper_start_warden(int *ret_socket, int *ret_pidfd, gb_error *err);
/* The same, of glovebox-hide (hide/hide.h). */
int keeper_start_hide(int *ret_socket, int *ret_pidfd, gb_error *err);

#endif
