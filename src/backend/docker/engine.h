/* SPDX-License-Identifier: Apache-2.0
 *
 * A Docker Engine, or Podman's service that speaks like one: what is asked of it over its unix socket. Only what is
 * here is ever asked. Every wait has an end; an engine that is absent, hangs or talks rubbish is an error with a remedy.
 *
 * Threads: a struct engine is not changed after engine_open(), and each call makes a connection of its own. */
#ifndef DOCKER_ENGINE_H
#define DOCKER_ENGINE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/limits.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define ENGINE_NAME_MAX 64
#define ENGINE_VERSION_MAX 64
#define ENGINE_RUNTIMES_MAX 16
#define ENGINE_ANSWER_USEC 5000000ULL /* for the engine to say something */
#define ENGINE_PULSE_USEC 2500000ULL  /* of silence in a call that may take longer; then it is asked whether it is there */
#define ENGINE_PING_USEC 2000000ULL   /* for an answer to that */

struct engine {
        char socket[108];
        char from[160];       /* where that is from: "$DOCKER_HOST", "the context \"x\" of ~/.docker", "the default" */
        char api[16];         /* "1.41", or what is nearest to it that the engine speaks */
        char name[ENGINE_NAME_MAX]; /* "Docker Engine" or "Podman" */
        char version[ENGINE_VERSION_MAX];
        bool podman;
        bool rootless;
        char runtimes[ENGINE_RUNTIMES_MAX][ENGINE_NAME_MAX]; /* of /info */
        size_t n_runtimes;
        char default_runtime[ENGINE_NAME_MAX];
        char runc_version[ENGINE_VERSION_MAX]; /* "1.1.5+ds1", of its default runtime if that is runc; empty: not known */
        char containerd_version[ENGINE_VERSION_MAX];
        bool apparmor, seccomp;  /* of its SecurityOptions */
        bool cgroup_v2;
        bool memory, swap, pids, cpu; /* whether it can limit them */
};

/* Which socket: $DOCKER_HOST (unix:// only), else the context that $DOCKER_CONTEXT or ~/.docker/config.json names
 * ($DOCKER_CONFIG; read from its contexts/meta), else /var/run/docker.sock. Parses files of the user: bounded. */
int engine_address(struct engine *ret, gb_error *err);
/* Whether $DOCKER_HOST or a context names the engine. Otherwise it is the default one. */
bool engine_is_chosen(void);
/* The same, and asks the engine who it is (/version, /info). GB_E_UNAVAILABLE with the remedy: not running, no permission on
 * the socket, not an engine, too old (API below 1.40). */
int engine_open(struct engine *ret, gb_error *err);

/* The engine of this process, opened by the first who asks, and again after ENGINE_FACTS_USEC. A failure is answered to all for ENGINE_RETRY_USEC, and while
 * somebody tries again. Any thread. */
int engine_shared(struct engine *ret, gb_error *err);

/* target, here and below: path and query, encoded, without the version of the API: "/containers/json?all=1". */

/* Whether it answers at all. True also when this process has no memory or descriptor to ask with: that says nothing
 * about the engine. */
bool engine_answers(const struct engine *e);
/* One question. body: JSON or NULL, borrowed. *ret_status: of HTTP. *ret: its JSON, NULL when there is none; may be NULL itself. An error only when the
 * engine could not be asked or did not answer (GB_E_UNAVAILABLE: nothing was done; GB_E_LOST: not known): a status is the caller's to judge.
 * wait_usec: how long it may take, 0: ENGINE_ANSWER_USEC; what may take longer is given up when the engine does not answer anybody else either. */
int engine_call(const struct engine *e, const char *method, const char *target, json_t *body, uint64_t wait_usec, int *ret_status, json_t **ret,
                gb_error *err);
/* What an engine says with a status that means failure: its "message", printable and cut, as an error "what: message". */
int engine_refusal(const struct engine *e, int status, const json_t *answer, const char *what, gb_error *err);

/* The same with a body of bytes in a file (type: of it; -1: none) and an answer that comes bit by bit: line() gets each
 * JSON value of a stream of them (progress of a build or import); a negative number ends it and is returned, err is line()'s to fill. Silence is neither
 * sending nor receiving. A status of 400 and above is an error with what the engine says (engine_refusal()), *ret_status is set then and line() was not called.
 * -ECANCELED (without err) when cancel_fd became readable; -1: none. */
int engine_stream(const struct engine *e, const char *method, const char *target, const char *type, int body_fd, uint64_t body_size, uint64_t silence_usec,
                  int cancel_fd, int (*line)(void *data, const json_t *value), void *data, int *ret_status, gb_error *err);
/* An answer of bytes, written to a file descriptor (image export). max: more is an error. A status of 400 and above, silence (ENGINE_SILENCE_USEC) and cancel_fd as above. */
int engine_save(const struct engine *e, const char *target, int fd, uint64_t max, int cancel_fd, int *ret_status, gb_error *err);

/* A stream both ways (attach): the connection itself, after 101 or 200, non-blocking. Bytes that came with the head are in *early, which must
 * take ENGINE_EARLY_BYTES_MAX. Any other status is an error with what the engine says (404: GB_E_NOT_FOUND, 409: GB_E_CONFLICT). */
int engine_hijack(const struct engine *e, const char *target, int *ret_fd, struct buffer *early, gb_error *err);

/* Whether it has the runtime; podman ignores the field and is answered false for all but its default. */
bool engine_has_runtime(const struct engine *e, const char *name);

/* 1: older than the first one without the known ways out of a container (runc 1.2.8, 1.3.3, 1.4.0-rc.3); 0: not; -1: the text is no version. */
int engine_runc_is_old(const char *version);

#endif
