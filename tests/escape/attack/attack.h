/* SPDX-License-Identifier: Apache-2.0
 *
 * The attacks of tests/escape: attack NAME TOKEN [ARGS...], one row of a group's table each.
 *
 * It prints "token TOKEN" first and "done TOKEN" last, so that a test can tell an attack that was
 * refused from one that never ran. In between:
 *
 *   try STEP=ok | ERRNO    something that would be a gain, and how it went
 *   note KEY=VALUE         a fact that the test judges by itself
 *
 * Built static, so that it also runs in an image that holds nothing else. There it is /bin/sh, and
 * takes its arguments from the last line of the script it is given. */
#ifndef ATTACK_H
#define ATTACK_H

#define _GNU_SOURCE

struct attack {
        const char *name;
        void (*run)(void);
};
#define ROW(f) {#f, f}

extern const struct attack kernel_attacks[], privilege_attacks[], files_attacks[], neighbours_attacks[], resources_attacks[], life_attacks[],
        network_attacks[];

extern const char *token;
extern int n_args; /* after TOKEN */
const char *arg(int i); /* "" when there are fewer */

void try(const char *step, long r);
void note(const char *key, const char *format, ...);
/* Runs f in a child; its wait status. */
int in_child(void (*f)(void));
long try_write(const char *path, const char *text);
int seccomp_mode(void);
void print_death(const char *key, int status);
void dies_by_x32(void);
int deeper(int n); /* until the stack is full */

#endif
