/* SPDX-License-Identifier: Apache-2.0
 *
 * What glovebox-archive writes about an archive of a root file system, and who makes an image reads (reader.h). The program parses
 * bytes of strangers with somebody else's library, so it is believed in nothing: every record is checked as if the archive's maker had written it. Both are
 * of one build on one machine: numbers are as they are in memory. */
#ifndef IMAGE_RECORD_H
#define IMAGE_RECORD_H

#include <stdint.h>

#define IMAGE_RECORD_MAGIC 0x67626d69U

enum image_kind {
        IMAGE_FILE,      /* `size` bytes follow */
        IMAGE_DIRECTORY,
        IMAGE_SYMLINK,   /* link: what it says */
        IMAGE_HARDLINK,  /* link: the path of the other name */
        IMAGE_OTHER,     /* a device, FIFO or socket */
        IMAGE_BROKEN,    /* path: why it could not be read on. The last word */
        IMAGE_MANY,      /* more entries or bytes than were allowed; path: of the first one too many. The last word */
        IMAGE_END,       /* all of it was read */
        IMAGE_UNMARKED,  /* the same, but no block of zeros says that it is all: it may have been cut between two entries */
};

/* Followed by the path, the link, and the bytes. */
struct image_record {
        uint32_t magic, kind, mode;
        uint32_t path_size, link_size; /* each less than HOST_PATH_MAX, without a NUL */
        uint32_t unused;
        uint64_t uid, gid, size;
        int64_t mtime_sec;
};

#endif
