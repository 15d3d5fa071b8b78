/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of routes: one row is address, method, right, and handler. The OpenAPI file and the tests of tenants are
 * held against it. */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include "server/request.h"

typedef void route_function(struct request *r);

enum route_flag {
        ROUTE_OPEN = 1,     /* needs no token */
        ROUTE_INLINE = 2,   /* answered by the loop itself, without a worker: never waits for anything */
        ROUTE_BYTES = 4,    /* its body is not JSON, and may be as large as a file */
        ROUTE_STREAMS = 8,  /* may answer with events */
        ROUTE_DRAINING = 16, /* goes on while the server ends: what only looks, and what ends things */
};

struct route {
        const char *method;
        const char *pattern; /* "/v1/sessions/{session}/files/{path...}": ... takes the rest, slashes and all */
        unsigned scope;      /* enum token_scope; 0: any token */
        unsigned flags;
        route_function *handler;
};

extern const struct route routes[];
extern const size_t n_routes;

/* The row for a request. GB_E_NOT_FOUND; GB_E_METHOD with the methods there are in *ret_allow ("GET, PUT"); GB_E_USAGE when
 * the address is not well encoded. HEAD is GET. params are the caller's to free. */
#define ROUTE_ALLOW_MAX 64
int route_find(const char *method, const char *path, const struct route **ret, char *params[static ROUTE_PARAMS_MAX], char ret_allow[static ROUTE_ALLOW_MAX],
               gb_error *err);

/* Handlers, by file. */
route_function api_run_create, api_runs_list, api_run_get, api_run_events, api_run_cancel, api_run_stdin;                   /* api_runs.c */
route_function api_session_create, api_sessions_list, api_session_get, api_session_patch, api_session_delete;               /* api_sessions.c */
route_function api_session_run;                                                                                             /* api_runs.c */
route_function api_context_create, api_contexts_list, api_context_delete, api_context_restart, api_context_interrupt;       /* api_contexts.c */
route_function api_files_list, api_file_get, api_file_put, api_file_delete, api_archive_get, api_archive_put;               /* api_files.c */
route_function api_network_get, api_network_put;                                                                            /* api_network.c */
route_function api_mcp_post, api_mcp_get, api_mcp_delete;                                                                   /* api_mcp.c */
route_function api_guard_check;                                                                                             /* api_guard.c */
route_function api_session_stats, api_run_stats, api_stats;                                                                 /* api_stats.c */
route_function api_info, api_policies, api_templates, api_languages, api_doctor, api_openapi, api_health, api_ready;        /* api_about.c */
route_function api_audit;                                                                                                   /* api_audit.c */
route_function api_metrics;                                                                                                 /* metrics.c */

#endif
