/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside `glovebox verify`: its rows and how they are judged. */
#ifndef CLI_VERIFY_H
#define CLI_VERIFY_H

#include "base/macro.h"
#include "cli/verify_host.h"
#include "engine/result.h"
#include "runner/probe.h"

#define VERIFY_PIDS_LIMIT 32

enum outcome { OUTCOME_FAIL, OUTCOME_PASS, OUTCOME_WEAKER };

struct row {
        const char *name, *tries;
        int catalogue;
        enum outcome outcome;
        unsigned attempts;
        char happened[512];
};

/* The probes, and one that only the host can make. */
#define ROW_CGROUPS PROBE_COUNT
#define ROW_COUNT (PROBE_COUNT + 1)

struct verify {
        struct verify_host host;
        char *probe_path;
        uint32_t allow_weaker;
        int cancel_fd;
        struct row rows[ROW_COUNT];
        /* What was seen while the survivors probe ran. */
        int seen_alive;
        char cgroup[VERIFY_CGROUP_MAX];
};

/* What one box did. */
struct trial {
        struct verify *v;
        struct policy *policy;
        struct result *result;
        uint64_t took_usec;
        unsigned held, open, done;
        bool ran, ended;
        char first_open[256], note[256];
};

void judge(struct row *row, enum outcome outcome, const char *format, ...) _printf_(3, 4);

/* Fills what the program said about itself, from the result. */
void trial_read(struct trial *t);

/* Each decides about one row, from what the program said and what the host sees. */
typedef void judge_function(struct trial *t, struct row *row);
judge_function judge_report, judge_workspace, judge_network, judge_bystander, judge_memory, judge_forks, judge_disk,
        judge_output, judge_loop, judge_survivor;

#endif
