/* SPDX-License-Identifier: Apache-2.0
 *
 * What of a policy this engine can give, one sentence for each control, and what the agent says of it from inside. */
#include "backend/docker/plan.h"

#include "agent/wire.h"
#include "egress/protocol.h"
#include "kernel/landlock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define RUNTIME_GVISOR "runsc"
#define RUNTIME_KATA "kata"

void controls_say(struct controls *c, enum control_id id, enum control_state state, const char *format, ...)
{
        c->status[id].state = state;

        va_list ap;
        va_start(ap, format);
        vsnprintf(c->status[id].how, sizeof(c->status[id].how), format, ap);
        va_end(ap);
}

static const char *runtime_of(const struct engine *e, const struct policy *policy)
{
        return policy->runtime ? policy->runtime : e->default_runtime;
}

/* "runsc", "runsc-kvm", "io.containerd.runsc.v1" */
static bool is_kind(const char *runtime, const char *kind)
{
        return strstr(runtime, kind) != NULL;
}

bool runtime_is_gvisor(const struct engine *e, const struct policy *policy)
{
        return is_kind(runtime_of(e, policy), RUNTIME_GVISOR);
}

uint64_t container_tasks(const struct engine *e, const struct policy *policy)
{
        uint64_t tasks = policy->pids_limit + AGENT_OWN_TASKS;

        return runtime_is_gvisor(e, policy) ? tasks * GVISOR_TASKS_EACH + GVISOR_TASKS : tasks;
}

static bool writes_on_host(const struct container_request *request)
{
        bool any = request->workspace != NULL;

        for (size_t i = 0; i < request->policy->n_mounts; i++)
                any = any || request->policy->mounts[i].writable;
        return any;
}

static void say_runtime(const struct container_request *request, struct controls *c)
{
        const struct engine *e = request->engine;
        const char *runtime = runtime_of(e, request->policy);

        if (is_kind(runtime, RUNTIME_GVISOR))
                controls_say(c, CONTROL_RUNTIME, CONTROL_ENFORCED, "gVisor: no call of the program reaches the host's kernel");
        else if (is_kind(runtime, RUNTIME_KATA))
                controls_say(c, CONTROL_RUNTIME, CONTROL_ENFORCED, "kata: a virtual machine with a kernel of its own");
        else if (runtime[0] && !is_kind(runtime, "runc"))
                controls_say(c, CONTROL_RUNTIME, CONTROL_WEAKER, "the runtime %s, of which glovebox knows nothing", runtime);
        else if (engine_runc_is_old(e->runc_version) == 1)
                controls_say(c, CONTROL_RUNTIME, CONTROL_WEAKER, "runc %s has known ways out (fixed in 1.2.8, 1.3.3, 1.4.0)", e->runc_version);
        else if (engine_runc_is_old(e->runc_version) < 0)
                controls_say(c, CONTROL_RUNTIME, CONTROL_WEAKER, "the version of runc is not known");
        else
                controls_say(c, CONTROL_RUNTIME, CONTROL_ENFORCED, "runc %s", e->runc_version);
}

static void say_isolation(const struct container_request *request, struct controls *c)
{
        const struct engine *e = request->engine;
        const struct policy *policy = request->policy;
        bool host_network = policy->network_mode == NETWORK_HOST;

        controls_say(c, CONTROL_NAMESPACES, CONTROL_ENFORCED, "%s: mount, pid, ipc, uts%s%s; the engine's user namespace, and none can be made inside", e->name,
                     host_network ? "" : ", net", e->podman ? "" : ", cgroup");
        controls_say(c, CONTROL_IDENTITY, CONTROL_ENFORCED, "uid %u%s", (unsigned)request->uid,
                     e->rootless ? ", one of the caller's own on the host" : ", the same on the host unless the engine maps it");
        controls_say(c, CONTROL_CAPABILITIES, CONTROL_ENFORCED, "none in any set; no new privileges");
        if (runtime_is_gvisor(e, policy))
                controls_say(c, CONTROL_SECCOMP, CONTROL_ENFORCED, "gVisor answers all calls; the allowlist is loaded in it");
        else
                controls_say(c, CONTROL_SECCOMP, e->seccomp ? CONTROL_ENFORCED : CONTROL_OFF, "%s",
                             e->seccomp ? "our profile by the engine, and the exact allowlist by the agent" : "this engine has no seccomp");
        controls_say(c, CONTROL_ROOT, CONTROL_ENFORCED, "%s, from an image, our layer on it", policy->read_only ? "read-only" : "writable where the image lets this user, without a limit of size");
        if (host_network)
                controls_say(c, CONTROL_NETWORK, CONTROL_OFF, "the host's network, as the policy says");
        else if (policy->network_mode == NETWORK_ALLOWLIST)
                controls_say(c, CONTROL_NETWORK, CONTROL_ENFORCED, "own network namespace, no route; the proxy on 127.0.0.1:%d lets pass what %zu rule%s name%s",
                             EGRESS_PORT, policy->n_network_allow, policy->n_network_allow == 1 ? "" : "s", policy->n_network_allow == 1 ? "s" : "");
        else
                controls_say(c, CONTROL_NETWORK, CONTROL_ENFORCED, "own network namespace, loopback only");
        controls_say(c, CONTROL_TIME, CONTROL_ENFORCED, "monotonic clock%s", policy->cpu_time_usec ? "; cpu time of the container" : "");
        bool inodes = !e->podman && !runtime_is_gvisor(e, policy);
        controls_say(c, CONTROL_TMP, CONTROL_ENFORCED, "%s", policy->scratch_only ? "read-only; contains the workspace" : inodes ? "size and inodes of tmpfs" : "size of tmpfs; inodes have no limit of their own there: they count as memory");
        if (writes_on_host(request))
                controls_say(c, CONTROL_WORKSPACE, CONTROL_ENFORCED, "measured every %llu ms, then killed; one file by RLIMIT_FSIZE", SAMPLE_PERIOD_USEC / 1000);
        else
                controls_say(c, CONTROL_WORKSPACE, CONTROL_ENFORCED, "private tmpfs, size%s", inodes ? " and inodes" : "");
        controls_say(c, CONTROL_OUTPUT, CONTROL_ENFORCED, "counted by the reader, then killed");
        controls_say(c, CONTROL_LAYOUT, CONTROL_ENFORCED, "fresh exec");
        controls_say(c, CONTROL_CLEANUP, CONTROL_ENFORCED, "the engine kills and removes the container");
}

