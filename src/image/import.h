/* SPDX-License-Identifier: Apache-2.0
 *
 * Images from archives: an OCI layout (a directory or a tar of it), what `docker save` writes, or a tar of a root file system; each may be
 * compressed by gzip or zstd. */
#ifndef IMAGE_IMPORT_H
#define IMAGE_IMPORT_H

#include "base/error.h"
#include "image/store.h"

#include <stdbool.h>
#include <stdint.h>

struct image_import {
        int fd;          /* a directory, a file or a pipe, which is read from where it stands; borrowed */
        bool plain;      /* it is a tar of a root file system, whatever the names in it are */
        int cancel_fd;   /* -1: none */
        void (*progress)(void *data, uint64_t bytes); /* may be NULL */
        void *data;
};

/* Fills the root of the draft, and *ret with what there is to say about it: kind, digest, architecture, bytes, entries, skipped, owners, verified, created. */
int image_import(const struct image_import *request, struct image_draft *draft, json_t **ret, gb_error *err);

#endif
