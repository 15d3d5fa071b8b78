/* SPDX-License-Identifier: Apache-2.0
 *
 * A server for this process alone. */
#ifndef CLI_MCP_PRIVATE_H
#define CLI_MCP_PRIVATE_H

#include "base/buffer.h"
#include "cli/options.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PRIVATE_PATH_MAX 108 /* of a socket's address */
#define PRIVATE_SAID_MAX 1024

struct private_server {
        pid_t keeper; /* 0: none was started, or it is over */
        int hold;     /* the server ends when this is closed */
        int life;     /* ends with the keeper */
        int log;      /* what the server writes to standard error */
        bool verbose; /* show all of that */
        bool starting;
        char directory[PRIVATE_PATH_MAX], socket[PRIVATE_PATH_MAX];
        struct buffer line;          /* of the log, as far as it has come */
        char said[PRIVATE_SAID_MAX]; /* the last complaint while it starts */
        int status;                  /* how it ended, as of waitpid(), or PRIVATE_END_UNKNOWN */
};

void private_init(struct private_server *p, bool verbose);

/* Starts it and waits until it listens. -ECANCELED (with err) when cancel_fd became readable before; -1: none. The arguments' --policy and --warm are for it. */
int private_start(struct private_server *p, const struct arguments *a, int cancel_fd, gb_error *err);
/* Takes what has come from its log, and shows what is worth it. */
void private_read_log(struct private_server *p);
/* Whether it has ended by itself; then nothing of it is left. */
bool private_has_ended(struct private_server *p);
#define PRIVATE_END_UNKNOWN (-1) /* no status of waitpid(): its end was not seen */

/* "was killed by signal 9", "ended with status 1" */
const char *private_end_text(const struct private_server *p, char *buf, size_t size);
/* Ends it, and waits for that no longer than until then (by CLOCK_MONOTONIC). What takes longer goes on without us. Takes one that was never started. */
void private_stop(struct private_server *p, uint64_t deadline_usec);

#endif
