/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/admit.h"

#include "kernel/landlock.h"
#include "kernel/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#define FILE_SLACK_BYTES (4 * MIB)

static bool kernel_at_least(int major, int minor)
{
        struct utsname u;
        int a = 0, b = 0;

        if (uname(&u) < 0 || sscanf(u.release, "%d.%d", &a, &b) != 2)
                return false;
        return a > major || (a == major && b >= minor);
}

static struct native_host held;
static bool is_held;

int native_host_hold(void)
{
        int r = native_host_probe(&held, true);

        is_held = r == 0;
        return r;
}

/* The same descriptors, once more. One that lacks would be a limit that lacks. */
static int copy_held(struct native_host *ret)
{
        int r = 0;

        *ret = held;
        for (int i = 0; i < CGROUP_KIND_COUNT; i++) {
                ret->cgroup.parent[i] = held.cgroup.parent[i] < 0 ? -1 : fcntl(held.cgroup.parent[i], F_DUPFD_CLOEXEC, 3);
                if (held.cgroup.parent[i] >= 0 && ret->cgroup.parent[i] < 0)
                        r = -errno;
        }
        if (r < 0)
                native_host_done(ret);
        return r;
}

int native_host_probe(struct native_host *ret, bool may_change)
{
        if (is_held)
                return copy_held(ret);
        *ret = (struct native_host){
                .landlock_abi = landlock_abi(),
                .seccomp = prctl(PR_GET_SECCOMP) >= 0,
                .apparmor = apparmor_look(),
                .host_root = privilege_is_host_root(),
                .counts_per_box = kernel_at_least(5, 14),
        };
        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++)
                ret->cgroup.parent[kind] = -1;
        int r = cgroup_find(may_change, &ret->cgroup);
        if (r != -ENOMEM && r != -EMFILE && r != -ENFILE)
                return 0; /* no cgroup is a fact, too: why_not has the reason */
        native_host_done(ret);
        return r;
}

int native_host_fail(int r, gb_error *err)
{
        return error_set(err, GB_E_UNAVAILABLE, -r, "cannot look at what this host can enforce: %s", strerror(-r));
}

void native_host_done(struct native_host *h)
{
        cgroup_host_done(&h->cgroup);
}

static void _printf_(4, 5) say(struct controls *c, enum control_id id, enum control_state state, const char *format, ...)
{
        c->status[id].state = state;

        va_list ap;
        va_start(ap, format);
        vsnprintf(c->status[id].how, sizeof(c->status[id].how), format, ap);
        va_end(ap);
}

/* Some place it can write to is a directory of the host. */
static bool writes_on_host(const struct box_request *request)
{
        bool any = request->workspace_fd >= 0;

        for (size_t i = 0; i < request->policy->n_mounts; i++)
                any = any || request->policy->mounts[i].writable;
        return any;
}

static void say_apparmor(const struct native_host *h, struct controls *c)
{
        switch (h->apparmor) {
        case APPARMOR_READY:
                say(c, CONTROL_APPARMOR, CONTROL_ENFORCED, "the profile " APPARMOR_NATIVE);
                break;
        case APPARMOR_NOT_LOADED:
                say(c, CONTROL_APPARMOR, CONTROL_OFF, "the profile is not loaded: apparmor_parser -r -W " GLOVEBOX_DATADIR "/apparmor/" APPARMOR_NATIVE);
                break;
        case APPARMOR_REFUSED:
                say(c, CONTROL_APPARMOR, CONTROL_OFF, "glovebox is confined itself, by a profile that does not let it change to " APPARMOR_NATIVE);
                break;
        case APPARMOR_ABSENT:
                say(c, CONTROL_APPARMOR, CONTROL_OFF, "this kernel has no AppArmor");
                break;
        }
}

