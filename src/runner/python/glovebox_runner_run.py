# SPDX-License-Identifier: Apache-2.0
"""The channel, and a context: an interpreter that lives over many runs.

Theory of operation. One thread does it all: it waits for a frame, runs the code, and
answers. What the user's code can reach, it can break, so there are three zones:

  waiting   SIGINT has a handler of ours that does nothing. Another handler may be the user's and raise;
            whatever it raises is dropped, and what was read is not lost (see _gather).
  running   The user's code, and all that calls into it: repr(), str() of exceptions, drawing figures,
            flushing streams. SIGINT has the handler that the user's code left, and what it raises ends
            the run. No signal mask is changed, so processes and threads of the user's code inherit none.
  ending    SIGINT is ours again. All frames of the run's end are sent by one write.

A fork of the user's code that comes back here is another process: it ends, and never sends a frame.
"""
import builtins

__builtins__ = dict(vars(builtins))  # see glovebox_runner.py

import sys
from _frozen_importlib import BuiltinImporter
from _signal import SIGINT, default_int_handler
from _signal import signal as set_handler
from _thread import allocate_lock, get_ident
from errno import EINTR, EMFILE
from io import TextIOWrapper
from io import open as open_file
from os import O_RDWR, _exit, close, dup2, environ, fsdecode, getpid
from os import open as open_fd
from os import WNOHANG, register_at_fork, set_blocking, set_inheritable, waitpid, write
from sys import getprofile, gettrace, setprofile, settrace

import _ast
import __future__
import _socket
from glovebox_runner_results import Results, encode, make_frame

RECEIVE_BYTES = 65536
LINE_BYTES_MAX = 32       # of a frame: kind, two numbers of ten digits, spaces
CELLS_MAX = 100           # runs whose source is kept, for tracebacks and inspect
VALUE_BYTES_MAX = 64 << 10        # of an exception's message
TRACEBACK_BYTES_MAX = 256 << 10

_ANCILLARY = _socket.CMSG_SPACE(16)
_TRUNCATED = _socket.MSG_CTRUNC
LOST = -2                 # in the place of a descriptor that was sent, and could not be received
LOST_INPUT = "too many open files to receive the standard input of the run"
_VALUE = " value"         # where the last expression goes: no identifier has a space
_PARSE = _ast.PyCF_ONLY_AST | _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_OK = b"D %b 11\nstatus 2\nok"
DIED_BY_SIGINT = SIGINT << 8  # in the place of an exit status
_COROUTINE = 0x80         # CO_COROUTINE
_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag
_COMMAND = (sys.executable or "").rpartition("/")[2]
_modules = sys.modules
flush_text = TextIOWrapper.flush

# Source files whose lines no traceback shows; each adds itself.
OURS = {encode.__code__.co_filename}


# The channel


def _gather(function, *arguments):
    """The result of function(*arguments). A signal handler of the user's code may raise after any call, even one
    that has read or written something; a list that C code extends has the result nevertheless."""
    done = []
    while not done:
        try:
            done.extend(map(function, *arguments))
        except OSError as error:
            if not done and error.errno is not None and error.errno != EINTR:
                _exit(1)  # the user's code has closed the channel, or the host has
        except BaseException:
            pass
    return done[0]


class Channel:
    def __init__(self, fd):
        try:
            set_inheritable(fd, False)
            set_blocking(fd, True)
            self.socket = _socket.socket(fileno=fd)
        except OSError:
            _exit(1)
        self.fd = (fd,)
        self.lock = allocate_lock()  # threads of the user's code may display
        self.rest = b""
        self.descriptor = -1  # that came with the frame; or LOST
        self.arguments = (self.socket.recvmsg, (RECEIVE_BYTES,), (_ANCILLARY,), (_socket.MSG_CMSG_CLOEXEC,))

    def receive(self):
        data, ancillary, flags, _ = _gather(*self.arguments)
        for _, _, content in ancillary:
            for at in range(0, len(content), 4):
                if self.descriptor >= 0:
                    close(self.descriptor)
                self.descriptor = int.from_bytes(content[at:at + 4], sys.byteorder)
        if flags & _TRUNCATED:  # earlier code may have opened all that there may be
            if self.descriptor >= 0:
                close(self.descriptor)
            self.descriptor = LOST
        return data

    def read(self):
        """(kind, seq, payload) as bytes, or None at the end."""
        data = self.rest
        end = data.find(b"\n")
        while end < 0:
            more = self.receive()
            if not more or len(data) > LINE_BYTES_MAX:
                return None
            data += more
            end = data.find(b"\n")
        kind, seq, size = data[:end].split(b" ")
        end += 1
        stop = end + int(size)
        if stop > len(data):
            chunks, missing = [data], stop - len(data)
            while missing > 0:
                more = self.receive()
                if not more:
                    return None
                chunks.append(more)
                missing -= len(more)
            data = b"".join(chunks)
        self.rest = data[stop:]
        return kind, seq, data[end:stop]

    def take_descriptor(self):
        fd, self.descriptor = self.descriptor, -1
        return fd

    def send(self, data):
        """All of it. Where it cannot be sent the process ends: there is nobody to tell."""
        with self.lock:
            sent = _gather(write, self.fd, (data,))
            if sent < len(data):
                view = memoryview(data)
                while sent < len(data):
                    sent += _gather(write, self.fd, (view[sent:],))

    def close(self):
        close(self.socket.detach())


