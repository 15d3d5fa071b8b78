# SPDX-License-Identifier: Apache-2.0
"""Sessions and contexts over the API: state, values, files, input, interrupts, statistics, their end."""
import base64
import os
import time

import pytest
from backends import can, told, verdict
from suite import wait_until
from file_fixtures import Workspace, tar_of, tar_open
from server import in_threads

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def space(shared):
    """Its workspace, which is emptied afterwards."""
    made = Workspace.__new__(Workspace)
    made.server, made.id, made.address = shared.server, shared.id, shared.address
    yield made
    for name in made.names():
        made.delete(name, recursive=True).expect(204)


def test_the_session_object(shared, backend):
    about = shared.server.get(shared.address).expect(200).json
    assert (about["state"], about["backend"]) == ("ready", backend.policy.get("backend", "native"))
    assert shared.server.get("/v1/info").expect(200).json["backend"] == about["backend"]


def test_variables_stay(shared):
    shared.run("x = [1, 2]\ndef f(n): return n * 2")
    shared.run("x.append(f(21))")
    assert shared.value("x") == "[1, 2, 42]"
    failed = shared.run("x.append(1)\nx / 0")
    assert verdict(failed) == "error" and failed["error"]["name"] == "TypeError" and failed["state"] == {"kept": True, "restarted": False}, told(failed)
    assert shared.value("len(x)") == "4"


def test_bash_keeps_its_state(shared):
    shared.run("cd /tmp; v=5; f() { echo f $1; }", language="bash")
    result = shared.run("f $v; pwd; false", language="bash")
    assert result["stdout"] == "f 5\n/tmp\n", told(result)


def test_contexts_are_apart_and_overlap(shared):
    made = [shared.server.post(f"{shared.address}/contexts", {"language": "python"}).expect(201).json["id"] for _ in range(2)]
    code = "import time\nmine = {0}\nopen('/tmp/here{0}', 'w').close()\nimport os\nend = time.monotonic() + 20\n" \
           "while not os.path.exists('/tmp/here{1}') and time.monotonic() < end: time.sleep(0.01)\nos.path.exists('/tmp/here{1}')"
    both = in_threads([lambda i=i: shared.value(code.format(i, 1 - i), context=made[i]) for i in range(2)])
    assert both == ["True", "True"], "one waited for the other"
    assert [shared.value("mine", context=c) for c in made] == ["0", "1"]
    for context in made:
        shared.server.delete(f"{shared.address}/contexts/{context}").expect(204)


def test_a_figure(shared):
    result = shared.run("import matplotlib.pyplot as plt\nplt.figure(figsize=(2, 1))\nplt.plot([1, 3, 2])\nplt.show()\n'done'")
    assert verdict(result) == "ok", told(result)
    pictures = [r["data"]["image/png"] for r in result["results"] if "image/png" in r["data"]]
    assert len(pictures) == 1 and base64.b64decode(pictures[0]["base64"]).startswith(PNG), told(result)


def test_numbers(shared):
    assert shared.value("import numpy\nint(numpy.arange(10).sum())") == "45"


def test_files(space, shared):
    space.put("a/b.txt", b"x" * 300000, parents=True).expect(201)
    space.put("empty", b"").expect(201)
    space.put("dir", b"", directory=True).expect(201)
    assert space.names() == ["a", "dir", "empty"] and space.names("a") == ["b.txt"]
    assert space.run("print(open('a/b.txt').read() == 'x' * 300000)", context=None) == "True\n"
    space.run("import os\nos.makedirs('of/code')\nopen('of/code/f', 'wb').write(bytes(range(256)))\nos.symlink('/etc/passwd', 'link')", context=None)
    assert space.get("of/code/f").expect(200).body == bytes(range(256))
    assert space.get("link").status == 400, "a link was followed"
    assert space.get("nothing").status == 404 and space.get("../etc/passwd").status in (400, 404)
    assert space.delete("of").status == 409
    space.delete("of", recursive=True).expect(204)
    space.delete("empty").expect(204)
    assert space.names() == ["a", "dir", "link"]


def test_files_belong_to_the_code(space):
    space.put("mine", b"1").expect(201)
    assert space.run("import os\nos.chmod('mine', 0o600)\nopen('mine', 'a').write('2')\ns = os.stat('mine')\nprint((s.st_uid, s.st_gid) == (os.getuid(), os.getgid()))",
                     context=None) == "True\n"
    assert space.get("mine").body == b"12"


