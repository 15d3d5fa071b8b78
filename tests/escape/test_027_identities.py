# SPDX-License-Identifier: Apache-2.0
"""27. Code inside becomes root, another user, another group, or another user for files => EINVAL or EPERM, its ids stay.
"""
import os

from conftest import IS_ROOT


def test_identities(box):
    attack = box.attack("identities", 0x40000001)
    attack.assert_refused("EINVAL", "EPERM")
    assert attack.notes["uids"] == "1000 1000 1000"


def test_host_identity_is_not_root(box):
    """Seen from the host no process of the box is root's, whoever started it."""
    process = box.start("import time; print('up', flush=True); time.sleep(20)", json=False)
    try:
        assert process.stdout.readline() == b"up\n"
        own, uids = os.readlink("/proc/self/ns/pid"), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/ns/pid") != own and b"glovebox" not in open(f"/proc/{pid}/cmdline", "rb").read():
                    status = open(f"/proc/{pid}/status").read()
                    uids.append((status.split("Uid:")[1].split()[:4], status.split("CapEff:")[1].split()[0]))
            except OSError:
                continue
        assert uids or not IS_ROOT
        for ids, capabilities in uids:
            assert "0" not in ids and int(capabilities, 16) == 0
    finally:
        process.terminate()
        box.finish(process)
