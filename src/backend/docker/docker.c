/* SPDX-License-Identifier: Apache-2.0
 *
 * The docker backend: sessions in containers of a Docker Engine, or of Podman, on this machine. */
#include "backend/backend.h"

#include "backend/docker/access.h"
#include "backend/docker/line.h"
#include "backend/docker/session.h"

static int program_event_fd(const struct backend_program *p)
{
        return p->event;
}

static void program_stop(struct backend_program *p)
{
        line_stop(p, BOX_STOP_ASKED);
}

static void program_free(struct backend_program *p)
{
        if (p)
                line_forget(p);
}

/* A run of its own is a session with one program. */
const struct backend backend_docker = {
        .name = "docker",
        .keep_access = docker_keep_access,
        .admit = session_docker_admit,
        .sweep = session_docker_sweep,
        .session_open = session_docker_open,
        .session_workspace = session_docker_workspace,
        .session_files = session_docker_files,
        .session_dial = session_docker_dial,
        .session_usage = session_docker_usage,
        .session_clear = session_docker_clear,
        .session_is_busy = session_docker_is_busy,
        .session_listener = session_docker_listener,
        .session_event_fd = session_docker_event_fd,
        .session_free = session_docker_free,
        .program_start = program_docker_start,
        .program_event_fd = program_event_fd,
        .program_next_event = line_next_event,
        .program_signal = line_signal,
        .program_settle = line_settle,
        .program_stop = program_stop,
        .program_free = program_free,
};
