# SPDX-License-Identifier: Apache-2.0
"""Hosts that cannot give everything: refused with 112, and the message names the control and the remedy."""
import subprocess

import pytest
from conftest import needs_root


def inside(box, prelude, *wrapper):
    """The command after a prelude of shell, inside a wrapper."""
    argv = box.command("print(1)", allow_weaker="cgroup")
    return subprocess.run([*wrapper, "sh", "-c", f'{prelude} exec "$@"', "sh", *argv], capture_output=True, env=box.environ, timeout=60,
                          check=False, **box.ids)


def test_no_cgroup(user_box):
    if user_box.has_cgroup:
        pytest.skip("this user has a cgroup on this host")
    result = user_box.run("print(1)", allow_weaker=None)
    assert (result.returncode, result.error["code"]) == (112, "unenforceable"), result.explain()
    for word in ('"memory"', "--allow-weaker memory", "root"):
        assert word in result.error["message"]


def test_weaker_is_told(user_box):
    if user_box.has_cgroup:
        pytest.skip("this user has a cgroup on this host")
    result = user_box.run("print(1)")
    assert result.control("memory")["state"] == "weaker"
    assert any("memory was weaker" in note for note in result.json["notes"])
    assert b"warning: not enforced in full: memory" in result.err
    assert user_box.run("print(1)", quiet=True).err == b""


def test_everything_is_enforced_for_root(own_box):
    if not own_box.is_root:
        pytest.skip("needs root")
    result = own_box.run("print(1)")
    assert {c["state"] for c in result.json["controls"] if c["name"] != "apparmor"} == {"enforced"} and result.json["notes"] == []


def test_user_namespaces_forbidden(box):
    done = inside(box, "echo 0 > /proc/sys/user/max_user_namespaces &&", "unshare", "-Ur")
    assert done.returncode == 112, done
    assert b"max_user_namespaces" in done.stdout and b"cannot make the box's namespaces" in done.stdout


def test_inside_a_user_namespace(user_box):
    """Root of a user namespace is an ordinary user: it works, or says why not."""
    done = inside(user_box, "", "unshare", "-Ur")
    assert done.returncode in (0, 112), done
    if done.returncode == 0:
        assert b'"stdout":"1\\n"' in done.stdout


@needs_root
def test_root_without_capabilities(own_box):
    """As in a container: the box's user would be the host's root, so it is refused."""
    done = inside(own_box, "", "setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")
    assert done.returncode == 112 and b"CAP_SYS_ADMIN" in done.stdout, done


@needs_root
def test_cgroup_not_writable(own_box):
    """Read-only cgroup file systems, as in most containers."""
    script = 'for m in $(awk \'$5 ~ "^/sys/fs/cgroup" {print $5}\' /proc/self/mountinfo); do mount -o remount,bind,ro "$m" || exit 99; done; exec "$@"'
    argv = own_box.command("print(1)")
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *argv], capture_output=True, env=own_box.environ, timeout=60, check=False)
    assert done.returncode == 112, done
    assert b'\\"memory\\"' in done.stdout and b"--allow-weaker memory" in done.stdout


def test_doctor(box):
    text = box.call("doctor")
    assert text.returncode in (0, 112) and b"landlock" in text.out, text.explain()
    result = box.call("doctor", "--json")
    assert result.json, result.explain()
