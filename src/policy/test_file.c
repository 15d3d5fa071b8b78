/* SPDX-License-Identifier: Apache-2.0
 *
 * The policy file: what it may say, where its mistakes are told, and the built-in one. */
#include "policy/policy.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct policy *parse(const char *text, const char *trust)
{
        struct policy *p = NULL;
        gb_error err;

        if (policy_parse("x.yaml", text, strlen(text), trust, &p, &err) < 0)
                fail_msg("%s", err.message);
        return p;
}

static void test_values(void **state)
{
        static const char text[] = "mem_limit: 64m\n"
                                   "timeout: 1.5\n"
                                   "pids_limit: '10'\n"
                                   "read_only: false\n"
                                   "cap_drop: [ALL]\n"
                                   "security_opt:\n"
                                   "  - no-new-privileges\n"
                                   "mounts:\n"
                                   "  - /srv/a:/data:rw\n"
                                   "  - {source: '/srv/b:c', target: /mnt/b}\n"
                                   "  - {source: /srv/d, target: /mnt/d, read_only: false}\n"
                                   "env: {A: 1, B: true, C: 'x=y', D: \"\", E: 007}\n"
                                   "allow_weaker: [cgroup]\n"
                                   "default_trust: mine\n"
                                   "trust_levels:\n"
                                   "  mine: {timeout: 2, mounts: [], env: {A: 2}}\n"
                                   "  other:\n";
        _cleanup_policy_ struct policy *mine = parse(text, NULL), *other = parse(text, "other"), *standard = parse(text, "standard");

        assert_string_equal(mine->trust, "mine");
        assert_string_equal(mine->origin, "x.yaml");
        assert_int_equal(mine->timeout_usec, 2000000);
        assert_int_equal(mine->mem_limit_bytes, 64 * MIB);
        assert_int_equal(mine->n_mounts, 0); /* a level's list replaces the one above */
        assert_int_equal(mine->n_env, 1);
        assert_string_equal(other->trust, "other");
        assert_int_equal(other->timeout_usec, 1500000);
        assert_int_equal(other->pids_limit, 10);
        assert_false(other->read_only);
        assert_int_equal(other->n_mounts, 3);
        assert_true(other->mounts[0].writable);
        assert_false(other->mounts[1].writable);
        assert_string_equal(other->mounts[1].source, "/srv/b:c");
        assert_true(other->mounts[2].writable);
        assert_int_equal(other->n_env, 5);
        assert_string_equal(other->env[1].value, "true");
        assert_string_equal(other->env[3].value, "");
        assert_string_equal(other->env[4].value, "007");
        assert_int_equal(other->allow_weaker, 1u << CONTROL_MEMORY | 1u << CONTROL_PIDS | 1u << CONTROL_CPU);
        assert_string_equal(standard->trust, "standard"); /* is always there */
}

struct refused {
        const char *text, *message;
};

#define IMAGE_RANGE "default, or at most 255 of letters, digits and . _ - / : @, a letter or digit first"

