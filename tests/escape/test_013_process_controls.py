# SPDX-License-Identifier: Apache-2.0
"""13. Code inside uses prctl to move its memory map, add filters, choose a tracer, become dumpable, keep capabilities => no gain.
"""


def test_process_controls(box):
    attack = box.attack("process_controls")
    attack.assert_refused("EINVAL", "EPERM")
    assert attack.notes["seccomp"] == "2"
