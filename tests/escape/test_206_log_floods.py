# SPDX-License-Identifier: Apache-2.0
"""206. Code inside floods its output so that the engine's log fills the disk => there is no log; the streams are bounded as with any backend.
"""
import pathlib

import pytest
from hostile_engines import docker_box, engines


def files_of(engine, container):
    place = pathlib.Path(engine.directory) / "data/containers" / container
    return {p: p.stat().st_size for p in place.rglob("*") if p.is_file()} if place.is_dir() else {}


def test_no_log(docker_box):
    engine = docker_box.engine
    code = "for i in range(200000): print('y' * 99)\nprint('end', flush=True)\nimport time; time.sleep(6)"
    process = docker_box.start(code, json=False, events=True, output_limit="60m")
    last = b""
    for line in process.stdout:
        last = line
        if b"end" in line[-200:]:
            break
    [ours] = engine.containers()
    seen = engine.inspect(ours["Id"])
    sizes = files_of(engine, ours["Id"])
    rest, _ = process.communicate(timeout=30)
    assert seen["HostConfig"]["LogConfig"] == {"Type": "none", "Config": {}} and not seen["LogPath"], seen["HostConfig"]["LogConfig"]
    assert sizes and sum(sizes.values()) < 1 << 20, sizes
    assert process.returncode == 0, (last, rest[-500:])


def test_an_endless_one_is_cut(docker_box):
    before = {p for p in pathlib.Path(docker_box.engine.directory, "data/containers").glob("*")}
    result = docker_box.run("while True: print('y' * 1000)", output_limit="1m", json=True)
    assert result.verdict == "output" and len(result.stdout) <= 1 << 20, result.verdict
    assert {p for p in pathlib.Path(docker_box.engine.directory, "data/containers").glob("*")} <= before


OPEN = "import os\nfor p in ('/proc/1/fd/1', '/proc/1/fd/2', '/proc/1/fd/0'):\n  try: os.open(p, os.O_WRONLY); print('opened', p)\n  except OSError: pass\nprint('end')"

# A frame as the agent would send it: program 1 has ended well. It lacks only the tag.
FORGED = """
import os, struct, time
end = struct.pack('=iiIIQQQII', 0, 0, 0, 0, 1, 0, 0, 0, 0)
frame = struct.pack('=HHIIIQ', 36, 0, 1, 0, len(end), 0) + end
os.write(os.open('/proc/1/fd/1', os.O_WRONLY), frame)
time.sleep(5)
os._exit(7)
"""


def test_past_the_agent(docker_box):
    """What code writes to the streams of process 1 would come in our protocol's place: they are out of its reach."""
    result = docker_box.run(OPEN, allow_weaker="runtime")
    assert result.stdout == "end\n", result.explain()


def test_in_the_agents_name(docker_box, engines):
    """gVisor lets code open them; what it says in the agent's name is not believed, and ends the session."""
    if not engines.has_runsc:
        pytest.skip("runsc is not installed")
    result = docker_box.run(FORGED, runtime="runsc", allow_weaker="pids")
    assert result.json["verdict"]["kind"] == "lost", result.explain()
