/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend that isolates nothing: programs are children of the test. The interpreter is a small script runner
 * that does whatever its code says, also to its own control channel:
 *
 *   raw BYTES     sends them, with \n and \0 as escapes and %S for the run's number
 *   out TEXT, err TEXT
 *   done STATUS   sends D and goes on
 *   sleep MSEC    until an interrupt, which ends the script with D interrupted
 *   deaf          ignores interrupts from now on
 *   close         closes the channel
 *   flood WHAT    for ever: out, stale, results, frames, garbage
 *   big SIZE      one P of that size
 *   stdin         prints what it can read from the descriptor that came, or from the I frame
 *   fill PATH     writes two megabytes to a file
 *   late          leaves a child behind that sends D of the next run
 *   exit N, kill N, spin
 *
 * At the end of a script it sends D ok. */
#ifndef ENGINE_TEST_CONTEXT_BACKEND_H
#define ENGINE_TEST_CONTEXT_BACKEND_H

#include "backend/backend.h"

enum fake_greeting { GREET, GREET_NEVER, GREET_WRONG, GREET_AND_DIE, GREET_PYTHON, GREET_DEAF_READER };

struct fake_settings {
        enum fake_greeting greeting;
        struct box_usage usage; /* what session_usage() says */
        enum box_stop stop_on_exit; /* what the next end says about its reason */
        int workspace_fd;
        int starts, frees;
        bool warm; /* of the last program */
        bool usage_grows; /* 10 ms of processor time with each look */
        bool lose; /* next_event() fails */
        bool lose_after_exit; /* the same, in the place of the end */
        int usage_left; /* session_usage() works so many times more, and fails then; 0: always works */
};

extern const struct backend fake_backend;
extern struct fake_settings fake;

/* Ends the session by itself. */
void fake_end_session(void);

#endif
