# SPDX-License-Identifier: Apache-2.0
"""4. A thread, a static program, a script and a vfork child look whether the filter has them, too
=> Seccomp: 2 in every one.
"""


def test_filter_is_everywhere(box):
    attack = box.attack("filter_everywhere")
    assert attack.finished, attack.result.explain()
    assert attack.notes == dict.fromkeys(["self", "thread", "exec_static", "exec_script", "vfork_child"], "2")


def test_filter_in_compiler_and_compiled_program(box):
    code = """
        #include <stdio.h>
        #include <string.h>
        int main(void) {
                char line[256]; FILE *f = fopen("/proc/self/status", "r");
                while (fgets(line, sizeof line, f))
                        if (!strncmp(line, "Seccomp:", 8) || !strncmp(line, "CapEff:", 7) || !strncmp(line, "NoNewPrivs:", 11)) fputs(line, stdout);
        }"""
    lines = box.run(code, "c").stdout.split()
    assert lines == ["CapEff:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"]
