/* SPDX-License-Identifier: Apache-2.0 */
#include "server/routes.h"

#define SESSION "/v1/sessions/{session}"
#define RUN "/v1/runs/{run}"
#define CONTEXT SESSION "/contexts/{context}"

const struct route routes[] = {
        {"POST", "/v1/runs", SCOPE_RUN, ROUTE_STREAMS, api_run_create},
        {"GET", "/v1/runs", SCOPE_READ, ROUTE_DRAINING, api_runs_list},
        {"GET", RUN, SCOPE_READ, ROUTE_DRAINING, api_run_get},
        {"GET", RUN "/events", SCOPE_READ, ROUTE_STREAMS | ROUTE_DRAINING, api_run_events},
        {"POST", RUN "/cancel", SCOPE_RUN, ROUTE_DRAINING, api_run_cancel},
        {"POST", RUN "/stdin", SCOPE_RUN, ROUTE_BYTES | ROUTE_DRAINING, api_run_stdin},
        {"GET", RUN "/stats", SCOPE_READ, ROUTE_STREAMS | ROUTE_DRAINING, api_run_stats},

        {"POST", "/v1/sessions", SCOPE_RUN, 0, api_session_create},
        {"GET", "/v1/sessions", SCOPE_READ, ROUTE_DRAINING, api_sessions_list},
        {"GET", SESSION, SCOPE_READ, ROUTE_DRAINING, api_session_get},
        {"PATCH", SESSION, SCOPE_RUN, 0, api_session_patch},
        {"DELETE", SESSION, SCOPE_RUN, ROUTE_DRAINING, api_session_delete},
        {"POST", SESSION "/runs", SCOPE_RUN, ROUTE_STREAMS, api_session_run},
        {"GET", SESSION "/network", SCOPE_READ, ROUTE_DRAINING, api_network_get},
        {"PUT", SESSION "/network", SCOPE_RUN, 0, api_network_put},
        {"GET", SESSION "/stats", SCOPE_READ, ROUTE_STREAMS | ROUTE_DRAINING, api_session_stats},

        {"POST", SESSION "/contexts", SCOPE_RUN, 0, api_context_create},
        {"GET", SESSION "/contexts", SCOPE_READ, ROUTE_DRAINING, api_contexts_list},
        {"DELETE", CONTEXT, SCOPE_RUN, ROUTE_DRAINING, api_context_delete},
        {"POST", CONTEXT "/restart", SCOPE_RUN, 0, api_context_restart},
        {"POST", CONTEXT "/interrupt", SCOPE_RUN, ROUTE_DRAINING, api_context_interrupt},

        {"GET", SESSION "/files", SCOPE_READ, ROUTE_DRAINING, api_files_list},
        {"GET", SESSION "/files/{path...}", SCOPE_READ, ROUTE_DRAINING, api_file_get},
        {"PUT", SESSION "/files/{path...}", SCOPE_RUN, ROUTE_BYTES, api_file_put},
        {"DELETE", SESSION "/files/{path...}", SCOPE_RUN, 0, api_file_delete},
        {"GET", SESSION "/archive", SCOPE_READ, ROUTE_DRAINING, api_archive_get},
        {"PUT", SESSION "/archive", SCOPE_RUN, ROUTE_BYTES, api_archive_put},

        {"POST", "/v1/guard/check", SCOPE_RUN, 0, api_guard_check},

        {"POST", "/mcp", SCOPE_RUN, ROUTE_STREAMS, api_mcp_post},
        {"GET", "/mcp", SCOPE_RUN, ROUTE_STREAMS, api_mcp_get},
        {"DELETE", "/mcp", SCOPE_RUN, ROUTE_DRAINING, api_mcp_delete},

        {"GET", "/v1/stats", SCOPE_READ, ROUTE_STREAMS | ROUTE_DRAINING, api_stats},
        {"GET", "/v1/info", 0, ROUTE_DRAINING, api_info},
        {"GET", "/v1/policies", SCOPE_READ, ROUTE_DRAINING, api_policies},
        {"GET", "/v1/templates", SCOPE_READ, ROUTE_DRAINING, api_templates},
        {"GET", "/v1/languages", SCOPE_READ, ROUTE_DRAINING, api_languages},
        {"GET", "/v1/doctor", SCOPE_READ, ROUTE_DRAINING, api_doctor},
        {"GET", "/v1/audit", SCOPE_READ, ROUTE_DRAINING, api_audit},
        {"GET", "/metrics", SCOPE_METRICS, ROUTE_DRAINING, api_metrics},
        {"GET", "/openapi.json", 0, ROUTE_OPEN | ROUTE_INLINE | ROUTE_DRAINING, api_openapi},
        {"GET", "/healthz", 0, ROUTE_OPEN | ROUTE_INLINE | ROUTE_DRAINING, api_health},
        {"GET", "/readyz", 0, ROUTE_OPEN | ROUTE_INLINE | ROUTE_DRAINING, api_ready},
};
const size_t n_routes = sizeof(routes) / sizeof(routes[0]);
