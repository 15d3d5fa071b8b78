/* SPDX-License-Identifier: Apache-2.0
 *
 * Images as archives. */
#ifndef IMAGE_EXPORT_H
#define IMAGE_EXPORT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct image_export {
        const char *name; /* of the store */
        int fd;           /* the archive goes there */
        bool oci;         /* an OCI layout with one layer, which engines load, too; else a tar of the root */
        int cancel_fd;    /* -1: none */
        void (*progress)(void *data, uint64_t bytes); /* may be NULL */
        void *data;
        uint64_t bytes, entries; /* out: what was written */
};

int image_export(struct image_export *request, gb_error *err);

/* The files of a directory (no links are followed, only files and directories count) as a tar, at most max bytes of them. */
int image_tar_directory(const char *path, int fd, uint64_t max, gb_error *err);

#endif
