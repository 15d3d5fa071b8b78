/* SPDX-License-Identifier: Apache-2.0
 *
 * One run: code and policy in, events while it lasts, a result at the end. */
#ifndef ENGINE_RUN_H
#define ENGINE_RUN_H

#include "engine/result.h"
#include "policy/language.h"
#include "policy/policy.h"
#include "policy/template.h"

#include <stddef.h>
#include <sys/types.h>

enum run_stream { RUN_STDOUT, RUN_STDERR };

/* Called while the run lasts, from inside run_execute(). t_usec counts from the call of that. */
struct run_callbacks {
        void (*started)(void *data, uint64_t t_usec);
        /* Bytes as they came; every byte is given once, in order within its stream. */
        void (*output)(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec);
        void *data;
};

struct run_request {
        const struct policy *policy;
        const struct language *language;
        const char *code_name; /* file name inside the box; NULL: the language's own */
        const char *code;
        size_t code_size;
        char *const *args; /* NULL-terminated, may be NULL */
        const char *workspace; /* host directory, or NULL: a private one that goes with the run */
        const char *rootfs;    /* image root directory, or NULL: the host's /usr */
        const struct template *template; /* Python comes from this one, if somebody keeps it warm and it makes no difference to the
                                          * program; the control "layout" tells. NULL: a fresh exec */
        const struct languages *languages; /* goes with a template: what Python needs of /etc; NULL: nothing */
        uid_t uid;             /* identity inside the box */
        gid_t gid;
        int stdin_fd;          /* -1: empty */
        int cancel_fd;         /* an eventfd: 1st count interrupts, 2nd kills; -1: none */
        bool keep_output;      /* the result holds stdout and stderr, capped by output_limit */
        struct run_callbacks callbacks;
};

/* Runs to the end. Returns 0 with a result for everything that happened to the code (also
 * timeouts and failures of the program); a negative errno and err when nothing was run. */
int run_execute(const struct run_request *request, struct result **ret, gb_error *err);

/* Starts what a run will need (who reads the code; with a box of its own: the warden) early, so that it comes up while the caller still
 * reads its files. Optional; a second call does nothing. */
void run_prepare(bool box);
/* Ends what run_prepare() has started and no run has taken. */
void run_forget(void);

#endif
