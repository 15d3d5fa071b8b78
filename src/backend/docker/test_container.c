/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of an engine and what is accepted from it, without an engine: the answer of a good one is made from the body, then changed in one place.
 * Catalogue 192, 201, 202, 205, 206, 207. */
#include "agent/wire.h"
#include "backend/docker/plan.h"
#include "base/fd.h"
#include "base/json.h"
#include "kernel/seccomp.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define IMAGE "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char volume[] = "/data", volume_tmp[] = "/tmp";
static char *volumes[] = {volume, volume_tmp, NULL};
static char mount_target[] = "/in", mount_source[] = "/srv/in";
static const char *const sources[] = {mount_source};

static struct engine docker = {.name = "Docker Engine", .version = "27.0", .default_runtime = "runc", .runc_version = "1.3.3", .seccomp = true, .memory = true,
                               .swap = true, .pids = true, .cpu = true, .n_runtimes = 2, .runtimes = {"runc", "runsc"}};
static struct policy policy = {.cpu_milli = 1500, .mem_limit_bytes = 64 * MIB, .pids_limit = 16, .tmp_size_bytes = 8 * MIB, .disk_limit_bytes = 9 * MIB,
                               .inode_limit = 500, .nofile = 256, .read_only = true, .n_mounts = 1, .mounts = {{mount_source, mount_target, false}}};

struct sample {
        struct container_request request;
        struct container_plan plan;
        json_t *body, *seen;
};

/* What Docker answers to an inspection of what was asked for. */
static json_t *inspected(const struct sample *s)
{
        json_t *config = json_deep_copy(s->body), *host = json_deep_copy(json_object_get(s->body, "HostConfig")), *mounts = json_array();

        json_object_del(config, "HostConfig");
        json_object_set_new(config, "Volumes", json_pack("{s:{}, s:{}}", "/data", "/tmp"));
        if (!json_object_get(host, "Runtime"))
                json_object_set_new(host, "Runtime", json_string(s->request.engine->default_runtime));
        json_object_set_new(host, "CapAdd", json_null());
        for (size_t i = 0; i < s->plan.n_binds; i++)
                json_array_append_new(mounts, json_pack("{s:s, s:s, s:s, s:b, s:s}", "Type", "bind", "Source", s->plan.binds[i].source, "Destination",
                                                        s->plan.binds[i].target, "RW", s->plan.binds[i].writable, "Propagation", "rprivate"));
        return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:{s:{s:{}}}}", "Id", "abc", "Image", s->request.image, "Path", AGENT_PATH, "Config", config, "HostConfig", host,
                         "Mounts", mounts, "NetworkSettings", "Networks", "none");
}

static void sample_init(struct sample *s, const struct engine *e, const struct policy *p)
{
        gb_error err;

        *s = (struct sample){.request = {.engine = e, .policy = p, .image = IMAGE, .session = "s1", .uid = 1000, .gid = 1001, .mount_sources = sources, .volumes = volumes}};
        assert_int_equal(plan_container(&s->request, &s->plan, &err), 0);
        s->body = plan_body(&s->request, &s->plan, e->podman ? "/run/p.json" : seccomp_docker_profile);
        assert_non_null(s->body);
        s->seen = inspected(s);
}

static void sample_done(struct sample *s)
{
        json_decref(s->body);
        json_decref(s->seen);
}

static const char *text_of(const json_t *value, const char *path)
{
        return json_string_value(json_below(value, path));
}

