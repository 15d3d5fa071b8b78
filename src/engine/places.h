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

struct places {
        int workspace_fd; /* -1: private */
        int mount_fds[MOUNT_COUNT_MAX]; /* of one that hides files: a mount by itself */
        struct hide hides[MOUNT_COUNT_MAX];
        struct disk_watch disk;
        uint64_t next_usec; /* not walked again before this */
};

void places_init(struct places *p, const struct policy *policy);
void places_done(struct places *p);

/* workspace: a directory of the host, or NULL. What could not be measured is refused. */
int places_open(struct places *p, const struct policy *policy, const char *workspace, gb_error *err);

/* Whether anything has to be looked at. */
bool places_are_watched(const struct places *p);
/* Looks at what was written; true when the run has to end for it, and facts say why. */
bool places_look(struct places *p, struct run_facts *facts);
/* The same, but a tree that takes long to walk is looked at less often. */
bool places_look_if_due(struct places *p, struct run_facts *facts);
/* Adds the amounts written there to the peaks. The peaks are then unknown if the last look did not see all of it. */
void places_add_peaks(const struct places *p, struct run_facts *facts);

#endif
