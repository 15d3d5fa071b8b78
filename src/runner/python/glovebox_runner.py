# SPDX-License-Identifier: Apache-2.0
"""The Python end of the control channel (docs/design/control-channel.md).

It is started in one of two ways:

  slow  `python3 .../glovebox_runner.py 20`: main() serves on that descriptor and never returns.
  warm  A template imports this module and whatever it is a template of, calls prepare() once, and
        forks. In each child serve() is called with the child's descriptor and never returns.

This file has the template's part and script mode. glovebox_runner_run.py has the channel and a context,
glovebox_runner_results.py what becomes of values and figures. They are modules of their own because
the slow way compiles this one at every start.

The user's code runs in this very process. So nothing here protects anything: private references only
see to it that code which breaks its own interpreter gets an honest error and not a dead context.
"""
import builtins

# Functions defined below look built-in names up in this copy: who patches `builtins` patches his own.
__builtins__ = dict(vars(builtins))

import gc
import os
import sys
from _signal import SIG_DFL as _SIG_DFL
from _signal import SIGINT as _SIGINT
from _signal import signal as _set_handler
from _thread import _count as _count_threads
from os import getpid as _getpid
from os import kill as _kill
from os import urandom

_DIRECTORY = os.path.dirname(os.path.abspath(__file__))
_MODULES = ("glovebox_runner", "glovebox_runner_run", "glovebox_runner_results", "_glovebox")

_DIED_BY_SIGINT = _SIGINT << 8
_CONTROL = 20  # BOX_CONTROL_FD, where a child finds its channel
_CANARY = " canary"  # no identifier has a space

_prepared = False
_run = None  # glovebox_runner_run
_Loader = _atexit = _ref = None  # see _stage_script()


# The template: prepare(), and what a child must do


class _Fresh:
    """What after_fork() needs, looked up by prepare(): in a child every lookup costs copied pages."""
    places = []     # (address, size) of memory that is to be filled with random bytes
    views = ()      # (a part of it, its size)
    reseed = ()     # functions, for what has no such memory
    thread = None   # threading's main thread
    native_id = None
    ssl = None
    begin = None    # _glovebox.begin


def prepare():
    """In the template, after its imports and before its forks."""
    global _prepared
    import _socket
    import linecache
    import traceback

    import glovebox_runner_results
    import glovebox_runner_run
    _settle_matplotlib(sys.modules)
    _forget_random(sys.modules.get)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    _stage()
    _stage_script()
    # What lives now lives until the end: a collection in a child that went through all of it would
    # copy every page of it.
    gc.collect()
    gc.freeze()
    _prepared = True


# A context made ahead, which every child has: making one would copy a thousand pages.


class _Staged:
    context = None
    ready = b""     # the answer to a configuration
    configs = {}    # the usual ones, as they are sent, and what is in them
    # The others are for script mode, which wants no context.
    path = None     # sys.path as it was, when it has changed
    pyplot = {}     # names of matplotlib.pyplot that were patched, as they were
    modules = None  # names of all that are loaded
    places = {}     # file: its path and directory
    quiet = None    # len(threading._threading_atexits), atexit._ncallbacks()


_REHEARSAL = (b"1+1", b"x = 1", b"print(x)", b"import sys\nx += 1\nx", b"def f():\n    return 1\nf()", b"1/0", b"")


