/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads for what waits: handlers of requests, and runs that go on without one. They are made when they are needed
 * and end when they were idle for WORKER_IDLE_USEC; the one that became idle last is taken first. All signals are blocked in them. */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include "base/error.h"
#include "base/macro.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct workers;

typedef void worker_function(void *data);

struct workers_counts {
        size_t threads; /* there are */
        size_t busy;    /* of them, that work */
        size_t waiting; /* requests that wait for one */
};

/* threads: requests that are worked on at a time. As many jobs may go on beside them, so that a request whose work is
 * done by a job never waits for its own place. */
int workers_new(size_t threads, struct workers **ret, gb_error *err);

/* A job, from any thread; -EAGAIN when there are as many as there may be (or workers_free() has begun), and another negative errno when there
 * can be no thread: then nothing was started. It never waits for a place. */
int workers_start(struct workers *w, worker_function *f, void *data);

/* A request, by the loop: as a job, but up to WORKERS_QUEUE_MAX wait for a place; 1: this one does. */
int workers_start_request(struct workers *w, worker_function *f, void *data);
/* The data of a request that has waited since then or longer: it does not wait any more, and is the caller's to answer. NULL: there is none. */
void *workers_take_late(struct workers *w, uint64_t before_usec, bool *ret_more);

void workers_count(struct workers *w, struct workers_counts *ret);

/* Takes nothing more, waits for all that was started, and then for the threads. Takes NULL. */
void workers_free(struct workers *w);
DEFINE_CLEANUP(struct workers, workers_free)
#define _cleanup_workers_ _cleanup_(workers_free_ptr)

#endif
