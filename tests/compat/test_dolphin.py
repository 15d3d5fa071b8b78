# SPDX-License-Identifier: Apache-2.0
"""The executor of a reasoning loop."""
import errno
import os
import secrets

import pytest

from compat_helpers import USER, identity, needs_root, on_each_backend
from glovebox import Client
from glovebox.compat import dolphin
from glovebox.compat.dolphin import DockerSandboxExecutor
from glovebox.errors import ConflictError, UsageError

pytestmark = on_each_backend


@pytest.fixture
def base(tmp_path):
    return str(tmp_path / "sandboxes")


def test_variables_persist(base):
    with DockerSandboxExecutor("steps", base) as executor:
        assert executor.execute_code("x = 6 * 7") == ""
        assert executor.execute_code("print(x)") == "42\n"
        assert executor.execute_code("x + 1") == ""
        assert executor.execute_code("import sys; sys.stdout.write('no newline')") == "no newline"
        assert "ZeroDivisionError" in executor.execute_code("1 / 0")
        assert executor.execute_code("print(x)") == "42\n"


def test_files_stay_on_the_host(base, backend):
    with DockerSandboxExecutor("files", base) as executor:
        executor.execute_code("open('/sandbox/made.txt', 'w').write('inside')")
        executor.execute_code("open('relative.txt', 'w').write('too')")
        assert (executor.host_dir / "made.txt").read_text() == "inside"
    assert (executor.host_dir / "relative.txt").read_text() == "too"
    assert (executor.host_dir / "made.txt").stat().st_uid == identity(backend)
    with DockerSandboxExecutor("files", base) as again:
        assert again.execute_code("print(open('/sandbox/made.txt').read())") == "inside\n"


def test_no_session_sees_anothers_directory(base):
    with DockerSandboxExecutor("one", base) as one, DockerSandboxExecutor("two", base) as two:
        one.execute_code("open('/sandbox/mine', 'w').write('one'); y = 1")
        assert two.execute_code("import os; print(os.listdir('/sandbox'), os.path.exists('/tmp/sandboxes'))") == "[] False\n"
        assert "NameError" in two.execute_code("y")


def test_hosts_by_rules(base):
    with DockerSandboxExecutor("rules", base, enable_network=True, allow=["python-packages"]) as executor:
        result = executor.run("import urllib.request; urllib.request.urlopen('https://example.com', timeout=20)")
        assert result.raw["policy"]["network"] == "allowlist" and [each.host for each in result.network.refused] == ["example.com"]


def test_defaults(base):
    with DockerSandboxExecutor("defaults", base) as executor:
        result = executor.run("import os, getpass; print(os.getuid(), getpass.getuser(), os.statvfs('/tmp').f_blocks * os.statvfs('/tmp').f_frsize >> 20)")
        assert result.stdout == "1000 sandbox 100\n"
        limits = result.raw["limits"]
        assert (limits["memory_bytes"], limits["cpu_milli"], limits["timeout_usec"]) == (512 << 20, 1000, 30_000_000)
        assert result.controls["capabilities"].state == "enforced" and result.raw["policy"]["network"] == "none"
        caps = executor.run("print([l.split()[1] for l in open('/proc/self/status') if l.startswith(('CapEff', 'CapBnd', 'NoNewPrivs'))])")
        assert caps.stdout == "['0000000000000000', '0000000000000000', '1']\n"
        assert "OSError" in executor.execute_code("import socket; s = socket.socket(); s.settimeout(2); s.connect(('1.1.1.1', 53))")


def test_the_workspace_has_a_limit_that_is_stated(base):
    with DockerSandboxExecutor("disk", base) as executor:
        assert executor.run("pass").raw["limits"]["disk_bytes"] == 10 << 30
    with DockerSandboxExecutor("disk", base, disk="20m") as executor:
        assert "disk limit" in executor.execute_code("with open('f', 'wb') as f:\n    for _ in range(40): f.write(bytes(1 << 20)); f.flush()\nimport time; time.sleep(20)")


def test_limits_of_the_caller(base):
    with DockerSandboxExecutor("limits", base, memory_limit="128m", cpu_quota=50_000, timeout=1) as executor:
        limits = executor.run("pass").raw["limits"]
        assert (limits["memory_bytes"], limits["cpu_milli"]) == (128 << 20, 500)
        assert "time limit" in executor.execute_code("while True: pass")


def test_the_data_libraries_are_there(base):
    with DockerSandboxExecutor("data", base) as executor:
        assert executor.execute_code("import numpy, matplotlib; print(numpy.array([1, 2]).sum())") == "3\n"


@pytest.mark.needs("pandas")
def test_pandas_is_there(base):
    with DockerSandboxExecutor("pandas", base) as executor:
        assert executor.execute_code("import pandas; print(pandas.DataFrame({'a': [1, 2]}).a.sum())") == "3\n"


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


def test_the_base_directory_must_be_writable(tmp_path):
    """`PermissionError: [Errno 13]` is what that program catches."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made") as caught:
        DockerSandboxExecutor("one", str(tmp_path / "file" / "base"))
    assert isinstance(caught.value, PermissionError) and caught.value.filename == str(tmp_path / "file" / "base") and caught.value.errno in (errno.EEXIST, errno.ENOTDIR)


def test_modes_of_directories(base):
    """The base is 755, a session's own directory is private, whatever the umask is."""
    before = os.umask(0o077)
    try:
        with DockerSandboxExecutor("modes", base) as executor:
            assert (os.stat(base).st_mode & 0o777, executor.host_dir.stat().st_mode & 0o777) == (0o755, 0o700)
    finally:
        os.umask(before)


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


def test_cleaning_up_images(base, backend):
    """What was made of the image goes, and is made again; the image stays."""
    with DockerSandboxExecutor("images", base) as executor:
        executor.run("pass")
    assert dolphin.cleanup_images() >= 1 if backend == "docker" else dolphin.cleanup_images() == 0
    assert dolphin.cleanup_images() == 0
    with DockerSandboxExecutor("images", base) as executor:
        assert executor.execute_code("print(1)") == "1\n" and dolphin.cleanup_images() == 0, "in use"


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