def test_archives(space):
    space.unpack(tar_of(("t/one", b"1"), ("t/two/three", b"33"), ("d", None))).expect(200)
    assert space.run("import os\nprint(sorted(os.listdir('t')), open('t/two/three').read())", context=None) == "['one', 'two'] 33\n"
    with tar_open(space.archive("t").expect(200).body) as archive:
        files = {m.name.removeprefix("./"): archive.extractfile(m).read() for m in archive if m.isfile()}
    assert files == {"one": b"1", "two/three": b"33"}
    assert space.unpack(tar_of(("../out", b"x"))).status == 400


def test_a_file_that_does_not_fit(backend):
    with backend.session(policy={"disk_limit": "1m"}) as session:
        answer = session.server.put(f"{session.address}/files/big", bytes(2 << 20))
        assert answer.status == 507, answer.explain()
        assert session.server.get(f"{session.address}/files").json["entries"] == []


def test_standard_input(shared):
    assert shared.value("import sys; sys.stdin.read()", stdin="hello") == "'hello'"
    assert shared.program("import sys; print(len(sys.stdin.read()))", stdin="x" * 200000)["stdout"] == "200000\n"
    assert shared.run("cat", language="bash", stdin="for bash")["stdout"] == "for bash"
    run = shared.server.post(f"{shared.address}/runs", {"code": "a = input()\nb = input()\na + b", "interactive": True, "detach": True}).expect(202).json["id"]
    shared.server.post(f"/v1/runs/{run}/stdin", body=b"typed\n").expect(200)
    shared.server.post(f"/v1/runs/{run}/stdin", body=b"twice\n").expect(200)
    assert shared.end(run)["results"][0]["data"]["text/plain"] == "'typedtwice'"
    run = shared.server.post(f"{shared.address}/runs", {"code": "cat", "language": "sh", "interactive": True, "detach": True}).expect(202).json["id"]
    shared.server.post(f"/v1/runs/{run}/stdin?close=true", body=b"to a program").expect(200)
    assert shared.end(run)["stdout"] == "to a program"


def test_an_interrupt_keeps_the_variables(shared):
    shared.run("kept = 'yes'")
    run = shared.begin("print('on', flush=True)\nwhile True: pass")
    shared.server.post(f"/v1/runs/{run}/cancel", {"kill": False}).expect(202)
    result = shared.end(run)
    assert verdict(result) == "cancelled" and result["state"]["kept"], told(result)
    assert shared.value("kept") == "'yes'"


def test_a_program_is_killed(shared):
    run = shared.begin("trap '' INT TERM; echo on; while :; do sleep 0.1; done", language="sh")
    shared.server.post(f"/v1/runs/{run}/cancel", {"kill": True}).expect(202)
    assert verdict(shared.end(run)) == "cancelled"


def test_a_time_limit_keeps_the_variables(shared):
    shared.run("kept = 'still'")
    result = shared.run("import time; time.sleep(30)", timeout="300ms")
    assert verdict(result) == "timeout" and result["state"]["kept"], told(result)
    assert shared.value("kept") == "'still'"


def test_an_interpreter_that_ends(shared):
    made = shared.server.post(f"{shared.address}/contexts", {"language": "python"}).expect(201).json["id"]
    result = shared.run("import os; os._exit(3)", context=made)
    assert (verdict(result), result["exit_code"], result["state"]["kept"]) == ("error", 3, False), told(result)
    again = shared.run("1 + 1", context=made)
    assert again["state"]["restarted"] and again["results"][0]["data"]["text/plain"] == "2", told(again)
    shared.server.delete(f"{shared.address}/contexts/{made}").expect(204)


@pytest.mark.parametrize("language, code, status, out, err", [
    ("python", "import sys; sys.exit(2)", 2, "", ""), ("python", "import sys; sys.exit('gone')", 1, "", "gone\n"), ("python", "import sys; sys.exit()", 0, "", ""),
    ("bash", "echo a; (exit 7)", 7, "a\n", "")])
def test_a_status_that_code_in_a_context_ends_with(shared, language, code, status, out, err):
    """The interpreter lives on, so it is a claim."""
    shared.run("kept=5", language=language)
    result = shared.run(code, language=language)
    assert (verdict(result), result["exit_code"], result["stdout"], result["stderr"], result["state"]["kept"]) == ("error" if status else "ok", status, out, err, True), told(result)
    assert result["verdict"]["message"] == (f"The code exited with status {status}." if status else "The code ended well."), told(result)
    assert shared.run("print(kept)" if language == "python" else "echo $kept", language=language)["stdout"] == "5\n"


