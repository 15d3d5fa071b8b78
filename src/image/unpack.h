/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of archives into a root directory. Nothing is written through a link: each parent is opened below the root without following any, and
 * each file is made anew. */
#ifndef IMAGE_UNPACK_H
#define IMAGE_UNPACK_H

#include "base/buffer.h"
#include "image/reader.h"

#include <stdbool.h>

struct path_set;

struct image_unpack {
        int root;        /* of the image */
        bool owners;     /* as the archive says; else everything is the caller's */
        bool whiteouts;  /* names with .wh. remove what earlier layers have brought */
        int cancel_fd;   /* -1: none */
        void (*progress)(void *data, uint64_t bytes); /* of all layers so far; may be NULL */
        void *data;

        /* Of all layers, to begin with zeros. */
        uint64_t bytes, entries;
        uint64_t skipped; /* devices, FIFOs, sockets */
        uint64_t set_id;  /* files that have lost such a bit */
        struct buffer times; /* of directories: what is put into them changes theirs, so they are set at the end */

        /* Of one layer */
        struct image_reader reader;
        struct path_set *set;
};

/* Reads one archive (a layer) from where the descriptor stands. What it has written stays when it fails: the caller removes the root. */
int image_unpack_layer(struct image_unpack *u, int in, gb_error *err);

/* The same for who has begun to read already: `reader` is at `first`, its first entry. */
int image_unpack_rest(struct image_unpack *u, struct image_entry *first, gb_error *err);

/* After the last layer. Times that cannot be set, or were too many to be remembered, are no failure. */
void image_unpack_finish(struct image_unpack *u);

/* The path of an entry without "./" and doubled slashes, into ret; "" is the root itself. GB_E_USAGE: it is absolute, climbs, is too deep or too
 * long; `of` is the entry's own path, for the message. */
int image_clean_path(const char *path, const char *of, char ret[static HOST_PATH_MAX], gb_error *err);

#endif
