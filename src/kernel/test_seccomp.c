/* SPDX-License-Identifier: Apache-2.0
 *
 * Two kinds of test: the compiled programs of all architectures against the declared rows, in an
 * interpreter; and the program of this machine against the real kernel, in forked children. */
#include "base/macro.h"
#include "kernel/seccomp.h"
#include "kernel/seccomp/declared.h"
#include "kernel/seccomp/interpret.h"
#include "kernel/seccomp/resolve.h"

#include <errno.h>
#include <linux/audit.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern const struct sock_filter seccomp_program_x86_64[], seccomp_program_aarch64[];
extern const size_t n_seccomp_program_x86_64, n_seccomp_program_aarch64;

#define GARBAGE 0xdeadbeef00000000ULL
#define WORDS_MAX 512

struct target {
        const struct seccomp_arch *arch;
        const struct sock_filter *program;
        size_t n_program;
        struct seccomp_rule *rules;
        size_t n_rules;
};

static struct target targets[2];

static int setup(void **state)
{
        targets[0] = (struct target){.arch = seccomp_arch_find("x86_64"),
                                     .program = seccomp_program_x86_64,
                                     .n_program = n_seccomp_program_x86_64};
        targets[1] = (struct target){.arch = seccomp_arch_find("aarch64"),
                                     .program = seccomp_program_aarch64,
                                     .n_program = n_seccomp_program_aarch64};
        for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
                struct target *t = &targets[i];

                if (seccomp_resolve_profile(t->arch, &t->rules, &t->n_rules) < 0)
                        return -1;
        }
        return 0;
}

static int teardown(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
                free(targets[i].rules);
        return 0;
}

#ifdef __x86_64__
#define OWN_ARCH AUDIT_ARCH_X86_64
#else
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

/* What a thread under both programs of a template's child gets: the harsher answer, of two alike that of the later. */
static uint32_t interpret_pair(const struct seccomp_data *call)
{
        uint32_t below = seccomp_interpret(seccomp_template_program, call, NULL);
        uint32_t above = seccomp_interpret(seccomp_child_program, call, NULL);

        return (int32_t)(below & SECCOMP_RET_ACTION_FULL) < (int32_t)(above & SECCOMP_RET_ACTION_FULL) ? below : above;
}

static void assert_agrees(const struct target *t, const struct seccomp_data *call)
{
        uint32_t want = seccomp_declared(t->arch->audit_arch, t->rules, t->n_rules, call);
        uint32_t got = seccomp_interpret(t->program, call, NULL);

        if (t->arch->audit_arch == OWN_ARCH && interpret_pair(call) != want)
                fail_msg("call %d(%#llx, %#llx, %#llx): declared %#x, in a template's child %#x", call->nr, (unsigned long long)call->args[0],
                         (unsigned long long)call->args[1], (unsigned long long)call->args[2], want, interpret_pair(call));

        if (want != got)
                fail_msg("%s: call %d(%#llx, %#llx, %#llx): declared %#x, compiled %#x",
                         t->arch->name, call->nr, (unsigned long long)call->args[0],
                         (unsigned long long)call->args[1], (unsigned long long)call->args[2],
                         want, got);
}

/* --- compiled programs --- */

static void test_program_is_well_formed(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
                assert_int_equal(seccomp_program_check(targets[i].program, targets[i].n_program), 0);
                assert_true(targets[i].n_program < 340);
        }
        assert_int_equal(seccomp_program_check(seccomp_template_program, n_seccomp_template_program), 0);
        assert_int_equal(seccomp_program_check(seccomp_child_program, n_seccomp_child_program), 0);
        assert_true(n_seccomp_child_program < 100);
}

static void test_all_numbers(void **state)
{
        const uint32_t arches[] = {AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64, AUDIT_ARCH_I386,
                                   AUDIT_ARCH_ARM, AUDIT_ARCH_X86_64 & ~__AUDIT_ARCH_64BIT, 0,
                                   UINT32_MAX};
        const uint32_t bases[] = {0, SECCOMP_X32_BIT - 512, SECCOMP_X32_BIT, 0x7ffffe00,
                                  0x80000000, 0xfffffc00};

        for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
                for (size_t a = 0; a < ARRAY_SIZE(arches); a++)
                        for (size_t b = 0; b < ARRAY_SIZE(bases); b++)
                                for (uint32_t n = 0; n < 1024; n++) {
                                        struct seccomp_data call = {.arch = arches[a],
                                                                    .nr = (int)(bases[b] + n)};
                                        assert_agrees(&targets[i], &call);
                                        memset(call.args, 0xff, sizeof(call.args));
                                        assert_agrees(&targets[i], &call);
                                }
}

