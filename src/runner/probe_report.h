/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside glovebox-probe: the attacks, and what they say with. */
#ifndef RUNNER_PROBE_REPORT_H
#define RUNNER_PROBE_REPORT_H

#include "base/macro.h"
#include "runner/probe.h"

#include <stdbool.h>
#include <stddef.h>

/* A process with a higher number is in no pid namespace of its own. */
#define PID_INSIDE_MAX 100

extern char **probe_arguments; /* by enum probe_argument */

/* One attempt: it was held, or is open. */
void probe_report(bool held, const char *format, ...) _printf_(2, 3);
/* For a call that must fail; r is what it returned. */
void probe_refused(const char *what, long r);
/* The probe cannot tell: that is no pass. */
void probe_unsure(const char *what);
/* A line that is no attempt. */
void probe_tell(const char *kind, const char *format, ...) _printf_(2, 3);

bool probe_read_text(const char *path, char *buf, size_t size);
/* The value of a line "key:\tvalue" of /proc/self/status; NULL when it is not there. */
const char *probe_status_value(const char *text, const char *key);
/* Opens each of them, and is refused. */
void probe_opens(const char *const *paths, size_t n, int flags);
bool probe_count_processes(unsigned *ret);
/* True also when that cannot be told. */
bool probe_is_host_root(void);

/* Runs this program again, as `path`, for the part of a probe that needs an exec. True when the
 * child ended well; its lines are printed by itself, and `tried` of them count. */
bool probe_run_again(const char *path, const char *part, unsigned tried);

#define PROBE_DECLARE(function, name, catalogue, tries) void probe_##function(void);
PROBES(PROBE_DECLARE)
#undef PROBE_DECLARE
/* Parts that probe_filter() and probe_setuid() run by probe_run_again(). */
void probe_exec(void);
void probe_gain(void);

#endif
