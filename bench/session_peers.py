# SPDX-License-Identifier: Apache-2.0
"""Who else takes part in sessions.py: the usual ways to have a Python with numpy, pandas and matplotlib at hand."""

import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import time

import run
from common import Absent, first_line, text_of, tool
from session_memory import parent_of

MODULES = ("numpy", "pandas", "matplotlib")
IMPORTS = f"import {', '.join(MODULES)}; "
FRESH = IMPORTS + "print(1+1)"
LIVE = "x = 41; x += 1; print(x)"
STEP = "x += 1; print(x)"
# A pool of threads would only slow the peers' imports down; matplotlib wants a home.
VARIABLES = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "HOME": "/tmp"}


class Peer:
    """One way to do the same. `fresh` and `live` are lists of commands' words, or None where it has no such thing."""

    name = note = version = ""
    idle = ""  # what pids() are: an interpreter that waits, with the imports
    slow = False
    fresh = live = None

    def enter(self, stack, work):
        pass


class Bare(Peer):
    name, note = "bare python", "no isolation at all"

    def enter(self, stack, work):
        self.version = first_line([run.PYTHON, "--version"])
        self.fresh = [run.PYTHON, "-c", FRESH]


class Bubblewrap(Peer):
    name, note = "bubblewrap", "namespaces only: no limits, no seccomp, no Landlock, no verdict"

    def enter(self, stack, work):
        path = tool("bwrap")
        self.version = first_line([path, "--version"])
        links = [word for name in ("bin", "lib", "lib64") if os.path.islink(f"/{name}") for word in ("--symlink", f"usr/{name}", f"/{name}")]
        shown = [word for name in ("/etc/alternatives", "/etc/ld.so.cache", "/etc/matplotlibrc") if os.path.exists(name)
                 for word in ("--ro-bind", name, name)]
        self.fresh = [path, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr",
                      *links, *shown, *[word for name, value in VARIABLES.items() for word in ("--setenv", name, value)], "--proc", "/proc", "--dev", "/dev",
                      "--tmpfs", "/tmp", "--chdir", "/tmp", run.PYTHON, "-c", FRESH]


def copy_modules(root):
    """What the imports need, into a root that has Python already: packages, and the libraries that they link to."""
    script = (f"{IMPORTS}import json, re, sys; print(json.dumps([sorted({{m.__file__ for m in list(sys.modules.values()) if getattr(m, '__file__', 0)}}),"
              " sorted(set(re.findall(r'/\\S+\\.so[.0-9]*$', open('/proc/self/maps').read(), re.M)))]))")
    files, libraries = json.loads(text_of([run.PYTHON, "-c", script]))
    packages = {pathlib.Path(*pathlib.Path(file).parts[:pathlib.Path(file).parts.index("dist-packages") + 2])
                for file in files if "dist-packages" in file}
    for package in packages | {pathlib.Path(name) for name in ("/usr/share/matplotlib", "/etc/matplotlibrc", "/usr/share/zoneinfo")}:
        target = root / package.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if package.is_dir():
            shutil.copytree(package, target, symlinks=package.name == "zoneinfo", ignore=shutil.ignore_patterns("tests"), dirs_exist_ok=True)
        elif package.exists() and not target.exists():
            shutil.copy2(package, target)
    linked = subprocess.run(["ldd", *libraries], capture_output=True, text=True).stdout
    names = {word for word in linked.split() if word.startswith("/") and not word.endswith(":")}
    for name in sorted(names | {library for library in libraries if "dist-packages" not in library}):
        real = os.path.realpath(name)
        target, link = root / real.lstrip("/"), root / "usr" / name.removeprefix("/usr").lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy2(real, target)
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists() and not link.is_symlink():
            link.symlink_to(real)
    return root


class DataRoot(run.RootFs):
    def get(self, work):
        if self.path is None:
            os.chmod(copy_modules(super().get(work)) / "tmp", 0o1777)  # a tmpfs takes over who may write
        return self.path


