/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that plays an engine on a unix socket, good or bad, and sets DOCKER_HOST to it. */
#ifndef DOCKER_TEST_PLAYER_H
#define DOCKER_TEST_PLAYER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum player_end {
        PLAYER_CLOSE,
        PLAYER_HANG,   /* says nothing more, until the other side closes */
        PLAYER_REPEAT, /* says it again and again */
        PLAYER_ECHO,   /* sends back what comes */
        PLAYER_BYTES,  /* PLAYER_CLOSE, but each byte by itself */
};

struct player_answer {
        const char *target; /* how a request's target begins; NULL: any */
        const char *bytes;
        size_t size;        /* 0: a string */
        enum player_end end;
};

struct player {
        char directory[64], socket[80];
        int listener, stop[2];
        pthread_t thread;
        const struct player_answer *_Atomic answers; /* the first that fits; the last has target NULL */
        atomic_size_t cut;         /* at most so many bytes of an answer */
        atomic_size_t body;       /* of a request's body are read before it is answered */
        atomic_uint asked;
};

void player_start(struct player *p, const struct player_answer *answers);
void player_stop(struct player *p);

/* As Docker 20.10 and Podman 4.3 answer. */
extern const struct player_answer player_docker[], player_podman[];
#define PLAYER_JSON(text) "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" text

#endif
