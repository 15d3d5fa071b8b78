# SPDX-License-Identifier: Apache-2.0
"""The executor of a reasoning loop."""
import ast
import errno
import inspect
import json
import os
import secrets
import socket

import pytest

from compat_helpers import DATA, ENGINES, USER, identity, needs_root, on_each_backend
from promises import promise
from glovebox import Client
from glovebox.compat import dolphin
from glovebox.compat.dolphin import DockerSandboxExecutor
from glovebox.errors import ConflictError, UsageError

pytestmark = on_each_backend


@pytest.fixture
def base(tmp_path):
    return str(tmp_path / "sandboxes")


@promise("dolphin-10", "Variables persist from one step to the next.")
@promise("dolphin-11", "execute_code() returns what was printed.")
def test_variables_persist(base):
    with DockerSandboxExecutor("steps", base) as executor:
        assert executor.execute_code("x = 6 * 7") == ""
        assert executor.execute_code("print(x)") == "42\n"
        assert executor.execute_code("x + 1") == ""
        assert executor.execute_code("import sys; sys.stdout.write('no newline')") == "no newline"
        assert "ZeroDivisionError" in executor.execute_code("1 / 0")
        assert executor.execute_code("print(x)") == "42\n"


@promise("dolphin-10", "Variables persist from one step to the next.")
def test_the_session_is_kept_for_long(base):
    """Also when the next step comes an hour later: as long as a server allows."""
    with DockerSandboxExecutor("kept", base) as executor:
        info = executor._box.info()
        assert (info.idle_timeout, info.max_lifetime) == (24 * 3600, 7 * 24 * 3600)


@promise("dolphin-1", "Files in /sandbox appear in the directory of the session on the host, and stay there.")
def test_files_stay_on_the_host(base, backend):
    with DockerSandboxExecutor("files", base) as executor:
        executor.execute_code("open('/sandbox/made.txt', 'w').write('inside')")
        executor.execute_code("open('relative.txt', 'w').write('too')")
        assert (executor.host_dir / "made.txt").read_text() == "inside"
    assert (executor.host_dir / "relative.txt").read_text() == "too"
    assert (executor.host_dir / "made.txt").stat().st_uid == identity(backend)
    with DockerSandboxExecutor("files", base) as again:
        assert again.execute_code("print(open('/sandbox/made.txt').read())") == "inside\n"


@promise("dolphin-2", "The arguments have the documented names and defaults.")
def test_the_arguments_of_the_document():
    arguments = inspect.signature(DockerSandboxExecutor).parameters
    assert {name: arguments[name].default for name in list(arguments)[1:7]} == {
        "sandbox_base_dir": "/tmp/sandboxes", "image_name": "dolphin-python-sandbox", "memory_limit": "512m", "cpu_quota": 100_000,
        "enable_network": False, "timeout": 30}
    assert list(arguments)[0] == "session_id"


@promise("dolphin-4", "Code cannot read /etc, /root and /home of the host.")
def test_files_of_the_host_are_not_there(base):
    """What code finds there is the box's own, and has nothing of the host."""
    look = """
import os
for place in ("/etc", "/root", "/home"):
    try:
        print(place, len(os.listdir(place)) if place != "/etc" else "listed")
    except OSError as error:
        print(place, "refused")
for path in ("/etc/" + "".join(chr(ord(c) ^ 1) for c in "ri`env"), "/etc/hostname", "/etc/machine-id"):
    try:
        print(open(path).read().strip())
    except OSError:
        print("refused")
"""
    with DockerSandboxExecutor("host", base) as executor:
        result = executor.run(look)
        assert result.ok, result
        lines = result.stdout.splitlines()
        assert lines[0] == "/etc listed" and lines[1] in ("/root 0", "/root refused") and lines[2] in ("/home 0", "/home refused"), lines
        assert lines[3] == "refused" and socket.gethostname() not in lines[4:], lines
        users = executor.execute_code("print([line.split(':')[0] for line in open('/etc/passwd') if int(line.split(':')[2]) >= 1000])")
        assert set(ast.literal_eval(users)) <= {"sandbox", "nobody"}, users


