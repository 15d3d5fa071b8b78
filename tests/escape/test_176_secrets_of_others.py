# SPDX-License-Identifier: Apache-2.0
"""176. A secret is given to one run or session, and code in others, and everybody outside, looks for it: in variables, files, /proc, cores and histories => it is nowhere.
"""
import pytest
from hostile_secrets import MARK, files_with, new_secret, new_session, processes_outside, run, server

# Everything that code can find out about variables and files. The needle comes on standard input, so that it is not in the code.
LOOK = """
import glob, os, sys
needle = sys.stdin.read().encode()
found = ['variable ' + name.decode() for name, value in os.environb.items() if needle in value]
for top in ('/proc/*/environ', '/proc/*/cmdline', '/run/**', '/tmp/**', '/dev/shm/**', os.path.expanduser('~') + '/**', os.path.expanduser('~') + '/.*', '/workspace/**', '/sandbox/**'):
    for path in glob.glob(top, recursive=True):
        try:
            if os.path.isfile(path) and needle in open(path, 'rb').read(): found.append(path)
        except OSError: pass
print('looked', sorted(set(found)))
"""


def look(server, secret, session=None, **fields):
    return run(server, LOOK, session=session, stdin=secret, **fields)["stdout"]


def test_the_next_run(server):
    secret = new_secret()
    own = run(server, "import os\nprint(len(os.environ['KEY']), os.environ['KEY'])", secret)
    assert own["stdout"] == f"{len(secret)} {MARK}\n", own
    assert look(server, secret) == "looked []\n"


@pytest.mark.parametrize("template", ["python", None], ids=["warm", "cold"])
def test_another_session(server, template):
    """Two of the same template: one has it, the other was opened before, a third after it."""
    secret, fields = new_secret(), {"template": template} if template else {"policy": {"warm": False}}
    before = new_session(server, **fields)
    owner = new_session(server, secret, **fields)
    found = run(server, "import os\nopen('/tmp/f', 'w').write(os.environ['KEY'])\nkey = os.environ['KEY']", session=owner)
    assert found["verdict"]["kind"] == "ok", found
    assert "'/tmp/f'" in look(server, secret, owner)  # this is how it would be found
    after = new_session(server, **fields)
    for other in (before, after):
        assert look(server, secret, other) == "looked []\n"
        assert run(server, "'key' in globals()", session=other)["results"][0]["data"]["text/plain"] == "False"
    for name in (before, owner, after):
        server.delete(f"/v1/sessions/{name}").expect(204)


def test_everybody_outside(server, own_box):
    """While it is used: no process of the host but those in the box has it in its environment or its command line; and no file of the server has it, then or later."""
    secret, workspace = new_secret(), own_box.directory("work")
    session = new_session(server, secret)
    run(server, "import os\nos.environ['KEY']\nprint('x')", session=session)
    process = own_box.start("import os, sys, time\nprint(len(os.environ['KEY']), flush=True)\nsys.stdin.read()", secret="KEY", workspace=workspace, json=False, stdin=-1, environ={"KEY": secret})
    assert process.stdout.readline() == f"{len(secret)}\n".encode()
    looked = 0
    for pid, seen in processes_outside():
        looked += 1
        for name, data in seen.items():
            assert secret.encode() not in data, (pid, name, seen["cmdline"][:200])
    assert looked > 5
    result = own_box.finish(process, b"")
    assert result.returncode == 0, result.explain()
    server.delete(f"/v1/sessions/{session}").expect(204)
    assert files_with(secret, server.directory, workspace) == []


@pytest.mark.parametrize("end", ["os.abort()", "os.kill(os.getpid(), 11)", "open('/proc/self/coredump_filter', 'w').write('0x7f'); os.abort()"], ids=["abort", "segv", "asks for more"])
def test_cores(own_box, end):
    secret, workspace = new_secret(), own_box.directory("work")
    result = own_box.run(f"import os, resource\nkey = os.environ['KEY'] * 1000\ntry: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))\nexcept (ValueError, OSError): pass\n{end}",
                         secret="KEY", workspace=workspace, environ={"KEY": secret})
    assert result.signal in ("SIGABRT", "SIGSEGV") or result.exit_code, result.explain()
    assert list(workspace.iterdir()) == []


def test_histories(server):
    """A shell that lives keeps none, not even when it is asked to."""
    secret = new_secret()
    session = new_session(server, secret)
    kept = run(server, 'set -o history; HISTFILE=history; echo "$KEY" > note; history -w; wc -l < history; cat ~/.bash_history; echo "[$?]"', session=session, language="bash")
    assert kept["verdict"]["kind"] == "ok" and kept["stdout"].split()[-1] == "[1]", kept  # no file of that name
    assert int(kept["stdout"].split()[0]) <= 1, kept  # nothing that was run before
    assert look(server, secret, session).count("history") == 0
    server.delete(f"/v1/sessions/{session}").expect(204)
    assert secret not in server.output()


def test_a_file(server):
    """As a file it is no variable, can only be read, and goes with its session."""
    secret = new_secret()
    session = server.post("/v1/sessions", {"secrets": {"KEY": {"value": secret, "file": "/run/secrets/key"}}}).expect(201).json["id"]
    code = "import os\ntext = open('/run/secrets/key').read()\nprint(len(text), text, 'KEY' in os.environ)\nfor how in ('w', 'a', 'r+'):\n    try: open('/run/secrets/key', how); print('written')\n    except OSError as e: print(e.errno > 0)"
    assert run(server, code, session=session)["stdout"] == f"{len(secret)} {MARK} False\n" + 3 * "True\n"
    server.delete(f"/v1/sessions/{session}").expect(204)
    assert run(server, "import os\nprint(os.path.exists('/run/secrets/key'))")["stdout"] == "False\n"
