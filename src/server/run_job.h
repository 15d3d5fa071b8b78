/* SPDX-License-Identifier: Apache-2.0
 *
 * One run of the API, from the request that was read to its end in the journal. run_job.c says how. */
#ifndef SERVER_RUN_JOB_H
#define SERVER_RUN_JOB_H

#include "base/utf8.h"
#include "server/live.h"

/* What is to be run. Texts are borrowed from the body. */
struct run_order {
        json_t *body; /* ours alone: another thread may free it */
        const struct language *language;
        const char *code, *name; /* name NULL: the language's */
        size_t code_size;
        char **args;   /* NULL: none; the array is ours */
        int stdin_fd;  /* -1: empty */
        bool interactive, detach, cancel_on_disconnect, last;
        uint64_t timeout_usec; /* 0: the policy's */

        /* A run in a box of its own */
        struct policy *policy;
        const struct template *template;
        const char *workspace;  /* directory of the host; NULL: private */
        const json_t *files;    /* NULL: none; their paths are good */

        /* A run in a session */
        bool fresh;             /* in no context */
        const char *context;    /* which; NULL: the default one */
};

void run_order_done(struct run_order *o);

struct run_job {
        struct server *server;
        struct live_run *run;         /* a reference */
        struct live_session *session; /* a reference */
        struct context *context;      /* taken from the session; NULL: a fresh program */
        struct run_order order;
        int input_fd; /* the engine's end of an interactive run's standard input */
        struct journal_run record; /* as it was begun, and then as it has ended */
        bool in_session;  /* not a box of its own */
        bool keep_result; /* somebody waits for it */

        /* While it runs */
        struct utf8_splitter splitters[2];
        uint64_t last_usec[2];
        bool started;   /* code of its runs, or has run */
        bool is_unkept; /* the journal did not take something: it is lost */
        gb_error unkept;

        /* The end: what a waiting client is told */
        json_t *result; /* whole; NULL: there is none, or nobody waits */
        int status;     /* 0, or a negative errno with the error: nothing was run, it is lost, or it is not written */
        gb_error error;
};

/* What is the same of all its forms: place in the quota, id. The order is taken (also when this fails). session NULL: a box of its own. */
int run_job_new(struct server *server, const struct caller *caller, struct live_session *session, struct run_order *order, struct run_job **ret,
                gb_error *err);
/* Writes it down: as journal_run_begin(). Must be followed by run_job_execute() when it returned 0. */
int run_job_begin(struct run_job *job, const struct caller *caller, const struct journal_key *key, char ret_id[static JOURNAL_ID_MAX], gb_error *err);
/* Runs it to its end; then the journal has all of it. */
void run_job_execute(struct run_job *job);
/* For one that was begun and that nobody can execute. */
void run_job_fail(struct run_job *job, const gb_error *err);
/* Takes NULL. One that was never begun leaves nothing. */
void run_job_free(struct run_job *job);
DEFINE_CLEANUP(struct run_job, run_job_free)
#define _cleanup_run_job_ _cleanup_(run_job_free_ptr)

#endif
