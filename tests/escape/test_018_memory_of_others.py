# SPDX-License-Identifier: Apache-2.0
"""18. Code inside opens /proc/1/mem and its like, reads and writes memory of init and of its own
children by system calls and ptrace => init is invisible, the calls refused.
"""


def test_memory_of_init(box):
    box.attack("other_process", 1).assert_refused("ENOENT", "EPERM", "EACCES")


def test_memory_of_own_children_by_ptrace(box):
    box.attack("own_child_memory").assert_refused("EPERM", "EACCES")


def test_init_shows_nothing(box):
    """Neither environment nor descriptors of init can be read, nor does it appear in the list."""
    code = """
import os
print('token', os.listdir('/proc').count('1'))
for name in ('environ', 'cmdline', 'fd', 'status', 'cwd'):
    try:
        open('/proc/1/' + name).read()
        print('open', name)
    except OSError as e:
        print('refused', name)
"""
    lines = box.run(code, environ={"SECRET_OF_THE_CALLER": "hunter2"}).stdout.splitlines()
    assert lines[0] == "token 0"
    assert len(lines) == 6 and all(line.startswith("refused") for line in lines[1:]), lines