class DockerRun(run.Docker, Peer):
    name, live, note = "docker run", None, run.Docker.note

    def enter(self, stack, work):
        super().enter(stack, work)
        self.flags = [word for word in self.command()[len(self.base) + 1:-4] if word != "--rm"]
        self.flags += [word for name, value in VARIABLES.items() for word in ("-e", f"{name}={value}")]
        self.fresh = [*self.base, "run", "--rm", *self.flags, self.image, run.PYTHON, "-c", FRESH]


class DockerExec(Peer):
    name, slow, note = "docker exec", True, "into a container that runs already, hardened as docker run; not sealed off from what ran there before"
    idle = "a container, with its shim"

    def __init__(self, docker):
        self.docker = docker

    def enter(self, stack, work):
        docker = self.docker
        if not hasattr(docker, "flags"):
            raise Absent("docker run does not work here")
        self.version = docker.version
        container = text_of([*docker.base, "run", "-d", *docker.flags, docker.image, run.PYTHON, "-c",
                             f"{IMPORTS}import signal; signal.pause()"])
        if len(container) != 64:
            raise Absent("cannot start a container: " + container[-300:])
        stack.callback(subprocess.run, [*docker.base, "rm", "-f", container], capture_output=True)
        self.container = container
        inside = [*docker.base, "exec", container, run.PYTHON, "-c"]
        self.fresh, self.live = [*inside, FRESH], [*inside, LIVE]

    def pids(self):
        """The idle interpreter with the imports, and the shim that keeps it."""
        text = text_of([*self.docker.base, "inspect", "-f", "{{.State.Pid}}", self.container])
        return [int(text), parent_of(int(text))] if text.isdigit() else []


class Jupyter(Peer):
    name, note = "jupyter kernel", "one ipykernel over jupyter_client: state, and no isolation at all"
    idle = "a jupyter kernel"

    def enter(self, stack, work):
        try:
            import jupyter_client
            versions = [f"{name} {importlib.metadata.version(name)}" for name in ("jupyter_client", "ipykernel")]
        except ImportError as why:
            raise Absent(str(why)) from why
        self.version = ", ".join(versions)
        os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # it would complain on our standard error
        os.environ["JUPYTER_RUNTIME_DIR"] = os.environ["IPYTHONDIR"] = str(work / "jupyter")
        self.manager, self.client = jupyter_client.manager.start_new_kernel(kernel_name="python3", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(self.close)
        self.execute(IMPORTS + "x = 0")
        self.x = 0

    def execute(self, code):
        """Until the kernel says that it is idle; what was printed."""
        text, request = "", self.client.execute(code)
        while True:
            message = self.client.get_iopub_msg(timeout=30)
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "stream":
                text += message["content"]["text"]
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
        self.client.get_shell_msg(timeout=30)
        return text

    def step_ms(self, pause_usec):
        self.x += 1
        time.sleep(pause_usec / 1e6)
        start = time.perf_counter_ns()
        text = self.execute(STEP)
        took = time.perf_counter_ns() - start
        if text != f"{self.x}\n":
            raise RuntimeError(f"the kernel printed {text[:80]!r} instead of {self.x}")
        return took / 1e6

    def pids(self):
        return [self.manager.provisioner.pid]

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


class Commands:
    """Times whole commands, by spawn.c."""

    def __init__(self, work):
        self.program, self.work = run.Spawner(work, False).program, work

    def time_ms(self, command, expected, place="command"):
        out, err = self.work / f"{place}.out", self.work / f"{place}.err"
        environment = {**os.environ, **VARIABLES}
        done = subprocess.run([self.program, "time", "0", out, err, *command], stdout=subprocess.PIPE, text=True, check=True, env=environment)
        row, text = json.loads(done.stdout.splitlines()[-1]), out.read_text(errors="replace")
        if row["code"] != 0 or text != expected:
            raise RuntimeError(f"{command[0]} ended with code {row['code']} and printed {text[:80]!r}; it said: {err.read_text(errors='replace').strip()[-300:]}")
        return row["nsec"] / 1e6
