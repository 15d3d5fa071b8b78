# SPDX-License-Identifier: Apache-2.0
"""`glovebox clean`: what it reports as removed is gone, and what it could not remove or look at is an error."""
import contextlib
import os
import secrets
import socket

import pytest

from cgroups import OwnGroups
from conftest import IS_ROOT


def names_of(found):
    return sorted(each["name"] for each in found if each["kind"] == "cgroup")


@contextlib.contextmanager
def left_groups(full, *empty):
    """Groups that nobody has locked; `full` has another one in it, so the kernel does not remove it."""
    with OwnGroups() as groups:
        if not groups.places:
            pytest.skip("no control groups can be made here")
        for place in groups.places:
            for name in (full, *empty):
                (place / name).mkdir(mode=0o700)
            (place / full / "inner").mkdir()
        yield groups


@pytest.mark.skipif(not IS_ROOT, reason="control groups are root's here")
def test_a_group_that_stays_was_not_removed(own_box):
    full, empty = (f"glovebox-{secrets.token_hex(8)}" for _ in range(2))
    with left_groups(full, empty) as groups:
        seen = own_box.call("clean", "--dry-run", "--json", environ=groups.environ)
        assert seen.returncode == 0 and names_of(seen.json["found"]) == sorted((full, empty)), seen.explain()
        result = own_box.call("clean", "--json", environ=groups.environ)
        assert result.returncode == 115 and names_of(result.json["removed"]) == [empty], result.explain()
        assert full in result.json["error"]["message"] and full.encode() in result.err
        result = own_box.call("clean", environ=groups.environ)
        assert result.returncode == 115 and result.out == b"" and full.encode() in result.err, result.explain()


@pytest.mark.skipif(not IS_ROOT, reason="control groups are root's here")
def test_groups_of_another_user_are_not_a_users_business(user_box):
    name = f"glovebox-{secrets.token_hex(8)}"
    with left_groups(name) as groups:
        for place in groups.places:
            os.chmod(place, 0o711)
        result = user_box.call("clean", environ=groups.environ)
        assert (result.returncode, result.out) == (0, b"nothing was left behind\n"), result.explain()


def test_a_lock_that_cannot_be_opened_is_an_error(box):
    """Then nobody knows whether the server lives: its socket stays."""
    directory = box.directory("run")
    directory.chmod(0o700)
    path, lock = directory / "glovebox.sock", directory / "glovebox.sock.lock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    lock.mkdir()
    if IS_ROOT:
        os.chown(path, box.uid, box.uid)
    environ = {"GLOVEBOX_RUNTIME_DIR": str(directory)}
    result = box.call("clean", environ=environ)
    assert result.returncode != 0 and lock.name.encode() in result.err and path.exists(), result.explain()
    assert b"glovebox.sock" not in result.out and b"nothing was left" not in result.out
    lock.rmdir()
    assert b"removed socket glovebox.sock\n" in box.call("clean", environ=environ).out and not path.exists()
