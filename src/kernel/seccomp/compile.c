/* SPDX-License-Identifier: Apache-2.0
 *
 * The generator, run at build time on the build machine:
 *
 *   seccomp-compile <arch> <symbol> [call...]
 *                                     the program of the architecture as C, <symbol>[], n_<symbol>;
 *                                     these calls are let through whatever the profile says
 *   seccomp-compile <arch> <symbol> --only [call...]
 *                                     only these calls are judged, all others let through: what is
 *                                     missing from the program above to be that of the profile
 *   seccomp-compile --docker <arch> <symbol> [call...]
 *                                     the profile as a container engine reads it, JSON in a C string;
 *                                     these calls pass as above (docker.c)
 *   seccomp-compile --list            the profile as a page of documentation (docs/seccomp.md)
 *
 * It alone links libseccomp; glovebox carries the finished table. */
#include "base/macro.h"
#include "kernel/seccomp/docker.h"
#include "kernel/seccomp/program.h"
#include "kernel/seccomp/resolve.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Puts one row that allows in the place of all rows of a call. There is one at least. */
static int loosen(const struct seccomp_arch *arch, const char *name, struct seccomp_rule *rules, size_t *n_rules)
{
        static const struct seccomp_row allow = {.kind = SECCOMP_ROW_ALLOW, .name = "more"};
        int nr = seccomp_resolve(arch, name);
        size_t kept = 0;
        bool found = false;

        for (size_t i = 0; i < *n_rules; i++) {
                if (nr < 0 || rules[i].nr != (uint32_t)nr)
                        rules[kept++] = rules[i];
                else if (!found)
                        rules[kept++] = (struct seccomp_rule){(uint32_t)nr, &allow};
                found = found || (nr >= 0 && rules[i].nr == (uint32_t)nr);
        }
        *n_rules = kept;
        return found ? 0 : -ENOENT;
}

/* Leaves only the rows of these calls. */
static int keep_only(const struct seccomp_arch *arch, char *const *names, struct seccomp_rule *rules, size_t *n_rules)
{
        size_t kept = 0;

        for (size_t i = 0; i < *n_rules; i++)
                for (char *const *name = names; *name; name++)
                        if (seccomp_resolve(arch, *name) == (int)rules[i].nr) {
                                rules[kept++] = rules[i];
                                break;
                        }
        *n_rules = kept;
        return kept > 0 ? 0 : -ENOENT;
}

static int print_program(const struct seccomp_arch *arch, const char *symbol, char *const *more)
{
        _cleanup_free_ struct seccomp_rule *rules = NULL;
        static struct sock_filter program[BPF_MAXINSNS];
        size_t n_rules;

        uint32_t unknown = SECCOMP_RET_ERRNO | ENOSYS;

        int r = seccomp_resolve_profile(arch, &rules, &n_rules);
        bool only = *more && strcmp(*more, "--only") == 0;
        if (r == 0 && only) {
                unknown = SECCOMP_RET_ALLOW;
                r = keep_only(arch, more + 1, rules, &n_rules);
        }
        for (; r == 0 && !only && *more; more++)
                r = loosen(arch, *more, rules, &n_rules);
        if (r < 0)
                return r;
        int n = seccomp_program_build(arch->audit_arch, rules, n_rules, unknown, program);
        if (n < 0)
                return n;

        printf("/* Made by seccomp-compile from profile.def for %s. */\n", arch->name);
        printf("#include <linux/filter.h>\n#include <stddef.h>\n\n");
        printf("extern const struct sock_filter %s[];\nextern const size_t n_%s;\n\n", symbol, symbol);
        printf("const struct sock_filter %s[] = {\n", symbol);
        for (int i = 0; i < n; i++)
                printf("        {0x%02x, %u, %u, 0x%08x},\n", program[i].code, program[i].jt,
                       program[i].jf, program[i].k);
        printf("};\nconst size_t n_%s = %d;\n", symbol, n);
        return 0;
}

static void print_numbers(const struct seccomp_row *row)
{
        for (size_t i = 0; i < n_seccomp_arches; i++) {
                int nr = seccomp_resolve(&seccomp_arches[i], row->name);

                if (nr >= 0 && seccomp_row_is_for(row, &seccomp_arches[i]))
                        printf(" %d |", nr);
                else
                        printf(" - |");
        }
}

