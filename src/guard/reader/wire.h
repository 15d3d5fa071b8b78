/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes between the front and a reader, over one socket: a request of fixed size and the code; then items, each with its text behind it, and an end.
 * Numbers are the machine's own. The socket to a master is a stream, too: a byte orders a reader, and a byte comes back with each reader's socket, in
 * order. */
#ifndef GUARD_READER_WIRE_H
#define GUARD_READER_WIRE_H

#include <stdint.h>

#define READER_MAGIC 0x67627264u /* "gbrd" */
#define READER_FD 3              /* of a master: where it gets orders, one byte each for a reader more, and sends their sockets */

enum reader_kind { READER_END, READER_IMPORT, READER_STRING, READER_CALL };

struct reader_request {
        uint32_t magic;
        uint32_t size; /* of the code behind it */
};

struct reader_answer {
        uint32_t kind; /* enum reader_kind */
        uint32_t line, column; /* from 1 */
        uint32_t size; /* of the text behind it; of an END: 0, or 1 when there was more than fits */
};

#endif