def parse_parts(payload):
    at = 0
    while at < len(payload):
        end = payload.index(b"\n", at)
        name, size = payload[at:end].split(b" ")
        at = end + 1 + int(size)
        yield name.decode("ascii"), payload[end + 1:at]


# Interrupts


def _ignore(signum, frame):
    """SIGINT outside of the user's code: no effect, then or later."""


class Interrupts:
    """Whose SIGINT is: the user's handler, or one of ours. A handler is swapped and no mask changed,
    because a signal that one thread blocks another one takes."""

    def __init__(self):
        handler = set_handler(SIGINT, _ignore)
        self.handler = handler if callable(handler) else default_int_handler
        self.thread = get_ident()
        self.late = False

    def leave(self):
        """Ends the zone of the user's code. May raise once more, when a signal came just before."""
        handler = set_handler(SIGINT, _ignore)
        if handler is not _ignore and handler is not None:
            self.handler = handler

    def guard(self, function, *arguments):
        """Calls the function in the midst of the user's code; an interrupt takes effect after it, not within."""
        if get_ident() != self.thread:  # interrupts are for the main thread alone
            return function(*arguments)

        def remember(signum, frame):
            self.late = True

        self.late = False
        handler = set_handler(SIGINT, remember)
        try:
            return function(*arguments)
        finally:
            set_handler(SIGINT, handler if handler is not None else default_int_handler)
            if self.late and callable(handler):
                handler(SIGINT, None)


# Standard streams


def stream_kind(name):
    """(encoding, errors) that the interpreter has chosen."""
    stream = getattr(sys, name, None)
    errors = "backslashreplace" if name == "stderr" else "strict"
    return getattr(stream, "encoding", "utf-8"), getattr(stream, "errors", errors)


def make_stream(fd, name, like):
    """A stream as the interpreter makes it at its start."""
    mode = "r" if fd == 0 else "w"
    buffer = open_file(fd, mode + "b", -1, closefd=False)
    buffer.raw.name = "<%s>" % name
    stream = TextIOWrapper(buffer, like[0], like[1], newline=None if fd == 0 else "\n",
                           line_buffering=buffer.raw.isatty() or (fd == 2 and sys.version_info >= (3, 9)))
    stream.mode = mode
    return stream


def open_null():
    try:
        return open_fd("/dev/null", O_RDWR)
    except OSError:  # no descriptor is left: that of the input which is over, or the next run would read on in it
        close(0)
        fd = open_fd("/dev/null", O_RDWR)
        set_inheritable(fd, True)
        return fd


def is_open(stream):
    try:
        return type(stream) is TextIOWrapper and not stream.closed
    except ValueError:  # detached
        return False


