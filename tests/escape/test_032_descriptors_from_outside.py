# SPDX-License-Identifier: Apache-2.0
"""32. Somebody outside hands descriptors to the box: inherited ones, and by SCM_RIGHTS on what is its
standard input => none arrives; the program has three pipes and nothing else.
"""
import os
import socket


def test_inherited_descriptors(box):
    secret = os.open("/etc", os.O_RDONLY | os.O_DIRECTORY)
    os.set_inheritable(secret, True)
    try:
        attack = box.attack("inherited", popen={"close_fds": False})
    finally:
        os.close(secret)
    attack.assert_refused("ENOTSOCK")
    assert attack.notes["count"] == "3", attack.notes
    for fd in ("fd1", "fd2"):
        assert attack.notes[fd].startswith("pipe:"), attack.notes


def test_descriptors_over_stdin(box):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs, open("/etc/passwd") as secret:
        socket.send_fds(ours, [b"here\n"], [secret.fileno()])
        ours.shutdown(socket.SHUT_WR)
        attack = box.attack("inherited", stdin=theirs)
    attack.assert_refused("ENOTSOCK")
    assert attack.notes["count"] == "3", attack.notes
