/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of a container engine, for who wants --backend docker. None is needed: boxes of the native backend know nothing of it, so
 * an absent one is information. The engine is asked once; an absent one costs nothing, one that hangs ENGINE_ANSWER_USEC. */
#include "cli/host.h"

#include "backend/docker/engine.h"
#include "base/limits.h"
#include "base/macro.h"
#include "base/quote.h"
#include "kernel/apparmor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUNTIME_GVISOR "runsc"

/* The socket of a Podman that the engine's address does not name, or NULL. */
static const char *other_podman(const char *taken, char *buf, size_t size)
{
        const char *runtime = getenv("XDG_RUNTIME_DIR");

        if (runtime && *runtime == '/') {
                snprintf(buf, size, "%s/podman/podman.sock", runtime);
                if (strcmp(buf, taken) != 0 && access(buf, W_OK) == 0)
                        return buf;
        }
        snprintf(buf, size, "/run/podman/podman.sock");
        return strcmp(buf, taken) != 0 && access(buf, W_OK) == 0 ? buf : NULL;
}

static void say_absent(struct host_finding *f, const gb_error *why)
{
        struct engine e = {0};
        char buf[HOST_PATH_MAX];
        gb_error ignored;

        bool known = engine_address(&e, &ignored) == 0;
        host_found(f, HOST_INFO, "%.240s", why->message);
        const char *podman = other_podman(known ? e.socket : "", buf, sizeof(buf));
        if (podman)
                host_remedy(f, "to use the Podman that is here: export DOCKER_HOST=unix://%.200s", quote_path(podman).text);
}

static void say_engine(struct host_finding *f, const struct engine *e)
{
        host_found(f, HOST_OK, "%s %s at %.90s (%.60s), API %s%s", e->name, e->version, quote_path(e->socket).text, e->from, e->api,
                   e->rootless ? ", rootless" : "");
}

static void say_runtimes(struct host_finding *f, const struct engine *e)
{
        char list[sizeof(f->found)] = "";
        size_t used = 0;

        if (e->podman) {
                host_found(f, HOST_OK, "%s; Podman takes no other for a single container", e->default_runtime[0] ? e->default_runtime : "its default");
                return;
        }
        for (size_t i = 0; i < e->n_runtimes && used < sizeof(list); i++)
                used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s%s", used ? ", " : "", e->runtimes[i],
                                         strcmp(e->runtimes[i], e->default_runtime) == 0 ? " (default)" : "");
        host_found(f, e->n_runtimes > 0 ? HOST_OK : HOST_INFO, "%s", used > 0 ? list : "it names none");
}

static void say_gvisor(struct host_finding *f, const struct engine *e)
{
        for (size_t i = 0; i < e->n_runtimes; i++)
                if (strstr(e->runtimes[i], RUNTIME_GVISOR) && engine_has_runtime(e, e->runtimes[i])) {
                        host_found(f, HOST_OK, "the runtime %s; --backend docker --runtime %s", e->runtimes[i], e->runtimes[i]);
                        return;
                }
        host_found(f, HOST_INFO, "not there");
        if (e->podman)
                host_remedy(f, "Podman has one runtime for all containers of its service: podman --runtime runsc system service");
        else
                host_remedy(f, "install runsc, add \"runtimes\": {\"runsc\": {\"path\": \"/usr/bin/runsc\", \"runtimeArgs\": [\"--network=none\", \"--platform=ptrace\"]}} to "
                               "/etc/docker/daemon.json, then: systemctl restart docker");
}

static void say_runc(struct host_finding *f, const struct engine *e)
{
        int old = e->runc_version[0] ? engine_runc_is_old(e->runc_version) : -1;

        if (e->runc_version[0] == '\0') {
                host_found(f, HOST_INFO, "%s%s, whose version is not known", e->default_runtime[0] ? "the default runtime is " : "not known",
                           e->default_runtime);
                return;
        }
        host_found(f, old == 0 ? HOST_OK : HOST_WEAKER, "%s%s", e->runc_version, old == 1 ? " has known ways out of a container" : old < 0 ? ", which is no version" : "");
        if (old != 0)
                host_remedy(f, "update it to 1.2.8, 1.3.3, 1.4.0 or later; or use another runtime (--runtime runsc); or accept it: --allow-weaker runtime");
}

static void say_limits(struct host_finding *f, const struct engine *e)
{
        const struct {
                const char *name;
                bool has;
        } parts[] = {{"memory", e->memory}, {"swap", e->swap}, {"tasks", e->pids}, {"cpu", e->cpu}};
        char has[64] = "", lacks[64] = "";

        for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
                char *list = parts[i].has ? has : lacks;
                size_t used = strlen(list);
                snprintf(list + used, sizeof(has) - used, "%s%s", used ? ", " : "", parts[i].name);
        }
        host_found(f, lacks[0] ? HOST_WEAKER : HOST_OK, "cgroup %s; it can limit: %s%s%s%s", e->cgroup_v2 ? "v2" : "v1", has[0] ? has : "nothing",
                   lacks[0] ? "; not: " : "", lacks, e->seccomp ? "" : "; it has no seccomp");
        if (lacks[0])
                host_remedy(f, "give the engine those cgroup controllers; or run with --allow-weaker cgroup");
}

static void say_apparmor(struct host_finding *f, const struct engine *e)
{
        int loaded = apparmor_is_loaded(APPARMOR_CONTAINER);

        if (!e->apparmor) {
                host_found(f, HOST_INFO, "%s has none", e->name);
        } else if (e->podman) {
                host_found(f, HOST_INFO, "Podman is left to its own profile");
        } else if (loaded > 0) {
                host_found(f, HOST_OK, "containers get the profile " APPARMOR_CONTAINER);
        } else {
                host_found(f, HOST_INFO, "the engine has it, the profile " APPARMOR_CONTAINER " %s", loaded == 0 ? "is not loaded" : "cannot be looked for");
                host_remedy(f, "as root: apparmor_parser -r -W " GLOVEBOX_DATADIR "/apparmor/" APPARMOR_CONTAINER);
        }
}

static const struct {
        const char *name, *means;
        void (*say)(struct host_finding *f, const struct engine *e);
} rows[] = {
        {"engine", "for --backend docker; boxes of the native backend need none", say_engine},
        {"engine limits", "what a policy asks for and an engine lacks refuses a run with --backend docker", say_limits},
        {"engine runtimes", "for --runtime NAME", say_runtimes},
        {"runc", "what makes containers of it; where it has known ways out, a run must be allowed by name to have it", say_runc},
        {"gvisor", "a kernel of its own between the program and the host's", say_gvisor},
        {"engine apparmor", "a further line around containers; they do not depend on it", say_apparmor},
};

void host_examine_engine(struct host_report *ret)
{
        struct engine e = {0};
        gb_error err = {.message = "not known"};
        int r = engine_shared(&e, &err);

        /* Without an engine only the first is of interest. */
        for (size_t i = 0; i < (r < 0 ? 1 : ARRAY_SIZE(rows)) && ret->n < HOST_FINDINGS_MAX; i++) {
                struct host_finding *f = &ret->findings[ret->n++];
                *f = (struct host_finding){.name = rows[i].name, .state = HOST_INFO};
                host_means(f, "%s", rows[i].means);
                if (r < 0)
                        say_absent(f, &err);
                else
                        rows[i].say(f, &e);
        }
}