class Streams:
    """Sees to it that the descriptors 0 to 2 have streams that work, after whatever the user's code did."""

    def __init__(self):
        self.like = {name: stream_kind(name) for name in ("stdin", "stdout", "stderr")}
        self.stdout = self.stderr = self.stdin = None
        self.set_input(-1)
        self.mend()

    def set_input(self, fd):
        """Standard input is the descriptor, which is consumed, or empty. Lost input is not the same as none."""
        if fd < 0:
            if fd == LOST:
                raise OSError(EMFILE, LOST_INPUT)
            fd = open_null()
        if fd != 0:
            dup2(fd, 0)
            close(fd)
        sys.stdin = sys.__stdin__ = self.stdin = make_stream(0, "stdin", self.like["stdin"])

    def flush(self):
        try:
            stdin = self.stdin
            if sys.stdout is self.stdout and sys.stderr is self.stderr and sys.stdin is stdin and not stdin.closed:
                flush_text(self.stdout)
                flush_text(self.stderr)
                return
        except Exception:  # closed, or the pipe is
            pass
        self.mend()

    def mend(self):
        for fd, name in ((1, "stdout"), (2, "stderr")):
            ours = getattr(self, name)
            try:
                flush_text(ours)
            except OSError:
                pass
            except Exception:
                ours = self.adopt(fd, name)
            if not self.works(getattr(sys, name, None), "write"):
                setattr(sys, name, ours)
        if not is_open(self.stdin):
            self.stdin = sys.__stdin__ = make_stream(0, "stdin", self.like["stdin"])
        if not self.works(getattr(sys, "stdin", None), "readline"):
            sys.stdin = self.stdin

    def adopt(self, fd, name):
        """The stream for a descriptor whose last one is closed, or not known yet."""
        ours = getattr(sys, "__%s__" % name, None)
        if not is_open(ours):
            ours = make_stream(fd, name, self.like[name])
            setattr(sys, "__%s__" % name, ours)
        setattr(self, name, ours)
        return ours

    @staticmethod
    def works(stream, verb):
        try:
            if getattr(stream, "closed", False) or not callable(getattr(stream, verb)):
                return False
            if verb == "write" and hasattr(stream, "flush"):
                stream.flush()
        except OSError:
            pass
        except Exception:
            return False
        return True


# Context mode


