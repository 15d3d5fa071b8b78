# SPDX-License-Identifier: Apache-2.0
"""The private server, and how one is found. Each test is a Python of its own."""
import contextlib
import glob
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import isolation
import pytest

from sdk_helpers import BINARY, wait_until, weaker_config

PATIENCE = 120


def python(program, environ=None, wait=True, arguments=("-W", "error::ResourceWarning")):
    temporary = tempfile.gettempdir()
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8", "HOME": "/", "GLOVEBOX": str(BINARY), "GLOVEBOX_RUNTIME_DIR": f"{temporary}/gbtest-none",
           **{name: value for name, value in os.environ.items() if name.startswith(("GLOVEBOX_CONFIG", "GLOVEBOX_LIBEXEC", "TMPDIR"))},
           **(environ or {})}
    head = f"import sys; sys.path[:0] = {json.dumps([path for path in sys.path if path.endswith('sdk/python/src')])}\n"
    process = subprocess.Popen([sys.executable, *arguments, "-c", head + program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={name: value for name, value in env.items() if value is not None})
    if not wait:
        return process
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"it hangs: {out!r} {err!r}")
    return process.returncode, out.decode(), err.decode()


def places():
    return set(glob.glob(os.path.join(tempfile.gettempdir(), "glovebox-python-*")))


def servers():
    """Processes of private servers."""
    found = set()
    for process in isolation.current.processes():
        with contextlib.suppress(OSError):
            if b"glovebox-python-" in pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes():
                found.add(process.pid)
    return found


@pytest.fixture(autouse=True)
def config_of_an_ordinary_user(monkeypatch, tmp_path):
    if os.geteuid() != 0 and "GLOVEBOX_CONFIG_DIR" not in os.environ:
        monkeypatch.setenv("GLOVEBOX_CONFIG_DIR", str(weaker_config(tmp_path)))


@pytest.fixture
def nothing_left():
    before = places(), servers()
    yield
    assert wait_until(lambda: places() <= before[0] and servers() <= before[1], 30), (places() - before[0], servers() - before[1])


def test_started_once_and_stopped_with_the_interpreter(nothing_left):
    status, out, err = python("""
import glovebox, threading, glob
results = []
def work(n): results.append(glovebox.run(f"print({n})").stdout)
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print(sorted(results))
with glovebox.Sandbox() as box:
    box.run("x = 1")
    print(box.run("x").text, box.client.server)
import glovebox._private
print(len(glob.glob("/tmp/glovebox-python-*")) if glovebox._private._server.directory.startswith("/tmp/") else 1)
""", {"TMPDIR": None})
    assert status == 0 and err == "", err
    assert out.splitlines()[:2] == ["['0\\n', '1\\n', '2\\n', '3\\n', '4\\n', '5\\n', '6\\n', '7\\n']", "1 a private server"]


def test_a_sandbox_that_nobody_closed_ends_too(nothing_left):
    status, out, err = python("import glovebox\nbox = glovebox.Sandbox().open()\nprint(box.run('1').text)\n")
    assert (status, out, err) == (0, "1\n", "")


def test_with_asyncio(nothing_left):
    status, out, err = python("""
import asyncio, glovebox
async def main():
    async with glovebox.AsyncSandbox() as box:
        print((await box.run("1 + 1")).text)
    print((await glovebox.run_async("print(3)")).stdout, end="")
asyncio.run(main())
""", arguments=("-W", "error::ResourceWarning", "-X", "dev"))
    assert (status, out, err) == (0, "2\n3\n", "")


def test_it_ends_when_the_interpreter_is_killed(nothing_left):
    process = python("import glovebox, time\nbox = glovebox.Sandbox().open()\nbox.start('import time; time.sleep(600)')\nprint('up', flush=True)\ntime.sleep(600)",
                     wait=False)
    with process:
        try:
            assert process.stdout.readline() == b"up\n", process.stderr.read()
        finally:
            process.send_signal(signal.SIGKILL)


def test_ctrl_c_does_not_reach_it(nothing_left):
    status, out, err = python("""
import glovebox, os, signal
glovebox.run("1")
try:
    os.killpg(os.getpgrp(), signal.SIGINT)
    import time; time.sleep(10)
except KeyboardInterrupt:
    pass
print(glovebox.run("print('still there')").stdout)
""", arguments=("-c", "import os, sys; os.setsid(); exec(sys.argv[-1])"))
    assert status == 0 and out == "still there\n\n", err


def test_a_forked_child_uses_it_and_does_not_stop_it(nothing_left):
    status, out, err = python("""
import glovebox, os, sys
print(glovebox.run("print('parent')").stdout, end="", flush=True)
pid = os.fork()
if pid == 0:
    print(glovebox.run("print('child')").stdout, end="", flush=True)
    sys.exit(0)  # with all that is registered for the end
assert os.waitpid(pid, 0)[1] == 0
print(glovebox.run("print('parent again')").stdout, end="")
""")
    assert (status, out, err) == (0, "parent\nchild\nparent again\n", "")


