# SPDX-License-Identifier: Apache-2.0
"""27. Code inside becomes root, another user, another group, or another user for files => EINVAL or EPERM, its ids stay.
"""
import os
import secrets


def test_identities(box):
    attack = box.attack("identities", 0x40000001)
    attack.assert_refused("EINVAL", "EPERM")
    assert attack.notes["uids"] == "1000 1000 1000"


def test_host_identity_is_not_root(box):
    """Seen from the host no process of the box is root's, whoever started it."""
    token = secrets.token_hex(8)
    process = box.start("import time; print('up', flush=True); time.sleep(20)", json=False, args=[token])
    try:
        assert process.stdout.readline() == b"up\n"
        uids = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                if token.encode() in words and not words[0].endswith(b"/glovebox"):
                    with open(f"/proc/{pid}/status") as file:
                        status = file.read()
                    uids.append((status.split("Uid:")[1].split()[:4], status.split("CapEff:")[1].split()[0]))
            except OSError:
                continue
        assert uids
        for ids, capabilities in uids:
            assert "0" not in ids and int(capabilities, 16) == 0
    finally:
        process.terminate()
        box.finish(process)
