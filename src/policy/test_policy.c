/* SPDX-License-Identifier: Apache-2.0
 *
 * Values from flags, and the last check. */
#include "policy/policy.h"

#include "base/fd.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct policy *make(const char *trust)
{
        struct policy *p = NULL;
        static const char text[] = "trust_levels: {untrusted: {}}";
        gb_error err;

        if (policy_parse("x.yaml", text, strlen(text), trust, &p, &err) < 0)
                fail_msg("%s", err.message);
        return p;
}

static void test_defaults(void **state)
{
        _cleanup_policy_ struct policy *p = make(NULL);
        gb_error err;

        assert_int_equal(p->mem_limit_bytes, 512 * MIB);
        assert_int_equal(p->cpu_milli, 1000);
        assert_int_equal(p->timeout_usec, 30000000);
        assert_int_equal(p->timeout_max_usec, 300000000);
        assert_int_equal(p->cpu_time_usec, 0);
        assert_int_equal(p->pids_limit, 128);
        assert_int_equal(p->tmp_size_bytes, 100 * MIB);
        assert_int_equal(p->disk_limit_bytes, 100 * MIB);
        assert_int_equal(p->inode_limit, 65536);
        assert_int_equal(p->output_limit_bytes, 10 * MIB);
        assert_int_equal(p->nofile, 1024);
        assert_true(p->read_only);
        assert_int_equal(p->network_mode, NETWORK_NONE);
        assert_int_equal(p->backend, BACKEND_NATIVE);
        assert_null(p->runtime);
        assert_null(p->image);
        assert_int_equal(p->allow_weaker, 0);
        assert_string_equal(p->trust, "standard");
        assert_int_equal(policy_validate(p, &err), 0);
}

static void test_table(void **state)
{
        _cleanup_policy_ struct policy *p = make(NULL);
        char value[POLICY_VALUE_MAX];
        gb_error err;

        for (size_t i = 0; i < n_policy_options; i++) {
                const struct policy_option *o = &policy_options[i];

                assert_ptr_equal(policy_option_by_key(o->key), o);
                assert_true(strlen(o->help) > 0 && strlen(o->placeholder) > 0);
                assert_int_equal(o->flag == NULL, o->env == NULL);
                /* What a policy says of itself can be given back to it. */
                policy_option_value(o, p, value);
                if (o->flag)
                        assert_int_equal(policy_set(p, o->key, value, "x", &err), 0);
        }
        assert_null(policy_option_by_key("nothing"));
        assert_string_equal(policy_option_value(policy_option_by_key("cpu_time"), p, value), "none");
        assert_string_equal(policy_option_value(policy_option_by_key("mem_limit"), p, value), "512m");
}

/* docs/policy.md has a line for each row, with the same words. */
static void test_docs(void **state)
{
        _cleanup_close_ int fd = open(POLICY_DOC, O_RDONLY | O_CLOEXEC);
        _cleanup_free_ char *doc = NULL;

        assert_true(fd >= 0);
        assert_int_equal(fd_read_all(fd, MIB, &doc, NULL), 0);
        for (size_t i = 0; i < n_policy_options; i++) {
                const struct policy_option *o = &policy_options[i];
                char start[200], end[200], range[POLICY_RANGE_MAX];

                if (o->flag)
                        snprintf(start, sizeof(start), "\n| `%s` | `--%s` | `%s` | ", o->key, o->flag, o->env);
                else
                        snprintf(start, sizeof(start), "\n| `%s` | (file only) | | ", o->key);
                snprintf(end, sizeof(end), " | `%s` | %s", o->fallback, policy_option_range(o, range));
                const char *line = strstr(doc, start);
                if (!line)
                        fail_msg("no line%s", start);
                const char *rest = strstr(line + 1, end);
                if (!rest || rest > strchr(line + 1, '\n'))
                        fail_msg("%s: not%s", o->key, end);
        }
}