static void say_apparmor(const struct container_request *request, const struct container_plan *plan, struct controls *c)
{
        const struct engine *e = request->engine;

        if (plan->apparmor)
                controls_say(c, CONTROL_APPARMOR, CONTROL_ENFORCED, "the profile " CONTAINER_APPARMOR);
        else if (runtime_is_gvisor(e, request->policy))
                controls_say(c, CONTROL_APPARMOR, CONTROL_OFF, "gVisor's kernel has none");
        else if (e->podman)
                controls_say(c, CONTROL_APPARMOR, CONTROL_OFF, "Podman is left to its own profile");
        else if (!e->apparmor)
                controls_say(c, CONTROL_APPARMOR, CONTROL_OFF, "this engine has no AppArmor");
        else
                controls_say(c, CONTROL_APPARMOR, CONTROL_OFF, "the profile is not loaded: apparmor_parser -r -W " GLOVEBOX_DATADIR "/apparmor/" CONTAINER_APPARMOR);
}

static void say_landlock(const struct container_request *request, int abi, struct controls *c)
{
        if (runtime_is_gvisor(request->engine, request->policy))
                controls_say(c, CONTROL_LANDLOCK, CONTROL_ENFORCED, "gVisor has none: its read-only mounts decide");
        else if (abi > 0)
                controls_say(c, CONTROL_LANDLOCK, CONTROL_ENFORCED, "ABI %d", abi);
        else
                controls_say(c, CONTROL_LANDLOCK, CONTROL_OFF, "this kernel has no Landlock");
}

static void say_limits(const struct engine *e, const struct policy *policy, struct controls *c)
{
        const char *cgroup = e->cgroup_v2 ? "cgroup v2" : "cgroup v1";

        if (e->memory && e->swap)
                controls_say(c, CONTROL_MEMORY, CONTROL_ENFORCED, "engine %s %s: Memory=MemorySwap, %s", e->name, e->version, cgroup);
        else if (e->memory)
                controls_say(c, CONTROL_MEMORY, CONTROL_WEAKER, "engine %s %s: %s, but it cannot limit swap", e->name, e->version, cgroup);
        else
                controls_say(c, CONTROL_MEMORY, CONTROL_OFF, "engine %s %s cannot limit memory here", e->name, e->version);
        if (e->pids && runtime_is_gvisor(e, policy))
                controls_say(c, CONTROL_PIDS, CONTROL_WEAKER, "%s: %llu tasks of gVisor on the host, some five for each one inside; then the container dies", cgroup,
                             (unsigned long long)container_tasks(e, policy));
        else if (e->pids)
                controls_say(c, CONTROL_PIDS, CONTROL_ENFORCED, "%s, %llu; the agent's %d tasks are not counted", cgroup, (unsigned long long)policy->pids_limit, AGENT_OWN_TASKS);
        else
                controls_say(c, CONTROL_PIDS, CONTROL_OFF, "engine %s %s cannot limit them here", e->name, e->version);
        if (e->cpu)
                controls_say(c, CONTROL_CPU, CONTROL_ENFORCED, "%s quota", cgroup);
        else
                controls_say(c, CONTROL_CPU, CONTROL_OFF, "engine %s %s cannot limit it here", e->name, e->version);
}

