# SPDX-License-Identifier: Apache-2.0
"""25. Code inside sets and adjusts the clock => EPERM.
"""
import time


def test_clocks(box):
    before = time.time()
    box.attack("clocks").assert_refused("EPERM")
    assert before <= time.time() < before + 60