static void test_set(void **state)
{
        _cleanup_policy_ struct policy *p = make(NULL);
        static const struct {
                const char *key, *value;
        } rows[] = {
                {"cpu_count", "0.5"}, {"mem_limit", "64m"}, {"timeout", "300"}, {"cpu_time", "2s"}, {"pids_limit", "2"},
                {"tmp_size", "1m"}, {"disk_limit", "1GiB"}, {"inode_limit", "100"}, {"output_limit", "1k"}, {"nofile", "16"},
                {"read_only", "false"}, {"network_mode", "host"}, {"backend", "docker"}, {"image", "debian:12"}, {"env", "A=1"}, {"env", "B="}, {"env", "A=2=3"},
                {"allow_weaker", "landlock"}, {"allow_weaker", "cgroup"}, {"mounts", "/srv//x:/data/./y//:rw"},
                {"mounts", "a:b:/mnt/c"}, {"mounts", "rel:/mnt/d:ro"},
        };
        gb_error err;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (policy_set(p, rows[i].key, rows[i].value, "--x", &err) < 0)
                        fail_msg("%s", err.message);
        assert_int_equal(policy_validate(p, &err), 0);
        assert_int_equal(p->cpu_milli, 500);
        assert_int_equal(p->timeout_usec, 300000000);
        assert_int_equal(p->cpu_time_usec, 2000000);
        assert_false(p->read_only);
        assert_int_equal(p->network_mode, NETWORK_HOST);
        assert_int_equal(p->n_env, 2);
        assert_string_equal(p->env[0].value, "2=3");
        assert_string_equal(p->env[1].value, "");
        assert_int_equal(p->allow_weaker, 1u << CONTROL_LANDLOCK | 1u << CONTROL_MEMORY | 1u << CONTROL_PIDS | 1u << CONTROL_CPU);

        _cleanup_free_ char *cwd = getcwd(NULL, 0);
        char path[HOST_PATH_MAX];
        assert_int_equal(p->n_mounts, 3);
        assert_string_equal(p->mounts[0].source, "/srv//x");
        assert_string_equal(p->mounts[0].target, "/data/y");
        assert_true(p->mounts[0].writable);
        snprintf(path, sizeof(path), "%s/a:b", cwd);
        assert_string_equal(p->mounts[1].source, path);
        assert_false(p->mounts[1].writable);
        assert_false(p->mounts[2].writable);
}

struct refused {
        const char *key, *value, *message;
        int code; /* 0: usage */
};

static void check_refused(const char *trust, const struct refused *rows, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                _cleanup_policy_ struct policy *p = make(trust);
                gb_error err = {0};

                int r = policy_set(p, rows[i].key, rows[i].value, "--flag", &err);
                if (r >= 0 || strcmp(err.message, rows[i].message) != 0 || err.code != (rows[i].code ? rows[i].code : GB_E_USAGE))
                        fail_msg("%s=%s: %d, %d, %s", rows[i].key, quote(rows[i].value).text, r, err.code, err.message);
        }
}

#define MEM_RANGE "4m to 1t"

