# SPDX-License-Identifier: Apache-2.0
"""A client of libglovebox, by ctypes: sessions, contexts, files, as a test wants them.

    with Session({"mem_limit": "64m"}, template="python") as session:
        context = session.context("python")
        assert context.run("1 + 1").text == "2"

The library is that of the build tree of $GLOVEBOX. Everything the C API refuses is raised as
Refused. Calls into the library let other threads of Python go on, so runs in two threads overlap.

As a program it calls a function of a test module and prints what it returns as JSON: this is how
call_as_user() does a part of a test as an ordinary user.
"""
import _ctypes
import contextlib
import ctypes as c
import errno as errno_names
import importlib
import json as jsonlib
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import isolation

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = pathlib.Path(os.environ.get("GLOVEBOX", ROOT / "build/src/cli/glovebox")).absolute()
BUILD = BINARY.resolve().parents[2]
LIBRARY = BUILD / "src/lib/libglovebox.so"
USER = 65533
PATIENCE = 60
CODE_IS_TEXT = c.c_size_t(-1).value

Started = c.CFUNCTYPE(None, c.c_void_p, c.c_uint64)
Output = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_void_p, c.c_size_t, c.c_uint64)


class Error(c.Structure):
    _fields_ = [("code", c.c_int32), ("errnum", c.c_int32), ("message", c.c_char * 504)]


class Part(c.Structure):
    _fields_ = [("mime", c.c_char_p), ("bytes", c.c_void_p), ("size", c.c_size_t)]


Value = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.POINTER(Part), c.c_size_t, c.c_uint64)
Failure = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p, c.c_char_p, c.c_char_p, c.c_uint64)


class RunOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("language", c.c_char_p), ("code", c.c_char_p), ("code_size", c.c_size_t),
                ("name", c.c_char_p), ("args", c.POINTER(c.c_char_p)), ("workspace", c.c_char_p), ("rootfs", c.c_char_p),
                ("stdin_fd", c.c_int), ("cancel_fd", c.c_int), ("started", Started), ("output", Output), ("data", c.c_void_p)]


class SessionOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("template_name", c.c_char_p), ("workspace", c.c_char_p), ("rootfs", c.c_char_p)]


class ContextRunOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("code", c.c_char_p), ("code_size", c.c_size_t), ("stdin_fd", c.c_int),
                ("cancel_fd", c.c_int), ("started", Started), ("output", Output), ("result", Value), ("error", Failure),
                ("data", c.c_void_p)]


class FileInfo(c.Structure):
    _fields_ = [("name", c.c_char_p), ("mode", c.c_uint), ("size", c.c_uint64), ("modified_usec", c.c_int64)]


_pointer, _text, _size, _error = c.c_void_p, c.c_char_p, c.c_size_t, c.POINTER(Error)
_handle, _size_out = c.POINTER(c.c_void_p), c.POINTER(c.c_size_t)

# What each function returns, and what it takes.
_FUNCTIONS = {
    "gb_free": (None, _pointer),
    "gb_error_name": (_text, c.c_int),
    "gb_policy_load": (c.c_int, _text, _text, _handle, _error),
    "gb_policy_set": (c.c_int, _pointer, _text, _text, _error),
    "gb_policy_free": (None, _pointer),
    "gb_run": (c.c_int, _pointer, c.POINTER(RunOptions), _handle, _error),
    "gb_session_open": (c.c_int, _pointer, c.POINTER(SessionOptions), _handle, _error),
    "gb_session_id": (_text, _pointer),
    "gb_session_close": (None, _pointer),
    "gb_session_run": (c.c_int, _pointer, c.POINTER(RunOptions), _handle, _error),
    "gb_session_contexts_json": (_pointer, _pointer),
    "gb_session_set_network": (c.c_int, _pointer, _pointer, _error),
    "gb_session_network_json": (_pointer, _pointer),
    "gb_context_open": (c.c_int, _pointer, _text, _handle, _error),
    "gb_context_id": (_text, _pointer),
    "gb_context_restart": (c.c_int, _pointer, _error),
    "gb_context_interrupt": (c.c_int, _pointer, _error),
    "gb_context_close": (c.c_int, _pointer, _error),
    "gb_context_run": (c.c_int, _pointer, c.POINTER(ContextRunOptions), _handle, _error),
    "gb_file_write": (c.c_int, _pointer, _text, _pointer, _size, c.c_uint, _error),
    "gb_file_read": (c.c_int, _pointer, _text, _handle, _size_out, _error),
    "gb_file_remove": (c.c_int, _pointer, _text, _error),
    "gb_directory_make": (c.c_int, _pointer, _text, c.c_uint, _error),
    "gb_file_list_read": (c.c_int, _pointer, _text, _handle, _error),
    "gb_file_list_count": (_size, _pointer),
    "gb_file_list_is_truncated": (c.c_int, _pointer),
    "gb_file_list_get": (c.c_int, _pointer, _size, c.POINTER(FileInfo)),
    "gb_file_list_free": (None, _pointer),
    "gb_result_verdict": (_text, _pointer),
    "gb_result_message": (_text, _pointer),
    "gb_result_exit_code": (c.c_int, _pointer),
    "gb_result_signal": (c.c_int, _pointer),
    "gb_result_stdout": (_pointer, _pointer, _size_out),
    "gb_result_stderr": (_pointer, _pointer, _size_out),
    "gb_result_value_count": (_size, _pointer),
    "gb_result_value_is_main": (c.c_int, _pointer, _size),
    "gb_result_part_count": (_size, _pointer, _size),
    "gb_result_part": (c.c_int, _pointer, _size, _size, c.POINTER(Part)),
    "gb_result_values_dropped": (c.c_uint64, _pointer),
    "gb_result_error_name": (_text, _pointer),
    "gb_result_error_value": (_text, _pointer),
    "gb_result_error_traceback": (_text, _pointer),
    "gb_result_state_kept": (c.c_int, _pointer),
    "gb_result_state_restarted": (c.c_int, _pointer),
    "gb_result_json": (_pointer, _pointer),
    "gb_result_free": (None, _pointer),
}