static void say_isolation(const struct native_host *h, const struct box_request *request, struct controls *c)
{
        enum network_mode network = request->policy->network_mode;
        bool host_network = network == NETWORK_HOST;

        say(c, CONTROL_NAMESPACES, CONTROL_ENFORCED, "own user, mount, pid, ipc, uts, cgroup%s", host_network ? "" : ", net");
        if (h->host_root)
                say(c, CONTROL_IDENTITY, CONTROL_ENFORCED, "a host uid of its own, shown as %u; files by idmapped mounts", request->uid);
        else
                say(c, CONTROL_IDENTITY, CONTROL_ENFORCED, "the caller's uid %u, shown as %u", (unsigned)geteuid(), request->uid);
        say(c, CONTROL_CAPABILITIES, CONTROL_ENFORCED, "none in any set; no new privileges");
        say(c, CONTROL_SECCOMP, h->seccomp ? CONTROL_ENFORCED : CONTROL_OFF, h->seccomp ? "allowlist, architecture checked"
                                                                                       : "this kernel has no seccomp");
        if (h->landlock_abi > 0)
                say(c, CONTROL_LANDLOCK, CONTROL_ENFORCED, "ABI %d", h->landlock_abi);
        else
                say(c, CONTROL_LANDLOCK, CONTROL_OFF, "this kernel has no Landlock");
        say_apparmor(h, c);
        say(c, CONTROL_ROOT, CONTROL_ENFORCED, "%s, from %s", request->policy->read_only ? "read-only" : "private, writable",
            request->rootfs ? "an image" : "the host's /usr");
        if (host_network)
                say(c, CONTROL_NETWORK, CONTROL_OFF, "the host's network, as the policy says");
        else if (network == NETWORK_ALLOWLIST)
                say(c, CONTROL_NETWORK, CONTROL_ENFORCED, "own network namespace, no route; the proxy on 127.0.0.1:%d lets pass what %zu rule%s name%s", BOX_EGRESS_PORT,
                    request->policy->n_network_allow, request->policy->n_network_allow == 1 ? "" : "s", request->policy->n_network_allow == 1 ? "s" : "");
        else
                say(c, CONTROL_NETWORK, CONTROL_ENFORCED, "own network namespace, loopback only");
        say(c, CONTROL_TIME, CONTROL_ENFORCED, "monotonic clock%s", request->policy->cpu_time_usec ? "; cpu time of the cgroup" : "");
        say(c, CONTROL_TMP, CONTROL_ENFORCED, request->policy->scratch_only ? "read-only; contains the workspace" : "size and inodes of tmpfs");
        if (writes_on_host(request))
                say(c, CONTROL_WORKSPACE, CONTROL_ENFORCED, "measured every %llu ms, then killed; one file by RLIMIT_FSIZE",
                    SAMPLE_PERIOD_USEC / 1000);
        else
                say(c, CONTROL_WORKSPACE, CONTROL_ENFORCED, "private tmpfs, size and inodes");
        say(c, CONTROL_OUTPUT, CONTROL_ENFORCED, "counted by the reader, then killed");
        say(c, CONTROL_LAYOUT, CONTROL_ENFORCED, "fresh exec");
        say(c, CONTROL_RUNTIME, CONTROL_ENFORCED, "no engine: native");
        say(c, CONTROL_CLEANUP, CONTROL_ENFORCED, "death of the pid namespace%s",
            h->cgroup.parent[CGROUP_UNIFIED] >= 0 ? " and cgroup.kill" : "");
}

static void say_memory(const struct native_host *h, const struct policy *policy, struct box_spec *spec, struct controls *c)
{
        const char *mode = cgroup_mode_name(h->cgroup.mode);

        if (h->cgroup.memory && h->cgroup.swap) {
                spec->cgroup.memory_bytes = policy->mem_limit_bytes;
                say(c, CONTROL_MEMORY, CONTROL_ENFORCED, "cgroup %s, no swap", mode);
        } else if (h->cgroup.memory) {
                spec->cgroup.memory_bytes = policy->mem_limit_bytes;
                say(c, CONTROL_MEMORY, CONTROL_WEAKER, "cgroup %s, but swap cannot be limited", mode);
        } else {
                spec->address_bytes = policy->mem_limit_bytes;
                say(c, CONTROL_MEMORY, CONTROL_WEAKER, "rlimit only: the address space of each process, not their sum (node and java reserve much of it)");
        }
}

