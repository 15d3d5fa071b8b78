/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/seccomp/interpret.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool jump_inside(const struct sock_filter *in, size_t at, size_t n)
{
        return at + 1 + in->jt < n && at + 1 + in->jf < n;
}

int seccomp_program_check(const struct sock_filter *program, size_t n)
{
        if (n == 0 || n > BPF_MAXINSNS || program[n - 1].code != (BPF_RET | BPF_K))
                return -EINVAL;
        for (size_t i = 0; i < n; i++) {
                const struct sock_filter *in = &program[i];
                bool good = false;

                switch (in->code) {
                case BPF_LD | BPF_W | BPF_ABS:
                        good = in->k % 4 == 0 && in->k < sizeof(struct seccomp_data);
                        break;
                case BPF_ALU | BPF_AND | BPF_K:
                case BPF_RET | BPF_K:
                        good = true;
                        break;
                case BPF_JMP | BPF_JA:
                        good = in->k < n - i - 1;
                        break;
                case BPF_JMP | BPF_JEQ | BPF_K:
                case BPF_JMP | BPF_JGE | BPF_K:
                case BPF_JMP | BPF_JSET | BPF_K:
                        good = jump_inside(in, i, n);
                        break;
                }
                if (!good)
                        return -EINVAL;
        }
        return 0;
}

uint32_t seccomp_interpret(const struct sock_filter *program, const struct seccomp_data *call,
                           size_t *ret_steps)
{
        uint32_t a = 0;
        size_t steps = 0;

        for (const struct sock_filter *in = program;; in++) {
                bool yes = false;

                steps++;
                switch (in->code) {
                case BPF_LD | BPF_W | BPF_ABS:
                        memcpy(&a, (const char *)call + in->k, sizeof(a));
                        continue;
                case BPF_ALU | BPF_AND | BPF_K:
                        a &= in->k;
                        continue;
                case BPF_JMP | BPF_JA:
                        in += in->k;
                        continue;
                case BPF_RET | BPF_K:
                        if (ret_steps)
                                *ret_steps = steps;
                        return in->k;
                case BPF_JMP | BPF_JEQ | BPF_K:
                        yes = a == in->k;
                        break;
                case BPF_JMP | BPF_JGE | BPF_K:
                        yes = a >= in->k;
                        break;
                case BPF_JMP | BPF_JSET | BPF_K:
                        yes = (a & in->k) != 0;
                        break;
                }
                in += yes ? in->jt : in->jf;
        }
}
