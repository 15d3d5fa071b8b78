/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds what a box is made of: the list of ops with their strings and files (the payload), and the
 * descriptors that go with them. */
#ifndef NATIVE_PAYLOAD_H
#define NATIVE_PAYLOAD_H

#include "base/buffer.h"
#include "base/error.h"
#include "warden/protocol.h"

struct box_plan {
        struct box_op ops[BOX_OPS_MAX];
        uint32_t n_ops;
        struct buffer data; /* what ranges point to, relative to its own start until sealed */
        struct payload_range commands[BOX_COMMANDS_MAX];
        uint32_t n_commands;
        struct payload_range env;
        const char *cwd;

        struct box_fd fds[BOX_FDS_MAX];
        int fd_values[BOX_FDS_MAX];
        bool fd_owned[BOX_FDS_MAX];
        uint32_t n_fds, n_sources;
};

/* NULL: out of memory. */
struct box_plan *plan_new(void);
void plan_free(struct box_plan *p);
DEFINE_CLEANUP(struct box_plan, plan_free)
#define _cleanup_plan_ _cleanup_(plan_free_ptr)

int plan_dir(struct box_plan *p, const char *path, unsigned mode, unsigned flags, gb_error *err);
int plan_symlink(struct box_plan *p, const char *path, const char *target, gb_error *err);
int plan_file(struct box_plan *p, const char *path, const void *data, size_t size, unsigned mode, gb_error *err);
/* The same with the first `size` bytes of the open file fd. */
int plan_file_from(struct box_plan *p, const char *path, int fd, size_t size, gb_error *err);
int plan_text(struct box_plan *p, const char *path, const char *text, gb_error *err);
int plan_tmpfs(struct box_plan *p, const char *path, uint64_t size, uint64_t inodes, unsigned mode, gb_error *err);
int plan_special(struct box_plan *p, enum box_op_kind kind, const char *path, gb_error *err);
/* Takes fd. flags: enum box_source_flags. */
int plan_bind(struct box_plan *p, const char *path, int fd, unsigned flags, bool is_file, gb_error *err);
/* Adds a descriptor for the warden; taken when owned. */
int plan_fd(struct box_plan *p, enum box_fd_role role, uint32_t index, int fd, bool owned, gb_error *err);
/* A NULL-terminated list of words, each stored with its NUL. */
int plan_words(struct box_plan *p, char *const *words, struct payload_range *ret, gb_error *err);

struct native_host;
/* The standard streams (unless NULL), the places for cgroups and the sealed payload: all that a request brings but its
 * sources. Returns 0 or a negative errno. */
int plan_descriptors(struct box_plan *p, const struct native_host *host, const int *stdio, gb_error *err);

/* The sealed payload; a descriptor or a negative errno. */
int plan_seal(const struct box_plan *p, gb_error *err);

#endif
