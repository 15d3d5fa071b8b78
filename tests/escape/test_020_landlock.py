# SPDX-License-Identifier: Apache-2.0
"""20. Code inside writes outside the writable places by ways other than open for writing: reopening a
descriptor, O_TRUNC, rename, link, files below /proc => denied.
"""


def test_landlock_ways(box):
    attack = box.attack("landlock_ways")
    attack.assert_refused("EACCES", "EROFS", "EXDEV", "EPERM", "EINVAL")
    assert attack.notes["opened"] == "1"


def test_oom_score_cannot_be_lowered(box):
    code = """
try:
    open('/proc/self/oom_score_adj', 'w').write('-1000')
    print('token written')
except OSError as e:
    print('token', e.strerror)
"""
    assert box.run(code).stdout == "token Permission denied\n"
