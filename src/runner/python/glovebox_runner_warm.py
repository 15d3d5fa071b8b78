# SPDX-License-Identifier: Apache-2.0
"""The runner in a template: an interpreter that makes itself ready, and is forked.

A template imports this module and whatever it is a template of, calls prepare() once, and forks. In each child
serve() is called with the child's descriptor and never returns.

In Python to look at an object is to write to it, since it counts who refers to it; and what a child writes to is
copied for it, a page at a time. So whatever can be is done, looked up or made before the fork.
"""
import builtins

__builtins__ = dict(vars(builtins))  # see glovebox_runner.py

import gc
import os
import sys
from os import getpid as _getpid
from os import urandom

import glovebox_runner as _runner
import glovebox_runner_run as _run

_CONTROL = 20  # BOX_CONTROL_FD, where a child finds its channel


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
    import _socket
    import linecache
    import traceback
    _run.OURS.add(prepare.__code__.co_filename)
    _settle_matplotlib(sys.modules)
    _forget_random(sys.modules.get)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    _stage()
    _runner.stage_script(_run, [config.file for config in _Staged.configs.values() if config.file])
    # What lives now lives until the end: a collection in a child that went through all of it would
    # copy every page of it.
    gc.collect()
    gc.freeze()


class _Staged:
    """A context made ahead, which every child has: making one would copy a thousand pages."""
    context = None
    ready = b""   # the answer to a configuration
    configs = {}  # the usual ones, as they are sent, and what is in them


_REHEARSAL = (b"1+1", b"x = 1", b"print(x)", b"import sys\nx += 1\nx", b"def f():\n    return 1\nf()", b"1/0", b"")


def _stage():
    """Makes the context that children will serve, on a channel that is not there yet, and rehearses: code that has
    run a few times is specialised by then, and what is made at a first use is made."""
    import socket
    pyplot = vars(sys.modules["matplotlib.pyplot"]) if "matplotlib.pyplot" in sys.modules else {}
    before = dict(pyplot)
    _runner.hide()
    path = list(sys.path)
    ours, theirs = socket.socketpair()
    former = _occupy(theirs)
    null = os.open(os.devnull, os.O_RDWR)
    out, err = os.dup(1), os.dup(2)
    os.dup2(null, 1)
    os.dup2(null, 2)
    channel, interrupts = _run.Channel(_CONTROL), _run.Interrupts()
    context = _run.Context(channel, interrupts, _run.Config(b""), os._exit, _runner.end_context)
    for number in range(10):
        for code in _REHEARSAL:
            ours.sendall(b"E %d %d\n%s" % (number, len(code), code))
            kind, seq, payload = channel.read()
            frames = context.run(seq, payload)
            context.results.end()
            channel.send(frames + (context.done or _run._OK % seq))
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
    _runner.Staged.path = path if path != sys.path else None
    _runner.Staged.pyplot = {name: old for name, old in before.items() if pyplot[name] is not old}
    _Staged.ready = _run.make_ready()
    _Staged.configs = {payload: _run.Config(payload) for payload in (_Trial.config, _Trial.script) if _changes_nothing(payload)}
    _Staged.context = context


def _changes_nothing(config):
    """Whether its variables are there already."""
    given = [os.fsdecode(value).partition("=") for name, value in _run.parse_parts(config) if name == "env"]
    return all(os.environ.get(name) == value for name, _, value in given)


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


def expect(pid, begin):
    """In the template, at last: children have this process id, and know it already. For others there is after_fork(). begin is
    called when it is known whether a child is a script."""
    _Fresh.begin = begin
    if _Fresh.thread is not None:
        _Fresh.thread._native_id = pid
    _Staged.context.pid = pid
    return None if _Fresh.reseed else _Fresh.places


def serve(control_fd, leave=os._exit, renewed=False):
    """In a child: serves on the descriptor, as glovebox_runner.serve() does. renewed: what after_fork() does has been done."""
    if not renewed:
        after_fork()
        _Staged.context.pid = _getpid()
    _serve(control_fd, leave)


def _serve(control_fd, leave):
    """With the context that was made ahead."""
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
    _runner.unstage()
    _runner.run_script(channel, context.interrupts, config, frame[2], leave)


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
    _serve(_CONTROL, int)  # which takes the status, and comes back
    return _remove_script


def _remove_script():
    for file in _runner.Staged.places:
        os.unlink(file)
