# SPDX-License-Identifier: Apache-2.0
"""Every layer must hold alone: the attacks again, with one layer of isolation switched off at a time.

Needs a build with -Dtest_layers=true, named by $GLOVEBOX_LAYERS_BINARY. What was still stopped goes to
$GLOVEBOX_LAYER_REPORT (JSON, and the same with .md as a table), or beside that binary's build.
The floor: with any one layer off at least 80 % of the steps are still refused, and some always.
"""
import json
import os
import pathlib
import socket

import pytest
from conftest import IS_ROOT, LAYERS_BINARY, NOT_ROOT, Box

pytestmark = [
    pytest.mark.skipif(not LAYERS_BINARY, reason="$GLOVEBOX_LAYERS_BINARY names no build with -Dtest_layers=true"),
    pytest.mark.skipif(not IS_ROOT, reason=NOT_ROOT),
]

LAYERS = ["none", "seccomp", "landlock", "capabilities", "cgroup", "rlimits", "network"]
FLOOR = 0.80

# Attacks that report steps. What holds for every layer is in MUST; the number is that of the catalogue.
ATTACKS = {
    "io_uring": 1, "new_namespaces": 6, "administration": 8, "mount_api": 9, "odd_modes": 11, "socket_options": 12,
    "socket_families": 12, "process_controls": 13, "other_process": 18, "own_child_memory": 18, "more_filters": 19,
    "landlock_ways": 20, "processor": 24, "clocks": 25, "host_name": 26, "identities": 27, "inherited": 32, "way_up": 33,
    "proc_view": 43, "terminals": 45, "remounts": 48, "root_writes": 49, "file_marks": 51, "hard_links": 52,
    "outside_signals": 62, "shared_inode": 63, "page_cache": 65, "kernel_objects": 78, "huge_pages": 90, "core_limit": 99,
    "network_out": 105,
}
# Whole attacks that every single layer may miss and the others must still stop.
MUST = ["administration", "clocks", "identities", "inherited", "way_up", "other_process", "proc_view", "remounts", "root_writes",
        "hard_links", "outside_signals"]
# Steps that are no gain by themselves where the filter is off: they act on the process itself, or on its own
# children, and are not counted then.
HARMLESS = {
    "odd_modes": {"personality_no_randomize", "personality_read_exec", "personality_linux32", "modify_ldt", "arch_set_cpuid",
                  "arch_map_vdso_x32", "arch_shstk_disable"},
    "process_controls": {"set_mm", "set_seccomp", "set_ptracer", "set_keepcaps", "set_memory_merge"},
    "more_filters": {"listener", "tsync", "strict"},
    "own_child_memory": {"process_vm_readv", "process_vm_writev", "ptrace_attach", "traceme", "open_mem"},
    "administration": {"keyctl", "add_key"},  # its own session keyring
    "core_limit": {"setrlimit_0", "prlimit_0", "prlimit_0_low_word"},  # a gain only where core_pattern is a pipe
}

report = {}


@pytest.fixture(scope="module")
def servers():
    tcp, local = socket.socket(), socket.socket(socket.AF_UNIX)
    with tcp, local:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen(64)
        local.bind(f"\0glovebox-layers-{os.getpid()}")
        local.listen(64)
        yield tcp.getsockname()[1], f"glovebox-layers-{os.getpid()}"


def arguments(name, servers, marker):
    return {"identities": [0x40000001], "way_up": [marker], "proc_view": [os.getpid()], "outside_signals": [os.getpid()],
            "other_process": [1], "network_out": servers}.get(name, [])


@pytest.fixture(scope="module", autouse=True)
def write_report():
    yield
    if not report:
        return
    base = os.environ.get("GLOVEBOX_LAYER_REPORT") or pathlib.Path(LAYERS_BINARY).resolve().parents[2] / "layers.json"
    path = pathlib.Path(base)
    path.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")
    path.with_suffix(".md").write_text(table())


def table():
    """Steps refused of steps tried, by attack and layer that was off."""
    lines = ["| attack | " + " | ".join(LAYERS) + " |", "|---" * (len(LAYERS) + 1) + "|"]
    for name, number in ATTACKS.items():
        cells = [report.get(layer, {}).get(name) for layer in LAYERS]
        lines.append(f"| {number} {name} | " + " | ".join(f"{c['refused']}/{c['tried']}" if c else "-" for c in cells) + " |")
    totals = []
    for layer in LAYERS:
        rows = report.get(layer, {}).values()
        tried = sum(r["tried"] for r in rows)
        totals.append(f"{100 * sum(r['refused'] for r in rows) / tried:.1f} %" if tried else "-")
    lines.append("| **all steps** | " + " | ".join(totals) + " |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("layer", LAYERS)
def test_layer_off(layer, servers, attack_dir, scratch):
    box = Box("root", attack_dir, scratch, pathlib.Path(LAYERS_BINARY),
              {} if layer == "none" else {"GLOVEBOX_TEST_LAYER_OFF": layer})
    marker = box.directory("outside") / "marker"
    marker.write_text("of the host")
    give = box.directory("give")
    (give / "file").write_text("of the host")
    rows = report.setdefault(layer, {})
    for name, number in ATTACKS.items():
        attack = box.attack(name, *arguments(name, servers, marker), mount=[f"{give}:/give"], timeout="20s")
        assert attack.steps and attack.finished, f"{name} is vacuous: {attack.result.explain()}"
        tried = {k: v for k, v in attack.steps.items() if v != "ok" or k not in HARMLESS.get(name, ())}
        opened = [k for k, v in tried.items() if v == "ok"]
        rows[name] = {"number": number, "tried": len(tried), "refused": len(tried) - len(opened), "opened": sorted(opened)}

    tried, refused = (sum(row[key] for row in rows.values()) for key in ("tried", "refused"))
    opened = {name: row["opened"] for name, row in rows.items() if row["opened"]}
    if layer == "none":
        assert not opened
    assert refused / tried >= FLOOR, f"{refused} of {tried}: {opened}"
    assert not [name for name in MUST if rows[name]["opened"]], opened


def test_layers_were_really_off(attack_dir, scratch):
    """The switch itself: without it all of the above would prove nothing."""
    def status(layer, key):
        box = Box("root", attack_dir, scratch, pathlib.Path(LAYERS_BINARY), {"GLOVEBOX_TEST_LAYER_OFF": layer})
        result = box.run("print(open('/proc/self/status').read())")
        return next(line.split()[1] for line in result.stdout.splitlines() if line.startswith(key + ":"))

    assert status("seccomp", "Seccomp") == "0" and status("none", "Seccomp") == "2"
    assert int(status("capabilities", "CapBnd"), 16) != 0 and int(status("none", "CapBnd"), 16) == 0
    box = Box("root", attack_dir, scratch, pathlib.Path(LAYERS_BINARY), {"GLOVEBOX_TEST_LAYER_OFF": "rlimits"})
    assert box.attack("core_limit").notes["hard"] != Box("root", attack_dir, scratch).attack("core_limit").notes["hard"]
    box = Box("root", attack_dir, scratch, pathlib.Path(LAYERS_BINARY), {"GLOVEBOX_TEST_LAYER_OFF": "landlock"})
    assert box.attack("landlock_ways").steps["write_proc_comm"] == "ok"


def test_ordinary_build_has_no_switch(attack_dir, scratch):
    box = Box("root", attack_dir, scratch, environ={"GLOVEBOX_TEST_LAYER_OFF": "seccomp"})
    assert box.attack("io_uring").opened == []
    assert "Seccomp:\t2" in box.run("print(open('/proc/self/status').read())").stdout