static void print_test(const struct seccomp_row *row)
{
        printf("%s %s ", row->errname, row->kind == SECCOMP_ROW_ONLY ? "unless" : "if");
        if (row->guard)
                printf("argument %u is %s and ", row->guard_arg, row->guard->name);
        printf("argument %u ", row->arg);
        if (row->mask != UINT32_MAX)
                printf("& %#x ", row->mask);
        printf("is");
        for (size_t i = 0; i < row->n_values; i++)
                printf("%s %s", i == 0 ? "" : i + 1 == row->n_values ? " or" : ",",
                       row->values[i].name);
        printf(": ");
}

static void print_row(const struct seccomp_row *row)
{
        printf("| %s |", row->name);
        print_numbers(row);
        switch (row->kind) {
        case SECCOMP_ROW_ALLOW:
                printf(" allowed | |\n");
                return;
        case SECCOMP_ROW_REFUSE:
                if (row->errnum == 0)
                        printf(" does nothing, answers 0 | %s |\n", row->why);
                else
                        printf(" refused: %s | %s |\n", row->errname, row->why);
                return;
        default:
                printf(" allowed | ");
                print_test(row);
                printf("%s |\n", row->why);
        }
}

/* How many calls pass on an architecture, at least with some arguments. */
static int count_allowed(const struct seccomp_arch *arch)
{
        _cleanup_free_ struct seccomp_rule *rules = NULL;
        size_t n;
        int count = 0;

        int r = seccomp_resolve_profile(arch, &rules, &n);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++)
                if (rules[i].row->kind != SECCOMP_ROW_REFUSE &&
                    (i == 0 || rules[i].nr != rules[i - 1].nr))
                        count++;
        return count;
}

static int print_list(void)
{
        printf("# The system call filter\n\n"
               "<!-- Output of seccomp-compile --list; a test compares it with the profile. -->\n\n"
               "Code in a box runs under this allowlist. A call under another architecture's ABI\n"
               "(32-bit, x32) kills the process; a call that is not in the tables answers ENOSYS.\n"
               "Of an argument the low 32 bits count, as in the kernel. Where a call has several\n"
               "rows all of them must let it pass; the first that does not gives the answer.\n\n"
               "Allowed calls:");
        for (size_t i = 0; i < n_seccomp_arches; i++) {
                int n = count_allowed(&seccomp_arches[i]);
                if (n < 0)
                        return n;
                printf("%s %d on %s", i == 0 ? "" : ",", n, seccomp_arches[i].name);
        }
        printf(".\n");
        for (size_t i = 0; i < n_seccomp_profile; i++) {
                const struct seccomp_row *row = &seccomp_profile[i];

                if (row->kind != SECCOMP_ROW_GROUP) {
                        print_row(row);
                        continue;
                }
                printf("\n## %s\n%s\n\n| call |", row->name, row->why);
                for (size_t k = 0; k < n_seccomp_arches; k++)
                        printf(" %s |", seccomp_arches[k].name);
                printf(" answer | why |\n|---|");
                for (size_t k = 0; k < n_seccomp_arches; k++)
                        printf("---|");
                printf("---|---|\n");
        }
        return 0;
}

int main(int argc, char **argv)
{
        bool docker = argc >= 4 && strcmp(argv[1], "--docker") == 0;
        const struct seccomp_arch *arch = argc >= 3 ? seccomp_arch_find(argv[docker ? 2 : 1]) : NULL;
        int r;

        if (argc == 2 && strcmp(argv[1], "--list") == 0) {
                r = print_list();
        } else if (arch && docker) {
                r = seccomp_print_docker(arch, argv[3], argv + 4);
        } else if (arch) {
                r = print_program(arch, argv[2], argv + 3);
        } else {
                fprintf(stderr, "usage: %s x86_64|aarch64 SYMBOL [--only] [CALL...]\n       %s --docker x86_64|aarch64 SYMBOL [CALL...]\n       %s --list\n",
                        argv[0], argv[0], argv[0]);
                return 2;
        }
        if (r < 0)
                fprintf(stderr, "%s: %s\n", argv[0], strerror(-r));
        return r < 0 || fflush(stdout) != 0;
}