def _stage():
    """Makes the context that children will serve, on a channel that is not there yet, and rehearses: code that has
    run a few times is specialised by then, and what is made at a first use is made."""
    global _run
    import socket

    import glovebox_runner_run as _run
    _run.OURS.add(serve.__code__.co_filename)
    pyplot = vars(sys.modules["matplotlib.pyplot"]) if "matplotlib.pyplot" in sys.modules else {}
    before = dict(pyplot)
    _hide()
    path = list(sys.path)
    ours, theirs = socket.socketpair()
    former = _occupy(theirs)
    null = os.open(os.devnull, os.O_RDWR)
    out, err = os.dup(1), os.dup(2)
    os.dup2(null, 1)
    os.dup2(null, 2)
    channel, interrupts = _run.Channel(_CONTROL), _run.Interrupts()
    context = _run.Context(channel, interrupts, _run.Config(b""), os._exit)
    for number in range(10):
        for code in _REHEARSAL:
            ours.sendall(b"E %d %d\n%s" % (number, len(code), code))
            kind, seq, payload = channel.read()
            frames = context.run(seq, payload)
            context.results.end()
            channel.send(frames)
            ours.recv(1 << 16)
    ours.close()
    os.dup2(out, 1)
    os.dup2(err, 2)
    for fd in (out, err, null):
        os.close(fd)
    _vacate(former)
    context.namespace = _run.make_main()
    context.cells.clear()
    context.last = None
    sys.modules["linecache"].clearcache()
    _Staged.path = path if path != sys.path else None
    _Staged.pyplot = {name: old for name, old in before.items() if pyplot[name] is not old}
    _Staged.ready = _run.make_ready()
    _Staged.configs = {payload: _run.Config(payload) for payload in (_Trial.config, _Trial.script) if _changes_nothing(payload)}
    _Staged.context = context


def _changes_nothing(config):
    """Whether its variables are there already."""
    given = [os.fsdecode(value).partition("=") for name, value in _run.parse_parts(config) if name == "env"]
    return all(os.environ.get(name) == value for name, _, value in given)


def _stage_script():
    """Looks up what a script's begin and end need: in a child each import statement would cost copied pages."""
    global _Loader, _atexit, _ref
    from _frozen_importlib_external import SourceFileLoader as _Loader
    from _weakref import ref as _ref
    loaded = "atexit" in sys.modules
    import atexit as _atexit
    if not loaded:
        del sys.modules["atexit"]
    for config in _Staged.configs.values():
        if config.file:
            _Staged.places[config.file] = _locate(config.file)
    _Staged.modules = frozenset(sys.modules)
    if "threading" in sys.modules:
        _Staged.quiet = _count_exits(sys.modules["threading"])


def _locate(file):
    """The path as the interpreter would have it in __file__, and the directory it is in."""
    path = os.path.abspath(file) if sys.version_info >= (3, 9) else file
    return path, os.path.dirname(os.path.realpath(path))


def _count_exits(threading):
    return len(getattr(threading, "_threading_atexits", ())), _atexit._ncallbacks()


def _occupy(socket):
    """Puts the socket where a child finds its channel, for a while; what was there."""
    try:
        former = os.dup(_CONTROL)
    except OSError:
        former = -1
    os.dup2(socket.fileno(), _CONTROL, False)
    socket.close()
    return former


def _vacate(former):
    if former >= 0:
        os.dup2(former, _CONTROL)
        os.close(former)
    else:
        os.close(_CONTROL)


def _unstage():
    """For a script: as if no context had been made."""
    del sys.meta_path[0]
    if _Staged.path is not None:
        sys.path[:] = _Staged.path
    del builtins.display
    if _Staged.pyplot:
        vars(sys.modules["matplotlib.pyplot"]).update(_Staged.pyplot)


def _settle_matplotlib(modules):
    """Agg without a search for displays; drawn once, since the first figure finds fonts and loads the rest."""
    matplotlib = modules.get("matplotlib")
    if matplotlib is None:
        return
    try:
        matplotlib.rcParams["backend"] = "agg"
        if "matplotlib.pyplot" in modules:
            modules["matplotlib.pyplot"].switch_backend("agg")
            _draw_once()
            modules["matplotlib.font_manager"]._get_font.cache_clear()  # they hold files open, which a child has not
        _forget_directories(matplotlib)
    except Exception as error:  # a version that is unlike all others: slower, not wrong
        sys.stderr.write("glovebox: matplotlib is not prepared: %r\n" % error)