def test_a_child_does_not_keep_it_alive():
    """The parent is killed while a child of it lives on."""
    before = places(), servers()
    process = python("""
import glovebox, os, time
glovebox.run("1")
child = os.fork()
if child == 0:
    time.sleep(600)
print(child, flush=True)
time.sleep(600)
""", wait=False)
    with process:
        child = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        try:
            assert wait_until(lambda: servers() <= before[1] and places() <= before[0], 30), (places(), servers())
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


def test_multiprocessing(nothing_left):
    status, out, err = python("""
import glovebox, multiprocessing
def work(n): return glovebox.run(f"print({n})").stdout
glovebox.run("1")
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(work, range(4)))
    pool.close()
    pool.join()
""")
    assert (status, out) == (0, "['0\\n', '1\\n', '2\\n', '3\\n']\n"), err


def test_one_that_died_is_replaced(nothing_left):
    status, out, err = python("""
import glovebox, glovebox._private as private, os, signal
box = glovebox.Sandbox().open()
os.killpg(private._server._process.pid, signal.SIGKILL)
private._server._process.wait()
print(glovebox.run("print('new')").stdout, end="")
try:
    box.run("1")
except glovebox.NotFoundError:
    print("gone")
""")
    assert (status, out) == (0, "new\ngone\n"), err


def test_a_directory_of_the_host(nothing_left, tmp_path):
    """The private server is the caller's own helper, so the caller's directories can be workspaces."""
    tmp_path.chmod(0o755)
    status, out, err = python(f"""
import glovebox, pathlib
place = pathlib.Path({str(tmp_path)!r})
with glovebox.Sandbox(workspace=place) as box:
    box.run("open('made', 'w').write('here')", check=True)
glovebox.run("open('once', 'w').write('there')", workspace=place, check=True)
print((place / "made").read_text(), (place / "once").read_text())
""")
    assert (status, out) == (0, "here there\n"), err


def test_who_isolates_can_be_chosen(nothing_left):
    """Without an engine the error comes at once, and from the engine's side: the server itself lets choose."""
    program = """
import glovebox, time
begin = time.monotonic()
for call in (lambda: glovebox.run("1", backend="docker", image="any/image:1", runtime="runsc"), lambda: glovebox.Sandbox(backend="docker").open()):
    try:
        call()
    except glovebox.UnavailableError as error:
        print("/nonexistent/docker.sock" in error.message)
print(time.monotonic() - begin < 25)
print(glovebox.Client().info().backend, glovebox.Client().info().backends)
try:
    glovebox.run("1", image="nothing-of-this-name")
except glovebox.NotFoundError as error:
    print("nothing-of-this-name" in error.message)
result = glovebox.run("print(1)")
print(result.backend, result.stdout)
"""
    status, out, err = python(program, {"DOCKER_HOST": "unix:///nonexistent/docker.sock"})
    assert (status, out) == (0, "True\nTrue\nTrue\nnative ['native', 'docker']\nTrue\nnative 1\n\n"), err


def test_the_environment_is_part_of_its_policy(nothing_left):
    status, out, err = python("""
import glovebox
info = glovebox.Client().info()
print(info.backend, info.backends)
print(glovebox.run("print(1)", backend="native").backend)
with glovebox.Sandbox(backend="native") as box:
    print(box.info().backend, box.info().image, box.info().runtime)
""", {"DOCKER_HOST": "unix:///nonexistent/docker.sock", "GLOVEBOX_BACKEND": "docker", "GLOVEBOX_IMAGE": "mine", "GLOVEBOX_RUNTIME": "runsc"})
    assert (status, out) == (0, "docker ['docker', 'native']\nnative\nnative None None\n"), err


def test_not_installed():
    status, out, err = python("""
import glovebox
try:
    glovebox.run("1")
except glovebox.NotInstalled as error:
    print(error.code, "GLOVEBOX_SERVER" in error.hint, isinstance(error, glovebox.ConnectionFailed))
""", {"GLOVEBOX": None, "PATH": "/nowhere"})
    assert (status, out) == (0, "connection True True\n"), err
    status, out, err = python("import glovebox\nglovebox.run('1')", {"GLOVEBOX": "/no/such/program"})
    assert status == 1 and "/no/such/program" in err


def test_one_that_cannot_start_says_why(nothing_left):
    status, out, err = python("import glovebox\nglovebox.run('1')", {"GLOVEBOX_CONFIG_DIR": "/no/such/directory"})
    assert status == 1 and "ConnectionFailed" in err and "/no/such/directory" in err, err


def test_a_server_in_the_usual_place_is_taken(server, nothing_left):
    directory = tempfile.mkdtemp(prefix="gbtest-runtime-")
    try:
        os.symlink(server.socket, os.path.join(directory, "glovebox.sock"))
        status, out, err = python("import glovebox\nprint(glovebox.Client().info().tenant, glovebox.run('print(1)').stdout, glovebox.Client().server)",
                                  {"GLOVEBOX_RUNTIME_DIR": directory, "GLOVEBOX": "/no/such/program"})
        assert status == 0 and out.startswith("local 1\n"), err
    finally:
        subprocess.run(["rm", "-rf", directory], check=True)