static void test_refused(void **state)
{
        static const struct refused rows[] = {
                {"mem_limt: 1g\n", "x.yaml:1:1: unknown key \"mem_limt\"; did you mean \"mem_limit\"?"},
                {"zebra: 1\n", "x.yaml:1:1: unknown key \"zebra\"; the keys here are: cpu_count, mem_limit, timeout, timeout_max, "
                               "cpu_time, pids_limit, tmp_size, disk_limit, inode_limit, output_limit, result_count, result_limit, nofile, read_only, scratch_only, "
                               "network_mode, network_bytes, network_requests, network_connections, guard, scrub, warm, backend, runtime, image, cap_drop, security_opt, mounts, env, "
                               "allow_weaker, guard_rules, guard_imports, network_allow, network_ranges, default_trust, trust_levels"},
                {"timeout: 5\nmem_limit: 0\n", "x.yaml:2:12: mem_limit: \"0\" is too small; allowed: 4m to 1t"},
                {"mem_limit: 1.5g\n", "x.yaml:1:12: mem_limit: \"1.5g\" is not a size; allowed: 4m to 1t, such as 512m"},
                {"mem_limit: [1]\n", "x.yaml:1:12: mem_limit: a list; allowed: 4m to 1t"},
                {"mem_limit: {a: 1}\n", "x.yaml:1:12: mem_limit: a mapping; allowed: 4m to 1t"},
                {"mem_limit:\n", "x.yaml:1:11: mem_limit: nothing; allowed: 4m to 1t"},
                {"timeout: -1\n", "x.yaml:1:10: timeout: \"-1\" is not a time; allowed: 1ms to 24h, such as 30s or 500ms"},
                {"timeout: .nan\n", "x.yaml:1:10: timeout: \".nan\" is not a time; allowed: 1ms to 24h, such as 30s or 500ms"},
                {"timeout: 301\n", "x.yaml:1:10: timeout: 301s is above timeout_max, which is 300s at trust level \"standard\"; "
                                   "ask for less or raise timeout_max in the policy file"},
                {"timeout_max: 10\n", "x.yaml:1:14: timeout: 30s is above timeout_max, which is 10s at trust level \"standard\"; "
                                      "ask for less or raise timeout_max in the policy file"},
                {"read_only: yes\n", "x.yaml:1:12: read_only: \"yes\" is not a yes or no; allowed: true or false"},
                {"network_mode: bridge\n", "x.yaml:1:15: network_mode: \"bridge\" is not a network mode; allowed: none, allowlist, whitelist or host"},
                {"backend: podman\n", "x.yaml:1:10: backend: \"podman\" is not a backend; allowed: native or docker"},
                {"runtime: runsc\n", "x.yaml:1:10: runtime: \"runsc\" is a runtime of an engine, and the backend is native; "
                                     "use it with the backend docker, or the runtime \"default\""},
                {"backend: docker\nruntime: runsc\ntrust_levels:\n  a: {backend: native}\n",
                 "x.yaml:2:10: runtime: \"runsc\" is a runtime of an engine, and the backend is native; "
                 "use it with the backend docker, or the runtime \"default\""},
                {"image: '-v'\n", "x.yaml:1:8: image: \"-v\" is not the name of an image; allowed: " IMAGE_RANGE},
                {"image: [a]\n", "x.yaml:1:8: image: a list; allowed: default, or at most 255 of letters, digits and . _ - / : @"},
                {"cap_drop: [NET_ADMIN]\n", "x.yaml:1:11: cap_drop: allowed: exactly [ALL]; all capabilities are always dropped"},
                {"cap_drop: []\n", "x.yaml:1:11: cap_drop: allowed: exactly [ALL]; all capabilities are always dropped"},
                {"cap_drop: ALL\n", "x.yaml:1:11: cap_drop: allowed: exactly [ALL]; all capabilities are always dropped"},
                {"security_opt: [seccomp=unconfined]\n",
                 "x.yaml:1:15: security_opt: allowed: exactly [no-new-privileges]; new privileges are always refused"},
                {"mounts: /a:/b\n", "x.yaml:1:9: mounts: a value; allowed: a list of SOURCE:TARGET[:ro|:rw|:hide] or {source, target, read_only, hide}"},
                {"mounts:\n  - a:/b\n", "x.yaml:2:5: mounts: the source \"a\" is not an absolute path (~ is not expanded)"},
                {"mounts:\n  - ~/a:/b\n", "x.yaml:2:5: mounts: the source \"~/a\" is not an absolute path (~ is not expanded)"},
                {"mounts:\n  - [a]\n", "x.yaml:2:5: mounts: a list; allowed: SOURCE:TARGET[:ro|:rw|:hide] or {source, target, read_only, hide}"},
                {"mounts:\n  - {source: /a}\n", "x.yaml:2:5: mounts: a mount needs source and target"},
                {"mounts: [{source: /a, target: /b, readonly: true}]\n",
                 "x.yaml:1:35: unknown key \"readonly\"; did you mean \"read_only\"?"},
                {"mounts: [{source: /a, target: /b, read_only: 1}]\n", "x.yaml:1:46: read_only: \"1\"; allowed: true or false"},
                {"mounts: [{source: [], target: /b}]\n", "x.yaml:1:19: source: a list; allowed: a path"},
                {"mounts: ['/a:/b', '/c:/b/d']\n",
                 "x.yaml:1:19: mounts: the targets \"/b\" and \"/b/d\" lie one in the other; mounts cannot be nested"},
                {"env: [A]\n", "x.yaml:1:6: env: a list; allowed: a mapping of NAME: value"},
                {"env: {A=B: 1}\n", "x.yaml:1:12: env: the name \"A=B\" holds a \"=\"; allowed are letters, digits and _"},
                {"env: {A: \"\\0\"}\n", "x.yaml:1:10: a string with a NUL character"},
                {"env:\n  A:\n", "x.yaml:2:5: env: \"A\" is nothing; allowed: a text or number, \"\" for an empty one"},
                {"allow_weaker: cgroup\n", "x.yaml:1:15: allow_weaker: a value; allowed: a list of controls, such as [cgroup]"},
                {"allow_weaker: [cgruop]\n", "x.yaml:1:16: allow_weaker: there is no control \"cgruop\"; did you mean \"cgroup\"? "
                                             "Those that can be weaker: landlock, runtime, memory, pids, cpu, or cgroup for the last three"},
                {"allow_weaker: [seccomp]\n", "x.yaml:1:16: allow_weaker: the control \"seccomp\" can never be weaker; "
                                              "those that can: landlock, runtime, memory, pids, cpu, or cgroup for the last three"},
                {"default_trust: trusted\n",
                 "x.yaml:1:16: default_trust: there is no trust level \"trusted\" in x.yaml; there are: standard"},
                {"trust_levels: [a]\n", "x.yaml:1:15: trust_levels: a list; allowed: a mapping of names to their keys"},
                {"trust_levels: {A: {}}\n", "x.yaml:1:19: trust_levels: \"A\" is not a name; allowed: a small letter, then small letters, "
                                            "digits, _ and -, at most 32 in all"},
                {"trust_levels: {a: 1}\n", "x.yaml:1:19: a: a value; allowed: a mapping of keys, {} for none"},
                /* Levels nobody asked for. */
                {"trust_levels:\n  a:\n    timeuot: 1\n", "x.yaml:3:5: unknown key \"timeuot\"; did you mean \"timeout\"?"},
                {"trust_levels:\n  a:\n    mem_limit: 1\n", "x.yaml:3:16: mem_limit: \"1\" is too small; allowed: 4m to 1t"},
                {"trust_levels:\n  a:\n    timeout: 301\n", "x.yaml:3:14: timeout: 301s is above timeout_max, which is 300s at trust level \"a\"; "
                                                            "ask for less or raise timeout_max in the policy file"},
                {"trust_levels:\n  a:\n    trust_levels: {}\n", "x.yaml:3:19: trust_levels: stands only at the top level, not in a trust level"},
                {"trust_levels:\n  untrusted:\n    network_mode: host\n",
                 "x.yaml:3:19: network_mode: \"host\" is refused at trust level \"untrusted\"; allowed: none, allowlist, or run at another trust level"},
                {"network_mode: host\ntrust_levels:\n  untrusted: {}\n",
                 "x.yaml:1:15: network_mode: \"host\" is refused at trust level \"untrusted\"; allowed: none, allowlist, or run at another trust level"},
                {"read_only: false\nscratch_only: true\n", "x.yaml:2:15: scratch_only: true cannot be combined with read_only: false, "},
                {"scratch_only: true\ntrust_levels:\n  a: {read_only: false}\n",
                 "x.yaml:1:15: scratch_only: true cannot be combined with read_only: false, "},
                {"- a\n", "x.yaml:1:1: this file: a list; allowed: a mapping of keys"},
                {"text\n", "x.yaml:1:1: this file: a value; allowed: a mapping of keys"},
                {"timeout: 1\ntimeout: 2\n", "x.yaml:2:1: the key \"timeout\" stands here twice"},
                {"timeout: &a 1\n", "x.yaml:1:10: anchors (&name) are not allowed; write the value out"},
                {"\"\\e[2J\": 1\n", "x.yaml:1:1: unknown key \"\\x1b[2J\"; the keys here are: "},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct policy *p = NULL;
                gb_error err = {0};

                int r = policy_parse("x.yaml", rows[i].text, strlen(rows[i].text), NULL, &p, &err);
                size_t n = strlen(rows[i].message);
                bool open_end = rows[i].message[n - 1] == ' ';
                if (r >= 0 || p || err.code != GB_E_POLICY ||
                    (open_end ? strncmp(err.message, rows[i].message, n) : strcmp(err.message, rows[i].message)) != 0)
                        fail_msg("%s: %d, %d, %s", rows[i].text, r, err.code, err.message);
        }
}