static void test_body(void **state)
{
        struct sample s;

        sample_init(&s, &docker, &policy);
        const json_t *host = json_object_get(s.body, "HostConfig"), *tmpfs = json_object_get(host, "Tmpfs");
        assert_string_equal(text_of(s.body, "User"), "1000:1001");
        assert_string_equal(text_of(host, "NetworkMode"), "none");
        assert_string_equal(text_of(host, "LogConfig.Type"), "none"); /* 206 */
        assert_int_equal(json_integer_value(json_object_get(host, "PidsLimit")), 16 + AGENT_OWN_TASKS);
        assert_int_equal(json_integer_value(json_object_get(host, "NanoCpus")), 1500000000);
        assert_int_equal(json_integer_value(json_object_get(host, "Memory")), 64 * MIB);
        assert_int_equal(json_integer_value(json_object_get(host, "MemorySwap")), 64 * MIB);
        assert_string_equal(json_string_value(json_object_get(tmpfs, "/sandbox")), "rw,exec,nosuid,nodev,size=9437184,nr_inodes=500,mode=755,uid=1000,gid=1001");
        assert_string_equal(json_string_value(json_object_get(tmpfs, "/run/glovebox")), "rw,exec,nosuid,nodev,size=20971520,nr_inodes=1024,mode=700,uid=1000,gid=1001");
        assert_string_equal(json_string_value(json_object_get(tmpfs, "/data")), "ro,noexec,nosuid,nodev,size=4096,nr_inodes=2,mode=555");
        assert_non_null(strstr(json_string_value(json_object_get(tmpfs, "/tmp")), "rw,exec")); /* ours, not the image's volume */
        assert_null(json_object_get(host, "Binds"));
        assert_true(json_is_true(json_object_get(json_array_get(json_object_get(host, "Mounts"), 0), "ReadOnly")));
        assert_null(json_object_get(host, "Runtime"));
        sample_done(&s);
}

static bool has_text(const json_t *list, const char *text)
{
        size_t i;
        json_t *item;

        json_array_foreach(list, i, item)
                if (strstr(json_string_value(item), text))
                        return true;
        return false;
}

/* What tells of the host is covered, on Podman by an option. */
static void test_masks(void **state)
{
        struct policy host_network = policy;
        struct engine podman = docker;
        struct sample s;

        podman.podman = true;
        host_network.network_mode = NETWORK_HOST;
        sample_init(&s, &docker, &policy);
        assert_true(has_text(json_below(s.body, "HostConfig.MaskedPaths"), "/sys"));
        assert_false(has_text(json_below(s.body, "HostConfig.SecurityOpt"), "mask="));
        assert_true(has_text(json_below(s.body, "HostConfig.Dns"), "127.0.0.1"));
        sample_done(&s);

        sample_init(&s, &podman, &policy);
        assert_null(json_below(s.body, "HostConfig.MaskedPaths"));
        assert_true(has_text(json_below(s.body, "HostConfig.SecurityOpt"), "mask=/dev/mqueue:/proc/acpi:"));
        assert_true(has_text(json_below(s.body, "HostConfig.SecurityOpt"), ":/sys:/etc/resolv.conf"));
        sample_done(&s);

        sample_init(&s, &docker, &host_network);
        assert_null(json_below(s.body, "HostConfig.Dns"));
        sample_done(&s);
        sample_init(&s, &podman, &host_network);
        assert_false(has_text(json_below(s.body, "HostConfig.SecurityOpt"), "resolv.conf"));
        sample_done(&s);
}

static void test_scratch_only(void **state)
{
        static const char *const covered[] = {"/tmp", "/run", "/var/tmp"};
        struct policy scratch = policy;
        struct engine podman = docker;
        struct sample s;

        podman.podman = true;
        scratch.scratch_only = true;
        sample_init(&s, &docker, &scratch);
        const json_t *tmpfs = json_below(s.body, "HostConfig.Tmpfs");
        assert_string_equal(text_of(s.body, "WorkingDir"), "/tmp/sandbox");
        assert_string_equal(json_string_value(json_object_get(tmpfs, "/tmp/sandbox")), "rw,exec,nosuid,nodev,size=9437184,nr_inodes=500,mode=755,uid=1000,gid=1001");
        assert_null(json_object_get(tmpfs, "/sandbox"));
        assert_null(json_object_get(tmpfs, "/run"));
        sample_done(&s);

        sample_init(&s, &podman, &scratch); /* it would make these itself, and writable */
        tmpfs = json_below(s.body, "HostConfig.Tmpfs");
        for (size_t i = 0; i < ARRAY_SIZE(covered); i++)
                assert_memory_equal(json_string_value(json_object_get(tmpfs, covered[i])), "ro,", 3);
        sample_done(&s);
}

static void test_never_root(void **state)
{
        struct container_request request = {.engine = &docker, .policy = &policy, .image = IMAGE, .session = "s1", .gid = 5, .mount_sources = sources};
        struct container_plan plan;
        gb_error err;

        assert_true(plan_container(&request, &plan, &err) < 0);
        assert_int_equal(err.code, GB_E_UNENFORCEABLE);
        request.uid = 5;
        request.session = "a/../b";
        assert_true(plan_container(&request, &plan, &err) < 0);
}

