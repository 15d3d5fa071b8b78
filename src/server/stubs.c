/* SPDX-License-Identifier: Apache-2.0
 *
 * While the server is being built: handlers that nobody has written yet. Goes when the last one is there. */
#include "server/reply.h"
#include "server/routes.h"

#include <errno.h>

#define STUB(name)                                                                                          \
        __attribute__((weak)) void name(struct request *r)                                                  \
        {                                                                                                   \
                gb_error err = {0};                                                                         \
                error_set(&err, GB_E_INTERNAL, ENOSYS, #name " is not there yet");                          \
                reply_error(r, &err);                                                                       \
        }

STUB(api_run_create) STUB(api_runs_list) STUB(api_run_get) STUB(api_run_events) STUB(api_run_cancel) STUB(api_run_stdin)
STUB(api_session_create) STUB(api_sessions_list) STUB(api_session_get) STUB(api_session_patch) STUB(api_session_delete) STUB(api_session_run)
STUB(api_context_create) STUB(api_contexts_list) STUB(api_context_delete) STUB(api_context_restart) STUB(api_context_interrupt)
STUB(api_files_list) STUB(api_file_get) STUB(api_file_put) STUB(api_file_delete) STUB(api_archive_get) STUB(api_archive_put)
STUB(api_session_stats) STUB(api_run_stats) STUB(api_stats)
STUB(api_info) STUB(api_policies) STUB(api_templates) STUB(api_languages) STUB(api_doctor) STUB(api_openapi) STUB(api_health) STUB(api_ready)
STUB(api_audit) STUB(api_metrics)