static void test_unknown_trust(void **state)
{
        static const char text[] = "trust_levels: {trusted: {}, lab: {}}";
        struct policy *p = NULL;
        gb_error err;

        assert_int_equal(policy_parse("x.yaml", text, strlen(text), "trustd", &p, &err), -ENOENT);
        assert_int_equal(err.code, GB_E_USAGE);
        assert_string_equal(err.message, "there is no trust level \"trustd\" in x.yaml; did you mean \"trusted\"? There are: standard, trusted, lab");
        assert_null(p);
}

static void assert_same(const struct policy *a, const struct policy *b)
{
        char x[POLICY_VALUE_MAX], y[POLICY_VALUE_MAX];

        for (size_t i = 0; i < n_policy_options; i++)
                assert_string_equal(policy_option_value(&policy_options[i], a, x), policy_option_value(&policy_options[i], b, y));
        assert_string_equal(a->trust, b->trust);
        assert_int_equal(a->allow_weaker, b->allow_weaker);
        assert_int_equal(a->n_mounts, 0);
        assert_int_equal(b->n_mounts, 0);
        assert_int_equal(a->n_env, 0);
        assert_int_equal(b->n_env, 0);
}

static void test_shipped_is_builtin(void **state)
{
        static const char *const levels[] = {NULL, "untrusted", "standard", "trusted"};
        char dir[] = "/tmp/glovebox-test-XXXXXX";

        assert_non_null(mkdtemp(dir));
        setenv("GLOVEBOX_CONFIG_DIR", dir, 1); /* is there, but empty */
        for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
                _cleanup_policy_ struct policy *builtin = NULL, *shipped = NULL;
                gb_error err;

                if (policy_load(NULL, levels[i], &builtin, &err) < 0 ||
                    policy_load(SHIPPED_CONFIG "/sandbox.yaml", levels[i], &shipped, &err) < 0)
                        fail_msg("%s", err.message);
                assert_string_equal(builtin->origin, "built-in");
                assert_string_equal(shipped->origin, SHIPPED_CONFIG "/sandbox.yaml");
                assert_same(builtin, shipped);
                assert_int_equal(policy_validate(builtin, &err), 0);
        }
        rmdir(dir);
}

