/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of the system call filter. profile.def holds the data; this header says what a row
 * means; declared.c evaluates rows one by one; program.c turns them into BPF.
 *
 * A call is allowed when it has at least one row and every row of it lets it pass. Rows of one
 * name are read in the order of the file and the first that refuses gives the answer. A call
 * without a row answers ENOSYS, as a kernel does that never had it.
 *
 * Only the LOW 32 BITS of an argument are ever compared: for every argument the profile looks at
 * (socket family, ioctl command, prctl option, clone flags, mode, ...) the kernel itself cuts the
 * register to an int or shorter, so that a high word full of garbage must not change the answer.
 * An argument that the kernel reads in 64 bits, or through a pointer, cannot be tested here. */
#ifndef KERNEL_SECCOMP_PROFILE_H
#define KERNEL_SECCOMP_PROFILE_H

#include <stddef.h>
#include <stdint.h>

enum seccomp_kind {
        SECCOMP_ROW_GROUP,   /* a heading, no rule */
        SECCOMP_ROW_ALLOW,
        SECCOMP_ROW_REFUSE,  /* always answers `errnum`; 0 pretends success and does nothing */
        SECCOMP_ROW_ONLY,    /* passes only when (u32)arg & mask is one of the values */
        SECCOMP_ROW_EXCEPT,  /* passes unless (u32)arg & mask is one of the values */
};

struct seccomp_value {
        const char *name;
        uint32_t value;
};

struct seccomp_row {
        enum seccomp_kind kind;
        const char *name; /* the call; of a group its title */
        const char *arch; /* the one architecture that it is for; NULL: all of them */
        const char *why;
        const char *errname;
        int errnum;
        uint32_t arg, mask; /* the argument that is tested, 0..5 */
        const struct seccomp_value *values;
        size_t n_values;
        /* The row counts only when (u32)guard_arg equals guard->value; without guard always. */
        uint32_t guard_arg;
        const struct seccomp_value *guard;
};

/* A number the row applies to, on one architecture. */
struct seccomp_rule {
        uint32_t nr;
        const struct seccomp_row *row;
};

struct seccomp_number {
        const char *name;
        int nr;
};

extern const struct seccomp_row seccomp_profile[];
extern const size_t n_seccomp_profile;

/* Calls younger than the libseccomp we build with; from 424 on all architectures agree. */
extern const struct seccomp_number seccomp_numbers[];
extern const size_t n_seccomp_numbers;

#define SECCOMP_X32_BIT 0x40000000U

#endif
