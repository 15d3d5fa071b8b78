/* SPDX-License-Identifier: Apache-2.0
 *
 * The system call filter. It is compiled at build time from seccomp/profile.def into a range
 * tree of BPF (seccomp/compile.c), because libseccomp at run time costs 1.5 ms and a linear
 * filter makes the kernel's own load check four times slower. */
#ifndef KERNEL_SECCOMP_H
#define KERNEL_SECCOMP_H

#include <linux/filter.h>
#include <stddef.h>

/* The program for this architecture (generated). */
extern const struct sock_filter seccomp_program[];
extern const size_t n_seccomp_program;

/* Installs it on the calling thread. no_new_privs must be set. 0 or a negative errno. */
int seccomp_load(void);

/* The same with what a template still needs: its children join other namespaces and give up what they got there. Then
 * they load the second, which is much smaller: with both on it the thread is under the program above. */
extern const struct sock_filter seccomp_template_program[], seccomp_child_program[];
extern const size_t n_seccomp_template_program, n_seccomp_child_program;
int seccomp_load_template(void);
int seccomp_load_child(void);

/* The filter of a process that only waits: pause, exit and the closing of descriptors. Anything else ends it. */
int seccomp_load_pause(void);

/* The profile for container engines, as JSON (generated; linked where the backend is). It passes what the program above passes and what the agent needs. */
extern const char seccomp_docker_profile[];

#endif
