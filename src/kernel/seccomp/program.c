/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation
 *
 *   rules -> ranges of neighbouring numbers with one answer -> a tree over the ranges -> BPF
 *
 * The kernel runs a new filter once for every system call number (to know which numbers it may
 * let pass without running the filter again), and translates each instruction to machine code. So
 * a load costs the number of instructions plus the sum of the depths of all numbers. plan() finds
 * the tree with the least of both by dynamic programming over intervals of ranges. A node is
 * either one comparison that splits its interval in two, or, where single numbers interrupt a
 * range, a short chain of equality tests for these numbers.
 *
 * BPF jumps forward only, at most 255 instructions. The program is therefore written from its end
 * to its beginning: each target exists before the jump to it and its distance is known. Where a
 * target is too far, near() puts a copy of its return, or an unconditional jump, in between. */
#include "kernel/seccomp/program.h"

#include "base/macro.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define RANGES_MAX 512
#define REACH 250           /* of a conditional jump, less what near() may put in between */
#define NUMBERS_IN_USE 480  /* the kernel tries about this many numbers at load */
#define INSTRUCTION_COST 40 /* one more instruction, in steps of this trial run; 1 to 1000 load alike */
#define CHAIN_MAX 4         /* equality tests in a row */

struct range {
        uint32_t first, last;
        uint32_t answer;                  /* without rules: a SECCOMP_RET_ value */
        const struct seccomp_rule *rules; /* with an argument to test */
        size_t n_rules;
};

struct builder {
        struct range ranges[RANGES_MAX];
        size_t n_ranges;
        uint32_t weight[RANGES_MAX + 1];             /* numbers in use before this range */
        uint64_t cost[RANGES_MAX][RANGES_MAX];       /* of the interval, both ends included */
        uint16_t split[RANGES_MAX][RANGES_MAX];      /* last range of the left half; CHAIN */
        struct sock_filter code[BPF_MAXINSNS + 1];   /* backwards: code[1] is the last one */
        size_t n_code;
        bool full;
};

#define CHAIN UINT16_MAX

static uint32_t row_answer(const struct seccomp_row *row)
{
        return row->kind == SECCOMP_ROW_ALLOW ? SECCOMP_RET_ALLOW
                                              : SECCOMP_RET_ERRNO | (uint32_t)row->errnum;
}

static bool row_tests(const struct seccomp_row *row)
{
        return row->kind == SECCOMP_ROW_ONLY || row->kind == SECCOMP_ROW_EXCEPT;
}

/* --- ranges --- */

static int range_add(struct builder *b, struct range range)
{
        struct range *last = b->n_ranges > 0 ? &b->ranges[b->n_ranges - 1] : NULL;

        if (last && !last->rules && !range.rules && last->answer == range.answer) {
                last->last = range.last;
                return 0;
        }
        if (b->n_ranges == RANGES_MAX)
                return -E2BIG;
        b->ranges[b->n_ranges++] = range;
        return 0;
}

/* All rules of the number rules[0].nr; sets *ret_n to how many these are. */
static int range_of_rules(const struct seccomp_rule *rules, size_t n_rules, struct range *ret,
                          size_t *ret_n)
{
        size_t n = 1;

        while (n < n_rules && rules[n].nr == rules[0].nr)
                n++;
        *ret = (struct range){.first = rules[0].nr, .last = rules[0].nr};
        *ret_n = n;
        if (n == 1 && !row_tests(rules[0].row)) {
                ret->answer = row_answer(rules[0].row);
                return 0;
        }
        for (size_t i = 0; i < n; i++) {
                const struct seccomp_row *row = rules[i].row;

                if (!row_tests(row))
                        return -EEXIST;
                if (row->n_values == 0 || row->arg > 5 || row->guard_arg > 5)
                        return -EINVAL;
        }
        ret->rules = rules;
        ret->n_rules = n;
        return 0;
}

