/* SPDX-License-Identifier: Apache-2.0
 *
 * The body that a container is made with. Each value here has its row in inspect.c, which looks at what the engine made of it. */
#include "backend/docker/plan.h"

#include "agent/wire.h"
#include "base/buffer.h"
#include "base/json.h"
#include "policy/place.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define PATH_VARIABLE "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Podman raises it by itself, to what the host may not allow, unless it is named. It counts the uid on the whole host, so it is no limit of a container:
 * what this process has is taken. */
static uint64_t processes_max(void)
{
        struct rlimit l;

        return getrlimit(RLIMIT_NPROC, &l) < 0 ? CONTAINER_NPROC_MAX : MIN((uint64_t)l.rlim_max, (uint64_t)CONTAINER_NPROC_MAX);
}

/* The agent has descriptors for all programs together. And the kernel measures who passes one on by this limit, against all that the user has under way
 * anywhere on the host: the agent must be above what code can put there, in this container or another. */
static uint64_t descriptors_max(const struct policy *policy)
{
        struct rlimit l;
        uint64_t most = getrlimit(RLIMIT_NOFILE, &l) < 0 ? CONTAINER_NOFILE_MIN : MIN((uint64_t)l.rlim_max, (uint64_t)CONTAINER_NOFILE_MIN);

        return MAX(policy->nofile, most);
}

/* As a native box has them. */
static json_t *ulimits(const struct engine *e, const struct policy *policy)
{
        const struct {
                const char *name;
                uint64_t value;
        } rows[] = {
                {"core", 1}, /* 0 would still start a piped crash handler on the host */
                {"nofile", descriptors_max(policy)},
                {"memlock", 64 * KIB},
                {"msgqueue", 0},
                {"rtprio", 0},
                {"nice", 0},
                {"sigpending", 1024},
                {"nproc", processes_max()}, /* the last: Podman only */
        };
        json_t *list = json_array();

        for (size_t i = 0; i < ARRAY_SIZE(rows) - !e->podman; i++)
                json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "Name", rows[i].name, "Soft", (json_int_t)rows[i].value, "Hard",
                                                      (json_int_t)rows[i].value));
        return list;
}

/* By "Mounts", never by "Binds": an engine makes the missing source of those, as root. Without what is mounted below the source: "read-only" would not
 * hold for that. */
static json_t *binds(const struct container_plan *plan)
{
        json_t *list = json_array();

        for (size_t i = 0; i < plan->n_binds; i++) {
                json_t *o = json_pack("{s:s, s:s, s:s, s:{s:s, s:b}}", "Type", "bind", "Source", plan->binds[i].source, "Target", plan->binds[i].target,
                                      "BindOptions", "Propagation", "rprivate", "NonRecursive", 1);
                if (!plan->binds[i].writable)
                        json_object_set_new(o, "ReadOnly", json_true());
                json_array_append_new(list, o);
        }
        return list;
}

static json_t *tmpfs(const struct container_plan *plan)
{
        json_t *o = json_object();

        for (size_t i = 0; i < plan->n_tmpfs; i++)
                json_object_set_new(o, plan->tmpfs[i].path, json_string(plan->tmpfs[i].options));
        return o;
}

/* A native box shows only processes in /proc and has no /sys. Masks every other entry that users other than root can
 * open, except five that tools need and whose data system calls return as well: cpuinfo, loadavg, meminfo, uptime
 * and version. */
static const char *const masked[] = {
        "/dev/mqueue", "/proc/acpi", "/proc/asound", "/proc/bootconfig", "/proc/buddyinfo", "/proc/bus",
        "/proc/cgroups", "/proc/cmdline", "/proc/config.gz", "/proc/consoles", "/proc/crypto", "/proc/device-tree",
        "/proc/devices", "/proc/diskstats", "/proc/dma", "/proc/driver", "/proc/dynamic_debug", "/proc/execdomains",
        "/proc/fb", "/proc/filesystems", "/proc/fs", "/proc/interrupts", "/proc/iomem", "/proc/ioports", "/proc/irq",
        "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/latency_stats", "/proc/lock_stat",
        "/proc/lockdep", "/proc/lockdep_chains", "/proc/lockdep_stats", "/proc/locks", "/proc/mdstat", "/proc/misc",
        "/proc/modules", "/proc/mtrr", "/proc/partitions", "/proc/pressure", "/proc/profile", "/proc/sched_debug",
        "/proc/schedstat", "/proc/scsi", "/proc/softirqs", "/proc/spl", "/proc/stat", "/proc/swaps", "/proc/sys",
        "/proc/sysrq-trigger", "/proc/sysvipc", "/proc/timer_list", "/proc/timer_stats", "/proc/tty",
        "/proc/version_signature", "/proc/vmstat", "/proc/xen", "/proc/zoneinfo", "/sys",
};
static const char *const read_only[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"};

/* Podman has no field for the list, but an option with colons between. */
static json_t *mask_option(bool host_network)
{
        _cleanup_buffer_ struct buffer text;
        int r = 0;

        buffer_init(&text, sizeof(masked) * 32);
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(masked); i++) {
                r = buffer_add_string(&text, i == 0 ? MASK_OPTION : ":");
                if (r == 0)
                        r = buffer_add_string(&text, masked[i]);
        }
        if (r == 0 && !host_network)
                r = buffer_add_string(&text, ":/etc/resolv.conf");
        return r < 0 ? NULL : json_string(text.data);
}

