# SPDX-License-Identifier: Apache-2.0
"""62. Code inside signals, limits and asks about a process of the host by its number, in every way => ESRCH or EPERM.
"""
import os
import signal


def test_signals_to_outside(box):
    received = []
    old = signal.signal(signal.SIGUSR1, lambda *unused: received.append(1))
    try:
        box.attack("outside_signals", os.getpid()).assert_refused("ESRCH", "EPERM", "ENOSYS")
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert not received
