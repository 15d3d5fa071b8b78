# SPDX-License-Identifier: Apache-2.0
"""203. Code inside swaps directories for links while files are copied through the engine's archive call (CVE-2018-15664 and its kin) => that call is never made for a container that runs.
"""
import http.client

from engine_proxy import Proxy
from file_fixtures import Workspace, tar_of
from hostile_engines import docker_box, docker_policy, engines
from server import Server
from test_204_closed_list_of_calls import unknown

SWAP = """
import os, shutil
print('on', flush=True)
while True:
    try:
        os.mkdir('d')
        open('d/passwd', 'w').close()
        os.rename('d', 'e')
        os.symlink('/etc', 'd')
        os.unlink('d')
        os.unlink('e/passwd')
        os.rmdir('e')
    except OSError:  # what was put there meanwhile
        for name in 'de':
            shutil.rmtree(name, ignore_errors=True)
"""


def received(ask):
    """The bytes that came. The answer is cut when the code empties a file whose length was sent already."""
    try:
        return ask().body
    except http.client.IncompleteRead as cut:
        return cut.partial


def test_files_do_not_go_by_the_engine(docker_box):
    with Proxy(docker_box.engine) as proxy:
        policy = docker_policy()
        with Server(policy=policy, environ={"DOCKER_HOST": proxy.host}) as server:
            space = Workspace(server)
            started = [path for method, path in proxy.calls() if path.endswith("/start")]
            assert len(started) == 1
            run = space.start(SWAP, timeout=250)
            # It is a directory, or a link, or not there.
            puts, i = set(), 0
            while i < 30 or not {201, 400} <= puts:
                assert i < 1000, f"nothing is swapped: {puts}"
                puts.add(space.put("d/passwd", b"x").status)
                assert b"root:" not in received(lambda: space.get("d/passwd"))
                space.unpack(tar_of((f"t{i}", b"y"))).expect(200)
                assert space.get(f"t{i}").expect(200).body == b"y"
                assert b"root:" not in received(lambda: space.archive().expect(200))
                i += 1
            assert puts <= {201, 400, 404}, puts
            space.kill(run)
            space.close()
    assert not unknown(proxy) and not proxy.faults, (unknown(proxy), proxy.faults)
    running = started[0].split("/")[2]
    assert not [call for call in proxy.calls() if "archive" in call[1] and running in call[1]], proxy.calls()
    assert not [call for call in proxy.calls() if "/exec" in call[1]], proxy.calls()
    # The layer with the agent is put into a container that is never started.
    for method, path in proxy.calls():
        if "archive" in path:
            assert ("POST", f"/containers/{path.split('/')[2]}/start") not in proxy.calls()