@promise("dolphin-8", "enable_network=True switches a network on.")
@pytest.mark.needs("network of the host")
def test_the_network_can_be_enabled(base):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code = f"import socket; socket.create_connection(('127.0.0.1', {listener.getsockname()[1]}), 5); print('reached')"
        with DockerSandboxExecutor("with", base, enable_network=True) as executor:
            assert executor.execute_code(code) == "reached\n"
        with DockerSandboxExecutor("without", base) as executor:
            assert "ConnectionRefusedError" in executor.execute_code(code)


@promise("dolphin-25", "Code cannot write to the file system of the host except for the directory of its session.")
def test_code_cannot_write_to_the_host(base):
    places = ["/", "/etc", "/root", "/home", "/usr", "/tmp", "/var/tmp", base]
    mark = f"made-{secrets.token_hex(8)}"
    with DockerSandboxExecutor("writes", base) as executor:
        result = executor.run(f"for place in {places!r}:\n    try:\n        open(f'{{place}}/{mark}', 'w').write('x')\n    except OSError:\n        pass\n"
                              f"open('/sandbox/{mark}', 'w').write('x')")
        assert result.ok, result
        assert [place for place in places if os.path.exists(f"{place}/{mark}")] == []
        assert [path.name for path in executor.host_dir.iterdir()] == [mark] and os.listdir(base) == ["writes"]


@promise("dolphin-28", "Limits of memory, processor and /tmp are enforced by the kernel.")
def test_limits_are_enforced(base):
    with DockerSandboxExecutor("enforced", base, memory_limit="256m") as executor:
        result = executor.run("x = b'x' * (1 << 30)")
        assert not result.ok and (result.verdict == "memory" or "MemoryError" in str(result.error)), result
        assert {name: result.controls[name].state for name in ("memory", "cpu")} == {"memory": "enforced", "cpu": "enforced"}
    with DockerSandboxExecutor("full", base) as executor:  # with gVisor, the box of the first one has ended with its run
        said = executor.execute_code("with open('/tmp/big', 'wb') as f:\n    for _ in range(150): f.write(b'x' * (1 << 20))")
        assert "No space left" in said or "disk limit" in said, said


@promise("dolphin-23", "execute_code() returns standard error as well, and the traceback of an exception.")
def test_standard_error_is_returned(base):
    with DockerSandboxExecutor("errors", base) as executor:
        said = executor.execute_code("import sys\nprint('out')\nprint('err', file=sys.stderr)\nraise ValueError('why')")
        assert said.startswith("out\nerr\n") and "Traceback" in said and said.endswith("ValueError: why\n"), said
        assert executor.execute_code("import sys; sys.exit('a message')") == "a message\n"
        assert executor.run("import sys; sys.exit(2)").exit_code == 2


@promise("dolphin-24", "No container is left after the session.")
def test_nothing_is_left(base):
    with DockerSandboxExecutor("left", base) as executor:
        executor.execute_code("open('kept', 'w').write('x')")
        assert "dolphin-left" in {session.name for session in Client().sessions()}
    assert "dolphin-left" not in {session.name for session in Client().sessions()}
    assert (executor.host_dir / "kept").read_text() == "x"


@promise("dolphin-26", "A plot can be saved to a file.")
def test_a_plot_can_be_saved(base):
    with DockerSandboxExecutor("plot", base) as executor:
        assert executor.execute_code("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('/sandbox/plot.png')") == ""
        assert (executor.host_dir / "plot.png").read_bytes().startswith(b"\x89PNG")


