# SPDX-License-Identifier: Apache-2.0
"""208, results: a container is removed or ended for its memory at a bad moment
=> the result reports only observed facts.
"""
import json
import time

import pytest
from hostile_engines import begin, docker_box, engines, make_docker_box

SIZE = 250000  # more than the pipes on the way hold, and less than the agent's window
FLOOD = f"import sys, time\nprint('on', flush=True)\ntime.sleep(0.5)\nsys.stdout.write('x' * {SIZE})"
MEMORY = "print('on', flush=True)\nheap = []\nwhile True: heap.append(bytearray(1 << 20))"


def test_the_container_goes_before_the_output_was_read(docker_box):
    """The program has ended well; its reader is slow, and the container is removed meanwhile."""
    process = begin(docker_box, FLOOD)
    time.sleep(5)  # it has ended, and its output is on its way
    [ours] = docker_box.engine.containers()
    docker_box.engine.remove(ours["Id"])
    time.sleep(0.5)
    result = docker_box.finish(process)
    events = [json.loads(line) for line in result.out.splitlines()]
    verdict = events[-1]["verdict"]
    size = sum(len(e["data"]) for e in events if e["event"] == "stdout")
    assert size == SIZE, f"{size} bytes of output, and the verdict is {verdict}"
    assert verdict["kind"] == "ok" and events[-1]["exit_code"] == 0, verdict


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_memory(engines, attack_dir, scratch, runtime):
    """The peak is the value of a counter of the kernel. Under gVisor the whole container goes."""
    if runtime == "runsc" and not engines.has_runsc:
        pytest.skip("runsc is not installed")
    box = make_docker_box(engines.docker.host, attack_dir, scratch)
    if runtime == "runsc":
        box.environ["GLOVEBOX_RUNTIME"] = "runsc"
        box.weaker = ["pids"]
    result = box.run(MEMORY, memory="128m")
    assert result.verdict == "memory", result.explain()
    assert result.json["exit_code"] is None, result.explain()
    peak = result.json["peaks"]["memory_bytes"]
    is_gone = peak is None and runtime == "runsc"  # the counters may have gone with the container
    assert is_gone or 0 < peak <= 128 << 20, result.explain()


def test_tasks_under_gvisor(engines, attack_dir, scratch):
    """Only the agent can count them, and a short program must not be over before it does."""
    if not engines.has_runsc:
        pytest.skip("runsc is not installed")
    box = make_docker_box(engines.docker.host, attack_dir, scratch, GLOVEBOX_RUNTIME="runsc")
    box.weaker = ["pids"]
    result = box.run("import time\ntime.sleep(0.2)")
    assert result.verdict == "ok" and result.json["peaks"]["pids"] > 0, result.explain()