def _draw_once():
    import io
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    figure = Figure()
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot([0, 1], label="1")
    axes.set_title("1")
    axes.legend()
    figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")


def _forget_directories(matplotlib):
    """The template's home is not the box's: the children look again where settings and caches are."""
    for name in ("get_configdir", "get_cachedir"):
        function = getattr(matplotlib, name)
        if hasattr(function, "cache_clear"):
            function.cache_clear()
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        if "called" in cells:
            cells["called"].cell_contents = False
    made = os.environ.get("MPLCONFIGDIR", "")
    if os.path.basename(made).startswith("matplotlib-"):  # a stopgap of matplotlib's own, removed at exit
        import atexit
        import shutil
        atexit.unregister(shutil.rmtree)
        shutil.rmtree(made, ignore_errors=True)
        del os.environ["MPLCONFIGDIR"]


def _forget_random(get):
    """Nothing random may be the same in two children. What is made at its first use is forgotten here;
    what has a state is noted for after_fork().

    Nothing to do for secrets, random.SystemRandom, uuid4() and numpy's default_rng(), which ask the
    kernel at each use, nor for scipy, pandas and scikit-learn, which draw from numpy's global state.
    """
    views, reseed = [], []
    if get("uuid") is not None:
        get("uuid")._node = get("uuid")._last_timestamp = None
    if get("tempfile") is not None:
        # It watches the process id, but in a namespace of its own every child may have the same.
        get("tempfile")._name_sequence = None
        for name, holder in (("multiprocessing.synchronize", "SemLock"), ("multiprocessing.heap", "Arena")):
            if hasattr(getattr(get(name), holder, None), "_rand"):
                getattr(get(name), holder)._rand = get("tempfile")._RandomNameSequence()
    if get("random") is not None:
        generator = get("random")._inst
        generator.seed()
        offset = object.__basicsize__ + 4  # behind the head and the index
        state = b"".join([word.to_bytes(4, sys.byteorder) for word in generator.getstate()[1][:-1]])
        _note(views, reseed, generator.seed, id(generator) + offset, state, type(generator).__basicsize__ - offset)
    if get("numpy.random.mtrand") is not None:
        generator = get("numpy.random.mtrand")._rand
        generator.seed()
        state = generator.get_state(legacy=False)
        if state["bit_generator"] == "MT19937":
            key = state["state"]["key"].tobytes()
            _note(views, reseed, generator.seed, generator._bit_generator.ctypes.state_address, key, len(key))
        else:
            reseed.append(generator.seed)
    if get("multiprocessing.process") is not None:
        config = get("multiprocessing.process").current_process()._config
        key = config["authkey"] = get("multiprocessing.process").AuthenticationString(urandom(32))

        def renew():
            config["authkey"] = type(key)(urandom(32))
        _note(views, reseed, renew, id(key) + bytes.__basicsize__ - 1, bytes(key), 32)
    _Fresh.views, _Fresh.reseed = views, reseed
    if get("threading") is not None:
        _Fresh.thread, _Fresh.native_id = get("threading").main_thread(), get("threading").get_native_id
    if get("ssl") is not None:
        _Fresh.ssl = get("ssl")
        _Fresh.ssl.RAND_bytes(1)  # its first use takes long, and is better here
        _Fresh.ssl.RAND_add(urandom(48), 48.0)


def _note(views, reseed, function, address, content, room):
    """Notes the memory at the address, when it really has the content; else the function, which is slower."""
    import ctypes
    if len(content) <= room:
        view = memoryview((ctypes.c_ubyte * len(content)).from_address(address)).cast("B")
        if view.tobytes() == content:
            _Fresh.places.append((address, len(content)))
            # In pieces that Python's own allocator has room for: malloc() may tidy up first, over many pages.
            parts = [view[at:at + 448] for at in range(0, len(view), 448)]
            views.extend([(part, len(part)) for part in parts])
            return
    reseed.append(function)