static void test_refused_values(void **state)
{
        static const struct refused rows[] = {
                {"mem_limit", "0", "--flag: \"0\" is too small; allowed: " MEM_RANGE},
                {"mem_limit", "-1", "--flag: \"-1\" is not a size; allowed: " MEM_RANGE ", such as 512m"},
                {"mem_limit", "NaN", "--flag: \"NaN\" is not a size; allowed: " MEM_RANGE ", such as 512m"},
                {"mem_limit", "", "--flag: \"\" is not a size; allowed: " MEM_RANGE ", such as 512m"},
                {"mem_limit", "none", "--flag: \"none\" is not a size; allowed: " MEM_RANGE ", such as 512m"},
                {"mem_limit", "2t", "--flag: \"2t\" is too large; allowed: " MEM_RANGE, GB_E_LIMIT},
                {"mem_limit", "99999999999999999999t", "--flag: \"99999999999999999999t\" is too large; allowed: " MEM_RANGE, GB_E_LIMIT},
                {"timeout", "0", "--flag: \"0\" is too small; allowed: 1ms to 24h"},
                {"timeout", "1e308", "--flag: \"1e308\" is not a time; allowed: 1ms to 24h, such as 30s or 500ms"},
                {"timeout", "inf", "--flag: \"inf\" is not a time; allowed: 1ms to 24h, such as 30s or 500ms"},
                {"timeout", "25h", "--flag: \"25h\" is too large; allowed: 1ms to 24h", GB_E_LIMIT},
                {"timeout", "301",
                 "--flag: 301s is above timeout_max, which is 300s at trust level \"standard\"; ask for less or raise timeout_max in the policy file",
                 GB_E_LIMIT},
                {"timeout_max", "10", "--flag: only the policy file can set timeout_max"},
                {"cpu_time", "0", "--flag: \"0\" is too small; allowed: 1ms to 24h, or none"},
                {"cpu_count", "0", "--flag: \"0\" is too small; allowed: 0.01 to 1024"},
                {"cpu_count", "x", "--flag: \"x\" is not a number of CPUs; allowed: 0.01 to 1024, such as 1 or 0.5"},
                {"pids_limit", "1", "--flag: \"1\" is too small; allowed: 2 to 65536"},
                {"pids_limit", "1.5", "--flag: \"1.5\" is not a whole number; allowed: 2 to 65536"},
                {"nofile", "15", "--flag: \"15\" is too small; allowed: 16 to 1048576"},
                {"read_only", "yes", "--flag: \"yes\" is not a yes or no; allowed: true or false"},
                {"network_mode", "bridge", "--flag: \"bridge\" is not a network mode; allowed: none, allowlist, whitelist or host"},
                {"mem_limt", "1g", "--flag: a policy has no key \"mem_limt\""},
                {"mem_limit", "\x1b[2J", "--flag: \"\\x1b[2J\" is not a size; allowed: " MEM_RANGE ", such as 512m"},
        };
        check_refused(NULL, rows, ARRAY_SIZE(rows));
}

#define RUNTIME_RANGE "default, or at most 63 of letters, digits and . _ -, a letter or digit first"
#define IMAGE_RANGE "default, or at most 255 of letters, digits and . _ - / : @, a letter or digit first"

/* 192: a name that an engine, a shell or a file system could take for something else. */
static void test_refused_names(void **state)
{
        static const struct refused rows[] = {
                {"backend", "Docker", "--flag: \"Docker\" is not a backend; allowed: native or docker"},
                {"backend", "", "--flag: \"\" is not a backend; allowed: native or docker"},
                {"runtime", "--privileged", "--flag: \"--privileged\" is not the name of a runtime; allowed: " RUNTIME_RANGE},
                {"runtime", "a/b", "--flag: \"a/b\" is not the name of a runtime; allowed: " RUNTIME_RANGE},
                {"runtime", "", "--flag: \"\" is not the name of a runtime; allowed: " RUNTIME_RANGE},
                {"image", "--privileged", "--flag: \"--privileged\" is not the name of an image; allowed: " IMAGE_RANGE},
                {"image", "-v", "--flag: \"-v\" is not the name of an image; allowed: " IMAGE_RANGE},
                {"image", "a;b", "--flag: \"a;b\" is not the name of an image; allowed: " IMAGE_RANGE},
                {"image", "a b", "--flag: \"a b\" is not the name of an image; allowed: " IMAGE_RANGE},
                {"image", "a?b", "--flag: \"a?b\" is not the name of an image; allowed: " IMAGE_RANGE},
                {"image", "a%2fb", "--flag: \"a%2fb\" is not the name of an image; allowed: " IMAGE_RANGE},
                {"image", "../x", "--flag: \"../x\" is not the name of an image; allowed: " IMAGE_RANGE},
                {"image", "a/../x", "--flag: \"a/../x\" is not the name of an image; allowed: " IMAGE_RANGE},
                {"image", "/x", "--flag: \"/x\" is not the name of an image; allowed: " IMAGE_RANGE},
                {"image", "a//x", "--flag: \"a//x\" is not the name of an image; allowed: " IMAGE_RANGE},
                {"image", "", "--flag: \"\" is not the name of an image; allowed: " IMAGE_RANGE},
                {"image", "a\nb", "--flag: \"a\\x0ab\" is not the name of an image; allowed: " IMAGE_RANGE},
        };
        char longest[IMAGE_REFERENCE_MAX + 2];

        check_refused(NULL, rows, ARRAY_SIZE(rows));
        memset(longest, 'a', sizeof(longest));
        for (int too_long = 0; too_long < 2; too_long++) {
                _cleanup_policy_ struct policy *p = make(NULL);
                gb_error err;

                longest[IMAGE_REFERENCE_MAX + too_long] = '\0';
                assert_int_equal(policy_set(p, "image", longest, "--image", &err) < 0, too_long);
                longest[IMAGE_REFERENCE_MAX + too_long] = 'a';
                longest[RUNTIME_NAME_MAX + too_long] = '\0';
                assert_int_equal(policy_set(p, "runtime", longest, "--runtime", &err) < 0, too_long);
                longest[RUNTIME_NAME_MAX + too_long] = 'a';
                if (too_long)
                        assert_int_equal(err.code, GB_E_LIMIT);
        }
}

