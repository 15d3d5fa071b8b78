/* SPDX-License-Identifier: Apache-2.0
 *
 * A server with routes of the tests' own: the real loop, the real workers, real sockets. */
#ifndef SERVER_TEST_FIXTURE_H
#define SERVER_TEST_FIXTURE_H

#include "server/server.h"

#include <pthread.h>

struct fixture {
        struct server server;
        char directory[64], socket[96];
        int port, tls_port; /* TCP */
        struct ssl_ctx_st *tls; /* NULL: there is no third listener */
        pthread_t thread;
        bool running;
};

/* Sets what a test may want to change before fixture_start(). */
void fixture_init(struct fixture *f);
void fixture_start(struct fixture *f);
/* Stops the loop and waits for it, the workers, and all memory. */
void fixture_stop(struct fixture *f);

int fixture_connect(const struct fixture *f); /* the unix socket */
int fixture_connect_tcp(const struct fixture *f);
int fixture_connect_port(int port);

/* Handlers of the fixture wait at /wait until the test says so, or their client goes away. */
void fixture_release(void);
extern _Atomic unsigned fixture_waiting, fixture_gone, fixture_written;

/* An answer, as text. */
struct answer {
        int status;
        char *head;       /* lower case names are not made: as it came */
        char *body;       /* without the chunks */
        size_t body_size;
        bool whole;       /* it ended as it should */
};
void say(int fd, const char *text);
void say_bytes(int fd, const void *bytes, size_t size);
struct answer hear(int fd);
void answer_done(struct answer *a);
#define _cleanup_answer_ _cleanup_(answer_done)
/* Both, on a connection of its own. */
struct answer ask(const struct fixture *f, const char *text);
/* Whether the other side has closed it, within some seconds; what still comes is dropped. */
bool is_closed(int fd);
/* Waits up to some seconds for a number to be reached. */
bool reaches(const _Atomic unsigned *number, unsigned value);

#endif