static size_t add_edges(uint64_t *words, size_t n, uint32_t value, uint32_t mask)
{
        const uint32_t edges[] = {value, value - 1, value + 1, value + 1000000, value | ~mask,
                                  value ^ 0x80000000U};

        for (size_t i = 0; i < ARRAY_SIZE(edges) && n + 2 <= WORDS_MAX; i++) {
                words[n++] = edges[i];
                words[n++] = GARBAGE | edges[i];
        }
        return n;
}

/* Each value of each row of this call that looks at the argument, and its neighbours. */
static size_t edges_of(const struct seccomp_rule *rules, size_t n_rules, uint32_t arg,
                       uint64_t words[WORDS_MAX])
{
        size_t n = 0;

        words[n++] = 0;
        for (size_t i = 0; i < n_rules; i++) {
                const struct seccomp_row *row = rules[i].row;

                for (size_t k = 0; k < row->n_values && row->arg == arg; k++)
                        n = add_edges(words, n, row->values[k].value, row->mask);
                if (row->guard && row->guard_arg == arg)
                        n = add_edges(words, n, row->guard->value, UINT32_MAX);
        }
        return n;
}

static void check_arguments(const struct target *t, size_t first, size_t n_rules)
{
        static uint64_t words[6][WORDS_MAX];
        struct seccomp_data call = {.arch = t->arch->audit_arch, .nr = (int)t->rules[first].nr};
        size_t n[6], at[6] = {0}, arg;

        for (arg = 0; arg < 6; arg++)
                n[arg] = edges_of(t->rules + first, n_rules, arg, words[arg]);
        do { /* an odometer over the arguments */
                for (arg = 0; arg < 6; arg++)
                        call.args[arg] = words[arg][at[arg]];
                assert_agrees(t, &call);
                for (arg = 0; arg < 6 && ++at[arg] == n[arg]; arg++)
                        at[arg] = 0;
        } while (arg < 6);
}

static void test_all_arguments(void **state)
{
        for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
                const struct target *t = &targets[i];
                size_t n;

                for (size_t k = 0; k < t->n_rules; k += n) {
                        for (n = 1; k + n < t->n_rules && t->rules[k + n].nr == t->rules[k].nr;)
                                n++;
                        check_arguments(t, k, n);
                }
        }
}

/* Not read from the profile: whatever the rows say, these never pass. */
static void test_never_allowed(void **state)
{
        static const char *const never[] = {
                "io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open",
                "userfaultfd", "keyctl", "add_key", "request_key", "ptrace", "process_vm_readv",
                "process_vm_writev", "mount", "umount2", "fsopen", "fsmount", "fspick", "fsconfig",
                "open_tree", "open_tree_attr", "move_mount", "mount_setattr", "pivot_root",
                "chroot", "unshare", "setns", "clone3", "kexec_load", "kexec_file_load",
                "init_module", "finit_module", "delete_module", "swapon", "swapoff", "acct",
                "quotactl", "reboot", "settimeofday", "clock_settime", "adjtimex",
                "clock_adjtime", "modify_ldt", "iopl", "ioperm", "kcmp", "name_to_handle_at",
                "open_by_handle_at", "fanotify_init", "fanotify_mark", "lookup_dcookie",
                "cachestat", "seccomp", "memfd_secret", "remap_file_pages", "vmsplice",
                "migrate_pages", "move_pages", "mbind", "sched_setattr", "sched_setaffinity",
                "pidfd_getfd", "process_madvise", "process_mrelease", "syslog", "io_setup",
        };

        for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
                for (size_t k = 0; k < ARRAY_SIZE(never); k++) {
                        int nr = seccomp_resolve(targets[i].arch, never[k]);
                        struct seccomp_data call = {.arch = targets[i].arch->audit_arch, .nr = nr};

                        assert_int_not_equal(nr, -EINVAL);
                        if (nr >= 0 && seccomp_interpret(targets[i].program, &call, NULL) ==
                                               SECCOMP_RET_ALLOW)
                                fail_msg("%s is allowed on %s", never[k], targets[i].arch->name);
                }
}