@promise("dolphin-27", "The modules of the standard library are there.")
def test_the_standard_library_is_there(base):
    """All of those that Python imports without a display. Some are Debian packages of their own, and some are of other systems."""
    code = """
import importlib, sys
elsewhere = {"antigravity", "this", "idlelib", "tkinter", "turtle", "turtledemo", "ensurepip", "lib2to3", "distutils", "venv", "test", "msilib", "msvcrt", "nt", "winreg", "winsound"}
lacking = []
for name in sorted(sys.stdlib_module_names - elsewhere):
    if not name.startswith("_"):
        try:
            importlib.import_module(name)
        except ImportError:
            lacking.append(name)
print(lacking)
"""
    with DockerSandboxExecutor("modules", base) as executor:
        assert executor.execute_code(code) == "[]\n"


def test_a_large_file_of_the_host_is_no_growth(base):
    with DockerSandboxExecutor("large", base) as executor:
        executor.execute_code("x = 1")
        with open(executor.host_dir / "large", "wb") as file:
            for _ in range(150):
                file.write(b"x" * (1 << 20))
        assert executor.execute_code("print(x)") == "1\n"


def test_the_users_of_the_box_can_be_read(base):
    """`/etc/passwd` is a file of the box: it says nothing about the host."""
    with DockerSandboxExecutor("users", base) as executor:
        assert "sandbox" in executor.execute_code("print(open('/etc/passwd').read())")


@promise("dolphin-12", "The documented examples run.")
def test_the_examples_of_the_document(base):
    """A JSON file, statistics with a report in a file, and a computation in two steps."""
    with DockerSandboxExecutor("examples", base) as executor:
        assert executor.execute_code("import json\nwith open('/sandbox/output.json', 'w') as f:\n    json.dump({'result': 42}, f, indent=2)\nprint('made')") == "made\n"
        assert json.loads((executor.host_dir / "output.json").read_text()) == {"result": 42}
        text = executor.execute_code("import statistics\nreport = {'median': statistics.median([12, 15, 13, 18])}\n"
                                     "with open('/sandbox/analysis.json', 'w') as f:\n    json.dump(report, f)\nprint(f'done: {report}')")
        assert text == "done: {'median': 14.0}\n" and json.loads((executor.host_dir / "analysis.json").read_text()) == {"median": 14.0}
        executor.execute_code("data = [1, 2, 3, 4, 5]")
        text = executor.execute_code("result = sum(x**2 for x in data)\nprint(result)\nwith open('/sandbox/result.txt', 'w') as f:\n    f.write(f'{result}\\n')")
        assert text == "55\n" and (executor.host_dir / "result.txt").read_text() == "55\n"


@promise("dolphin-3", "No session sees another session's directory.")
def test_no_session_sees_anothers_directory(base):
    with DockerSandboxExecutor("one", base) as one, DockerSandboxExecutor("two", base) as two:
        one.execute_code("open('/sandbox/mine', 'w').write('one'); y = 1")
        assert two.execute_code("import os; print(os.listdir('/sandbox'), os.path.exists('/tmp/sandboxes'))") == "[] False\n"
        assert "NameError" in two.execute_code("y")


@promise("dolphin-8", "enable_network=True switches a network on.")
def test_hosts_by_rules(base):
    with DockerSandboxExecutor("rules", base, enable_network=True, allow=["python-packages"]) as executor:
        result = executor.run("import urllib.request; urllib.request.urlopen('https://example.com', timeout=20)")
        assert result.raw["policy"]["network"] == "allowlist" and [each.host for each in result.network.refused] == ["example.com"]


