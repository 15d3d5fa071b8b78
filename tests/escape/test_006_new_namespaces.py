# SPDX-License-Identifier: Apache-2.0
"""6. Code inside asks for each kind of namespace by unshare, clone, clone3 and setns => EPERM (clone3: ENOSYS).
"""


def test_new_namespaces(box):
    box.attack("new_namespaces").assert_refused("EPERM", "ENOSYS", "ENOENT")