static int find_ranges(struct builder *b, const struct seccomp_rule *rules, size_t n_rules, uint32_t unknown)
{
        uint64_t next = 0; /* the first number without a range yet */
        int r;

        for (size_t i = 0, n; i < n_rules; i += n) {
                struct range range;

                if (rules[i].nr < next || rules[i].nr >= SECCOMP_X32_BIT)
                        return -EINVAL;
                r = range_of_rules(rules + i, n_rules - i, &range, &n);
                if (r < 0)
                        return r;
                if (range.first > next) {
                        r = range_add(b, (struct range){.first = (uint32_t)next,
                                                        .last = range.first - 1,
                                                        .answer = unknown});
                        if (r < 0)
                                return r;
                }
                r = range_add(b, range);
                if (r < 0)
                        return r;
                next = (uint64_t)range.last + 1;
        }
        return range_add(b, (struct range){.first = (uint32_t)next, .last = UINT32_MAX,
                                           .answer = unknown});
}

/* --- the tree --- */

/* Whether single numbers interrupt what is otherwise one answer, from range i to range j. */
static bool is_chain(const struct builder *b, size_t i, size_t j)
{
        if (j == i || (j - i) % 2 != 0 || (j - i) / 2 > CHAIN_MAX || b->ranges[i].rules)
                return false;
        for (size_t k = i + 1; k <= j; k += 2) {
                const struct range *base = &b->ranges[k + 1];

                if (b->ranges[k].first != b->ranges[k].last || base->rules ||
                    base->answer != b->ranges[i].answer)
                        return false;
        }
        return true;
}

static void plan_interval(struct builder *b, size_t i, size_t j)
{
        uint64_t numbers = b->weight[j + 1] - b->weight[i];

        b->cost[i][j] = UINT64_MAX;
        for (size_t k = i; k < j; k++) {
                uint64_t cost = INSTRUCTION_COST + numbers + b->cost[i][k] + b->cost[k + 1][j];

                if (cost < b->cost[i][j]) {
                        b->cost[i][j] = cost;
                        b->split[i][j] = (uint16_t)k;
                }
        }
        if (is_chain(b, i, j)) {
                uint64_t n = (j - i) / 2, cost = n * INSTRUCTION_COST + n * numbers;

                if (cost < b->cost[i][j]) {
                        b->cost[i][j] = cost;
                        b->split[i][j] = CHAIN;
                }
        }
}

static void plan(struct builder *b)
{
        for (size_t i = 0; i < b->n_ranges; i++) {
                const struct range *r = &b->ranges[i];
                uint32_t last = MIN(r->last, (uint32_t)NUMBERS_IN_USE);

                b->weight[i + 1] = b->weight[i] + (last >= r->first ? last - r->first + 1 : 0);
                b->cost[i][i] = 0;
        }
        for (size_t length = 1; length < b->n_ranges; length++)
                for (size_t i = 0; i + length < b->n_ranges; i++)
                        plan_interval(b, i, i + length);
}

/* --- code, from the end --- */

/* Puts one instruction before all others and returns its place. */
static size_t put(struct builder *b, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
        if (b->n_code == BPF_MAXINSNS) {
                b->full = true;
                return b->n_code;
        }
        b->code[++b->n_code] = (struct sock_filter){code, jt, jf, k};
        return b->n_code;
}

static size_t put_return(struct builder *b, uint32_t answer)
{
        for (size_t at = b->n_code; at > 0 && b->n_code - at < REACH; at--)
                if (b->code[at].code == (BPF_RET | BPF_K) && b->code[at].k == answer)
                        return at;
        return put(b, BPF_RET | BPF_K, 0, 0, answer);
}

/* A place from which `target` goes on, within reach of the instructions that come next. */
static size_t near(struct builder *b, size_t target)
{
        const struct sock_filter *to = &b->code[target];

        if (b->n_code - target < REACH)
                return target;
        if (to->code == (BPF_RET | BPF_K))
                return put_return(b, to->k);
        return put(b, BPF_JMP | BPF_JA, 0, 0, (uint32_t)(b->n_code - target));
}

static size_t put_jump(struct builder *b, uint16_t test, uint32_t k, size_t yes, size_t no)
{
        yes = near(b, yes);
        no = near(b, no);
        return put(b, BPF_JMP | test | BPF_K, (uint8_t)(b->n_code - yes),
                   (uint8_t)(b->n_code - no), k);
}

