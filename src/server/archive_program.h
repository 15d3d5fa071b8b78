/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of glovebox-archive; see archive_main.c. */
#ifndef SERVER_ARCHIVE_PROGRAM_H
#define SERVER_ARCHIVE_PROGRAM_H

#include <archive.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reader {
        struct archive *archive;
        bool unpack; /* the bytes of files, too */
        uint64_t max_bytes, max_entries;
        uint64_t bytes, entries;
};

int archive_put(const void *data, size_t size);
/* Exactly `size` bytes of the entry: holes are filled, and what is missing or too much is an error. */
int archive_copy_data(struct reader *rd, uint64_t size);

/* All of an archive of a root file system, as records of image/record.h. */
int archive_read_image(struct reader *rd);

#endif