static json_t *security(const struct container_request *request, const struct container_plan *plan, const char *seccomp)
{
        json_t *list = json_pack("[s]", "no-new-privileges");

        json_array_append_new(list, json_sprintf("seccomp=%s", seccomp));
        if (plan->apparmor)
                json_array_append_new(list, json_string("apparmor=" CONTAINER_APPARMOR));
        if (request->engine->podman)
                json_array_append_new(list, mask_option(request->policy->network_mode == NETWORK_HOST));
        return list;
}

static json_t *paths(const char *const *list, size_t n)
{
        json_t *a = json_array();

        for (size_t i = 0; i < n; i++)
                json_array_append_new(a, json_string(list[i]));
        return a;
}

static json_t *host_config(const struct container_request *request, const struct container_plan *plan, const char *seccomp)
{
        const struct policy *policy = request->policy;
        const struct engine *e = request->engine;

        json_t *o = json_pack("{s:s, s:b, s:b, s:b, s:{s:s}, s:{s:s}, s:[s], s:s, s:I, s:b, s:o, s:o, s:o, s:o}",
                              "NetworkMode", policy->network_mode == NETWORK_HOST ? "host" : "none",
                              "ReadonlyRootfs", policy->read_only,
                              "Privileged", 0,
                              "AutoRemove", 1,
                              "RestartPolicy", "Name", "no",
                              "LogConfig", "Type", "none",
                              "CapDrop", "ALL",
                              "IpcMode", "private",
                              "ShmSize", (json_int_t)MIN(policy->tmp_size_bytes, CONTAINER_SHM_MAX),
                              "PublishAllPorts", 0,
                              "SecurityOpt", security(request, plan, seccomp),
                              "Ulimits", ulimits(e, policy),
                              "Tmpfs", tmpfs(plan),
                              "Mounts", binds(plan));
        if (!e->podman) {
                json_object_set_new(o, "CgroupnsMode", json_string("private"));
                json_object_set_new(o, "Init", json_false());
                json_object_set_new(o, "MaskedPaths", paths(masked, ARRAY_SIZE(masked)));
                json_object_set_new(o, "ReadonlyPaths", paths(read_only, ARRAY_SIZE(read_only)));
        }
        /* Or the host's name servers and domains would be in /etc/resolv.conf. Podman ignores it: there the file is masked. */
        if (policy->network_mode != NETWORK_HOST && !e->podman) {
                json_object_set_new(o, "Dns", json_pack("[s]", "127.0.0.1"));
                json_object_set_new(o, "DnsSearch", json_pack("[s]", "."));
        }
        if (policy->runtime)
                json_object_set_new(o, "Runtime", json_string(policy->runtime));
        if (e->memory)
                json_object_set_new(o, "Memory", json_integer((json_int_t)policy->mem_limit_bytes));
        if (e->memory && e->swap)
                json_object_set_new(o, "MemorySwap", json_integer((json_int_t)policy->mem_limit_bytes));
        if (e->memory && !e->cgroup_v2)
                json_object_set_new(o, "MemorySwappiness", json_integer(0));
        if (e->pids)
                json_object_set_new(o, "PidsLimit", json_integer((json_int_t)container_tasks(e, policy)));
        if (e->cpu)
                json_object_set_new(o, "NanoCpus", json_integer((json_int_t)policy->cpu_milli * 1000000));
        return o;
}

json_t *plan_body(const struct container_request *request, const struct container_plan *plan, const char *seccomp)
{
        char user[32];

        snprintf(user, sizeof(user), "%u:%u", (unsigned)request->uid, (unsigned)request->gid);
        return json_pack("{s:s, s:[s], s:[], s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:{s:[s]}, s:s, s:{}, s:[s], s:{s:s, s:s}, s:o}",
                         "Image", request->image,
                         "Entrypoint", AGENT_PATH,
                         "Cmd",
                         "User", user,
                         "WorkingDir", request->policy->scratch_only ? BOX_SCRATCH : "/", /* or the agent takes AGENT_WORKSPACE */
                         "Hostname", "glovebox",
                         "Tty", 0,
                         "OpenStdin", 1,
                         "StdinOnce", 1,
                         "AttachStdin", 1,
                         "AttachStdout", 1,
                         "AttachStderr", 1,
                         "Healthcheck", "Test", "NONE",
                         "StopSignal", "SIGKILL",
                         "Volumes",
                         "Env", PATH_VARIABLE,
                         "Labels", LABEL_SESSION, request->session, LABEL_OWNER, plan->owner,
                         "HostConfig", host_config(request, plan, seccomp));
}