/* Loads a word and goes on at `next`, which need not be the instruction put last. */
static size_t put_load(struct builder *b, size_t offset, size_t next)
{
        if (next != b->n_code)
                put(b, BPF_JMP | BPF_JA, 0, 0, (uint32_t)(b->n_code - next));
        return put(b, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

/* Both targets are little-endian: the low word comes first. */
static size_t put_load_arg(struct builder *b, uint32_t arg, size_t next)
{
        return put_load(b, offsetof(struct seccomp_data, args) + 8 * arg, next);
}

static size_t put_row(struct builder *b, const struct seccomp_row *row, size_t passes)
{
        size_t refused = put_return(b, row_answer(row));
        size_t hit = row->kind == SECCOMP_ROW_ONLY ? passes : refused;
        size_t at = row->kind == SECCOMP_ROW_ONLY ? refused : passes;

        if (row->n_values == 1 && row->values[0].value == 0 && row->mask != UINT32_MAX) {
                at = put_jump(b, BPF_JSET, row->mask, at, hit);
        } else {
                for (size_t i = row->n_values; i-- > 0;)
                        at = put_jump(b, BPF_JEQ, row->values[i].value, hit, at);
                if (row->mask != UINT32_MAX)
                        at = put(b, BPF_ALU | BPF_AND | BPF_K, 0, 0, row->mask);
        }
        at = put_load_arg(b, row->arg, at);
        if (!row->guard)
                return at;
        at = put_jump(b, BPF_JEQ, row->guard->value, at, passes);
        return put_load_arg(b, row->guard_arg, at);
}

static size_t put_range(struct builder *b, const struct range *range)
{
        if (!range->rules)
                return put_return(b, range->answer);

        size_t at = put_return(b, SECCOMP_RET_ALLOW);
        for (size_t i = range->n_rules; i-- > 0;)
                at = put_row(b, range->rules[i].row, at);
        return at;
}

static size_t put_tree(struct builder *b, size_t i, size_t j)
{
        if (i == j)
                return put_range(b, &b->ranges[i]);

        size_t k = b->split[i][j];
        if (k != CHAIN) {
                size_t right = put_tree(b, k + 1, j);
                size_t left = put_tree(b, i, k);
                return put_jump(b, BPF_JGE, b->ranges[k + 1].first, right, left);
        }
        size_t at = put_range(b, &b->ranges[i]);
        for (size_t n = (j - i) / 2; n-- > 0;) {
                const struct range *single = &b->ranges[i + 1 + 2 * n];
                size_t inside = put_range(b, single);
                at = put_jump(b, BPF_JEQ, single->first, inside, at);
        }
        return at;
}

/* The architecture comes first: a number means another call under another one. */
static void put_program(struct builder *b, uint32_t audit_arch)
{
        size_t at = put_tree(b, 0, b->n_ranges - 1);
        size_t kill = put_return(b, SECCOMP_RET_KILL_PROCESS);

        if (audit_arch == AUDIT_ARCH_X86_64)
                at = put_jump(b, BPF_JGE, SECCOMP_X32_BIT, kill, at);
        at = put_load(b, offsetof(struct seccomp_data, nr), at);
        at = put_jump(b, BPF_JEQ, audit_arch, at, kill);
        put_load(b, offsetof(struct seccomp_data, arch), at);
}

int seccomp_program_build(uint32_t audit_arch, const struct seccomp_rule *rules, size_t n_rules, uint32_t unknown,
                          struct sock_filter *ret)
{
        _cleanup_free_ struct builder *b = calloc(1, sizeof(*b));
        if (!b)
                return -ENOMEM;

        int r = find_ranges(b, rules, n_rules, unknown);
        if (r < 0)
                return r;
        plan(b);
        put_program(b, audit_arch);
        if (b->full)
                return -E2BIG;
        for (size_t i = 0; i < b->n_code; i++)
                ret[i] = b->code[b->n_code - i];
        return (int)b->n_code;
}
