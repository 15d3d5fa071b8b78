# SPDX-License-Identifier: Apache-2.0
"""8. Code inside mounts, unmounts, changes its root, swaps, reboots, loads modules and kernels, opens
bpf, perf, userfaultfd and keyrings => EPERM, before the kernel asks for a capability.
"""


def test_administration(box):
    box.attack("administration").assert_refused("EPERM")
