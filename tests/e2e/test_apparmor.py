# SPDX-License-Identifier: Apache-2.0
"""The AppArmor profiles are ones that apparmor_parser understands, without a warning and without a kernel that has AppArmor; and what a run says of it.
tests/vm/guest_apparmor.py runs programs under them."""
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import ROOT

DIRECTORY = ROOT / "images/apparmor"
PROFILES = ["glovebox-container", "glovebox-native"]
FEATURES = pathlib.Path("/etc/apparmor.d/abi/3.0")  # of a kernel that has everything the profiles speak of
PARSER = shutil.which("apparmor_parser", path="/usr/sbin:/sbin:/usr/bin:/bin")
ENABLED = pathlib.Path("/sys/module/apparmor/parameters/enabled")

needs_parser = pytest.mark.skipif(not PARSER or not FEATURES.exists(), reason="the package apparmor is not installed")


def parse(*words):
    # Neither loaded (-Q) nor cached (-K).
    return subprocess.run([PARSER, "-Q", "-K", "-M", FEATURES, *words], capture_output=True, timeout=60, check=False)


@needs_parser
@pytest.mark.parametrize("name", PROFILES)
def test_syntax(name):
    done = parse("--warn=all", "--Werror", DIRECTORY / name)
    assert done.returncode == 0, done.stderr.decode()
    # What the kernel would be given.
    assert name.encode() in parse("-S", DIRECTORY / name).stdout
    assert parse("-N", DIRECTORY / name).stdout.decode().split() == [name]


@needs_parser
@pytest.mark.parametrize("line", ["deny ptrace (watch),", "network inet rawest,", "fil,", "}"])
def test_the_parser_would_tell(tmp_path, line):
    profile = tmp_path / "profile"
    profile.write_text((DIRECTORY / "glovebox-native").read_text().replace("  file,\n", f"  {line}\n", 1))
    assert parse(profile).returncode != 0


@pytest.mark.parametrize("name", PROFILES)
def test_what_is_refused_stands_there(name):
    """Catalogue group M: mounts, tracing, files of the kernel, the engine's socket, raw sockets, modules."""
    rules = [" ".join(line.split()) for line in (DIRECTORY / name).read_text().splitlines() if not line.lstrip().startswith("#")]
    for rule in ["deny mount,", "deny umount,", "deny pivot_root,", "deny ptrace (trace, tracedby),", "deny capability sys_module,", "deny network inet raw,",
                 "deny network inet6 raw,", "deny network packet,", "deny /sys/** wkl,", "deny @{PROC}/[^0-9]** wkl,"]:
        assert rule in rules, rule
    assert any("docker" in rule and rule.startswith("deny") for rule in rules)
    assert not [rule for rule in rules if re.match(r"(capability|mount|change_profile|userns|dbus|network,|ptrace,|signal,)", rule)]


def test_a_run_without_apparmor_says_so_and_is_admitted(box):
    if ENABLED.exists() and ENABLED.read_text().startswith("Y"):
        pytest.skip("this kernel has AppArmor")
    result = box.run("print(1)")
    assert result.verdict == "ok", result.explain()
    assert result.control("apparmor") == {"name": "apparmor", "state": "off", "how": "this kernel has no AppArmor"}
    assert not any("apparmor" in note for note in result.json["notes"])
    assert b"apparmor" not in result.err
    finding = next(c for c in box.call("doctor", "--json").json["checks"] if c["name"] == "apparmor")
    assert finding["state"] == "info" and finding["found"] == "not enabled in this kernel" and "CONFIG_SECURITY_APPARMOR" in finding["remedy"]


def test_it_cannot_be_allowed_to_be_weaker(own_box):
    """There is nothing to allow: no run is refused for it."""
    result = own_box.run("print(1)", allow_weaker="apparmor")
    assert result.returncode == 110 and "can never be weaker" in result.error["message"], result.explain()