static void say_tasks_and_cpu(const struct native_host *h, const struct policy *policy, struct box_spec *spec,
                              struct controls *c)
{
        const char *mode = cgroup_mode_name(h->cgroup.mode);

        if (h->cgroup.pids) {
                spec->cgroup.pids = policy->pids_limit;
                say(c, CONTROL_PIDS, CONTROL_ENFORCED, "cgroup %s", mode);
        } else {
                spec->processes = policy->pids_limit + 1; /* init is one of them */
                say(c, CONTROL_PIDS, h->counts_per_box ? CONTROL_ENFORCED : CONTROL_WEAKER, "RLIMIT_NPROC %s",
                    h->counts_per_box ? "of the box's user namespace" : "of the caller, other processes of his counted too");
        }
        if (h->cgroup.cpu) {
                spec->cgroup.cpu_milli = policy->cpu_milli;
                say(c, CONTROL_CPU, CONTROL_ENFORCED, "cgroup %s quota", mode);
        } else {
                spec->cpus = (uint32_t)((policy->cpu_milli + 999) / 1000);
                say(c, CONTROL_CPU, policy->cpu_milli % 1000 == 0 ? CONTROL_ENFORCED : CONTROL_WEAKER,
                    "affinity to %u whole processor%s", spec->cpus, spec->cpus == 1 ? "" : "s");
        }
}

static int check_controls(const struct native_host *h, const struct policy *policy, const struct controls *c, gb_error *err)
{
        for (int id = 0; id < CONTROL_COUNT; id++) {
                const struct control_status *s = &c->status[id];
                if (s->state == CONTROL_ENFORCED || control_is_extra((enum control_id)id) || (id == CONTROL_NETWORK && policy->network_mode == NETWORK_HOST))
                        continue;
                if (control_may_be_weaker(id) && policy->allow_weaker & (1U << id))
                        continue;
                bool cgroup = id == CONTROL_MEMORY || id == CONTROL_PIDS || id == CONTROL_CPU;
                return error_set(err, GB_E_UNENFORCEABLE, ENOTSUP, "this host cannot enforce the control \"%s\" (%s): %s%s%s",
                                 control_name(id), s->how, cgroup ? h->cgroup.why_not : "use a kernel that has it",
                                 control_may_be_weaker(id) ? "; or accept the weaker one with --allow-weaker " : "",
                                 control_may_be_weaker(id) ? control_name(id) : "");
        }
        bool counts_cpu = h->cgroup.parent[CGROUP_CPUACCT] >= 0 || h->cgroup.parent[CGROUP_UNIFIED] >= 0;
        if (policy->cpu_time_usec > 0 && !counts_cpu)
                return error_set(err, GB_E_UNENFORCEABLE, ENOTSUP, "a cpu_time limit needs a cgroup: %s", h->cgroup.why_not);
        return 0;
}

int native_admit(const struct native_host *host, const struct box_request *request, struct box_spec *spec,
                 struct controls *ret, gb_error *err)
{
        const struct policy *policy = request->policy;

        say_isolation(host, request, ret);
        say_memory(host, policy, spec, ret);
        say_tasks_and_cpu(host, policy, spec, ret);
        int r = check_controls(host, policy, ret, err);
        if (r < 0)
                return r;

        spec->uid = request->uid;
        spec->gid = request->gid;
        spec->wall_usec = policy->timeout_usec;
        spec->cpu_time_usec = policy->cpu_time_usec;
        spec->nofile = policy->nofile;
        /* A little more than the limit, so that the measuring sees it passed. */
        spec->file_bytes = writes_on_host(request) ? policy->disk_limit_bytes + FILE_SLACK_BYTES : 0;
        spec->disk_bytes = policy->disk_limit_bytes;
        spec->flags = (policy->network_mode == NETWORK_HOST ? BOX_NETWORK_HOST : 0) |
                      (policy->read_only ? 0 : BOX_ROOT_WRITABLE) |
                      (host->cgroup.unified_controllers ? BOX_UNIFIED_CONTROLLERS : 0) |
                      (host->landlock_abi > 0 ? BOX_LANDLOCK : 0) |
                      (host->apparmor == APPARMOR_READY ? BOX_APPARMOR : 0);
        return 0;
}