_library = None
_library_lock = threading.Lock()


def libexec():
    """The helpers of the build tree in one directory, as an installation has them. A server's is not among them: who starts one has its own."""
    place = BUILD / "libexec"
    with contextlib.suppress(FileExistsError, PermissionError):
        place.mkdir(mode=0o755)
    for helper in ("agent/glovebox-agent", "egress/glovebox-egress", "guard/glovebox-reader", "guard/glovebox-rules", "hide/glovebox-hide", "runner/glovebox-probe", "warden/glovebox-warden"):
        with contextlib.suppress(FileExistsError, PermissionError):
            (place / os.path.basename(helper)).symlink_to(BUILD / "src" / helper)
    return place


def environment():
    """What the library needs of its environment to find the parts of the build tree."""
    found = {"GLOVEBOX_LIBEXEC_DIR": libexec(), "GLOVEBOX_CONFIG_DIR": ROOT / "config",
             "GLOVEBOX_RUNNER_DIR": BUILD / "src/runner/python"}
    return {name: os.environ.get(name, str(path)) for name, path in found.items()}


def library():
    global _library
    with _library_lock:
        if _library is None:
            os.environ.update(environment())
            loaded = c.CDLL(str(LIBRARY))
            for name, (result, *arguments) in _FUNCTIONS.items():
                function = getattr(loaded, name)
                function.restype, function.argtypes = result, arguments
            _library = loaded
    return _library


def forget():
    """Unloads the library, and so ends its warden with everything below. No session may be open."""
    global _library
    with _library_lock:
        if _library is not None:
            _ctypes.dlclose(_library._handle)
        _library = None


class Refused(Exception):
    """Nothing was done: code is the name of glovebox's error, errnum the errno it has (or None)."""

    def __init__(self, status, error):
        self.status, self.errnum = status, error.errnum or None
        self.code, self.message = library().gb_error_name(error.code).decode(), error.message.decode(errors="replace")
        super().__init__(f"{self.code} ({errno_names.errorcode.get(-status, status)}): {self.message}")


def _check(function, *arguments):
    error = Error()
    status = function(*arguments, c.byref(error))
    if status < 0:
        raise Refused(status, error)


def _encode(text):
    return text.encode(errors="surrogateescape") if isinstance(text, str) else text


class Event:
    """One call of a callback: kind is started, stdout, stderr, result or error; t_usec is the library's time, at the
    monotonic time it came here."""

    def __init__(self, kind, t_usec, data=None):
        self.kind, self.t_usec, self.data, self.at = kind, t_usec, data, time.monotonic()

    def __repr__(self):
        return f"<{self.kind} at {self.t_usec}: {self.data!r}>"