def after_fork():
    """In a child of the template. Random bytes are written straight into the states of the generators
    (a Mersenne twister may have any state but zero), because calling their functions would touch many more pages.

    What cannot differ between the children of one template: the seed of hash() for str and bytes, the
    addresses of everything that was mapped before the fork, and the stack protector's canary with the
    pointer guard. They are as secret as the template is; a template that serves hostile code should be
    made anew from time to time.
    """
    fresh = _Fresh
    for view, size in fresh.views:
        view[:] = urandom(size)
    for function in fresh.reseed:
        function()
    if fresh.thread is not None:
        fresh.thread._native_id = fresh.native_id()
    if fresh.ssl is not None:
        # OpenSSL sees by the process id that it was forked. In a namespace the child's may be the template's.
        fresh.ssl.RAND_add(urandom(48), 48.0)


# Service


def expect(pid, begin):
    """In the template, at last: children have this process id, and know it already. For others there is after_fork(). begin is
    called when it is known whether a child is a script."""
    _Fresh.begin = begin
    if _Fresh.thread is not None:
        _Fresh.thread._native_id = pid
    _Staged.context.pid = pid
    return None if _Fresh.reseed else _Fresh.places


def serve(control_fd, leave=os._exit, renewed=False):
    """Serves on the descriptor until its other end is closed, then calls leave(status); never returns.
    renewed: what after_fork() does has been done.

    The default of `leave` does not run what C libraries have registered with atexit(3), such as the
    last flush of C's own output buffers. A caller that can offers exit(3) itself.
    """
    global _run
    if _prepared:
        if not renewed:
            after_fork()
            _Staged.context.pid = _getpid()
        _serve_staged(control_fd, leave)
    import glovebox_runner_run as _run
    _run.OURS.add(serve.__code__.co_filename)
    _hide()
    channel, interrupts, config = _run.open_channel(control_fd)
    if config.mode == "context":
        context = _run.Context(channel, interrupts, config, leave)
        channel.send(_run.make_ready())
        context.serve()
    channel.send(_run.make_ready())
    frame = channel.read()
    if frame is None:
        leave(0)
    _run_script(channel, interrupts, config, frame[2], leave)


def _serve_staged(control_fd, leave):
    """What serve() does, with the context that was made ahead."""
    if control_fd != _CONTROL:
        os.dup2(control_fd, _CONTROL, False)
        os.close(control_fd)
    context = _Staged.context
    channel = context.channel
    if context.leave is not leave:
        context.leave = leave
    config = _read_config(channel)
    begin = _Fresh.begin
    if begin is not None:
        begin(config.mode == "script")
    channel.send(_Staged.ready)
    if config.mode == "context":
        _limit_results(context.results, config)
        context.serve()
    frame = channel.read()
    if frame is None:
        leave(0)
    _unstage()
    _run_script(channel, context.interrupts, config, frame[2], leave)


def _read_config(channel):
    try:
        payload = channel.read()[2]
        return _Staged.configs.get(payload) or _run.Config(payload)
    except (TypeError, ValueError):
        os._exit(1)


def _limit_results(results, config):
    if results.count_max != config.result_count or results.bytes_max != config.result_limit:
        results.count_max, results.bytes_max = config.result_count, config.result_limit


class _Trial:
    env = b"env 25\nPYTHONDONTWRITEBYTECODE=1env 19\nPYTHONPATH=/sandboxenv 16\nPYTHONSAFEPATH=1"
    config = (b"mode 7\ncontextresult_count 2\n64result_limit 8\n10485760" + env)
    script = b"mode 6\nscriptfile 21\n/run/glovebox/main.py" + env
    code = b"E 1 10\nprint(1+1)"


