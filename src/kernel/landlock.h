/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_LANDLOCK_H
#define KERNEL_LANDLOCK_H

/* The Landlock ABI of this kernel: 1 and up; 0 when there is none. */
int landlock_abi(void);

/* A ruleset under which everything may be read and executed and nothing written; -errno. */
int landlock_ruleset_new(int abi);
/* Everything is allowed below the directory, or with the file, fd. */
int landlock_allow_all(int ruleset, int abi, int fd);
/* Files below may be read and written, none made or removed (for /dev). */
int landlock_allow_devices(int ruleset, int abi, int fd);
/* Restricts the calling thread. no_new_privs must be set. */
int landlock_enforce(int ruleset);
/* The calling thread may open no file at all, bind no port of TCP, and reach no socket or process outside. no_new_privs must be set. */
int landlock_allow_nothing(int abi);
/* The same, but what is below the directory may be read. */
int landlock_allow_reading(int abi, int directory);

#endif
