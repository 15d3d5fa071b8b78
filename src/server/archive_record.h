/* SPDX-License-Identifier: Apache-2.0
 *
 * What glovebox-archive writes about an archive, and the server reads. The program parses bytes of strangers with somebody else's
 * library; it is therefore believed in nothing: every record is checked as if the archive's maker had written it. Both are of one
 * build on one machine, so numbers are as they are in memory. */
#ifndef SERVER_ARCHIVE_RECORD_H
#define SERVER_ARCHIVE_RECORD_H

#include <stdint.h>

#define ARCHIVE_RECORD_MAGIC 0x67627861U

enum archive_kind {
        ARCHIVE_FILE,      /* text: its path. When it unpacks, `size` bytes follow */
        ARCHIVE_DIRECTORY, /* the same without */
        ARCHIVE_REFUSED,   /* an entry that is neither; text: its path, and behind a NUL what it is */
        ARCHIVE_BROKEN,    /* text: why it could not be read on */
        ARCHIVE_MANY,      /* more entries or bytes than were allowed; text: the path of the first one too many */
        ARCHIVE_END,       /* all of it was read */
};

struct archive_record {
        uint32_t magic, kind, mode, text_size; /* text: at most HOST_PATH_MAX bytes */
        uint64_t size;
};

#endif