/* Sets what is at a path of keys. */
static void change(json_t *value, const char *path, json_t *to)
{
        char parent[128];
        const char *dot = strrchr(path, '.');

        snprintf(parent, sizeof(parent), "%.*s", dot ? (int)(dot - path) : 0, path);
        json_t *o = value;
        for (char *save, *key = strtok_r(parent, ".", &save); key; key = strtok_r(NULL, ".", &save))
                o = json_object_get(o, key);
        assert_non_null(o);
        json_object_set_new(o, dot ? dot + 1 : path, to);
}

static void test_compare(void **state)
{
        /* 207: what an engine could make of it, one thing at a time. */
        static const struct {
                const char *path, *to;
        } changes[] = {
                {"HostConfig.CapDrop", "[]"}, {"HostConfig.CapDrop", "null"}, {"HostConfig.CapDrop", "[\"NET_RAW\"]"}, {"HostConfig.CapAdd", "[\"SYS_ADMIN\"]"},
                {"HostConfig.Privileged", "true"}, {"HostConfig.ReadonlyRootfs", "false"}, {"HostConfig.NetworkMode", "\"default\""},
                {"HostConfig.SecurityOpt", "null"}, {"HostConfig.SecurityOpt", "[\"no-new-privileges\"]"},
                {"HostConfig.Memory", "0"}, {"HostConfig.MemorySwap", "-1"}, {"HostConfig.MemorySwap", "null"}, {"HostConfig.PidsLimit", "null"},
                {"HostConfig.PidsLimit", "25"}, {"HostConfig.NanoCpus", "0"}, {"HostConfig.Ulimits", "null"},
                {"HostConfig.Ulimits", "[{\"Name\":\"nofile\",\"Soft\":256,\"Hard\":256}]"},
                {"HostConfig.IpcMode", "\"host\""}, {"HostConfig.PidMode", "\"host\""}, {"HostConfig.UTSMode", "\"host\""}, {"HostConfig.UsernsMode", "\"host\""},
                {"HostConfig.CgroupnsMode", "\"host\""}, {"HostConfig.LogConfig.Type", "\"json-file\""}, {"HostConfig.RestartPolicy.Name", "\"always\""},
                {"HostConfig.AutoRemove", "false"}, {"HostConfig.Devices", "[{}]"}, {"HostConfig.DeviceRequests", "[{}]"}, {"HostConfig.Binds", "[\"/:/host\"]"},
                {"HostConfig.VolumesFrom", "[\"x\"]"}, {"HostConfig.GroupAdd", "[\"0\"]"}, {"HostConfig.PublishAllPorts", "true"},
                {"HostConfig.Runtime", "\"crun\""}, {"HostConfig.OomKillDisable", "true"}, {"HostConfig.CgroupParent", "\"/\""},
                {"HostConfig.MemorySwappiness", "60"}, {"HostConfig.MemorySwappiness", "null"}, {"HostConfig.DeviceCgroupRules", "[\"c *:* rwm\"]"},
                {"HostConfig.Links", "[\"/other:/x/other\"]"}, {"HostConfig.ExtraHosts", "[\"host:192.0.2.1\"]"}, {"HostConfig.PortBindings", "{\"80/tcp\":[{}]}"},
                {"HostConfig.Sysctls", "{\"net.ipv4.ip_forward\":\"1\"}"}, {"HostConfig.MaskedPaths", "null"}, {"HostConfig.MaskedPaths", "[]"},
                {"HostConfig.MaskedPaths", "[\"/proc/kcore\"]"}, {"HostConfig.ReadonlyPaths", "null"}, {"HostConfig.ReadonlyPaths", "[]"},
                {"HostConfig.ReadonlyPaths", "[\"/proc/sys\"]"},
                {"HostConfig.Tmpfs", "null"}, {"HostConfig.Mounts", "null"}, {"HostConfig.ShmSize", "67108865"},
                {"Config.User", "\"0\""}, {"Config.User", "\"\""}, {"Config.Entrypoint", "[\"/bin/sh\"]"}, {"Config.Entrypoint", "null"},
                {"Config.Cmd", "[\"x\"]"}, {"Config.Healthcheck", "{\"Test\":[\"CMD\",\"/x\"]}"}, {"Config.Healthcheck", "null"},
                {"Config.StopSignal", "\"SIGWINCH\""}, {"Config.WorkingDir", "\"/sandbox\""}, {"Config.Hostname", "\"host\""},
                {"Config.OpenStdin", "false"}, {"Config.StdinOnce", "false"}, {"Config.Tty", "true"}, {"Config.Labels", "{}"}, {"Config.Labels", "null"},
                {"Path", "\"/bin/sh\""}, {"Image", "\"sha256:00\""}, {"Mounts", "[]"},
                {"Mounts", "[{\"Type\":\"volume\",\"Source\":\"/x\",\"Destination\":\"/data\",\"RW\":true,\"Propagation\":\"\"}]"},
                {"Mounts", "[{\"Type\":\"bind\",\"Source\":\"/srv/in\",\"Destination\":\"/in\",\"RW\":true,\"Propagation\":\"rprivate\"}]"},
                {"Mounts", "[{\"Type\":\"bind\",\"Source\":\"/srv/in\",\"Destination\":\"/in\",\"RW\":false,\"Propagation\":\"rshared\"}]"},
                {"NetworkSettings.Networks", "{\"none\":{},\"bridge\":{}}"},
                {"HostConfig", "null"}, {"Config", "null"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
                struct sample s;
                gb_error err;
                sample_init(&s, &docker, &policy);
                assert_int_equal(plan_compare(&s.request, &s.plan, s.body, s.seen, &err), 0);
                change(s.seen, changes[i].path, json_loads(changes[i].to, JSON_DECODE_ANY, NULL));
                if (plan_compare(&s.request, &s.plan, s.body, s.seen, &err) == 0)
                        fail_msg("%s = %s was accepted", changes[i].path, changes[i].to);
                assert_int_equal(err.code, GB_E_UNENFORCEABLE);
                const char *named = strncmp(changes[i].path, "Config.Labels", 13) == 0 ? LABEL_OWNER : strchr(changes[i].path, '.') ? changes[i].path : "";
                if (!strstr(err.message, named) && strcmp(changes[i].path, "Config.Healthcheck") != 0)
                        fail_msg("%s = %s: %s", changes[i].path, changes[i].to, err.message);
                sample_done(&s);
        }
}

/* As on a kernel that has the profile: it is asked for, missed when it is not there, and told. */
static void test_apparmor(void **state)
{
        struct engine with = docker;
        struct controls c;
        struct sample s;
        gb_error err;

        with.apparmor = true;
        sample_init(&s, &with, &policy);
        s.plan.apparmor = true;
        json_t *body = plan_body(&s.request, &s.plan, seccomp_docker_profile);
        assert_non_null(body);
        assert_int_equal(json_array_size(json_below(body, "HostConfig.SecurityOpt")), json_array_size(json_below(s.body, "HostConfig.SecurityOpt")) + 1);
        assert_true(plan_compare(&s.request, &s.plan, body, s.seen, &err) < 0);
        assert_non_null(strstr(err.message, CONTAINER_APPARMOR));
        assert_int_equal(container_controls(&s.request, &s.plan, &c, &err), 0);
        assert_int_equal(c.status[CONTROL_APPARMOR].state, CONTROL_ENFORCED);
        s.plan.apparmor = false;
        assert_int_equal(container_controls(&s.request, &s.plan, &c, &err), 0);
        assert_int_equal(c.status[CONTROL_APPARMOR].state, CONTROL_OFF);
        assert_non_null(strstr(c.status[CONTROL_APPARMOR].how, "apparmor_parser"));
        json_decref(body);
        sample_done(&s);
}

/* What an image's volume is mounted on is made by nobody in a directory of the host. */
static void test_volume_below_a_mount(void **state)
{
        static char below[] = "/in/deep", beside[] = "/inside";
        struct container_request request = {.engine = &docker, .policy = &policy, .image = IMAGE, .session = "s1", .uid = 5, .gid = 5, .mount_sources = sources};
        struct container_plan plan;
        gb_error err = {0};

        request.volumes = (char *[]){beside, NULL};
        assert_int_equal(plan_container(&request, &plan, &err), 0);
        request.volumes = (char *[]){below, NULL};
        assert_true(plan_container(&request, &plan, &err) < 0);
        assert_int_equal(err.code, GB_E_UNENFORCEABLE);
        assert_non_null(strstr(err.message, below));
}

static void test_compare_lists(void **state)
{
        struct sample s;
        gb_error err;

        /* One option more, one tmpfs more, one with another size. */
        sample_init(&s, &docker, &policy);
        json_t *host = json_object_get(s.seen, "HostConfig");
        json_array_append_new(json_object_get(host, "SecurityOpt"), json_string("apparmor=unconfined"));
        assert_true(plan_compare(&s.request, &s.plan, s.body, s.seen, &err) < 0);
        assert_non_null(strstr(err.message, "unconfined"));
        sample_done(&s);

        sample_init(&s, &docker, &policy);
        json_object_set_new(json_object_get(json_object_get(s.seen, "HostConfig"), "Tmpfs"), "/more", json_string("rw"));
        assert_true(plan_compare(&s.request, &s.plan, s.body, s.seen, &err) < 0);
        sample_done(&s);

        sample_init(&s, &docker, &policy);
        json_object_set_new(json_object_get(json_object_get(s.seen, "HostConfig"), "Tmpfs"), "/tmp", json_string("rw,exec,nosuid,nodev"));
        assert_true(plan_compare(&s.request, &s.plan, s.body, s.seen, &err) < 0);
        assert_non_null(strstr(err.message, "HostConfig.Tmpfs"));
        sample_done(&s);
}

/* Podman tells some of it in other words. */
static void test_podman(void **state)
{
        struct engine podman = docker;
        struct sample s;
        gb_error err;
        const char *path;
        json_t *value, *copy;

        podman.podman = true;
        sample_init(&s, &podman, &policy);
        assert_null(strstr(text_of(json_below(s.body, "HostConfig.Tmpfs"), "/sandbox"), "uid="));
        json_t *host = json_object_get(s.seen, "HostConfig"), *tmpfs = json_object_get(host, "Tmpfs");
        copy = json_copy(tmpfs);
        json_object_foreach(copy, path, value) {
                const char *text = json_string_value(value);
                json_object_set_new(tmpfs, path, json_sprintf("%.*s,rprivate", (int)(strlen(text) - strlen(PODMAN_NO_COPY)), text));
        }
        json_decref(copy);
        json_object_set_new(host, "IpcMode", json_string("shareable"));
        json_object_set_new(host, "Runtime", json_string("oci"));
        json_object_set_new(host, "Mounts", json_null());
        json_object_set_new(host, "Binds", json_pack("[s]", "/srv/in:/in:ro,rprivate,bind"));
        json_object_set_new(host, "CapDrop", json_loads("[\"AUDIT_WRITE\",\"CHOWN\",\"DAC_OVERRIDE\",\"FOWNER\",\"FSETID\",\"KILL\",\"MKNOD\",\"NET_BIND_SERVICE\",\"NET_RAW\",\"SETFCAP\",\"SETGID\"]", 0, NULL));
        assert_int_equal(plan_compare(&s.request, &s.plan, s.body, s.seen, &err), 0);
        json_object_set_new(host, "Binds", json_pack("[s]", "/srv/in:/in:ro,rprivate,rbind"));
        assert_true(plan_compare(&s.request, &s.plan, s.body, s.seen, &err) < 0);
        sample_done(&s);
}

static void test_controls(void **state)
{
        struct engine old = docker, none = docker;
        struct policy p = policy;
        struct sample s;
        struct controls c;
        gb_error err;

        p.allow_weaker = 1U << CONTROL_LANDLOCK;
        sample_init(&s, &docker, &p);
        assert_int_equal(container_controls(&s.request, &s.plan, &c, &err), 0);
        for (int i = 0; i < CONTROL_COUNT; i++)
                assert_true(c.status[i].state != CONTROL_UNKNOWN && c.status[i].how[0]);
        sample_done(&s);

        /* 202 */
        snprintf(old.runc_version, sizeof(old.runc_version), "1.1.5+ds1");
        sample_init(&s, &old, &p);
        assert_true(container_controls(&s.request, &s.plan, &c, &err) < 0);
        assert_int_equal(err.code, GB_E_UNENFORCEABLE);
        assert_non_null(strstr(err.message, "runtime"));
        p.allow_weaker |= 1U << CONTROL_RUNTIME;
        assert_int_equal(container_controls(&s.request, &s.plan, &c, &err), 0);
        assert_int_equal(c.status[CONTROL_RUNTIME].state, CONTROL_WEAKER);
        sample_done(&s);

        none.memory = none.swap = false;
        sample_init(&s, &none, &p);
        assert_null(json_below(s.body, "HostConfig.Memory"));
        assert_true(container_controls(&s.request, &s.plan, &c, &err) < 0);
        assert_non_null(strstr(err.message, "memory"));
        sample_done(&s);

        p.runtime = (char[]){"kata"};
        sample_init(&s, &docker, &p);
        assert_true(container_controls(&s.request, &s.plan, &c, &err) < 0);
        assert_non_null(strstr(err.message, "no runtime \"kata\""));
        sample_done(&s);
}

/* As without a network, and a place for certificates; an interface that the agent sees is one too many. */
static void test_allowlist(void **state)
{
        struct wire_hello hello = {.version = WIRE_VERSION, .uid = 1000, .gid = 1001, .no_new_privs = 1, .seccomp = 2, .pid = 1, .landlock_abi = 3};
        struct policy p = policy;
        struct sample s;
        struct controls c;
        gb_error err;

        p.network_mode = NETWORK_ALLOWLIST;
        p.allow_weaker = 1U << CONTROL_LANDLOCK;
        sample_init(&s, &docker, &p);
        assert_string_equal(text_of(s.body, "HostConfig.NetworkMode"), "none");
        assert_null(json_object_get(json_below(s.body, "HostConfig.Tmpfs"), SECRETS_DIR));
        assert_int_equal(plan_compare(&s.request, &s.plan, s.body, s.seen, &err), 0);
        assert_int_equal(container_controls(&s.request, &s.plan, &c, &err), 0);
        assert_int_equal(c.status[CONTROL_NETWORK].state, CONTROL_ENFORCED);
        assert_string_equal(c.status[CONTROL_NETWORK].how, "own network namespace, no route; the proxy on 127.0.0.1:3128 lets pass what 0 rules name");
        assert_int_equal(container_check_hello(&s.request, &hello, &c, &err), 0);
        hello.interfaces = 1;
        assert_true(container_check_hello(&s.request, &hello, &c, &err) < 0);
        s.request.ca_size = 300000;
        assert_int_equal(plan_container(&s.request, &s.plan, &err), 0);
        bool there = false;
        for (size_t i = 0; i < s.plan.n_tmpfs; i++)
                there = there || strcmp(s.plan.tmpfs[i].path, SECRETS_DIR) == 0;
        assert_true(there);
        sample_done(&s);
}

static void test_hello(void **state)
{
        struct policy p = policy, sealed = policy;
        const struct wire_hello good = {.version = WIRE_VERSION, .uid = 1000, .gid = 1001, .no_new_privs = 1, .seccomp = 2, .pid = 1, .landlock_abi = 3};
        struct wire_hello bad[9];
        struct sample s;
        struct controls c;
        gb_error err;

        p.allow_weaker = sealed.allow_weaker = 1U << CONTROL_LANDLOCK | 1U << CONTROL_PIDS;
        sample_init(&s, &docker, &p);
        assert_int_equal(container_controls(&s.request, &s.plan, &c, &err), 0);
        assert_int_equal(container_check_hello(&s.request, &good, &c, &err), 0);
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                bad[i] = good;
        bad[0].version++;
        bad[1].uid = 0;
        bad[2].gid = 0;
        bad[3].no_new_privs = 0;
        bad[4].seccomp = 0;
        bad[5].capabilities = 1;
        bad[6].pid = 7;
        bad[7].interfaces = 1;
        bad[8].root_writable = 1;
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                if (container_check_hello(&s.request, &bad[i], &c, &err) == 0)
                        fail_msg("hello %zu was accepted", i);
        sample_done(&s);

        /* gVisor that is none. */
        struct wire_hello inside = good;
        sealed.runtime = (char[]){"runsc"};
        sample_init(&s, &docker, &sealed);
        assert_int_equal(container_controls(&s.request, &s.plan, &c, &err), 0);
        assert_true(container_check_hello(&s.request, &good, &c, &err) < 0);
        inside.is_gvisor = 1;
        inside.seccomp = 0; /* it has no filter of the engine */
        assert_int_equal(container_check_hello(&s.request, &inside, &c, &err), 0);
        sample_done(&s);
}

/* 205: only what a dead process of this boot and pid namespace has made. */
static void test_owner(void **state)
{
        char self[CONTAINER_OWNER_MAX], other[CONTAINER_OWNER_MAX + 8], *end;
        int pipe_fd[2];

        assert_int_equal(owner_self(self), 0);
        assert_false(owner_is_dead(self));
        assert_false(owner_is_dead(""));
        assert_false(owner_is_dead("x:1:2:3"));
        /* This pid, but another start: the process before this one. */
        snprintf(other, sizeof(other), "%s9", self);
        assert_true(owner_is_dead(other));
        other[0] = other[0] == 'a' ? 'b' : 'a'; /* another boot */
        assert_false(owner_is_dead(other));
        snprintf(other, sizeof(other), "%s ", self);
        assert_false(owner_is_dead(other));
        snprintf(other, sizeof(other), "%s9", self);
        end = strchr(other, ':');
        end[1] = end[1] == '1' ? '2' : '1'; /* another pid namespace */
        assert_false(owner_is_dead(other));

        assert_int_equal(pipe(pipe_fd), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                _exit(owner_self(self) < 0 || write(pipe_fd[1], self, sizeof(self)) != sizeof(self));
        }
        assert_int_equal(read(pipe_fd[0], other, CONTAINER_OWNER_MAX), CONTAINER_OWNER_MAX);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_true(owner_is_dead(other));
        close(pipe_fd[0]);
        close(pipe_fd[1]);
}

/* 192: nothing is asked of the engine for such a name; this one could not be. */
static void test_image_names(void **state)
{
        static const char *const names[] = {"", "-x", "../x", "a/../b", "a b", "a?b", "a%2fb", "/a", "a//b", "a/", "\xc3\xb6", "a\nb", "a#b"};
        struct engine e = docker;
        char id[IMAGE_ID_MAX], **list = NULL, longer[IMAGE_NAME_MAX + 2];
        gb_error err;

        snprintf(e.socket, sizeof(e.socket), "/nonexistent/docker.sock");
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                assert_true(image_prepare(&e, names[i], id, &list, &err) < 0);
                assert_int_equal(err.code, GB_E_USAGE);
        }
        memset(longer, 'a', sizeof(longer) - 1);
        longer[sizeof(longer) - 1] = '\0';
        assert_true(image_prepare(&e, longer, id, &list, &err) < 0);
        assert_int_equal(err.code, GB_E_USAGE);
        assert_true(image_prepare(&e, "host.example:5000/a/b_c-d:1.0@sha256:ab", id, &list, &err) < 0);
        assert_int_equal(err.code, GB_E_UNAVAILABLE);
        assert_null(list);
}

