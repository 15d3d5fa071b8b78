/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside docker/: what a session is. */
#ifndef DOCKER_SESSION_STATE_H
#define DOCKER_SESSION_STATE_H

#include "backend/docker/container.h"
#include "backend/docker/counters.h"
#include "backend/docker/line.h"

struct backend_session {
        struct engine engine; /* as it was when the session was opened */
        struct container container;
        bool created;
        struct line line;
        bool has_line;
        _Atomic int pidfd; /* of process 1, where this process may see it: the last means to end it; -1: none */
        _Atomic bool counted; /* the kernel's counters can be read */
        struct usage_files counters;
        _Atomic uint64_t oom_kills; /* as the line last saw them */
        bool engine_lost; /* it did not answer */
        struct box_usage last; /* as the counters were last seen */
        bool last_is_end;      /* that was after the end of the container */
        struct container_stats stats; /* of the engine, for who cannot read the kernel's */
        uint64_t stats_usec;
        pthread_mutex_t stats_lock;
        int workspace; /* a directory of the host; -1: private */
        const char *cwd; /* where it is in the container */
        uid_t uid;
        gid_t gid;
        uint64_t memory_peak_bytes, pids_peak; /* of the engine's numbers, as far as they were asked for */
        unsigned next_slot;
};

#endif
