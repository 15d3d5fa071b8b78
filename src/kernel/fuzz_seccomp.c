/* SPDX-License-Identifier: Apache-2.0
 *
 * Random policies: what the compiled program answers must be what the rules declare. When the
 * input is used up a generator seeded by it goes on, so that a few bytes make a large policy. */
#include "base/macro.h"
#include "kernel/seccomp/declared.h"
#include "kernel/seccomp/interpret.h"
#include "kernel/seccomp/program.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <linux/audit.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RULES_MAX 160
#define VALUES_MAX 24
#define GARBAGE 0xdeadbeef00000000ULL

struct source {
        const uint8_t *data;
        size_t size;
        uint64_t state;
};

struct policy {
        uint32_t audit_arch;
        struct seccomp_rule rules[RULES_MAX];
        struct seccomp_row rows[RULES_MAX];
        struct seccomp_value values[RULES_MAX][VALUES_MAX], guards[RULES_MAX];
        size_t n;
};

static uint32_t take(struct source *s, uint32_t below)
{
        uint32_t word;

        if (s->size >= sizeof(word)) {
                memcpy(&word, s->data, sizeof(word));
                s->data += sizeof(word);
                s->size -= sizeof(word);
                s->state = (s->state ^ word) * 0x9e3779b97f4a7c15ULL;
        } else {
                s->state = s->state * 6364136223846793005ULL + 1442695040888963407ULL;
                word = (uint32_t)(s->state >> 32);
        }
        return below > 0 ? word % below : word;
}

/* Small numbers and masks of few bits collide often, which is what is wanted. */
static uint32_t take_value(struct source *s)
{
        return take(s, 2) ? take(s, 8) : take(s, 0);
}

static void make_row(struct source *s, struct policy *p, size_t i)
{
        struct seccomp_row *row = &p->rows[i];

        row->kind = SECCOMP_ROW_ALLOW + take(s, 4);
        row->errnum = (int)take(s, 5);
        if (row->kind != SECCOMP_ROW_ONLY && row->kind != SECCOMP_ROW_EXCEPT)
                return;
        row->arg = take(s, 6);
        row->mask = take(s, 2) ? UINT32_MAX : take_value(s);
        row->values = p->values[i];
        row->n_values = 1 + take(s, take(s, 4) ? 3 : VALUES_MAX);
        for (size_t k = 0; k < row->n_values; k++)
                p->values[i][k].value = take_value(s) & row->mask;
        if (take(s, 3) == 0) {
                p->guards[i].value = take_value(s);
                row->guard = &p->guards[i];
                row->guard_arg = take(s, 6);
        }
}

static void make_policy(struct source *s, struct policy *p)
{
        uint32_t nr = take(s, 3), wanted = 1 + take(s, RULES_MAX);
        uint32_t gap = 1 + take(s, 4);

        p->audit_arch = take(s, 2) ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;
        for (p->n = 0; p->n < wanted; p->n++) {
                make_row(s, p, p->n);
                p->rules[p->n] = (struct seccomp_rule){nr, &p->rows[p->n]};
                /* A second row for the number, where both have tests. */
                if (p->rows[p->n].values && take(s, 3) == 0 && p->n + 1 < wanted) {
                        p->n++;
                        p->rows[p->n] = p->rows[p->n - 1];
                        p->rows[p->n].arg = take(s, 6);
                        p->rows[p->n].errnum = 6;
                        p->rules[p->n] = (struct seccomp_rule){nr, &p->rows[p->n]};
                }
                nr += 1 + take(s, gap);
        }
}

static void compare(const struct policy *p, const struct sock_filter *program,
                    const struct seccomp_data *call)
{
        if (seccomp_interpret(program, call, NULL) !=
            seccomp_declared(p->audit_arch, p->rules, p->n, call))
                abort();
}

static void compare_around(struct source *s, const struct policy *p,
                           const struct sock_filter *program, const struct seccomp_rule *rule)
{
        struct seccomp_data call = {.arch = p->audit_arch};
        const struct seccomp_row *row = rule->row;

        for (int off = -1; off <= 1; off++) {
                call.nr = (int)rule->nr + off;
                compare(p, program, &call);
        }
        call.nr = (int)rule->nr;
        for (size_t i = 0; i <= row->n_values; i++) {
                for (size_t arg = 0; arg < ARRAY_SIZE(call.args); arg++)
                        call.args[arg] = GARBAGE | take_value(s);
                compare(p, program, &call);
                if (row->guard && take(s, 2))
                        call.args[row->guard_arg] = row->guard->value;
                if (i < row->n_values)
                        call.args[row->arg] = GARBAGE | row->values[i].value | (~row->mask & take(s, 0));
                compare(p, program, &call);
                call.args[row->arg]++;
                compare(p, program, &call);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct sock_filter program[BPF_MAXINSNS];
        struct source s = {data, size, 1};
        _cleanup_free_ struct policy *p = calloc(1, sizeof(*p));

        if (!p)
                return 0;
        make_policy(&s, p);
        int n = seccomp_program_build(p->audit_arch, p->rules, p->n, SECCOMP_RET_ERRNO | ENOSYS, program);
        if (n == -E2BIG || n == -ENOMEM)
                return 0;
        if (n < 0 || seccomp_program_check(program, (size_t)n) != 0)
                abort();
        for (size_t i = 0; i < p->n; i++)
                compare_around(&s, p, program, &p->rules[i]);
        for (int i = 0; i < 64; i++) {
                struct seccomp_data call = {.arch = take(&s, 4) ? p->audit_arch : take(&s, 0),
                                            .nr = (int)(take(&s, 2) ? take(&s, 1024) : take(&s, 0))};
                compare(p, program, &call);
        }
        return 0;
}