class Result:
    """A gb_result, copied."""

    def __init__(self, handle, events):
        lib = library()
        self.events = events
        self.verdict, self.message = lib.gb_result_verdict(handle).decode(), lib.gb_result_message(handle).decode()
        self.exit_code, self.signal = lib.gb_result_exit_code(handle), lib.gb_result_signal(handle)
        self.stdout, self.stderr = self._bytes(lib.gb_result_stdout, handle), self._bytes(lib.gb_result_stderr, handle)
        self.results = [self._value(handle, i) for i in range(lib.gb_result_value_count(handle))]
        self.dropped = lib.gb_result_values_dropped(handle)
        name = lib.gb_result_error_name(handle)
        self.error = None if name is None else {
            "name": name.decode(errors="replace"), "value": lib.gb_result_error_value(handle).decode(errors="replace"),
            "traceback": lib.gb_result_error_traceback(handle).decode(errors="replace")}
        self.kept, self.restarted = bool(lib.gb_result_state_kept(handle)), bool(lib.gb_result_state_restarted(handle))
        text = lib.gb_result_json(handle)
        self.json = jsonlib.loads(c.string_at(text))
        lib.gb_free(text)

    @staticmethod
    def _bytes(function, handle):
        size = c.c_size_t()
        return c.string_at(function(handle, c.byref(size)), size.value)

    @staticmethod
    def _value(handle, i):
        lib, part, parts = library(), Part(), {}
        for k in range(lib.gb_result_part_count(handle, i)):
            assert lib.gb_result_part(handle, i, k, c.byref(part)) == 0
            parts[part.mime.decode()] = c.string_at(part.bytes, part.size)
        return {"main": bool(lib.gb_result_value_is_main(handle, i)), "parts": parts}

    @property
    def value(self):
        """The parts of the last expression's value; None without one."""
        return next((r["parts"] for r in self.results if r["main"]), None)

    @property
    def text(self):
        """The value of the last expression as text."""
        return self.value["text/plain"].decode() if self.value else None

    @property
    def displayed(self):
        return [r["parts"] for r in self.results if not r["main"]]

    @property
    def out(self):
        return self.stdout.decode(errors="replace")

    @property
    def err(self):
        return self.stderr.decode(errors="replace")

    def control(self, name):
        return next(item for item in self.json["controls"] if item["name"] == name)

    @property
    def is_warm(self):
        return self.control("layout")["how"].startswith("forked from the template")

    def __repr__(self):
        return (f"<{self.verdict}: {self.message} exit {self.exit_code} signal {self.signal} kept {self.kept} restarted {self.restarted} "
                f"results {self.results} error {self.error} stdout {self.stdout[-2000:]!r} stderr {self.stderr[-2000:]!r}>")


class _Callbacks:
    """Makes the C functions, and keeps what they were called with. on_event may act, too."""

    def __init__(self, on_event=None):
        self.events, self.on_event = [], on_event
        self.started = Started(lambda _, t: self._add("started", t))
        self.output = Output(lambda _, stream, data, size, t: self._add("stdout" if stream == 1 else "stderr", t, c.string_at(data, size)))
        self.result = Value(lambda _, main, parts, n, t: self._add("result", t, {
            "main": bool(main), "parts": {p.mime.decode(): c.string_at(p.bytes, p.size) for p in (parts[i] for i in range(n))}}))
        self.error = Failure(lambda _, name, value, traceback, t: self._add("error", t, (name, value, traceback)))

    def _add(self, kind, t_usec, data=None):
        event = Event(kind, t_usec, data)
        self.events.append(event)
        if self.on_event:
            self.on_event(event)


class _Input:
    """A descriptor to read from: none, the caller's own, or one of a file with these bytes."""

    def __init__(self, source):
        self.own = isinstance(source, (bytes, str))
        self.fd = -1 if source is None else source
        if self.own:
            self.fd = os.memfd_create("stdin")
            os.write(self.fd, _encode(source))
            os.lseek(self.fd, 0, os.SEEK_SET)

    def __enter__(self):
        return self.fd

    def __exit__(self, *_):
        if self.own:
            os.close(self.fd)


class Running:
    """A run in a thread of its own."""

    def __init__(self, function, *args, **options):
        self.value, self.failure, self.events = None, None, []
        self.first = threading.Event()  # something was heard of it
        options["on_event"] = self._note
        self.thread = threading.Thread(target=self._work, args=(function, args, options), daemon=True)
        self.thread.start()

    def _note(self, event):
        self.events.append(event)
        self.first.set()

    def _work(self, function, args, options):
        try:
            self.value = function(*args, **options)
        except Exception as failure:  # for join()
            self.failure = failure

    def wait_for(self, kind, seconds=10.0):
        """Until an event of that kind came."""
        end = time.monotonic() + seconds
        lives = True
        while not any(e.kind == kind for e in list(self.events)):
            assert time.monotonic() < end and lives, f"no {kind}: {self.events} {self.value} {self.failure}"
            time.sleep(0.002)
            lives = self.thread.is_alive()

    @property
    def is_over(self):
        return not self.thread.is_alive()

    def join(self, seconds=PATIENCE):
        self.thread.join(seconds)
        assert not self.thread.is_alive(), f"the run did not end within {seconds} s"
        if self.failure:
            raise self.failure
        return self.value


