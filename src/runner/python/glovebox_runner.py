# SPDX-License-Identifier: Apache-2.0
"""The Python end of the control channel (docs/design/control-channel.md).

It is started in one of two ways:

  slow  `python3 .../glovebox_runner.py 20`: main() serves on that descriptor and never returns.
  warm  A template imports glovebox_runner_warm.py, which has that part.

This file has script mode. glovebox_runner_run.py has the channel and a context,
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

_DIRECTORY = os.path.dirname(os.path.abspath(__file__))
_MODULES = ("glovebox_runner", "glovebox_runner_run", "glovebox_runner_results", "glovebox_runner_warm", "_glovebox")

_CANARY = " canary"  # no identifier has a space

_run = None  # glovebox_runner_run
_Loader = _atexit = _ref = None  # see stage_script()


class Staged:
    """For script mode, of an interpreter that was made ready to be a context."""
    path = None     # sys.path as it was, when it has changed
    pyplot = {}     # names of matplotlib.pyplot that were patched, as they were
    modules = None  # names of all that are loaded
    places = {}     # file: its path and directory
    quiet = None    # len(threading._threading_atexits), atexit._ncallbacks()


def stage_script(run, files=()):
    """Looks up what a script's begin and end need: in a child of a template each import statement would cost copied pages."""
    global _run, _Loader, _atexit, _ref
    _run = run
    run.OURS.add(serve.__code__.co_filename)
    from _frozen_importlib_external import SourceFileLoader as _Loader
    from _weakref import ref as _ref
    loaded = "atexit" in sys.modules
    import atexit as _atexit
    if not loaded:
        del sys.modules["atexit"]
    for file in files:
        Staged.places[file] = _locate(file)
    Staged.modules = frozenset(sys.modules)
    if "threading" in sys.modules:
        Staged.quiet = _count_exits(sys.modules["threading"])


def _locate(file):
    """The path as the interpreter would have it in __file__, and the directory it is in."""
    path = os.path.abspath(file) if sys.version_info >= (3, 9) else file
    return path, os.path.dirname(os.path.realpath(path))


def _count_exits(threading):
    return len(getattr(threading, "_threading_atexits", ())), _atexit._ncallbacks()


def unstage():
    """For a script: as if no context had been made."""
    del sys.meta_path[0]
    if Staged.path is not None:
        sys.path[:] = Staged.path
    del builtins.display
    if Staged.pyplot:
        vars(sys.modules["matplotlib.pyplot"]).update(Staged.pyplot)


# Service


def serve(control_fd, leave=os._exit):
    """Serves on the descriptor until its other end is closed, then calls leave(status); never returns.

    The default of `leave` does not run what C libraries have registered with atexit(3), such as the
    last flush of C's own output buffers. A caller that can offers exit(3) itself.
    """
    global _run
    import glovebox_runner_run as run
    _run = run
    run.OURS.add(serve.__code__.co_filename)
    hide()
    channel, interrupts, config = run.open_channel(control_fd)
    if config.mode == "context":
        context = run.Context(channel, interrupts, config, leave, end_context)
        channel.send(run.make_ready())
        context.serve()
    channel.send(run.make_ready())
    stage_script(run)
    frame = channel.read()
    if frame is None:
        leave(0)
    run_script(channel, interrupts, config, frame[2], leave)


def hide():
    """The user's code finds no trace of the runner where modules are looked for."""
    for name in _MODULES:
        sys.modules.pop(name, None)
    # An ordinary start has '' or the script's directory in front; the mode puts it there.
    sys.path[:] = [entry for entry in sys.path if entry not in ("", _DIRECTORY)]
    sys.path_importer_cache.pop(_DIRECTORY, None)


# Script mode


def run_script(channel, interrupts, config, code, leave):
    """Becomes what `python3 FILE ARGUMENT...` would be, and ends as it would."""
    given = channel.take_descriptor()
    channel.close()
    if given >= 0:
        os.dup2(given, 0)
        os.close(given)
        sys.stdin = sys.__stdin__ = _run.make_stream(0, "stdin", _run.stream_kind("stdin"))
    status = _refuse_script() if given == _run.LOST else _write_script(config.file, code)
    if status == 0:
        path, directory = Staged.places.get(config.file) or _locate(config.file)
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
        status = _finish(status, _drop_modules, directory)
    _leave(status, leave)


def end_context(status, space, leave):
    """After the last run of a context: as a program with that run's status ends. `space` has its names."""
    if _atexit is None:
        stage_script(_run)
    _leave(_finish(status, _drop_names, space), leave)


def _leave(status, leave):
    if status == _run.DIED_BY_SIGINT:
        _set_handler(_SIGINT, _SIG_DFL)
        _kill(_getpid(), _SIGINT)
        status = 128 + _SIGINT
    leave(status & 0xff)


def _refuse_script():
    """Its standard input is lost. With an empty one it would do something else, and look fine."""
    sys.stderr.write("%s: %s\n" % (sys.executable, _run.LOST_INPUT))
    sys.stderr.flush()
    return 2


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
    return _run.DIED_BY_SIGINT if isinstance(error, KeyboardInterrupt) else 1


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


def _finish(status, drop, what):
    """What the interpreter does at its end, but for taking itself apart: that is slow when much is loaded."""
    threading = sys.modules.get("threading")
    if threading is not None:
        try:
            # Without another thread, and nobody who is called at the end and could see the difference, there is nothing to do.
            if _count_threads() > 0 or Staged.quiet != _count_exits(threading):
                threading._shutdown()
        except BaseException as error:
            _report_unraisable(error, threading, "threading shutdown")
    try:
        _atexit._run_exitfuncs()
    except BaseException:  # printed by then
        pass
    _atexit._clear()
    if not _flush_standard() and status != _run.DIED_BY_SIGINT:
        status = 120
    try:
        drop(what)
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
    _drop_last()
    # The first collection puts what refers before what is referred to. The second finalizes in that order:
    # a file's text before its buffer, and that before its descriptor.
    gc.collect()
    canaries = []
    for name in _new_modules(Staged.modules):
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


def _drop_names(space):
    """The same for the names of a context; modules stay as they are."""
    _drop_last()
    gc.collect()
    if len(sys._current_frames()) == 1:
        _clear_names(space)
        gc.collect()


def _drop_last():
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            setattr(sys, name, None)
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__


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
