/* SPDX-License-Identifier: Apache-2.0
 *
 * What this host offers to boxes, for people: `glovebox doctor` shows it. Nothing here decides
 * about a run (that is the backend's admission), and nothing is changed on the host. */
#ifndef CLI_HOST_H
#define CLI_HOST_H

#include <stdbool.h>
#include <stddef.h>

enum host_state {
        HOST_OK,
        HOST_WEAKER,  /* there, but less than it could be */
        HOST_MISSING,
        HOST_INFO,    /* neither good nor bad */
};

#define HOST_FINDINGS_MAX 48

struct host_finding {
        const char *name;
        enum host_state state;
        bool required; /* without it no box can be made */
        char found[256];
        char means[256];  /* why it matters, or what follows from what was found */
        char remedy[320]; /* empty when there is nothing to do */
};

struct host_report {
        struct host_finding findings[HOST_FINDINGS_MAX];
        size_t n;
};

/* Runs all checks, in about 50 ms; a container engine that does not answer costs five seconds. */
void host_examine(struct host_report *ret);

const char *host_state_name(enum host_state state);

/* Inside this module: one row of a table of checks. The function fills `found` and what differs
 * from the row. */
struct host_check {
        const char *name;
        const char *means;
        void (*run)(struct host_finding *f);
        bool required;
};

extern const struct host_check host_kernel_checks[], host_service_checks[];
extern const size_t n_host_kernel_checks, n_host_service_checks;

/* Those of a container engine: as many as there is something to say about. */
void host_examine_engine(struct host_report *ret);

/* Each sets the state and the text found; then what is to be done, or what it means here. */
void host_found(struct host_finding *f, enum host_state state, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
void host_remedy(struct host_finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
void host_means(struct host_finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