class Context:
    def __init__(self, session, language):
        self.session, self.language, self.handle = session, language, c.c_void_p()
        _check(library().gb_context_open, session.handle, language.encode(), c.byref(self.handle))
        self.id = library().gb_context_id(self.handle).decode()
        session.contexts.append(self)

    def run(self, code, stdin=None, cancel_fd=-1, on_event=None):
        """stdin: bytes, a descriptor, or nothing. on_event is called in the midst of the run."""
        callbacks, code, result = _Callbacks(on_event), _encode(code), c.c_void_p()
        with _Input(stdin) as fd:
            options = ContextRunOptions(c.sizeof(ContextRunOptions), code, len(code), fd, cancel_fd, callbacks.started, callbacks.output,
                                        callbacks.result, callbacks.error, None)
            _check(library().gb_context_run, self.handle, c.byref(options), c.byref(result))
        try:
            copy = Result(result, callbacks.events)
        finally:
            library().gb_result_free(result)
        if self.language == "python":
            self.session.layouts.add(copy.control("layout")["how"])
        return copy

    def start(self, code, **options):
        """A run in another thread."""
        return Running(self.run, code, **options)

    def interrupt(self):
        _check(library().gb_context_interrupt, self.handle)

    def restart(self):
        _check(library().gb_context_restart, self.handle)

    def close(self):
        _check(library().gb_context_close, self.handle)
        self.session.contexts.remove(self)


class Policy:
    """overrides by key; a list of values adds each. What only a file may say is written to one."""
    FILE_ONLY = ("timeout_max", "result_count", "result_limit")

    def __init__(self, overrides=None, trust=None):
        self.handle = c.c_void_p()
        overrides = {**({"guard": os.environ["GLOVEBOX_GUARD"]} if "GLOVEBOX_GUARD" in os.environ else {}), **(overrides or {})}
        lines = [f"{key}: {overrides.pop(key)}\n" for key in self.FILE_ONLY if key in overrides]
        with tempfile.NamedTemporaryFile("w", prefix="policy-", suffix=".yaml") as file:
            file.writelines(lines)
            file.flush()
            _check(library().gb_policy_load, _encode(file.name) if lines else None, _encode(trust), c.byref(self.handle))
        try:
            for key, value in overrides.items():
                for item in value if isinstance(value, (list, tuple)) else [value]:
                    text = str(item).lower() if isinstance(item, bool) else str(item)
                    _check(library().gb_policy_set, self.handle, key.encode(), _encode(text))
        except Refused:
            self.free()
            raise

    def free(self):
        library().gb_policy_free(self.handle)
        self.handle = c.c_void_p()