def prepare_trials():
    """In the template: two channels with a run in each, of a context and of a script. Both ends are the caller's to close."""
    import socket
    channels = []
    for config in (_Trial.config, _Trial.script):
        ours, theirs = socket.socketpair()
        ours.sendall(b"C 0 %d\n%s%s" % (len(config), config, _Trial.code))
        channels.append((theirs.detach(), ours.detach()))
    return tuple(channels)


def try_context():
    """In a child that nobody gets: what serve() does until the end of a first run."""
    context = _Staged.context
    channel = context.channel
    context.pid = _getpid()
    config = _read_config(channel)
    channel.send(_Staged.ready)
    _limit_results(context.results, config)
    _, seq, payload = channel.read()
    frames = context.run(seq, payload)
    context.results.end()
    channel.send(frames)


def try_script():
    """The same for a script. What it returns removes what it has written."""
    _serve_staged(_CONTROL, int)  # which takes the status, and comes back
    return _remove_script


def _remove_script():
    for file in _Staged.places:
        os.unlink(file)


def _hide():
    """The user's code finds no trace of the runner where modules are looked for."""
    for name in _MODULES:
        sys.modules.pop(name, None)
    # An ordinary start has '' or the script's directory in front; the mode puts it there.
    sys.path[:] = [entry for entry in sys.path if entry not in ("", _DIRECTORY)]
    sys.path_importer_cache.pop(_DIRECTORY, None)


# Script mode


def _run_script(channel, interrupts, config, code, leave):
    """Becomes what `python3 FILE ARGUMENT...` would be, and ends as it would."""
    if _Staged.modules is None:
        _stage_script()
    given = channel.take_descriptor()
    channel.close()
    if given >= 0:
        os.dup2(given, 0)
        os.close(given)
        sys.stdin = sys.__stdin__ = _run.make_stream(0, "stdin", _run.stream_kind("stdin"))
    status = _write_script(config.file, code)
    if status == 0:
        path, directory = _Staged.places.get(config.file) or _locate(config.file)
        main = _run.make_main()
        main.update(__file__=path, __cached__=None, __loader__=_Loader("__main__", path))
        _run.set_arguments([config.file] + config.arguments)
        if not getattr(sys.flags, "safe_path", False):
            sys.path.insert(0, directory)
        _set_handler(_SIGINT, interrupts.handler)
        try:
            exec(compile(code, path, "exec", 0, True), main)
        except BaseException as error:
            status = _report_uncaught(error)
        del main
        status = _finish_script(status, directory)
    if status == _DIED_BY_SIGINT:
        _set_handler(_SIGINT, _SIG_DFL)
        _kill(_getpid(), _SIGINT)
        status = 128 + _SIGINT
    leave(status & 0xff)


def _write_script(path, code):
    try:
        with open(path, "wb", 0) as file:
            while code:
                code = code[file.write(code):]
    except OSError as error:
        text = "%s: can't open file %r: [Errno %d] %s\n"
        sys.stderr.write(text % (sys.executable, path, error.errno, os.strerror(error.errno)))
        sys.stderr.flush()
        return 2
    return 0


def _report_uncaught(error):
    """As the interpreter reports what nobody caught: the exit status, or that of a death by SIGINT."""
    if isinstance(error, SystemExit):
        return _run.print_exit(error.code)
    traceback = error.__traceback__ = _run.strip_traceback(error.__traceback__, "")
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, traceback
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        hook = getattr(sys, "excepthook", None)
        if hook is None:
            sys.__stderr__.write("sys.excepthook is missing\n")
            hook = sys.__excepthook__
        hook(type(error), error, traceback)
    except SystemExit as leaving:
        return _run.print_exit(leaving.code)
    except BaseException as second:
        _report_hook(second, error)
    return _DIED_BY_SIGINT if isinstance(error, KeyboardInterrupt) else 1


def _report_hook(second, first):
    """The hook has failed with the second while it should have shown the first."""
    second.__traceback__ = _run.strip_traceback(second.__traceback__, "")
    second.__context__ = None
    try:
        sys.stderr.write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(second), second, second.__traceback__)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(first), first, first.__traceback__)
    except Exception:  # there is no standard error
        pass


