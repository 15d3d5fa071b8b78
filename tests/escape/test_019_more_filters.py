# SPDX-License-Identifier: Apache-2.0
"""19. Code inside adds filters of its own, with a listener and for all threads, to break what supervises it => refused.
"""


def test_more_filters(box):
    box.attack("more_filters").assert_refused("ENOSYS", "EPERM", "EINVAL")
    assert box.run("print('next')").stdout == "next\n"