static void test_backend(void **state)
{
        _cleanup_policy_ struct policy *p = make(NULL);
        char value[POLICY_VALUE_MAX];
        gb_error err;

        /* In any order: only the last check joins them. */
        assert_int_equal(policy_set(p, "runtime", "runsc", "--runtime", &err), 0);
        assert_true(policy_validate(p, &err) < 0);
        assert_string_equal(err.message, "runtime: \"runsc\" is a runtime of an engine, and the backend is native; "
                                         "use it with the backend docker, or the runtime \"default\"");
        assert_int_equal(policy_set(p, "backend", "docker", "--backend", &err), 0);
        assert_int_equal(policy_set(p, "image", "registry.example.com:5000/team/py@sha256:00ff", "--image", &err), 0);
        assert_int_equal(policy_validate(p, &err), 0);

        _cleanup_policy_ struct policy *copy = policy_copy(p);
        assert_non_null(copy);
        assert_int_equal(copy->backend, BACKEND_DOCKER);
        assert_ptr_not_equal(copy->runtime, p->runtime);
        assert_string_equal(copy->runtime, "runsc");
        assert_string_equal(policy_option_value(policy_option_by_key("image"), copy, value), "registry.example.com:5000/team/py@sha256:00ff");
        assert_int_equal(policy_set(copy, "image", "default", "--image", &err), 0);
        assert_null(copy->image);
        assert_int_equal(policy_set(copy, "runtime", "-x", "--runtime", &err) < 0, 1);
        assert_string_equal(copy->runtime, "runsc"); /* what is refused changes nothing */
        assert_string_equal(policy_option_value(policy_option_by_key("backend"), copy, value), "docker");
}

#define ALLOWED "use a place of its own such as /data, /project or /mnt/x"
#define FORM "allowed: SOURCE:TARGET, optionally followed by :ro, :rw or :hide"
#define ABSOLUTE "is not an absolute path without \"..\", \":\" and control characters"

