/* SPDX-License-Identifier: Apache-2.0
 *
 * Admission: what this host can enforce, against what the policy asks for. Fails closed. */
#ifndef NATIVE_ADMIT_H
#define NATIVE_ADMIT_H

#include "backend/backend.h"
#include "kernel/apparmor.h"
#include "kernel/cgroup.h"
#include "warden/protocol.h"

/* What the host offers, probed once. */
struct native_host {
        struct cgroup_host cgroup;
        int landlock_abi;
        bool seccomp;
        enum apparmor_state apparmor; /* of the profile for programs */
        bool host_root;      /* boxes get uids of their own */
        bool counts_per_box; /* RLIMIT_NPROC counts per user namespace (Linux 5.14) */
};

/* What this host lacks is 0 in *ret. Fails only when this process lacks memory or descriptors to look. */
int native_host_probe(struct native_host *ret, bool may_change);
/* Says so. */
int native_host_fail(int r, gb_error *err);
/* Probes it once and for all: for a process that will not be able to any more. */
int native_host_hold(void);
void native_host_done(struct native_host *h);

/* Fills the controls and the limits of spec; refuses what the policy does not allow to be weaker. */
int native_admit(const struct native_host *host, const struct box_request *request, struct box_spec *spec,
                 struct controls *ret, gb_error *err);

#endif