static void test_clone_namespaces(void **state)
{
        const uint32_t flags[] = {0x00020000, 0x02000000, 0x04000000, 0x08000000,
                                  0x10000000, 0x20000000, 0x40000000};

        for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
                struct seccomp_data call = {.arch = targets[i].arch->audit_arch,
                                            .nr = seccomp_resolve(targets[i].arch, "clone")};

                for (size_t k = 0; k < ARRAY_SIZE(flags); k++) {
                        call.args[0] = GARBAGE | flags[k] | SIGCHLD;
                        assert_int_equal(seccomp_interpret(targets[i].program, &call, NULL),
                                         SECCOMP_RET_ERRNO | EPERM);
                }
                call.args[0] = 0x003d0f00; /* as pthread_create does */
                assert_int_equal(seccomp_interpret(targets[i].program, &call, NULL),
                                 SECCOMP_RET_ALLOW);
        }
}

/* --- the real kernel --- */

/* Runs `what` in a child under the filter. Returns what it returned, or minus the signal. */
static int under_filter(int (*what)(void))
{
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || seccomp_load() != 0)
                        _exit(125);
                _exit(what());
        }

        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int call_errno(long result)
{
        return result == -1 ? errno : 0;
}

static int do_getpid(void)
{
        return syscall(SYS_getpid) > 0 ? 0 : 1;
}

static int do_clone3(void)
{
        return call_errno(syscall(SYS_clone3, NULL, 0));
}

static int do_io_uring(void)
{
        return call_errno(syscall(SYS_io_uring_setup, 1, NULL));
}

static int do_vsock(void)
{
        return call_errno(socket(AF_VSOCK, SOCK_STREAM, 0));
}

static int do_unix_socket(void)
{
        return call_errno(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static int do_personality(void)
{
        return call_errno(personality(ADDR_NO_RANDOMIZE));
}

static int do_personality_query(void)
{
        return call_errno(personality(0xffffffff));
}

static int do_unknown(void)
{
        return call_errno(syscall(999));
}

static int do_sync(void)
{
        return call_errno(syscall(SYS_sync));
}

static int do_device(void)
{
        return call_errno(mknod("/tmp/never", S_IFCHR | 0600, 0));
}

static int do_second_filter(void)
{
        return -seccomp_load();
}

static void test_kernel_answers(void **state)
{
        assert_int_equal(under_filter(do_getpid), 0);
        assert_int_equal(under_filter(do_clone3), ENOSYS);
        assert_int_equal(under_filter(do_io_uring), ENOSYS);
        assert_int_equal(under_filter(do_vsock), EAFNOSUPPORT);
        assert_int_equal(under_filter(do_unix_socket), 0);
        assert_int_equal(under_filter(do_personality), EPERM);
        assert_int_equal(under_filter(do_personality_query), 0);
        assert_int_equal(under_filter(do_unknown), ENOSYS);
        assert_int_equal(under_filter(do_sync), 0);
        assert_int_equal(under_filter(do_device), EPERM);
        assert_int_equal(under_filter(do_second_filter), ENOSYS);
}

#ifdef __x86_64__
static int do_int80(void)
{
        long result = 20; /* getpid of i386 */

        __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
        return result > 0 ? 0 : 1;
}

static int do_x32(void)
{
        return call_errno(syscall(SECCOMP_X32_BIT | SYS_getpid));
}

static void test_other_abis_kill(void **state)
{
        int r = under_filter(do_int80);

        assert_int_equal(under_filter(do_x32), -SIGSYS);
        if (r == -SIGSEGV) {
                print_message("int 0x80 not tried: this kernel has no 32-bit calls\n");
                skip();
        }
        assert_int_equal(r, -SIGSYS);
}
#endif

static void test_needs_no_new_privs(void **state)
{
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
                        _exit(77);
                if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
                        _exit(77);
                _exit(seccomp_load() != -EACCES);
        }

        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) {
                print_message("not tried: no_new_privs is set already, or root cannot change its id\n");
                skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_program_is_well_formed),
                cmocka_unit_test(test_all_numbers),
                cmocka_unit_test(test_all_arguments),
                cmocka_unit_test(test_never_allowed),
                cmocka_unit_test(test_clone_namespaces),
                cmocka_unit_test(test_kernel_answers),
#ifdef __x86_64__
                cmocka_unit_test(test_other_abis_kill),
#endif
                cmocka_unit_test(test_needs_no_new_privs),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
