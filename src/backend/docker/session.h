/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions and programs of the docker backend: backend.h says what each function does. */
#ifndef DOCKER_SESSION_H
#define DOCKER_SESSION_H

#include "backend/backend.h"

int session_docker_admit(const struct policy *policy, struct controls *ret, gb_error *err);
int session_docker_sweep(const struct backend_sweep *sweep, gb_error *err);
int session_docker_open(const struct session_request *request, struct controls *ret_controls, struct backend_session **ret, gb_error *err);
int session_docker_workspace(const struct backend_session *s);
int session_docker_files(struct backend_session *s, int *ret_fd, uid_t *ret_uid, gid_t *ret_gid, gb_error *err);
int session_docker_dial(struct backend_session *s, gb_error *err);
/* Writes the files of secrets, and the certificates (ca: NULL: none), before any program can be there. */
int session_docker_put_secrets(struct backend_session *s, const struct policy *policy, const struct box_file *ca, gb_error *err);
int session_docker_listener(struct backend_session *s, gb_error *err);
int session_docker_usage(struct backend_session *s, struct box_usage *ret, gb_error *err);
int session_docker_clear(struct backend_session *s, unsigned *ret_ended, gb_error *err);
bool session_docker_is_busy(struct backend_session *s);
int session_docker_event_fd(const struct backend_session *s);
bool session_docker_free(struct backend_session *s);

int program_docker_start(struct backend_session *s, const struct program_request *request, struct backend_program **ret, struct program_io *ret_io,
                         gb_error *err);

#endif