class Session:
    """template: a name, "" for none, None for what the policy says."""

    def list_contexts(self):
        """What the library says of them; `contexts` are those that were opened here."""
        text = library().gb_session_contexts_json(self.handle)
        try:
            return jsonlib.loads(c.string_at(text))
        finally:
            library().gb_free(text)

    def network(self):
        """What it has sent where; None: it has no allowlist."""
        text = library().gb_session_network_json(self.handle)
        try:
            return jsonlib.loads(c.string_at(text)) if text else None
        finally:
            library().gb_free(text)

    def set_network(self, policy):
        own = Policy(policy)
        try:
            _check(library().gb_session_set_network, self.handle, own.handle)
        finally:
            own.free()

    def __init__(self, policy=None, template="python", workspace=None, trust=None, rootfs=None):
        self.handle, self.contexts = c.c_void_p(), []
        self.layouts = set()  # what its results said of how Python came to be
        options = SessionOptions(c.sizeof(SessionOptions), _encode(template), _encode(workspace and str(workspace)), _encode(rootfs and str(rootfs)))
        own = Policy(policy, trust)
        try:
            _check(library().gb_session_open, own.handle, c.byref(options), c.byref(self.handle))
        finally:
            own.free()
        self.id = library().gb_session_id(self.handle).decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        library().gb_session_close(self.handle)
        self.handle, self.contexts = c.c_void_p(), []

    def context(self, language="python"):
        return Context(self, language)

    def run(self, language, code, args=(), stdin=None, name=None, cancel_fd=-1, on_event=None):
        """A program, to its end."""
        callbacks, code, result = _Callbacks(on_event), _encode(code), c.c_void_p()
        words = (c.c_char_p * (len(args) + 1))(*map(_encode, args), None)
        with _Input(stdin) as fd:
            options = RunOptions(c.sizeof(RunOptions), _encode(language), code, len(code), _encode(name), words, None, None, fd, cancel_fd,
                                 callbacks.started, callbacks.output, None)
            _check(library().gb_session_run, self.handle, c.byref(options), c.byref(result))
        try:
            return Result(result, callbacks.events)
        finally:
            library().gb_result_free(result)

    def start(self, language, code, **options):
        return Running(self.run, language, code, **options)

    def write(self, path, content, mode=0):
        content = _encode(content)
        _check(library().gb_file_write, self.handle, _encode(path), content, len(content), mode)

    def read(self, path):
        content, size = c.c_void_p(), c.c_size_t()
        _check(library().gb_file_read, self.handle, _encode(path), c.byref(content), c.byref(size))
        copy = c.string_at(content, size.value)
        library().gb_free(content)
        return copy

    def list(self, path="."):
        """Name (bytes) to mode and size; None as a name says that there are more."""
        handle, info = c.c_void_p(), FileInfo()
        _check(library().gb_file_list_read, self.handle, _encode(path), c.byref(handle))
        found = {}
        for i in range(library().gb_file_list_count(handle)):
            assert library().gb_file_list_get(handle, i, c.byref(info)) == 0
            found[info.name] = {"mode": info.mode, "size": info.size, "modified": info.modified_usec / 1e6}
        if library().gb_file_list_is_truncated(handle):
            found[None] = {}
        library().gb_file_list_free(handle)
        return found

    def remove(self, path):
        _check(library().gb_file_remove, self.handle, _encode(path))

    def make_directory(self, path, mode=0):
        _check(library().gb_directory_make, self.handle, _encode(path), mode)


# ---- the processes behind it ----

def _stat_fields(pid):
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def wardens():
    """Process numbers of this process' own wardens."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(_stat_fields(entry)[1]) == os.getpid() and os.path.basename(os.readlink(f"/proc/{entry}/exe")) == "glovebox-warden":
                found.append(int(entry))
        except OSError:
            continue
    return found


def template_processes():
    """Process numbers of the interpreters that sessions are forked from, and not of those forked."""
    first, ours = {}, wardens()  # by pid namespace: number in there, number out here
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/status") as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                is_template = b"glovebox_template" in file.read()
            namespace = os.readlink(f"/proc/{entry}/ns/pid")
        except OSError:
            continue
        numbers = [int(number) for number in status["NSpid"].split()]
        # A child of it has a pid namespace more. The process between the two, which lives for a moment, has not: it is not the first.
        if is_template and int(status["PPid"]) in ours and len(numbers) == 2 and not status["State"].startswith("Z"):
            first[namespace] = min(first.get(namespace, (numbers[1], int(entry))), (numbers[1], int(entry)))
    return [number for _, number in first.values()]


def serving_template(ask, dead=()):
    """The process number of the one template, other than the dead ones, after ask() had a warm result. A template is
    started when somebody asks. A session that was forked ahead is warm even though its template is dead, so one warm
    result does not show that there is a new template."""
    def living():
        return ask().is_warm and [process for process in template_processes() if process not in dead]
    [process] = isolation.wait_until(living, 20) or []
    return process


# ---- as an ordinary user ----

def call_as_user(module, function, *args, uid=USER, environ=None, patience=PATIENCE):
    """Calls a function of a module beside this file or below e2e, as an ordinary user in a process of its own. What goes
    in and comes out is JSON."""
    ids = {"user": uid, "group": uid, "extra_groups": []} if os.geteuid() == 0 else {}
    own = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8", "GLOVEBOX": str(BINARY),
           "PYTHONDONTWRITEBYTECODE": "1", **isolation.current.environ(uid if ids else None)}
    done = subprocess.run([sys.executable, str(pathlib.Path(__file__).resolve()), module, function, jsonlib.dumps(args)], stdin=subprocess.DEVNULL,
                          capture_output=True, env={**own, **environment(), **(environ or {})}, cwd="/", timeout=patience, check=False, **ids)
    assert done.returncode == 0, f"{function} as an ordinary user: {done.stderr.decode(errors='replace')[-6000:]}"
    return jsonlib.loads(done.stdout)


def _main(module, function, args):
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/e2e")]
    value = getattr(importlib.import_module(module), function)(*jsonlib.loads(args))
    print(jsonlib.dumps(value))


if __name__ == "__main__":
    _main(*sys.argv[1:])
