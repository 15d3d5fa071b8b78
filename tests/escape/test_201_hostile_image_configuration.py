# SPDX-License-Identifier: Apache-2.0
"""201. An image says who to be, what to start, what to mount, to look after its health, and wears our labels => it has no say; inspect shows what was asked for.
"""
import pytest
from hostile_engines import OWNER, SESSION, begin, derive, docker_box, end_of, engines

NAME = "glovebox-test-hostile"
HOSTILE = {"User": "0:0", "Entrypoint": ["/bin/sh", "-c", "echo taken; exit 99"], "Cmd": ["x"], "Volumes": {"/data": {}, "/sandbox/v": {}}, "WorkingDir": "/root",
           "Healthcheck": {"Test": ["CMD-SHELL", "touch /tmp/health"], "Interval": 1000000000, "StartPeriod": 1000000}, "StopSignal": "SIGCONT",
           "OnBuild": ["RUN touch /built"], "Labels": {SESSION: "0" * 32, OWNER: "1:1:1:1", "com.example": "x"}, "ExposedPorts": {"80/tcp": {}},
           "Env": ["LD_PRELOAD=/none.so", "PYTHONSTARTUP=/none", "BASH_ENV=/none", "PATH=/evil", "PYTHONPATH=/evil"], "Hostname": "evil", "Tty": True, "OpenStdin": False}
CODE = """
import os, time
print(os.getuid(), os.getgid(), os.environ.get("LD_PRELOAD"), os.environ.get("BASH_ENV"), os.environ.get("PATH"), os.getcwd(), os.uname().nodename, flush=True)
print([p for p in ("/built", "/tmp/health") if os.path.exists(p)])
try: open("/data/x", "w"); print("wrote to the volume")
except OSError: pass
"""


@pytest.fixture
def hostile(docker_box):
    derive(docker_box.engine, NAME, HOSTILE)
    yield docker_box
    docker_box.engine.ask("DELETE", f"/images/{NAME}?force=1")


def test_the_image_has_no_say(hostile):
    volumes = hostile.engine.ask("GET", "/volumes")[1]["Volumes"] or []
    result = hostile.run(CODE, image=NAME)
    assert result.verdict == "ok", result.explain()
    lines = result.stdout.splitlines()
    assert lines[0].startswith("1000 1000 None None /usr/local/") and lines[0].endswith(" /sandbox glovebox") and lines[1:] == ["[]"], result.stdout
    assert (hostile.engine.ask("GET", "/volumes")[1]["Volumes"] or []) == volumes, "a volume was made"


def test_what_the_engine_says_of_it(hostile):
    process = begin(hostile, "import time\nprint('on', flush=True)\ntime.sleep(4)", image=NAME)
    [found] = hostile.engine.containers()
    seen = hostile.engine.inspect(found["Id"])
    config = seen["Config"]
    assert config["User"] == "1000:1000" and config["Entrypoint"] == ["/.glovebox/agent"] and not config["Cmd"] and config["WorkingDir"] == "/"
    assert config["Healthcheck"]["Test"] == ["NONE"] and config["StopSignal"] == "SIGKILL" and config["Hostname"] == "glovebox" and not config["Tty"]
    assert config["Labels"][SESSION] != "0" * 32 and config["Labels"][OWNER] != "1:1:1:1"
    assert not seen["Mounts"] and not seen["State"].get("Health")
    assert end_of(hostile, process)[0]["verdict"]["kind"] == "ok"