static void test_refused_lists(void **state)
{
        static const struct refused rows[] = {
                {"env", "A", "--flag: \"A\" is not NAME=value"},
                {"env", "=x", "--flag: \"\" is not a variable's name; allowed are letters, digits and _, and no digit at its start"},
                {"env", "1A=x", "--flag: \"1A\" is not a variable's name; allowed are letters, digits and _, and no digit at its start"},
                {"env", "A-B=x", "--flag: \"A-B\" is not a variable's name; allowed are letters, digits and _, and no digit at its start"},
                {"mounts", "/a", "--flag: \"/a\" is not a mount; " FORM},
                {"mounts", "", "--flag: \"\" is not a mount; " FORM},
                {"mounts", ":/a", "--flag: \":/a\" is not a mount; " FORM},
                {"mounts", "/a:", "--flag: \"/a:\" is not a mount; " FORM},
                {"mounts", "/a:ro", "--flag: \"/a:ro\" is not a mount; " FORM},
                {"mounts", "/a:/b:xx", "--flag: \"/a:/b:xx\" does not end with ro, rw, hide or an absolute target"},
                {"mounts", "/a:b", "--flag: the target \"b\" " ABSOLUTE},
                {"mounts", "/a:/b/../etc", "--flag: the target \"/b/../etc\" " ABSOLUTE},
                {"mounts", "/a:/b\n", "--flag: the target \"/b\\x0a\" " ABSOLUTE},
                {"mounts", "/a:/", "--flag: the target cannot be /; " ALLOWED},
                {"mounts", "/a://./", "--flag: the target cannot be /; " ALLOWED},
                {"mounts", "/a:/proc", "--flag: the target \"/proc\" lies in /proc, which belongs to the box; " ALLOWED},
                {"mounts", "/a:/usr/share/x", "--flag: the target \"/usr/share/x\" lies in /usr, which belongs to the box; " ALLOWED},
                {"mounts", "/a://lib64/", "--flag: the target \"//lib64/\" lies in /lib64, which belongs to the box; " ALLOWED},
                {"mounts", "/a:/tmp/x", "--flag: the target \"/tmp/x\" lies in /tmp, which belongs to the box; " ALLOWED},
                {"mounts", "/a:/sandbox/x", "--flag: the target \"/sandbox/x\" lies in /sandbox, which belongs to the box; " ALLOWED},
        };
        static const char *const reserved[] = {"proc", "sys", "dev", "etc", "usr", "bin", "sbin", "lib", "lib32",
                                               "lib64", "libx32", "run", "tmp", "sandbox", "workspace"};
        check_refused(NULL, rows, ARRAY_SIZE(rows));

        _cleanup_policy_ struct policy *p = make(NULL);
        gb_error err;
        for (size_t i = 0; i < ARRAY_SIZE(reserved); i++) {
                char text[64];
                snprintf(text, sizeof(text), "/a:/%s", reserved[i]);
                assert_true(policy_set(p, "mounts", text, "-v", &err) < 0);
                snprintf(text, sizeof(text), "/a:/%sx%zu", reserved[i], i); /* only the whole name is reserved */
                assert_int_equal(policy_set(p, "mounts", text, "-v", &err), 0);
        }
}

static void test_untrusted_network(void **state)
{
        static const struct refused rows[] = {
                {"network_mode", "host", "--flag: \"host\" is refused at trust level \"untrusted\"; allowed: none, allowlist, or run at another trust level"},
        };
        check_refused("untrusted", rows, ARRAY_SIZE(rows));
}

static void test_mounts_overlap(void **state)
{
        _cleanup_policy_ struct policy *p = make(NULL);
        gb_error err;

        assert_int_equal(policy_set(p, "mounts", "/x:/data", "-v", &err), 0);
        assert_int_equal(policy_set(p, "mounts", "/x:/data2", "-v", &err), 0);
        assert_true(policy_set(p, "mounts", "/y:/data/", "-v", &err) < 0);
        assert_string_equal(err.message, "-v: two mounts have the target \"/data\"");
        assert_true(policy_set(p, "mounts", "/y:/data/in", "-v", &err) < 0);
        assert_string_equal(err.message, "-v: the targets \"/data\" and \"/data/in\" lie one in the other; mounts cannot be nested");
        assert_int_equal(policy_set(p, "mounts", "/y:/mnt/a", "-v", &err), 0);
        assert_true(policy_set(p, "mounts", "/y:/mnt", "-v", &err) < 0);
        assert_int_equal(p->n_mounts, 3);
}