THREAD = "import threading, time, atexit\natexit.register(print, 'at exit')\ndef late():\n    time.sleep(0.2); print('late')\n" \
         "threading.Thread(target=late).start()\nfile = open('/tmp/unflushed', 'w'); file.write('x')\n"


@pytest.mark.parametrize("language, code, status, out", [
    ("python", THREAD + "6 * 7", 0, "late\nat exit\n"), ("python", THREAD + "raise SystemExit(3)", 3, "late\nat exit\n"), ("python", THREAD + "1 / 0", 1, "late\nat exit\n"),
    ("bash", "trap 'echo at exit; echo said >&2' EXIT; echo a; (exit 7)", 7, "a\nat exit\n"), ("bash", "echo a", 0, "a\n")])
def test_the_last_run_of_an_interpreter(shared, language, code, status, out):
    """It ends as a program does, and its status is a fact."""
    made = shared.server.post(f"{shared.address}/contexts", {"language": language}).expect(201).json["id"]
    shared.run("before = 1", context=made)
    result = shared.run(code, context=made, last=True)
    assert (verdict(result), result["exit_code"], result["stdout"], result["state"]["kept"]) == ("error" if status else "ok", status, out, False), told(result)
    assert result["stderr"] == ("said\n" if "said" in code else ""), told(result)
    if language == "python":
        assert shared.run("print(open('/tmp/unflushed').read())")["stdout"] == "x\n"
        assert [value["data"]["text/plain"] for value in result["results"]] == (["42"] if status == 0 else [])
    again = shared.run("true" if language == "bash" else "'before' in dir()", context=made)
    assert again["state"]["restarted"], told(again)
    shared.server.delete(f"{shared.address}/contexts/{made}").expect(204)


def test_output_comes_while_it_runs(shared):
    code = "import time\nfor i in range(4): print(i, flush=True); time.sleep(0.15)"
    with shared.server.post(f"{shared.address}/runs", {"code": code}, stream=True) as stream:
        seen = [(time.monotonic(), event) for event in stream]
    outs = [(at, e["data"]) for at, e in seen if e["event"] == "stdout"]
    # On a busy host two lines may have come before anybody looks: then they are one event.
    assert "".join(data for _, data in outs) == "0\n1\n2\n3\n" and len(outs) > 1 and outs[-1][0] - outs[0][0] > 0.1
    assert [e["seq"] for _, e in seen] == list(range(len(seen))) and seen[-1][1]["event"] == "verdict"


def test_much_output_comes_whole(shared):
    result = shared.program("import sys\nfor i in range(100000): sys.stdout.write('%06d\\n' % i)")
    assert result["stdout"] == "".join("%06d\n" % i for i in range(100000)) and verdict(result) == "ok"


def test_statistics(shared):
    before = shared.stats()
    run = shared.begin("x = bytearray(40 << 20)\nprint('on', flush=True)\nwhile True: pass")
    with shared.server.get(f"{shared.address}/stats?interval=0.2", stream=True) as stream:
        samples = [sample for sample, _ in zip(stream, range(5))]
    shared.server.post(f"/v1/runs/{run}/cancel", {"kill": True}).expect(202)
    shared.end(run)
    assert samples[-1]["cpu"]["usec"] > before["cpu"]["usec"] and max(s["cpu"]["percent"] or 0 for s in samples) > 5, samples
    assert 40 << 20 < samples[-1]["memory"]["bytes"] <= samples[-1]["memory"]["peak_bytes"] <= samples[-1]["memory"]["limit_bytes"] == 512 << 20
    assert samples[-1]["pids"]["current"] > 0 and samples[-1]["runs"]["active"] == 1
    assert not can("pids", shared.backend.name) or samples[-1]["pids"]["current"] <= samples[-1]["pids"]["limit"]
    assert samples[-1]["disk"]["limit_bytes"] == 100 << 20


def test_a_background_process_lives_with_the_session_and_dies_with_it(backend):
    marker = f"marker{os.urandom(8).hex()}"
    with backend.session() as session:
        session.run(f"import subprocess\np = subprocess.Popen(['sh', '-c', 'while :; do date +%N > /tmp/beat; sleep 0.05; done; : {marker}'], start_new_session=True)")
        wait = "import time, os\nend = time.monotonic() + 10\nwhile not os.path.exists('/tmp/beat') and time.monotonic() < end: time.sleep(0.02)\n"
        beat = "def beat():\n    while not (text := open('/tmp/beat').read()): pass  # it is just being written\n    return text\n"
        first = session.value(wait + beat + "time.sleep(0.1); beat()")
        again = "end = time.monotonic() + 10\nwhile beat() == first and time.monotonic() < end: time.sleep(0.05)\nbeat()"
        assert session.value(f"first = {first}\n{again}") != first, "it does not go on between runs"
        assert backend.name == "runsc" or wait_until(lambda: backend.processes_with(marker)), "the marker finds nothing"
    assert wait_until(lambda: not backend.processes_with(marker), 10), "it outlives the session"


