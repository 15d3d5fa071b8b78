/* SPDX-License-Identifier: Apache-2.0
 *
 * The places of the host that a box gets: the workspace and the policy's mounts, opened once, so
 * that what is mounted is what is watched. */
#ifndef ENGINE_PLACES_H
#define ENGINE_PLACES_H

#include "base/error.h"
#include "engine/disk.h"
#include "engine/verdict.h"
#include "hide/hide.h"
#include "policy/policy.h"

/* Of bytes, or of inodes, since the session began. */
struct growth_credit {
        uint64_t unexplained; /* growth that the code has not made */
        uint64_t since_mark;  /* the part of it from after the mark */
        uint64_t reserved;    /* by the API */
        uint64_t given;       /* to the host */
};

/* What was there when the code was last known to have written nothing more (growth.h). */
struct growth_mark {
        uint64_t bytes, held_bytes, inodes;
        bool is_whole; /* nothing of the code was hidden from that look */
        struct disk_time time; /* files born before this are older. Counts at the mark, of files born in the same tick or later: */
        uint64_t tick_bytes, tick_inodes, new_bytes, new_inodes;
        uint64_t tick_usec;    /* processor time of that tick not seen by the walk */
        uint64_t ahead_bytes;  /* space reserved beyond file sizes that the code cannot have written */
        uint64_t judged_bytes; /* bytes at the last judgement */
        uint64_t next_usec;    /* no judgement before this time */
        uint64_t cpu_usec, cpu_before_usec; /* of the session: at the mark, and at the last one before its tick */
        bool cpu_known, code_ran;
        struct growth_credit bytes_credit, inodes_credit;
};

struct places {
        int workspace_fd; /* -1: private */
        int mount_fds[MOUNT_COUNT_MAX]; /* of one that hides files: a mount by itself */
        struct hide hides[MOUNT_COUNT_MAX];
        struct disk_watch disk;
        struct growth_mark mark;
        uint64_t next_usec; /* not walked again before this */
};

void places_init(struct places *p, const struct policy *policy);
void places_done(struct places *p);
/* Before the box is ended: what waits for an answer of such a mount cannot be killed, and an end of what serves it is one. */
void places_end_hides(struct places *p);

/* workspace: a directory of the host, or NULL. What could not be measured is refused. */
int places_open(struct places *p, const struct policy *policy, const char *workspace, gb_error *err);

/* Whether anything has to be looked at. */
bool places_are_watched(const struct places *p);
/* Looks at what was written; true when the run has to end for it, and facts say why. */
bool places_look(struct places *p, struct run_facts *facts);
/* Whether it is time for a look: a tree that takes long to walk is looked at less often. */
bool places_are_due(struct places *p);
/* A look, if it is time for one. */
bool places_look_if_due(struct places *p, struct run_facts *facts);
/* Adds the amounts written there to the peaks. The peaks are then unknown if the last look did not see all of it. */
void places_add_peaks(const struct places *p, struct run_facts *facts);

#endif