class Context:
    def __init__(self, channel, interrupts, config, leave, end_program):
        self.channel, self.interrupts, self.leave, self.end_program = channel, interrupts, leave, end_program
        self.pid = getpid()
        self.streams = Streams()
        self.cells = {}
        self.flags = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.last = None   # the value of `_`
        self.status = 0    # of the run: what a program with this code would exit with
        self.done = None   # the frame that says so, unless all is well
        self.loop = None
        self.namespace = make_main()
        set_arguments([""])
        if not getattr(sys.flags, "safe_path", False):
            sys.path.insert(0, "")
        register_at_fork(after_in_child=self.disown)
        self.results = Results(self, config.result_count, config.result_limit)

    def disown(self):
        try:
            self.channel.close()
        except OSError:
            pass

    def serve(self):
        read = self.channel.read
        while True:
            try:
                frame = read()
                if frame is None:
                    break
                kind, seq, payload = frame
            except Exception:
                _exit(1)
            if kind != b"E" and kind != b"L":
                if kind == b"K":
                    reap_orphans()
                continue
            try:
                frames = self.run(seq, payload)
            except BaseException as error:  # signals came faster than they could be handled
                self.interrupts.leave()
                frames = self.describe_failure(seq, "", error)
            self.results.end()
            if kind == b"L":  # the end of the process says that the run is over
                self.channel.send(frames)
                set_handler(SIGINT, self.interrupts.handler)
                try:
                    self.end_program(self.status, self.namespace, self.leave)
                finally:  # an interrupt at its very end
                    self.leave(128 + SIGINT)
            self.channel.send(frames + (self.done or _OK % seq))
        self.finish()

    def run(self, seq, source):
        """The frames of the run but for its last one, which is `done`."""
        self.status, self.done = 0, None
        name = "<cell %s>" % seq.decode("ascii")
        given = self.channel.take_descriptor()
        failure = interrupt = None
        self.results.begin(seq)
        try:
            set_handler(SIGINT, self.interrupts.handler)
            if given != -1:
                self.streams.set_input(given)
            try:
                value = self.execute(name, source)
                if value is not None:
                    self.keep_value(value)
            except BaseException as error:
                interrupt = isinstance(error, KeyboardInterrupt)
                failure = self.describe_failure(seq, name, error)
            if getpid() != self.pid:
                self.finish_child(None)
            if "matplotlib._pylab_helpers" in _modules:
                self.results.end_figures(not interrupt)
            self.streams.flush()
            self.interrupts.leave()
        except BaseException as error:
            self.interrupts.leave()
            if isinstance(error, KeyboardInterrupt):
                error.__context__ = None  # perhaps an exception that takes forever to describe
            failure = self.describe_failure(seq, name, error)
            self.streams.flush()
        if gettrace() is not None:
            settrace(None)
        if getprofile() is not None:
            setprofile(None)
        if given >= 0:
            self.streams.set_input(-1)
        return self.results.pending + (failure or b"")

    def execute(self, name, source):
        """Runs the code; the value of its last expression."""
        text = source.decode("utf-8-sig" if source.startswith(b"\xef\xbb\xbf") else "utf-8")
        self.remember_cell(name, text)
        namespace = self.namespace
        if "__builtins__" not in namespace:
            namespace["__builtins__"] = builtins
        flags = self.flags
        try:
            tree = compile(text, name, "exec", flags | _PARSE, True)
            body = tree.body
            if body and type(body[-1]) is _ast.Expr and not is_silenced(source, body[-1]):
                body[-1] = catch_value(body[-1])
            code = compile(tree, name, "exec", flags, True)
        except RecursionError:
            # As a tree of objects it is too deep, not yet for the compiler. Its value is lost.
            code = compile(text, name, "exec", flags, True)
        self.flags = flags | code.co_flags & _FUTURES
        if code.co_flags & _COROUTINE:
            self.wait(eval(code, namespace))
        else:
            exec(code, namespace)
        return namespace.pop(_VALUE, None)

    def remember_cell(self, name, text):
        cells = self.cells
        cells[name] = text
        cache = getattr(_modules.get("linecache"), "cache", None)
        if len(cells) > CELLS_MAX:
            oldest = next(iter(cells))
            del cells[oldest]
            if cache is not None:
                cache.pop(oldest, None)
        if cache is not None:
            cache[name] = (len(text), None, [line + "\n" for line in text.split("\n")], name)

    def fill_linecache(self, linecache):
        for name, text in self.cells.items():
            linecache.cache[name] = (len(text), None, [line + "\n" for line in text.split("\n")], name)

    def keep_value(self, value):
        namespace = self.namespace
        # A `_` of the user's own stays his.
        if namespace.get("_", self.last) is self.last:
            namespace["_"] = self.last = value
        self.results.set_value(value)

    def wait(self, coroutine):
        """Top-level await. The loop is kept, and with it what the runs before have started on it."""
        import asyncio
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(coroutine)
        try:
            self.loop.run_until_complete(task)
        except BaseException as error:
            if not task.done():  # an interrupt in the loop itself: the task must not go on in later runs
                task.cancel()
                try:
                    self.loop.run_until_complete(task)
                except asyncio.CancelledError as cancelled:
                    error.__traceback__ = cancelled.__traceback__
            elif not task.cancelled():
                task.exception()  # now it is retrieved
            raise error

    # What went wrong

    def describe_failure(self, seq, name, error):
        """The frame that says so, X; and `done`. Calls into the user's code."""
        if getpid() != self.pid:
            self.finish_child(error)
        if isinstance(error, SystemExit):
            return self.describe_exit(seq, error)
        interrupted = isinstance(error, KeyboardInterrupt)
        self.status = DIED_BY_SIGINT if interrupted else 1
        self.done = make_frame(b"D", seq, ((b"status", b"interrupted" if interrupted else b"error"),))
        value = describe_value(error)
        try:
            text = self.format_traceback(name, error)
        except Exception:  # of a broken traceback module, or out of memory
            text = "%s: %s\n" % (type(error).__name__, value)
        parts = ((b"name", encode(type(error).__name__, 1024)), (b"value", encode(value, VALUE_BYTES_MAX)),
                 (b"traceback", encode(text, TRACEBACK_BYTES_MAX)))
        return make_frame(b"X", seq, parts)

    def describe_exit(self, seq, error):
        """As a script ends: a message is printed, and there is no traceback."""
        code = self.status = print_exit(error.code) & 0xff
        self.done = make_frame(b"D", seq, ((b"status", b"error" if code else b"ok"), (b"exit", b"%d" % code)))
        if code == 0:
            return b""
        return make_frame(b"X", seq, ((b"name", encode(type(error).__name__, 1024)),
                                      (b"value", encode(describe_value(error), VALUE_BYTES_MAX)), (b"traceback", b"")))

    def format_traceback(self, name, error):
        """What the interpreter would print, without the frames below the user's code."""
        import linecache
        import traceback
        self.fill_linecache(linecache)
        if isinstance(error, SyntaxError) and error.text is None and error.filename in self.cells and error.lineno:
            error.text = linecache.getline(error.filename, error.lineno)
        error.__traceback__ = strip_traceback(error.__traceback__, name)
        report = traceback.TracebackException(type(error), error, error.__traceback__)
        todo, seen = [report], set()
        while todo:
            one = todo.pop()
            if one is None or id(one) in seen:
                continue
            seen.add(id(one))
            one.stack[:] = [entry for entry in one.stack if entry.filename not in OURS]
            todo += [one.__cause__, one.__context__]
            todo += getattr(one, "exceptions", None) or []
        return "".join(report.format())

    def finish_child(self, error):
        """In a fork of the user's code that has come to the end of the run: it ends as a script would."""
        status = 0
        try:
            if isinstance(error, SystemExit):
                status = print_exit(error.code)
            elif error is not None:
                status = 1
                sys.stderr.write(self.format_traceback("", error))
        finally:
            try:
                self.streams.mend()
            finally:
                _exit(status & 0xff)

    def finish(self):
        """The host has closed the channel."""
        try:
            if "atexit" in _modules:
                _modules["atexit"]._run_exitfuncs()
        except BaseException:
            pass
        try:
            self.streams.mend()
        except BaseException:
            pass
        self.leave(0)