def _finish_script(status, directory):
    """What the interpreter does at its end, but for taking itself apart: that is slow when much is loaded."""
    threading = sys.modules.get("threading")
    if threading is not None:
        try:
            # Without another thread, and nobody who is called at the end and could see the difference, there is nothing to do.
            if _count_threads() > 0 or _Staged.quiet != _count_exits(threading):
                threading._shutdown()
        except BaseException as error:
            _report_unraisable(error, threading, "threading shutdown")
    try:
        _atexit._run_exitfuncs()
    except BaseException:  # printed by then
        pass
    _atexit._clear()
    if not _flush_standard() and status != _DIED_BY_SIGINT:
        status = 120
    try:
        _drop_modules(directory)
    except BaseException:  # the program has left the interpreter in ruins; that is the end of it anyway
        pass
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()  # what finalizers have printed; nobody is told when that fails
        except BaseException:
            pass
    return status


def _report_unraisable(error, culprit, moment):
    """As the interpreter does, but for hooks of the user's: the argument that they take cannot be made here."""
    try:
        what = "on %s:" % moment if sys.version_info >= (3, 13) else "in: %r" % (culprit,)
        sys.stderr.write("Exception ignored %s\n" % what)
        error.__context__ = error.__cause__ = None
        error.__traceback__ = _run.strip_traceback(error.__traceback__, "")
        sys.__excepthook__(type(error), error, error.__traceback__)
    except BaseException:
        pass


def _flush_standard():
    good = True
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException as error:
            good = False
            if name == "stdout":
                _report_unraisable(error, stream, "flushing sys.stdout")
    return good


class _Canary:
    __slots__ = ("__weakref__",)


def _drop_modules(directory):
    """Lets go of the program's own modules, so that its objects are finalized and its files flushed.

    As in the interpreter: what nobody else holds goes with its module or by the collector, with all
    globals still in place; what is left is taken apart name by name.
    """
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            setattr(sys, name, None)
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    # The first collection puts what refers before what is referred to. The second finalizes in that order:
    # a file's text before its buffer, and that before its descriptor.
    gc.collect()
    canaries = []
    for name in _new_modules(_Staged.modules):
        space = getattr(sys.modules[name], "__dict__", None)
        if type(space) is not dict:
            continue
        if name != "__main__" and not str(space.get("__file__")).startswith(directory + "/"):
            continue
        canary = space[_CANARY] = _Canary()
        canaries.append(_ref(canary))
        del sys.modules[name], canary, space
    gc.collect()
    if len(sys._current_frames()) > 1:
        return  # daemon threads may still use them
    canaries = [canary for canary in reversed(canaries) if canary() is not None]
    for canary in canaries:
        for space in gc.get_referrers(canary()):
            if type(space) is dict and _CANARY in space:
                _clear_names(space)
    if canaries:
        gc.collect()


def _new_modules(known):
    """The program's modules, in the order in which they came. What was there before is not looked at one by one: each name would
    cost a copied page."""
    fresh = ["__main__"]
    for name in reversed(sys.modules):
        if name in known:
            break
        fresh.insert(1, name)
    if len(fresh) - 1 != len(sys.modules) - len(known):  # some were removed, or put in anew
        fresh = [name for name in sys.modules if name not in known or name == "__main__"]
    return fresh


def _clear_names(space):
    """First names with one leading underscore, then all others."""
    for hidden in (True, False):
        for name in list(space):
            if isinstance(name, str) and (name[:1] == "_" and name[1:2] != "_") == hidden and name != "__builtins__":
                space[name] = None


def main(argv):
    sys.modules.setdefault("glovebox_runner", sys.modules["__main__"])
    serve(int(argv[1]))


if __name__ == "__main__":
    main(sys.argv)