def test_a_workspace_of_the_host(backend, scratch):
    if os.geteuid() == 0:
        os.chown(scratch, backend.server.uid, backend.server.uid)
    (scratch / "given").write_text("in")
    with backend.session(workspace={"path": str(scratch)}) as session:
        assert session.program("print(open('given').read()); open('made', 'w').write('out')")["stdout"] == "in\n"
        assert session.server.get(f"{session.address}/files/made").expect(200).body == b"out"
        session.server.put(f"{session.address}/files/put", b"by api").expect(201)
        assert session.program("print(open('put').read())")["stdout"] == "by api\n"
    assert sorted(os.listdir(scratch)) == ["given", "made", "put"], "the files stay"
    owner = scratch.stat()
    assert all((p.stat().st_uid, p.stat().st_gid) == (owner.st_uid, owner.st_gid) for p in (scratch / "made", scratch / "put"))


def test_no_network(shared):
    code = ("import errno, socket, os\nprint(sorted(os.listdir('/sys/class/net')) if os.path.isdir('/sys/class/net') else ['lo'])\n"
            "s = socket.socket(); s.settimeout(2)\n"
            "try: s.connect(('192.0.2.1', 80)); print('out')\nexcept OSError: print('closed')\n"
            # Without an answer: that fails only where there is no way there.
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "try: s.connect(('192.0.2.1', 53)); print('a way out')\nexcept OSError as e: print(e.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH))\n"
            "a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))")
    result = shared.program(code)
    assert result["stdout"] == "['lo']\nclosed\nTrue\nb'x'\n", told(result)


def test_the_root_is_read_only(shared, backend):
    result = shared.program("for p in ('/', '/usr', '/etc', '/root', '/var', '/.glovebox'):\n  try: open(p + '/x', 'w'); print('wrote', p)\n  except OSError: pass\nprint('end')")
    assert result["stdout"] == "end\n", told(result)
    flags = shared.program("import os\nprint(bool(os.statvfs('/').f_flag & os.ST_RDONLY), [l.split()[5].split(',')[0] for l in open('/proc/self/mountinfo') if l.split()[4] == '/'])")
    assert flags["stdout"] == f"{can('statvfs', backend.name)} ['ro']\n", told(flags)


def test_the_root_is_read_only_for_who_owns_a_part_of_it(backend):
    """Nobody else may write there anyway. The directories are those of Debian's user _apt, in an image; the root of a native box has none."""
    code = ("import errno, os\nown = [p for p in ('/var/lib/apt/lists/partial', '/var/cache/apt/archives/partial') if os.path.isdir(p) and os.stat(p).st_uid == os.getuid()]\n"
            "print(len(own))\nfor p in own or ['/']:\n  try: open(p + '/x', 'w'); print('wrote', p)\n  except OSError as e: print(errno.errorcode[e.errno])")
    result = backend.run(code, user="42:42")
    count, *errors = result.stdout.split("\n")[:-1]
    assert result.verdict == "ok" and int(count) == (2 if backend.engine else 0) and set(errors) == {"EROFS"}, result.explain()


def test_sessions_are_apart(backend, shared):
    shared.program("open('/tmp/secret', 'w').write('s'); open('/dev/shm/secret', 'w').write('s')")
    with backend.session() as other:
        assert other.program("import os\nprint(os.listdir('/tmp'), os.listdir('/dev/shm'), os.listdir('/sandbox'))")["stdout"] == "[] [] []\n"
        code = "import os\nnames = [open(f'/proc/{p}/comm').read() for p in os.listdir('/proc') if p.isdigit()]\nprint(len([n for n in names if n != 'glovebox-spare\\n']) <= 3)"
        assert other.program(code)["stdout"] == "True\n"


def test_the_end_is_one(backend):
    with backend.session() as session:
        run = session.begin("print('on', flush=True)\nwhile True: pass")
        before = backend.containers()
        session.server.delete(session.address).expect(204)
        assert verdict(session.server.wait_run(run)["result"]) == "cancelled"
        assert session.server.get(session.address).status == 404
        session.id = None
    assert not backend.engine or len(backend.containers()) == len(before) - 1
