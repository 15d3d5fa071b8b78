/* SPDX-License-Identifier: Apache-2.0
 *
 * Giving up: capabilities, privileges, limits. */
#ifndef KERNEL_PRIVILEGE_H
#define KERNEL_PRIVILEGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* Empties all five capability sets and locks the secure bits, so that no later exec or setuid
 * gives one back. libcap is not used: it allocates, and this is one system call. */
int privilege_drop_capabilities(void);
/* The same but for the bounding set, which takes a system call for each capability and means something to an exec only: for
 * a process that will do none. */
int privilege_clear_capabilities(void);

/* Becomes an ordinary user for good: no groups but these (never root's), no capability in any set, no new privileges, not dumpable. For a process with one
 * thread, and with the right to. When it fails the process must end: it is neither this nor that. */
int privilege_become(uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups);

/* no_new_privs for this thread and all it starts. */
int privilege_no_new(void);

/* A session keyring of our own, so that the caller's keys are out of reach. */
int privilege_new_keyring(void);

/* Sets soft and hard limit of a process to value, or to its present hard limit when that is lower:
 * a host without CAP_SYS_RESOURCE can only lower them. */
int rlimit_lower(pid_t pid, int resource, uint64_t value);

/* True when this process holds the capability in its effective set. */
bool privilege_has(int capability);

/* True when we are the real root with the power to mount: ids are the host's, so that boxes can and must
 * have a uid of their own. Looked up once. */
bool privilege_is_host_root(void);

#endif
