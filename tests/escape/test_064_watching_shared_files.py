# SPDX-License-Identifier: Apache-2.0
"""64. A box watches files that its neighbour opens: fanotify => refused. inotify on a shared inode stays
possible: a stated residual, which this test measures.
"""
import subprocess


def test_watching(box, record_property):
    token = "0123456789abcdef"
    watcher = box.start(f"exec /attack/attack shared_inode {token} wait", "sh", json=False, stdin=subprocess.PIPE, mount=[f"{box.attack_dir}:/attack"])
    lines = []
    for line in watcher.stdout:
        lines.append(line.decode().strip())
        if lines[-1] == "note ready=1":
            break
    assert "try fanotify=EPERM" in lines, lines
    box.run("open('/usr/bin/env', 'rb').read(1)")
    rest = box.finish(watcher, b"go\n").out.decode()
    assert "note seen=" in rest, rest
    record_property("inotify_sees_neighbour", "note seen=1" in rest)
