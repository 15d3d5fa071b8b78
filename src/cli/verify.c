/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox verify: proves the isolation on this host by attacking it.
 *
 * Theory of operation. Each row of PROBES is one box, made by the same run_execute() as any
 * run, in which glovebox-probe makes its attempts (runner/probe.c). The program says what came
 * of them; what only the host can see (a file's owner, a connection, a survivor, the verdict)
 * the judge of the row looks at here. A row passes only when the program says by its random
 * token that it ran to its end and that every attempt was made: silence is a failure. Signals
 * count on an eventfd, so that an interrupted verify still removes what it made. */
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "cli/signals.h"
#include "cli/verify.h"
#include "engine/run.h"
#include "kernel/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOX_ID 1000
#define STATUS_ESCAPED 1
#define STATUS_INTERRUPTED 130
#define DAEMON_STARTED "a daemon was started" /* by probe_survivor() */

/* Small limits, so that the bombs are quick; otherwise what a box is by default. The pids are
 * VERIFY_PIDS_LIMIT. */
#define POLICY_TEXT                                                                                            \
        "mem_limit: %s\ntmp_size: 16m\ndisk_limit: 16m\noutput_limit: 1m\npids_limit: 32\ntimeout: %s\n"       \
        "network_mode: none\nread_only: true\n"
#define TIMEOUT_DEFAULT "5s"
#define MEMORY_DEFAULT "64m"
#define MEMORY_FORKS "256m" /* the kernel pays back a refused fork late; the limit of tasks is meant here */

/* ---- the boxes ---- */

/* How a probe is run; in the order of PROBES. Workspace: a directory of the host's. */
static const struct {
        bool workspace;
        const char *timeout;
        judge_function *judge;
} checks[PROBE_COUNT] = {
        [PROBE_identity] = {false, TIMEOUT_DEFAULT, judge_report},
        [PROBE_root] = {false, TIMEOUT_DEFAULT, judge_report},
        [PROBE_secrets] = {false, TIMEOUT_DEFAULT, judge_report},
        [PROBE_workspace] = {true, TIMEOUT_DEFAULT, judge_workspace},
        [PROBE_network] = {false, TIMEOUT_DEFAULT, judge_network},
        [PROBE_processes] = {false, TIMEOUT_DEFAULT, judge_bystander},
        [PROBE_capabilities] = {false, TIMEOUT_DEFAULT, judge_report},
        [PROBE_filter] = {false, TIMEOUT_DEFAULT, judge_report},
        [PROBE_syscalls] = {false, TIMEOUT_DEFAULT, judge_report},
        [PROBE_writes] = {true, TIMEOUT_DEFAULT, judge_report},
        [PROBE_devices] = {true, TIMEOUT_DEFAULT, judge_report},
        [PROBE_setuid] = {true, TIMEOUT_DEFAULT, judge_report},
        [PROBE_rlimits] = {false, TIMEOUT_DEFAULT, judge_report},
        [PROBE_memory] = {false, TIMEOUT_DEFAULT, judge_memory},
        [PROBE_forks] = {false, "1s", judge_forks},
        [PROBE_disk_tmp] = {false, TIMEOUT_DEFAULT, judge_disk},
        [PROBE_disk_workspace] = {true, TIMEOUT_DEFAULT, judge_disk},
        [PROBE_output] = {false, TIMEOUT_DEFAULT, judge_output},
        [PROBE_loop] = {false, "500ms", judge_loop},
        [PROBE_survivor] = {false, TIMEOUT_DEFAULT, judge_survivor},
        [PROBE_kill_all] = {false, TIMEOUT_DEFAULT, judge_bystander},
};

static const char *const functions[] = {
#define PROBE_FUNCTION(function, name, catalogue, tries) #function,
        PROBES(PROBE_FUNCTION)
#undef PROBE_FUNCTION
};

static int make_policy(const struct verify *v, enum probe_id id, struct policy **ret, gb_error *err)
{
        char text[512], mount[HOST_PATH_MAX + 64];
        _cleanup_policy_ struct policy *p = NULL;

        int n = snprintf(text, sizeof(text), POLICY_TEXT, id == PROBE_forks ? MEMORY_FORKS : MEMORY_DEFAULT, checks[id].timeout);
        int r = policy_parse("verify", text, (size_t)n, NULL, &p, err);
        if (r < 0)
                return r;
        p->allow_weaker = v->allow_weaker;
        snprintf(mount, sizeof(mount), "%s:%s", v->probe_path, PROBE_TARGET);
        r = policy_set(p, "mounts", mount, "verify", err);
        if (r == 0)
                *ret = TAKE_PTR(p);
        return r;
}

static void on_output(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec)
{
        struct verify *v = data;

        if (v->seen_alive == 0 && memmem(bytes, size, DAEMON_STARTED, strlen(DAEMON_STARTED)))
                v->seen_alive = verify_host_find(&v->host, v->cgroup);
}

static int run_box(struct trial *t, enum probe_id id, gb_error *err)
{
        static struct language language = {.name = (char *)(uintptr_t)"probe", .file = (char *)(uintptr_t)"probe",
                                           .run = {(char *)(uintptr_t)PROBE_TARGET}};
        struct verify *v = t->v;
        char uid[16], port[16], pids[16], nofile[24], bystander[16], root[64], name[256] = "";
        struct stat st;

        if (stat("/", &st) < 0 || gethostname(name, sizeof(name) - 1) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot look at this host: %s", strerror(errno));
        snprintf(uid, sizeof(uid), "%d", BOX_ID);
        snprintf(port, sizeof(port), "%u", v->host.port);
        snprintf(pids, sizeof(pids), "%d", VERIFY_PIDS_LIMIT);
        snprintf(nofile, sizeof(nofile), "%" PRIu64, t->policy->nofile);
        snprintf(bystander, sizeof(bystander), "%d", v->host.bystander);
        snprintf(root, sizeof(root), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
        char *args[PROBE_ARG_COUNT] = {
                [PROBE_ARG_TOKEN - 1] = v->host.token, [PROBE_ARG_FUNCTION - 1] = (char *)(uintptr_t)functions[id],
                [PROBE_ARG_UID - 1] = uid, [PROBE_ARG_HOST_FILE - 1] = v->host.file, [PROBE_ARG_HOST_ROOT - 1] = root,
                [PROBE_ARG_HOST_NAME - 1] = name, [PROBE_ARG_HOST_PID - 1] = bystander, [PROBE_ARG_PORT - 1] = port,
                [PROBE_ARG_SOCKET - 1] = v->host.socket_name, [PROBE_ARG_SOCKET_PATH - 1] = v->host.socket_path,
                [PROBE_ARG_SECRET - 1] = v->host.secret, [PROBE_ARG_PIDS - 1] = pids,
                [PROBE_ARG_NOFILE - 1] = nofile,
        };
        struct run_request request = {
                .policy = t->policy, .language = &language, .code = "", .args = args,
                .workspace = checks[id].workspace ? v->host.workspace : NULL, .uid = BOX_ID, .gid = BOX_ID,
                .stdin_fd = -1, .cancel_fd = v->cancel_fd, .keep_output = true,
                .callbacks = {.output = id == PROBE_survivor ? on_output : NULL, .data = v},
        };
        uint64_t start = monotonic_usec();
        int r = run_execute(&request, &t->result, err);
        t->took_usec = monotonic_usec() - start;
        return r;
}

static void trial_done(struct trial *t)
{
        policy_free(t->policy);
        result_free(t->result);
}

static int run_check(struct verify *v, enum probe_id id, gb_error *err)
{
        _cleanup_(trial_done) struct trial t = {.v = v};
        struct row *row = &v->rows[id];

        int r = verify_host_clear(&v->host, err);
        if (r == 0)
                r = make_policy(v, id, &t.policy, err);
        if (r == 0)
                r = run_box(&t, id, err);
        if (r < 0) {
                judge(row, OUTCOME_FAIL, "the probe could not be run: %.400s", err->message);
                return r;
        }
        trial_read(&t);
        row->attempts = MAX(t.held + t.open, (unsigned)t.ran); /* a bomb is one */
        checks[id].judge(&t, row);
        return 0;
}

/* After the box of the survivors probe: its groups must be gone. */
static void check_cgroups(struct verify *v)
{
        struct row *row = &v->rows[ROW_CGROUPS];
        struct cgroup_host host;
        unsigned looked = 0, left = 0;

        if (cgroup_find(false, &host) < 0) {
                judge(row, OUTCOME_FAIL, "cannot look at the cgroups of this host");
                return;
        }
        for (int kind = 0; kind < CGROUP_KIND_COUNT; kind++)
                if (host.parent[kind] >= 0) {
                        looked++;
                        left += v->cgroup[0] && faccessat(host.parent[kind], v->cgroup, F_OK, 0) == 0;
                }
        if (looked == 0)
                judge(row, OUTCOME_WEAKER, "no cgroup can be made by this user, so that none can be left");
        else if (!v->cgroup[0])
                judge(row, OUTCOME_FAIL, "no process of the box was seen in a cgroup of its own");
        else if (left > 0)
                judge(row, OUTCOME_FAIL, "%s is still there in %u hierarchies", v->cgroup, left);
        else
                judge(row, OUTCOME_PASS, "%s was there during the run and is gone from %u hierarchies", v->cgroup, looked);
        row->attempts = looked;
        cgroup_host_done(&host);
}

/* ---- the verb ---- */

/* Helpers lie beside each other once installed; in the build tree this one lies with the runner. */
static int find_probe(char **ret, gb_error *err)
{
        _cleanup_free_ char *path = NULL;

        int r = path_libexec("glovebox-probe", &path);
        if (r < 0 || access(path, X_OK) < 0)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "cannot find glovebox-probe at %s; reinstall glovebox, or set GLOVEBOX_LIBEXEC_DIR",
                                 path ? path : "its place");
        *ret = TAKE_PTR(path);
        return 0;
}

static void name_rows(struct verify *v)
{
        static const struct row names[ROW_COUNT] = {
#define PROBE_NAMES(function, probe_name, number, what) {.name = probe_name, .catalogue = number, .tries = what},
                PROBES(PROBE_NAMES)
#undef PROBE_NAMES
                {.name = "cgroup directories", .catalogue = 98, .tries = "leave a cgroup behind"},
        };

        memcpy(v->rows, names, sizeof(names));
        for (size_t i = 0; i < ROW_COUNT; i++)
                judge(&v->rows[i], OUTCOME_FAIL, "it was not run");
}

/* All rows. An error is one that would be the same for each of them: not even the first box can
 * be made. */
static int attack(struct verify *v, gb_error *err)
{
        for (int id = 0; id < PROBE_COUNT && !signals_pending(); id++) {
                int r = run_check(v, (enum probe_id)id, err);
                if (r < 0 && (id == 0 || err->code == GB_E_UNENFORCEABLE))
                        return r;
                if (id == PROBE_survivor)
                        check_cgroups(v);
        }
        return 0;
}

static unsigned count(const struct verify *v, enum outcome outcome)
{
        unsigned n = 0;

        for (size_t i = 0; i < ROW_COUNT; i++)
                n += v->rows[i].outcome == outcome;
        return n;
}

static json_t *verify_to_json(const struct verify *v)
{
        static const char *const outcome_names[] = {"fail", "pass", "weaker"};
        json_t *list = json_array();

        for (size_t i = 0; i < ROW_COUNT; i++) {
                const struct row *row = &v->rows[i];
                json_array_append_new(list, json_pack("{s:s, s:o, s:s, s:s, s:i, s:s}", "name", row->name, "catalogue",
                                                      row->catalogue ? json_integer(row->catalogue) : json_null(), "tried",
                                                      row->tries, "outcome", outcome_names[row->outcome], "attempts",
                                                      (int)row->attempts, "happened", row->happened));
        }
        unsigned failed = count(v, OUTCOME_FAIL);
        return json_pack("{s:b, s:i, s:i, s:i, s:o}", "isolated", failed == 0, "passed", (int)count(v, OUTCOME_PASS), "failed",
                         (int)failed, "weaker", (int)count(v, OUTCOME_WEAKER), "probes", list);
}

static int write_table(const struct verify *v, bool quiet, bool colours, struct buffer *out)
{
        static const char *const shown[] = {"FAIL", "PASS", "WEAKER"};
        static const char *const colour[] = {"\033[31m", "\033[32m", "\033[33m"};
        unsigned failed = count(v, OUTCOME_FAIL), weaker = count(v, OUTCOME_WEAKER);
        int r = 0;

        for (size_t i = 0; i < ROW_COUNT && r == 0; i++) {
                const struct row *row = &v->rows[i];
                if (quiet && row->outcome != OUTCOME_FAIL)
                        continue;
                r = buffer_printf(out, "%s%-6s%s  %-22s %s\n%-8s%-22s %s\n", colours ? colour[row->outcome] : "",
                                  shown[row->outcome], colours ? "\033[0m" : "", row->name, row->tries, "", "", row->happened);
        }
        if (r < 0 || quiet)
                return r;
        if (failed > 0)
                return buffer_printf(out, "\n%u of %d probes FAILED: do not run code here that you do not trust.\n", failed, ROW_COUNT);
        if (weaker > 0)
                return buffer_printf(out, "\nNothing escaped; %u of %d controls are not enforced, as was allowed.\n", weaker, ROW_COUNT);
        return buffer_printf(out, "\nNothing escaped: all %d probes were held.\n", ROW_COUNT);
}

static int show(const struct verify *v, const struct arguments *a, gb_error *err)
{
        _cleanup_buffer_ struct buffer text;
        const char *no = getenv("NO_COLOR");
        int status;

        buffer_init(&text, TEXT_BYTES_MAX);
        if (arguments_has(a, OPT_JSON)) {
                _cleanup_json_ json_t *json = verify_to_json(v);
                status = output_json(json);
        } else {
                if (write_table(v, arguments_has(a, OPT_QUIET), isatty(STDOUT_FILENO) && !(no && *no), &text) < 0)
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
                status = output_text(&text);
        }
        return status != 0 ? status : count(v, OUTCOME_FAIL) > 0 ? STATUS_ESCAPED : 0;
}

static void verify_done(struct verify *v)
{
        verify_host_done(&v->host);
        safe_close(v->cancel_fd);
        free(v->probe_path);
}

static int verify(const struct option_set *set, const struct arguments *a, gb_error *err)
{
        _cleanup_(verify_done) struct verify v = {.host = VERIFY_HOST_INIT, .cancel_fd = -1};
        _cleanup_policy_ struct policy *policy = NULL;

        int r = settings_policy(set, a, &policy, err);
        if (r == 0 && policy->backend != BACKEND_NATIVE)
                return error_set(err, GB_E_USAGE, ENOTSUP, "verify attacks boxes of the native backend, and the policy says backend: docker: give another with --policy");
        if (r == 0)
                r = find_probe(&v.probe_path, err);
        if (r < 0)
                return r;
        v.allow_weaker = policy->allow_weaker;
        name_rows(&v);
        v.cancel_fd = signals_start();
        if (v.cancel_fd < 0)
                return error_set(err, GB_E_INTERNAL, -v.cancel_fd, "cannot make an eventfd: %s", strerror(-v.cancel_fd));
        r = verify_host_init(&v.host, err);
        if (r == 0)
                r = attack(&v, err);
        verify_host_done(&v.host);
        v.host = (struct verify_host)VERIFY_HOST_INIT;
        if (r < 0)
                return r;
        if (signals_pending()) {
                message_print(MESSAGE_ERROR, "interrupted; nothing is proved");
                return STATUS_INTERRUPTED;
        }
        signals_stop();
        return show(&v, a, err);
}

int command_verify(const struct command *command, const struct arguments *arguments)
{
        gb_error err = {.code = GB_E_INTERNAL, .message = "unknown failure"};

        int r = verify(&command->options, arguments, &err);
        return r < 0 ? command_fail(arguments, &err) : r;
}
