# SPDX-License-Identifier: Apache-2.0
"""scratch_only: the workspace is at /tmp/sandbox, and besides /dev/shm nothing else can be written to."""
import os

import pytest
from backends import told, verdict

# Of a session also where glovebox puts the code of its programs.
PLACES = {"/tmp/sandbox", "/dev/shm", "/run/glovebox"}
WRITABLE = """
import os
for place, below, _ in os.walk('/'):
    if place in ('/proc', '/sys'):
        below.clear()
    try:
        open(place + '/probe', 'x').close()
    except OSError:
        continue
    os.unlink(place + '/probe')
    print(place)
"""
SEE = "import os\nprint(os.getcwd(), os.environ['HOME'], os.environ['TMPDIR'])\nopen('module.py', 'w').write('value = 5')\nimport module\nprint(module.value)"
SEEN = "/tmp/sandbox /tmp/sandbox /tmp/sandbox\n5\n"


def test_a_run(backend):
    result = backend.run(WRITABLE, scratch_only=True)
    assert result.verdict == "ok" and {"/tmp/sandbox", "/dev/shm"} <= set(result.stdout.split()) <= PLACES, result.explain()
    assert backend.run(SEE, scratch_only=True).stdout == SEEN


@pytest.mark.parametrize("template", [None, "python"])
def test_a_session(backend, template):
    """Contexts and programs of several languages, the files of the workspace, and the limit of its size."""
    if template and backend.name != "native":
        pytest.skip("only native boxes, on the kernel of the host, have templates")
    with backend.session(policy={"scratch_only": True, "disk_limit": "4m"}, **({"template": template} if template else {})) as session:
        places = session.run(WRITABLE)
        assert {"/tmp/sandbox", "/dev/shm"} <= set(places["stdout"].split()) <= PLACES, told(places)
        assert session.run(SEE)["stdout"] == session.program(SEE)["stdout"] == SEEN
        for run in (session.run, session.program):
            result = run('pwd; echo "$HOME $TMPDIR"; cat', language="bash", stdin="from here\n")
            assert result["stdout"] == "/tmp/sandbox\n/tmp/sandbox /tmp/sandbox\nfrom here\n", told(result)
        session.server.put(f"{session.address}/files/given", b"given").expect(201)
        assert session.value("open('/tmp/sandbox/given').read()") == "'given'"
        assert session.server.get(f"{session.address}/files/module.py").expect(200).body == b"value = 5"
        session.server.put(f"{session.address}/files/%2Ftmp%2Fsandbox%2Fseen", b"seen").expect(201)
        assert session.value("open('/tmp/sandbox/seen').read()") == "'seen'"
        assert session.server.get(f"{session.address}/files/%2Ftmp%2Fsandbox%2Fmodule.py").expect(200).body == b"value = 5"
        full = session.program("head -c 8000000 /dev/zero >big", language="sh")
        assert verdict(full) == "disk", told(full)


def test_a_directory_of_the_host(backend, scratch):
    if os.geteuid() == 0:
        os.chown(scratch, 1000, 1000)
    result = backend.run("open('made', 'w').write('x'); print(open('/tmp/sandbox/made').read())", workspace=scratch, scratch_only=True)
    assert (result.stdout, (scratch / "made").read_text()) == ("x\n", "x"), result.explain()


FILL_CODE = """
try:
    for i in range(40):
        open(f'/run/glovebox/f{i}', 'wb').write(b'x' * 1048576)
except OSError:
    raise SystemExit(3)
"""


@pytest.mark.parametrize("only", [True, False], ids=["scratch_only", "usual"])
@pytest.mark.parametrize("context", [True, False], ids=["context", "program"])
def test_a_full_place_of_the_code_is_named(backend, scratch, context, only):
    """The workspace is the host's, and neither --disk nor --tmp-size would help."""
    if os.geteuid() == 0:
        os.chown(scratch, backend.server.uid, backend.server.uid)
    with backend.session(workspace={"path": str(scratch)}, policy={"scratch_only": only, "disk_limit": "20m"}) as session:
        result = (session.run if context else session.program)(FILL_CODE)
        message = result["verdict"]["message"]
        assert "--disk" not in message and "--tmp-size" not in message, told(result)
        if verdict(result) == "disk":
            assert "/run/glovebox" in message, told(result)
        else:  # it cannot be written to there, or nobody looks at it
            assert context or not only, told(result)


def test_a_full_workspace_is_named(backend):
    result = backend.run("head -c 8000000 /dev/zero >big", "sh", scratch_only=True, disk="4m")
    assert result.verdict == "disk" and "--disk" in result.json["verdict"]["message"] and "4 MB" in result.json["verdict"]["message"], result.explain()