def describe_value(error):
    try:
        return str(error)
    except Exception:
        return "<exception str() failed>"


def reap_orphans():
    """Takes the ends of children that were killed and that nobody waits for: each of them counts as a task of the session until then."""
    popen = getattr(_modules.get("subprocess"), "Popen", None)
    others = getattr(_modules.get("multiprocessing.process"), "active_children", None)
    try:
        if popen is not None:  # these keep their own end; there are few of them, and this is rare
            import gc
            for found in gc.get_objects():
                if issubclass(type(found), popen):
                    found.poll()
        if others is not None:
            others()
        while waitpid(-1, WNOHANG)[0] != 0:
            pass
    except Exception:  # there is no child, or the user's code has changed what this calls
        pass


def is_silenced(source, last):
    """Whether a semicolon follows the last statement."""
    if b";" not in source:
        return False
    lines = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return lines[last.end_lineno - 1][last.end_col_offset:].lstrip(b" \t\f").startswith(b";")


def catch_value(last):
    """The statement `last`, an expression, as an assignment to a name that no code can have."""
    at = {"lineno": last.lineno, "col_offset": last.col_offset,
          "end_lineno": last.end_lineno, "end_col_offset": last.end_col_offset}
    return _ast.Assign([_ast.Name(_VALUE, _ast.Store(), **at)], last.value, None, **at)


def strip_traceback(traceback, name):
    """From the first line of the cell on; where there is none, from the first that is not ours."""
    at = traceback
    while at is not None and at.tb_frame.f_code.co_filename != name:
        at = at.tb_next
    if at is None:
        at = traceback
        while at is not None and at.tb_frame.f_code.co_filename in OURS:
            at = at.tb_next
    return at


OURS.add(strip_traceback.__code__.co_filename)


# Both modes


def print_exit(code):
    """The status for what sys.exit() was given; a message goes to standard error."""
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) if -1 << 63 <= code < 1 << 63 else -1
    try:
        print(code, file=sys.stderr)
    except Exception:
        pass
    return 1


def make_main():
    """A new __main__, as it is at the interpreter's start; its dictionary."""
    main = type(sys)("__main__")
    space = vars(main)
    space["__loader__"] = BuiltinImporter
    if sys.version_info < (3, 14):
        space["__annotations__"] = {}
    space["__builtins__"] = builtins
    _modules["__main__"] = main
    return space


def set_arguments(arguments):
    sys.argv = arguments
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = [_COMMAND] + (arguments if arguments != [""] else [])


class Config:
    def __init__(self, payload):
        self.mode, self.file, self.arguments = "context", None, []
        self.result_count, self.result_limit = 64, 8 << 20
        for name, value in parse_parts(payload):
            if name == "arg":
                self.arguments.append(fsdecode(value))
            elif name == "env":
                variable, _, text = fsdecode(value).partition("=")
                if environ.get(variable) != text:
                    environ[variable] = text
                if variable == "TZ":
                    import time
                    time.tzset()
            elif name in ("mode", "file"):
                setattr(self, name, fsdecode(value))
            elif name in ("result_count", "result_limit"):
                setattr(self, name, int(value))


def open_channel(fd):
    """(channel, interrupts, config) once the host has sent the configuration."""
    interrupts = Interrupts()
    channel = Channel(fd)
    try:
        frame = channel.read()
        config = Config(frame[2]) if frame and frame[0] == b"C" else None
    except ValueError:
        config = None
    if config is None:
        _exit(1)
    return channel, interrupts, config


def make_ready():
    return make_frame(b"Y", b"0", ((b"version", sys.version.split()[0].encode()),))