static const char *remedy(enum control_id id)
{
        switch (id) {
        case CONTROL_RUNTIME:
                return "update runc, or use a stronger runtime (runtime: runsc)";
        case CONTROL_MEMORY:
        case CONTROL_PIDS:
        case CONTROL_CPU:
                return "give the engine that cgroup controller";
        default:
                return "use a kernel and an engine that have it";
        }
}

int controls_check(const struct engine *e, const struct policy *policy, const struct controls *c, gb_error *err)
{
        for (int id = 0; id < CONTROL_COUNT; id++) {
                const struct control_status *s = &c->status[id];
                if (s->state == CONTROL_ENFORCED || control_is_extra((enum control_id)id) || (id == CONTROL_NETWORK && policy->network_mode == NETWORK_HOST))
                        continue;
                if (control_may_be_weaker(id) && policy->allow_weaker & (1U << id))
                        continue;
                return error_set(err, GB_E_UNENFORCEABLE, ENOTSUP, "%s cannot enforce the control \"%s\" (%s): %s%s%s", e->name, control_name(id), s->how,
                                 remedy(id), control_may_be_weaker(id) ? "; or accept the weaker one with --allow-weaker " : "",
                                 control_may_be_weaker(id) ? control_name(id) : "");
        }
        return 0;
}

int container_controls(const struct container_request *request, const struct container_plan *plan, struct controls *ret, gb_error *err)
{
        const char *runtime = request->policy->runtime;

        *ret = (struct controls){0};
        if (runtime && !engine_has_runtime(request->engine, runtime))
                return error_set(err, GB_E_UNENFORCEABLE, ENOTSUP, "%s %s has no runtime \"%s\"%s", request->engine->name, request->engine->version, runtime,
                                 request->engine->podman ? " of a container's choice: start its service with --runtime" :
                                                           ": add it to \"runtimes\" in /etc/docker/daemon.json");
        say_isolation(request, ret);
        say_landlock(request, landlock_abi(), ret);
        say_limits(request->engine, request->policy, ret);
        say_runtime(request, ret);
        say_apparmor(request, plan, ret);
        return controls_check(request->engine, request->policy, ret, err);
}

/* ---- what the agent sees ---- */

static int unlike(const struct container_request *request, const char *what, gb_error *err)
{
        return error_set(err, GB_E_UNENFORCEABLE, ENOTSUP, "%s %s started a container that is weaker than asked, seen from inside: %s", request->engine->name,
                         request->engine->version, what);
}

static int check_runtime(const struct container_request *request, const struct wire_hello *hello, gb_error *err)
{
        const char *runtime = runtime_of(request->engine, request->policy);
        struct utsname host;

        if (is_kind(runtime, RUNTIME_GVISOR) && hello->is_gvisor != 1)
                return unlike(request, "the runtime is gVisor, but the kernel is not gVisor's", err);
        if (is_kind(runtime, RUNTIME_KATA) && uname(&host) == 0 && strncmp(host.release, hello->release, sizeof(hello->release)) == 0)
                return unlike(request, "the runtime is kata, but the kernel is the host's", err);
        return 0;
}

/* "glovebox-container (enforce)" */
static bool is_profile(const char text[static sizeof(((struct wire_hello *)NULL)->apparmor)])
{
        static const char wanted[] = CONTAINER_APPARMOR " (enforce)";

        return strncmp(text, wanted, strlen(wanted)) == 0;
}

int container_check_hello(const struct container_request *request, const struct wire_hello *hello, struct controls *controls, gb_error *err)
{
        bool gvisor = runtime_is_gvisor(request->engine, request->policy);
        const char *what = NULL;

        if (hello->version != WIRE_VERSION)
                return error_set(err, GB_E_INTERNAL, EPROTO, "the agent in the container speaks another version (%u, not %u)", hello->version, WIRE_VERSION);
        if (hello->uid != request->uid || hello->gid != request->gid)
                what = "its user is another";
        else if (hello->capabilities != 0)
                what = "it has capabilities";
        else if (hello->no_new_privs != 1)
                what = "it may get new privileges";
        else if (hello->seccomp != 2 && !gvisor)
                what = "it has no system call filter";
        else if (hello->pid != 1)
                what = "it has no pid namespace of its own";
        else if (hello->interfaces != 0 && request->policy->network_mode != NETWORK_HOST)
                what = "it has network interfaces";
        else if (hello->root_writable && request->policy->read_only)
                what = "its root can be written to";
        else if (controls->status[CONTROL_APPARMOR].state == CONTROL_ENFORCED && !is_profile(hello->apparmor))
                what = "it is not under the AppArmor profile " CONTAINER_APPARMOR;
        if (what)
                return unlike(request, what, err);
        int r = check_runtime(request, hello, err);
        if (r < 0)
                return r;
        say_landlock(request, (int)MIN(hello->landlock_abi, 1000U), controls);
        return controls_check(request->engine, request->policy, controls, err);
}