static void write_file(const char *dir, const char *name, const char *text)
{
        char path[256];

        snprintf(path, sizeof(path), "%s/%s", dir, name);
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void test_layer(void **state)
{
        static const char *const names[] = {"glovebox-agent", "glovebox_runner.py", "glovebox_runner_results.py", "glovebox_runner_run.py", "bash_runner.bash", "node_runner.js"};
        char dir[] = "/tmp/glovebox-test-layer-XXXXXX", path[256];
        _cleanup_free_ char *data = NULL;
        size_t size, entries = 0;
        uint64_t archive, before, after;
        gb_error err;
        int fd;

        assert_non_null(mkdtemp(dir));
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                write_file(dir, names[i], names[i]);
        setenv("GLOVEBOX_LIBEXEC_DIR", dir, 1);
        setenv("GLOVEBOX_RUNNER_DIR", dir, 1);
        assert_int_equal(layer_hash(&before, &err), 0);
        assert_int_equal(layer_make(&fd, &archive, &err), 0);
        assert_int_equal(fd_read_all(fd, MIB, &data, &size), 0);
        close(fd);
        assert_int_equal(size, archive);
        assert_int_equal(size % 512, 0);
        for (size_t at = 0; at < size && data[at]; entries++) {
                unsigned sum = 8 * ' ';
                for (size_t i = 0; i < 512; i++)
                        sum += i >= 148 && i < 156 ? 0 : (unsigned char)data[at + i];
                assert_int_equal(strtoul(data + at + 148, NULL, 8), sum);
                assert_int_equal(strtoul(data + at + 108, NULL, 8), 0); /* root's */
                if (strcmp(data + at, ".glovebox/agent") == 0)
                        assert_memory_equal(data + at + 512, "glovebox-agent", 15);
                if (strcmp(data + at, "workspace") == 0)
                        assert_true(data[at + 156] == '2' && strcmp(data + at + 157, "sandbox") == 0);
                at += 512 + (strtoul(data + at + 124, NULL, 8) + 511) / 512 * 512;
        }
        assert_int_equal(entries, 9 + ARRAY_SIZE(names));

        write_file(dir, "glovebox-agent", "another");
        assert_int_equal(layer_hash(&after, &err), 0);
        assert_true(after != before);
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
                unlink(path);
        }
        rmdir(dir);
        assert_true(layer_hash(&after, &err) < 0);
        unsetenv("GLOVEBOX_LIBEXEC_DIR");
        unsetenv("GLOVEBOX_RUNNER_DIR");
}

