/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine turns its JSON into a filter with libseccomp, which knows less than our own program: a rule there is an AND of tests of
 * different arguments, and rules of one call are ORed. So a call gets its first ALLOW_ONLY row as tests, which passes no less than the profile
 * does, and else passes as a whole. What is missing the agent adds: it loads the exact program before it executes anything.
 *
 * Calls without a row answer EPERM here, since old engines know no other default; of two filters that both refuse, the kernel takes the errno of the
 * newer one, which is ours. Rows that refuse with something else are written out for the agent's own C library (clone3: ENOSYS). */
#include "kernel/seccomp/docker.h"

#include "base/macro.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_listed(char *const *names, const char *name)
{
        for (; *names; names++)
                if (strcmp(*names, name) == 0)
                        return true;
        return false;
}

/* The row that the rules of a call are made of: the first, or the first with a test that can be told. */
static const struct seccomp_row *row_of(const struct seccomp_rule *rules, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (rules[i].row->kind == SECCOMP_ROW_REFUSE || (rules[i].row->kind == SECCOMP_ROW_ONLY && !rules[i].row->guard))
                        return rules[i].row;
        return rules[0].row;
}

/* JSON inside a C string: its quotes are escaped. */
static void print_tests(const struct seccomp_row *row)
{
        for (size_t i = 0; i < row->n_values; i++)
                printf(",\"\n        \"{\\\"names\\\":[\\\"%s\\\"],\\\"action\\\":\\\"SCMP_ACT_ALLOW\\\",\\\"args\\\":[{\\\"index\\\":%u,"
                       "\\\"value\\\":%u,\\\"valueTwo\\\":%u,\\\"op\\\":\\\"SCMP_CMP_MASKED_EQ\\\"}]}",
                       row->name, row->arg, row->mask, row->values[i].value);
}

static void print_call(const struct seccomp_row *row, bool whole)
{
        if (!whole && row->kind == SECCOMP_ROW_ONLY) {
                print_tests(row);
                return;
        }
        if (!whole && row->kind == SECCOMP_ROW_REFUSE) {
                if (row->errnum != EPERM)
                        printf(",\"\n        \"{\\\"names\\\":[\\\"%s\\\"],\\\"action\\\":\\\"SCMP_ACT_ERRNO\\\",\\\"errnoRet\\\":%d}", row->name,
                               row->errnum);
                return;
        }
        printf(",\"\n        \"{\\\"names\\\":[\\\"%s\\\"],\\\"action\\\":\\\"SCMP_ACT_ALLOW\\\"}", row->name);
}

static const char *docker_arch(const struct seccomp_arch *arch)
{
        return strcmp(arch->name, "aarch64") == 0 ? "SCMP_ARCH_AARCH64" : "SCMP_ARCH_X86_64";
}

int seccomp_print_docker(const struct seccomp_arch *arch, const char *symbol, char *const *more)
{
        _cleanup_free_ struct seccomp_rule *rules = NULL;
        size_t n_rules, n;

        int r = seccomp_resolve_profile(arch, &rules, &n_rules);
        if (r < 0)
                return r;
        printf("/* Made by seccomp-compile from profile.def for %s. */\nextern const char %s[];\n\nconst char %s[] =\n", arch->name, symbol, symbol);
        printf("        \"{\\\"defaultAction\\\":\\\"SCMP_ACT_ERRNO\\\",\\\"defaultErrnoRet\\\":%d,\\\"architectures\\\":[\\\"%s\\\"],\\\"syscalls\\\":[\"\n",
               EPERM, docker_arch(arch));
        printf("        \"{\\\"names\\\":[\\\"exit_group\\\"],\\\"action\\\":\\\"SCMP_ACT_ALLOW\\\"}");
        for (size_t i = 0; i < n_rules; i += n) {
                for (n = 1; i + n < n_rules && rules[i + n].nr == rules[i].nr;)
                        n++;
                const struct seccomp_row *row = row_of(rules + i, n);
                if (strcmp(row->name, "exit_group") != 0)
                        print_call(row, is_listed(more, row->name));
        }
        printf("]}\";\n");
        /* A name that is not in the profile would be dropped without a word. */
        for (; *more; more++) {
                int nr = seccomp_resolve(arch, *more);
                bool found = false;
                for (size_t i = 0; i < n_rules; i++)
                        found = found || (nr >= 0 && rules[i].nr == (uint32_t)nr);
                if (!found)
                        return -ENOENT;
        }
        return 0;
}