@promise("dolphin-5", "Memory is 512 MB, there is one processor, and /tmp has 100 MB.")
@promise("dolphin-7", "There is no network by default.")
@promise("dolphin-9", "Code is the user sandbox, without capabilities, and cannot gain privileges.")
def test_defaults(base):
    with DockerSandboxExecutor("defaults", base) as executor:
        result = executor.run("import os, getpass; print(os.getuid(), getpass.getuser(), os.statvfs('/tmp').f_blocks * os.statvfs('/tmp').f_frsize >> 20)")
        assert result.stdout == "1000 sandbox 100\n"
        limits = result.raw["limits"]
        assert (limits["memory_bytes"], limits["cpu_milli"], limits["timeout_usec"]) == (512 << 20, 1000, 30_000_000)
        assert result.controls["capabilities"].state == "enforced" and result.raw["policy"]["network"] == "none"
        caps = executor.run("print([l.split()[1] for l in open('/proc/self/status') if l.startswith(('CapEff', 'CapBnd'))])")
        assert caps.stdout == "['0000000000000000', '0000000000000000']\n"
        gains = executor.run("import ctypes; print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))")  # PR_GET_NO_NEW_PRIVS: gVisor shows it nowhere else
        assert gains.stdout == "1\n"
        assert "OSError" in executor.execute_code("import socket; s = socket.socket(); s.settimeout(2); s.connect(('1.1.1.1', 53))")


def test_the_workspace_has_a_limit_that_is_stated(base):
    with DockerSandboxExecutor("disk", base) as executor:
        assert executor.run("pass").raw["limits"]["disk_bytes"] == 10 << 30
    with DockerSandboxExecutor("disk", base, disk="20m") as executor:
        assert "disk limit" in executor.execute_code("with open('f', 'wb') as f:\n    for _ in range(40): f.write(bytes(1 << 20)); f.flush()\nimport time; time.sleep(20)")


@promise("dolphin-6", "Memory, processor and time can be chosen.")
def test_limits_of_the_caller(base):
    with DockerSandboxExecutor("limits", base, memory_limit="128m", cpu_quota=50_000, timeout=1) as executor:
        limits = executor.run("pass").raw["limits"]
        assert (limits["memory_bytes"], limits["cpu_milli"]) == (128 << 20, 500)
        assert "time limit" in executor.execute_code("while True: pass")


@promise("dolphin-13", "numpy, pandas, matplotlib, scipy and scikit-learn are there.")
def test_the_data_libraries_are_there(base):
    with DockerSandboxExecutor("data", base) as executor:
        assert executor.execute_code("import numpy, matplotlib; print(numpy.array([1, 2]).sum())") == "3\n"


@promise("dolphin-13", "numpy, pandas, matplotlib, scipy and scikit-learn are there.")
@pytest.mark.needs("data")
def test_the_other_data_libraries_are_there(base):
    with DockerSandboxExecutor("pandas", base) as executor:
        assert executor.execute_code(DATA) == "3 1.0 2.0\n"


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "/abs", ".hidden", "a" * 65, "a\n", "ü"])
def test_a_session_id_is_a_name(name, base):
    with pytest.raises(UsageError, match="is no name"):
        DockerSandboxExecutor(name, base)
    assert not os.path.exists(base)


def test_a_link_in_the_place_of_the_directory_is_refused(base, tmp_path):
    os.makedirs(base)
    os.symlink(tmp_path, os.path.join(base, "linked"))
    with pytest.raises(UsageError, match="is a link"):
        DockerSandboxExecutor("linked", base)


@promise("dolphin-15", "A base directory that is not writable is a PermissionError.")
def test_the_base_directory_must_be_writable(tmp_path):
    """`PermissionError: [Errno 13]` is what that program catches."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made") as caught:
        DockerSandboxExecutor("one", str(tmp_path / "file" / "base"))
    assert isinstance(caught.value, PermissionError) and caught.value.filename == str(tmp_path / "file" / "base") and caught.value.errno in (errno.EEXIST, errno.ENOTDIR)


@promise("dolphin-18", "The base directory has mode 755.")
def test_modes_of_directories(base):
    """The base is 755, a session's own directory is private, whatever the umask is."""
    before = os.umask(0o077)
    try:
        with DockerSandboxExecutor("modes", base) as executor:
            assert (os.stat(base).st_mode & 0o777, executor.host_dir.stat().st_mode & 0o777) == (0o755, 0o700)
    finally:
        os.umask(before)