static void test_default_file(void **state)
{
        _cleanup_policy_ struct policy *p = NULL, *none = NULL;
        gb_error err;

        setenv("GLOVEBOX_CONFIG_DIR", SHIPPED_CONFIG, 1);
        assert_int_equal(policy_load(NULL, "trusted", &p, &err), 0);
        assert_int_equal(p->mem_limit_bytes, GIB);
        assert_int_equal(p->cpu_milli, 2000);
        assert_int_equal(p->timeout_usec, 120000000);

        setenv("GLOVEBOX_CONFIG_DIR", "/nonexistent/dir", 1);
        assert_int_equal(policy_load(NULL, NULL, &none, &err), -ENOENT);
        assert_string_equal(err.message, "cannot open /nonexistent/dir/sandbox.yaml: No such file or directory");
        assert_int_equal(err.code, GB_E_POLICY);
        unsetenv("GLOVEBOX_CONFIG_DIR");
}

static void test_odd_files(void **state)
{
        char fifo[] = "/tmp/glovebox-test-XXXXXX";
        struct policy *p = NULL;
        gb_error err;

        assert_int_equal(policy_load("/nonexistent.yaml", NULL, &p, &err), -ENOENT);
        assert_true(policy_load("/", NULL, &p, &err) < 0);
        assert_string_equal(err.message, "/ is not a regular file");
        assert_true(policy_load("/dev/zero", NULL, &p, &err) < 0);
        assert_non_null(mkdtemp(fifo));
        rmdir(fifo);
        assert_int_equal(mkfifo(fifo, 0600), 0);
        int r = policy_load(fifo, NULL, &p, &err); /* must not hang */
        unlink(fifo);
        assert_true(r < 0);
        assert_null(p);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_values),        cmocka_unit_test(test_refused),
                cmocka_unit_test(test_unknown_trust), cmocka_unit_test(test_shipped_is_builtin),
                cmocka_unit_test(test_default_file),  cmocka_unit_test(test_odd_files),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