static void test_bounds(void **state)
{
        _cleanup_policy_ struct policy *p = make(NULL);
        _cleanup_free_ char *big = calloc(1, ARG_BYTES_MAX + 16), *deep = NULL;
        char text[64];
        gb_error err;

        for (int i = 0; i < MOUNT_COUNT_MAX; i++) {
                snprintf(text, sizeof(text), "/x:/m%d", i);
                assert_int_equal(policy_set(p, "mounts", text, "-v", &err), 0);
        }
        assert_true(policy_set(p, "mounts", "/x:/more", "-v", &err) < 0);
        assert_string_equal(err.message, "-v: too many mounts; at most 32");

        for (int i = 0; i < ENV_COUNT_MAX; i++) {
                snprintf(text, sizeof(text), "V%d=", i);
                assert_int_equal(policy_set(p, "env", text, "-e", &err), 0);
        }
        assert_true(policy_set(p, "env", "MORE=", "-e", &err) < 0);
        assert_string_equal(err.message, "-e: too many variables; at most 256");
        memset(big, 'x', ARG_BYTES_MAX + 15);
        memcpy(big, "V0=", 3);
        assert_true(policy_set(p, "env", big, "-e", &err) < 0);
        assert_string_equal(err.message, "-e: the environment is too large; at most 256 KiB in all");
        big[ARG_BYTES_MAX / 2] = '\0';
        for (int i = 0; i < 3; i++) /* replaced, not added up */
                assert_int_equal(policy_set(p, "env", big, "-e", &err), 0);

        assert_true(asprintf(&deep, "/x:/d%0*d", BOX_PATH_MAX, 0) > 0);
        assert_true(policy_set(p, "mounts", deep, "-v", &err) < 0);
        assert_non_null(strstr(err.message, "is too long; at most 255 bytes"));
        assert_int_equal(policy_validate(p, NULL), 0);
}

static void test_validate(void **state)
{
        gb_error err;

#define BROKEN(change, text)                                         \
        do {                                                         \
                _cleanup_policy_ struct policy *p = make("untrusted"); \
                change;                                              \
                assert_true(policy_validate(p, &err) < 0);           \
                if (!strstr(err.message, text))                      \
                        fail_msg("%s", err.message);                 \
        } while (0)

        BROKEN(p->mem_limit_bytes = 0, "mem_limit: \"0\" is too small; allowed: 4m to 1t");
        BROKEN(p->pids_limit = 100000, "pids_limit: \"100000\" is too large");
        BROKEN(p->timeout_usec = p->timeout_max_usec + 1, "timeout: 300.000001s is above timeout_max, which is 300s");
        BROKEN(p->cpu_time_usec = 999, "cpu_time: \"0.999ms\" is too small");
        BROKEN(p->network_mode = NETWORK_HOST, "network_mode: \"host\" is refused at trust level");
        BROKEN(p->scratch_only = true; p->read_only = false, "scratch_only: true cannot be combined with read_only: false");
        BROKEN(p->image = strdup("-v"), "image: \"-v\" is not a name");
        BROKEN(p->allow_weaker = 1u << CONTROL_SECCOMP, "allow_weaker:");
        BROKEN(policy_set(p, "mounts", "/x:/data", "-v", &err); strcpy(p->mounts[0].target, "/etc"), "mounts: the target \"/etc\"");
        BROKEN(policy_set(p, "mounts", "/x:/data", "-v", &err); strcpy(p->mounts[0].target, "/a/"), "not normalised");
        BROKEN(policy_set(p, "mounts", "/x:/data", "-v", &err); p->mounts[0].source[0] = 'x', "mounts: the source \"xx\"");
        BROKEN(policy_set(p, "env", "ABC=1", "-e", &err); p->env[0].name[1] = '=', "env: the name \"A=C\" holds a \"=\"");
#undef BROKEN
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults),       cmocka_unit_test(test_table),
                cmocka_unit_test(test_set),            cmocka_unit_test(test_refused_values),
                cmocka_unit_test(test_refused_lists),  cmocka_unit_test(test_untrusted_network),
                cmocka_unit_test(test_mounts_overlap), cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_validate),       cmocka_unit_test(test_docs),
                cmocka_unit_test(test_refused_names),  cmocka_unit_test(test_backend),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