@promise("dolphin-15", "A base directory that is not writable is a PermissionError.")
@needs_root
def test_the_base_directory_must_be_writable_for_this_user(tmp_path):
    import subprocess
    import sys
    from compat_helpers import ROOT
    os.chmod(tmp_path, 0o755)
    for part in tmp_path.parents:
        if "pytest" in str(part):
            os.chmod(part, 0o755)
    code = f"from glovebox.compat.dolphin import DockerSandboxExecutor\ntry: DockerSandboxExecutor('one', {str(tmp_path)!r})\n" \
           "except PermissionError as error:\n    print(error.errno, error.filename)\n    raise"
    done = subprocess.run([sys.executable, "-c", code], user=USER, group=USER, extra_groups=[], capture_output=True, text=True,
                          env={"PYTHONPATH": str(ROOT / "sdk/python/src"), "PYTHONDONTWRITEBYTECODE": "1"})
    assert "is not writable for this user" in done.stderr and done.stdout == f"13 {tmp_path}\n", done.stdout + done.stderr


@promise("dolphin-14", "DOLPHIN_USE_DOCKER_SANDBOX=1 switches the sandbox on.")
def test_the_environment_switches_it_on(monkeypatch, base, tmp_path):
    assert dolphin.executor_for("one") is None
    for off in ("", "0", "false", "off"):
        monkeypatch.setenv("DOLPHIN_USE_DOCKER_SANDBOX", off)
        assert dolphin.executor_for("one") is None
    monkeypatch.setenv("DOLPHIN_USE_DOCKER_SANDBOX", "1")
    with dolphin.executor_for("one", sandbox_base_dir=base) as executor:
        assert executor.execute_code("print(1)") == "1\n"
    monkeypatch.setenv("DOLPHIN_USE_DOCKER_SANDBOX", "docker")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(dolphin._backend.DockerNotAvailable):
        dolphin.executor_for("one", sandbox_base_dir=base)
    for misspelt in ("perhaps", "ture", "2", "dokcer", "enabled"):
        monkeypatch.setenv("DOLPHIN_USE_DOCKER_SANDBOX", misspelt)
        with pytest.raises(UsageError, match=misspelt):
            dolphin.executor_for("one")


@promise("dolphin-19", "One session, all sessions, and the images can be cleaned up.")
def test_cleaning_up_images(base, backend):
    """What was made of the image goes, and is made again; the image stays."""
    with DockerSandboxExecutor("images", base) as executor:
        executor.run("pass")
    assert dolphin.cleanup_images() >= 1 if backend in ENGINES else dolphin.cleanup_images() == 0
    assert dolphin.cleanup_images() == 0
    with DockerSandboxExecutor("images", base) as executor:
        assert executor.execute_code("print(1)") == "1\n" and dolphin.cleanup_images() == 0, "in use"


@promise("dolphin-19", "One session, all sessions, and the images can be cleaned up.")
def test_cleaning_up(base):
    names = [f"c{secrets.token_hex(4)}" for _ in range(3)]
    executors = [DockerSandboxExecutor(name, base).__enter__() for name in names]
    assert dolphin.cleanup_session(names[0], base, remove_files=True) and not executors[0].host_dir.exists()
    assert not dolphin.cleanup_session(names[0], base)
    foreign = Client().sandbox(name="not-dolphins").open()
    assert dolphin.cleanup_all(base, remove_files=True) == 2
    assert not executors[1].host_dir.exists() and foreign.run("print(1)").ok
    foreign.close()
    for executor in executors:
        executor.cleanup()


def test_one_step_at_a_time(base):
    import threading
    with DockerSandboxExecutor("busy", base) as executor:
        started = threading.Event()
        thread = threading.Thread(target=lambda: executor._box.run("import time; print(1, flush=True); time.sleep(20)", on_stdout=lambda _: started.set()))
        thread.start()
        assert started.wait(60)
        with pytest.raises(ConflictError):
            executor.execute_code("print(2)")
        executor._box.interrupt()
        thread.join()