static bool is_allowed(const json_t *profile, const char *call, bool *ret_tested)
{
        const json_t *rules = json_object_get(profile, "syscalls");
        size_t i, k;
        json_t *rule, *name;
        bool allowed = false;

        *ret_tested = false;
        json_array_foreach(rules, i, rule) {
                json_array_foreach(json_object_get(rule, "names"), k, name) {
                        if (strcmp(json_string_value(name), call) == 0 && strcmp(text_of(rule, "action"), "SCMP_ACT_ALLOW") == 0) {
                                allowed = true;
                                *ret_tested = json_object_get(rule, "args") != NULL;
                        }
                }
        }
        return allowed;
}

static void test_seccomp_json(void **state)
{
        static const char *const never[] = {"unshare", "setns", "mount", "ptrace", "bpf", "keyctl", "add_key", "io_uring_setup", "userfaultfd", "clone3", "perf_event_open",
                                            "kexec_load", "init_module", "open_by_handle_at", "process_vm_readv", "pivot_root", "syslog"};
        static const char *const always[] = {"read", "execve", "openat2", "seccomp", "prctl", "prlimit64", "capset", "landlock_restrict_self", "setsid", "wait4", "exit_group"};
        static const char *const by_arguments[] = {"clone", "socket", "socketpair", "personality"};
        json_t *profile = json_loads(seccomp_docker_profile, JSON_REJECT_DUPLICATES, NULL);
        bool tested;

        assert_non_null(profile);
        assert_string_equal(text_of(profile, "defaultAction"), "SCMP_ACT_ERRNO");
        assert_int_equal(json_array_size(json_object_get(profile, "architectures")), 1);
        for (size_t i = 0; i < ARRAY_SIZE(never); i++)
                if (is_allowed(profile, never[i], &tested))
                        fail_msg("%s is allowed", never[i]);
        for (size_t i = 0; i < ARRAY_SIZE(always); i++)
                if (!is_allowed(profile, always[i], &tested) || tested)
                        fail_msg("%s is not allowed as a whole", always[i]);
        for (size_t i = 0; i < ARRAY_SIZE(by_arguments); i++)
                if (!is_allowed(profile, by_arguments[i], &tested) || !tested)
                        fail_msg("%s is not judged by its arguments", by_arguments[i]);
        json_decref(profile);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_body),
                cmocka_unit_test(test_masks),
                cmocka_unit_test(test_scratch_only),      cmocka_unit_test(test_never_root),    cmocka_unit_test(test_compare), cmocka_unit_test(test_apparmor), cmocka_unit_test(test_volume_below_a_mount), cmocka_unit_test(test_compare_lists),
                cmocka_unit_test(test_podman),    cmocka_unit_test(test_controls),      cmocka_unit_test(test_hello),   cmocka_unit_test(test_owner),
                cmocka_unit_test(test_image_names), cmocka_unit_test(test_layer),       cmocka_unit_test(test_seccomp_json), cmocka_unit_test(test_allowlist),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
