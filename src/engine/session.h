/* SPDX-License-Identifier: Apache-2.0
 *
 * A session: one box that lives over several runs. In it are contexts (context.h), programs that run to their
 * end, and files.
 *
 * Threads: each function may be called from any thread, and runs in different contexts may overlap. Nobody may
 * be inside a session or hold one of its contexts when it is closed. */
#ifndef ENGINE_SESSION_H
#define ENGINE_SESSION_H

#include "backend/backend.h"
#include "engine/claims.h"
#include "engine/files.h"
#include "engine/network.h"
#include "engine/result.h"

#include <sys/types.h>

struct session;

struct session_options {
        const struct backend *backend;   /* NULL: the native one */
        const struct policy *policy;     /* borrowed until the session is closed, and not changed until then */
        const struct template *template; /* what Python contexts are forked from; NULL: they are executed */
        const struct languages *languages; /* what they need of the host's /etc is in the box; NULL: nothing */
        bool only_warm;                  /* without a template that waits already there is no session: GB_E_NOT_FOUND */
        const char *workspace;           /* host directory, or NULL: a private one that goes with the session */
        const char *rootfs;              /* image root directory, or NULL: the template's, or the host's /usr */
        uid_t uid;                       /* identity inside the box */
        gid_t gid;
};

/* Builds the box: when it returned 0 it stands. */
int session_open(const struct session_options *options, struct session **ret, gb_error *err);
/* Ends everything in it. Takes NULL. */
void session_close(struct session *s);
/* The same, and *ret_rest gets what it has sent while no run was there (network.h): the caller's, for free(). NULL:
 * nothing. False when the end was not seen: something in it may still run. */
bool session_close_telling(struct session *s, struct ledger_copy **ret_rest);
DEFINE_CLEANUP(struct session, session_close)
#define _cleanup_session_ _cleanup_(session_close_ptr)

const char *session_id(const struct session *s);
const struct controls *session_controls(const struct session *s);
const struct policy *session_policy(const struct session *s);
/* What keeps its secrets out of names and messages; NULL: nothing is scrubbed. */
const struct scrub *session_scrub(const struct session *s);
uint64_t session_started_usec(const struct session *s); /* CLOCK_MONOTONIC */
/* Readable when the session has ended by itself; its runs are then refused with GB_E_LOST. */
int session_event_fd(const struct session *s);
int session_usage(struct session *s, struct box_usage *ret, gb_error *err);
/* The same for somebody who watches: disk is also that of a workspace on the host, as it was about a second ago (what has come since the session was opened). */
int session_sample(struct session *s, struct box_usage *ret, gb_error *err);

/* ---- the network of a session whose policy has NETWORK_ALLOWLIST ---- */

/* Takes rules, ranges and budgets of p for those it has, at once and for what is open, too. NETWORK_NONE: nothing passes any more. Secrets that rules name are those of
 * the session's policy. GB_E_CONFLICT: only a new session could have it. */
int session_network_change(struct session *s, const struct policy *p, gb_error *err);
/* The session's policy with the network that it has now; the caller's. NULL: out of memory. */
struct policy *session_network_policy(struct session *s);
/* What it has sent where since it was opened; the caller's, for free(). network_ledger_to_json() shows it. NULL: the session has another network, or out of memory. */
struct ledger_copy *session_network_ledger(struct session *s);

/* ---- runs ---- */

/* One run of a program that starts afresh and ends. */
struct once_request {
        const struct language *language;
        const char *code_name; /* NULL: the language's own */
        const char *code;
        size_t code_size;
        char *const *args; /* NULL-terminated, may be NULL */
        int stdin_fd;      /* -1: empty */
        int cancel_fd;     /* an eventfd: 1st count interrupts, 2nd kills; -1: none */
        bool keep_output;  /* the result holds stdout and stderr, capped by output_limit */
        bool checked;      /* somebody has looked at the code already */
        bool only_warm;    /* not from the template: not at all */
        bool alone;        /* the only program of this session: it sees itself where one of a box of its own does */
        uint64_t asked_usec; /* CLOCK_MONOTONIC: since when somebody waits; 0: now */
        uint64_t timeout_usec; /* up to the policy's timeout_max; 0: the policy's */
        struct session_callbacks callbacks;
};

/* As run_execute(), in the session's box; Python from its template where that makes no difference. */
int session_run(struct session *s, const struct once_request *request, struct result **ret, gb_error *err);

/* The workspace: see files.h. Not to be used when the session is closed. */
int session_files(struct session *s, struct files *ret, gb_error *err);
/* Whether so much more fits into it, as it is now: GB_E_DISK_FULL. A private one says that itself when it is full, one on the host does not,
 * and reserves it as growth of the session (growth.h). directories: so many more may be made for it, which are only reserved. */
int session_room(struct session *s, uint64_t bytes, uint64_t inodes, uint64_t directories, gb_error *err);

/* The same for each. */
int session_file_write(struct session *s, const char *path, const void *bytes, size_t size, mode_t mode, gb_error *err);
int session_file_read(struct session *s, const char *path, char **ret, size_t *ret_size, gb_error *err);
int session_file_list(struct session *s, const char *path, struct file_list **ret, gb_error *err);
int session_file_remove(struct session *s, const char *path, gb_error *err);
int session_directory_make(struct session *s, const char *path, mode_t mode, gb_error *err);

#endif
