/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions of the native backend: backend.h says what each function does. */
#ifndef NATIVE_SESSION_H
#define NATIVE_SESSION_H

#include "backend/backend.h"

int session_native_open(const struct session_request *request, struct controls *ret_controls, struct backend_session **ret,
                        gb_error *err);
int session_native_workspace(const struct backend_session *s);
int session_native_files(struct backend_session *s, int *ret_fd, uid_t *ret_uid, gid_t *ret_gid, gb_error *err);
int session_native_usage(struct backend_session *s, struct box_usage *ret, gb_error *err);
int session_native_clear(struct backend_session *s, unsigned *ret_ended, gb_error *err);
bool session_native_is_busy(struct backend_session *s);
int session_native_admit(const struct policy *policy, struct controls *ret, gb_error *err);
int session_native_listener(struct backend_session *s, gb_error *err);
int session_native_event_fd(const struct backend_session *s);
bool session_native_is_warm(const struct backend_session *s);
bool session_native_free(struct backend_session *s);

int program_native_start(struct backend_session *s, const struct program_request *request, struct backend_program **ret,
                         struct program_io *ret_io, gb_error *err);
int program_native_event_fd(const struct backend_program *p);
int program_native_next_event(struct backend_program *p, struct box_event *ret, gb_error *err);
void program_native_signal(struct backend_program *p, int sig);
void program_native_settle(struct backend_program *p);
void program_native_stop(struct backend_program *p);
void program_native_free(struct backend_program *p);

#endif
