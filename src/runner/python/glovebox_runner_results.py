# SPDX-License-Identifier: Apache-2.0
"""What becomes of values, displayed objects and figures: parts by MIME type, within the run's limits.

An object is asked for its representations as Jupyter does it: methods _repr_html_ and so on, found on
the object and never called on a class. Figures of matplotlib are sent by plt.show() and at the end of the run.

Nothing is imported before the user's code does. Where something is to be changed when he does (the
backend of matplotlib, plt.show, IPython.display), a finder in front of all others waits for the name.
"""
import builtins

__builtins__ = dict(vars(builtins))  # see glovebox_runner.py

import sys
from _frozen_importlib import ModuleSpec
from os import getpid

TEXT_BYTES_MAX = 1 << 20          # of a text/plain; the rest is cut out of its middle
PART_NAME_MAX = 127
PART_OVERHEAD = 16                # bytes of a part's line beside its name, at most

_PLAIN = frozenset((int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset, range, bytearray))
_METHODS = (("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"), ("_repr_svg_", "image/svg+xml"),
            ("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"), ("_repr_latex_", "text/latex"),
            ("_repr_json_", "application/json"))
_NOBODY_HAS_THIS = "_ipython_canary_method_should_not_exist_"
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+/;=-")
_modules = sys.modules


def make_frame(kind, seq, parts):
    payload = b"".join([b"%b %d\n%b" % (name, len(value), value) for name, value in parts])
    return b"%b %b %d\n%b" % (kind, seq, len(payload), payload)


def encode(text, limit):
    """UTF-8 of at most `limit` bytes; of a longer text the beginning and the end, and how long it was."""
    if len(text) * 10 <= limit:  # an escaped character has at most ten bytes
        return text.encode("utf-8", "backslashreplace")
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return data
    note = ("\n[... cut: %d characters in all ...]\n" % len(text)).encode()
    head, tail = data[:limit * 3 // 4], data[-(limit // 8):]
    return head.decode("utf-8", "ignore").encode() + note + tail.decode("utf-8", "ignore").encode()


# Representations


def represent(thing):
    """{MIME type: bytes} of an object. What repr() raises is raised; what the others raise is a note."""
    if type(thing) in _PLAIN:
        return {"text/plain": encode(repr(thing), TEXT_BYTES_MAX)}
    found = {}
    if not isinstance(thing, type):
        # An object that has every attribute one asks for (a mock, a proxy) has none of these.
        if getattr_quiet(thing, _NOBODY_HAS_THIS) is None:
            collect_rich(thing, found)
        if "image/png" not in found and is_figure(thing):
            found["image/png"] = draw(thing)
    if "text/plain" not in found:
        found["text/plain"] = repr(thing)
    return encode_bundle(found)


def getattr_quiet(thing, name):
    try:
        return getattr(thing, name, None)
    except Exception:
        return None


def collect_rich(thing, found):
    bundle = call_method(thing, "_repr_mimebundle_", include=None, exclude=None)
    if isinstance(bundle, dict):
        found.update(bundle)
    for method, mime in _METHODS:
        if mime not in found:
            value = call_method(thing, method)
            if value is not None:
                found[mime] = value


def call_method(thing, name, **arguments):
    """What the method gives; None where there is none. Metadata beside the data has no place in a frame."""
    method = getattr_quiet(thing, name)
    if not callable(method):
        return None
    try:
        value = method(**arguments)
    except NotImplementedError:
        return None
    except Exception as error:
        complain("%s of %s failed: %s" % (name, type(thing).__name__, describe(error)))
        return None
    return value[0] if type(value) is tuple and len(value) == 2 else value


def describe(error):
    try:
        return "%s: %s" % (type(error).__name__, error)
    except Exception:
        return type(error).__name__


def complain(text):
    try:
        sys.stderr.write("glovebox: %s\n" % text)
    except Exception:
        pass


def encode_bundle(found):
    """text/plain first. What is no MIME type, or has no bytes, is left out."""
    bundle = {"text/plain": None}
    for mime, value in found.items():
        if not isinstance(mime, str) or not 0 < len(mime) <= PART_NAME_MAX or not _NAME_CHARACTERS.issuperset(mime):
            continue
        try:
            data = encode_value(mime, value)
        except Exception as error:
            complain("%s is left out: %s" % (mime, describe(error)))
            continue
        if data is not None:
            bundle[mime] = data
    if bundle["text/plain"] is None:
        del bundle["text/plain"]
    return bundle


def encode_value(mime, value):
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str) and not mime.endswith("json"):
        if mime == "text/plain":
            return encode(value, TEXT_BYTES_MAX)
        if mime.startswith("image/") and mime != "image/svg+xml" or mime == "application/pdf":
            import binascii
            return binascii.a2b_base64(value)
        return value.encode("utf-8", "backslashreplace")
    import json
    return json.dumps(value).encode("utf-8", "backslashreplace")


# The results of a run


class Results:
    def __init__(self, context, count_max, bytes_max):
        self.context, self.count_max, self.bytes_max = context, count_max, bytes_max
        self.seq = None          # of the run that is going on
        self.pending = b""       # frames for the end of the run
        self.count = self.total = 0
        self.shown = []          # figures that need not be shown at the end
        self.hooks = {"linecache": context.fill_linecache, "matplotlib": settle_matplotlib,
                      "matplotlib.pyplot": self.patch_pyplot, "IPython": None, "IPython.display": self.patch_ipython}
        for name, hook in self.hooks.items():
            if name in _modules and hook is not None:
                hook(_modules[name])
        sys.meta_path.insert(0, Finder(self.hooks, self.fill_ipython))
        builtins.display = self.display = self.make_display()

    def begin(self, seq):
        self.seq, self.pending = seq, b""
        self.count = self.total = 0

    def end(self):
        self.seq = None
        if self.shown:
            self.shown = []

    def set_value(self, value):
        """The value of the last expression: sent with the end of the run."""
        parts = self.fit(represent(value))
        self.note_figure(value)
        if parts is not None:
            self.pending += make_frame(b"R", self.seq, parts)

    def make_display(self):
        def display(*objects, raw=False, include=None, exclude=None, **_):
            """Shows objects by their richest representations. raw: they are dictionaries of MIME types."""
            for thing in objects:
                show = None if raw or isinstance(thing, type) else getattr_quiet(thing, "_ipython_display_")
                if callable(show) and getattr_quiet(thing, _NOBODY_HAS_THIS) is None:
                    show()
                    continue
                bundle = encode_bundle(dict(thing)) if raw else represent(thing)
                self.show({mime: data for mime, data in bundle.items()
                           if (not include or mime in include) and (not exclude or mime not in exclude)})
                self.note_figure(thing)
        display.__module__ = "builtins"
        return display

    def show(self, bundle):
        """Sends it now. Outside of a run, and in a child of the user's code, it is printed."""
        context = self.context
        if self.seq is None or getpid() != context.pid:
            sys.stdout.write(bundle.get("text/plain", b"").decode() + "\n")
            return
        parts = self.fit(bundle)
        if parts is not None:
            context.streams.flush()
            context.interrupts.guard(context.channel.send, make_frame(b"P", self.seq, parts))

    def fit(self, bundle):
        """The parts as they go into a frame, within what is left of the run's limits; None: not at all."""
        self.count += 1
        if self.count > self.count_max:
            if self.count == self.count_max + 1:
                complain("more than %d results in one run: this one and those after it are left out" % self.count_max)
            return None
        parts = [(mime.encode("ascii"), data) for mime, data in bundle.items()]
        size = measure(parts)
        left = self.bytes_max - self.total
        if size > left:
            parts = self.replace(bundle, left)
            if parts is None:
                complain("a result of %d bytes is left out: a run's may have %d together" % (size, self.bytes_max))
                return None
            size = measure(parts)
        self.total += size
        return parts

    def replace(self, bundle, left):
        """A text that names what does not fit, after the object's own text where there is room for it."""
        large = ", ".join("%s of %d bytes" % (mime, len(data)) for mime, data in bundle.items())
        note = encode("[left out: %s; the results of a run may have %d bytes together]" % (large, self.bytes_max), 4096)
        text = bundle.get("text/plain")
        for value in ((text + b"\n" + note, note) if text is not None and len(bundle) > 1 else (note,)):
            parts = [(b"text/plain", value)]
            if measure(parts) <= left:
                return parts
        return None

    # matplotlib

    def patch_pyplot(self, pyplot):
        original = pyplot.show

        def show(*args, **kwargs):
            if not is_agg():
                return original(*args, **kwargs)
            self.send_figures(lambda figure: self.show(represent(figure)))
        show.__doc__, show.__module__, show.__qualname__ = original.__doc__, original.__module__, "show"
        pyplot.show = show

    def note_figure(self, thing):
        if is_figure(thing):
            self.shown.append(thing)

    def end_figures(self, wanted):
        """At the end of the run: shows those still open, and closes them. Another backend has its own ways."""
        helpers = _modules["matplotlib._pylab_helpers"]
        if helpers.Gcf.figs and is_agg():
            self.send_figures(self.append_figure if wanted else lambda figure: None)

    def append_figure(self, figure):
        if not any(figure is other for other in self.shown) and self.count <= self.count_max:
            parts = self.fit(represent(figure))
            if parts is not None:
                self.pending += make_frame(b"P", self.seq, parts)

    @staticmethod
    def send_figures(send):
        gcf = _modules["matplotlib._pylab_helpers"].Gcf
        try:
            for manager in gcf.get_all_fig_managers():
                send(manager.canvas.figure)
        finally:
            gcf.destroy_all()

    # IPython.display, where there is none

    def patch_ipython(self, module):
        module.display = self.display

    def fill_ipython(self, module):
        if module.__name__ == "IPython":
            module.__path__ = []
            module.get_ipython = lambda: None  # libraries ask, and take None for an answer
            module.version_info = (0, 0, 0)
            return
        for name, mime in (("HTML", "text/html"), ("Markdown", "text/markdown"), ("SVG", "image/svg+xml"),
                           ("Latex", "text/latex"), ("JSON", "application/json"), ("Image", "image/png")):
            setattr(module, name, type(name, (Shown,), {"mime": mime, "__module__": module.__name__}))
        module.display = self.display
        module.clear_output = lambda wait=False: None


class Shown:
    """The common part of IPython.display.HTML and its kin: data, or a file that has it."""
    mime = "text/plain"

    def __init__(self, data=None, url=None, filename=None, **_):
        if url is not None:
            raise ValueError("an object of a URL cannot be shown here: fetch it and give its data")
        if filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
        self.data = data

    def _repr_mimebundle_(self, include=None, exclude=None):
        data, mime = self.data, self.mime
        if mime == "image/png" and isinstance(data, str):
            with open(data, "rb") as file:
                data = file.read()
        if mime == "image/png" and data[:3] == b"\xff\xd8\xff":
            mime = "image/jpeg"
        return {mime: data}


def measure(parts):
    return sum([len(name) + len(data) + PART_OVERHEAD for name, data in parts])


def settle_matplotlib(matplotlib):
    from os import environ
    if "MPLBACKEND" not in environ:
        matplotlib.rcParams["backend"] = "agg"


def is_figure(thing):
    figure = getattr(_modules.get("matplotlib.figure"), "Figure", None)
    return figure is not None and isinstance(thing, figure)


def is_agg():
    return str(_modules["matplotlib"].get_backend()).lower() == "agg"


def draw(figure):
    import io
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight" if figure.axes else None)
    return file.getvalue()


# Imports of the user's code that need a hand


class Finder:
    def __init__(self, hooks, fill):
        self.hooks, self.fill = hooks, fill

    def find_spec(self, name, path=None, target=None):
        if name not in self.hooks:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    if self.hooks[name] is not None and spec.loader is not None:
                        spec.loader = Loader(spec.loader, self.hooks[name])
                    return spec
        if name.startswith("IPython"):
            return ModuleSpec(name, StandIn(self.fill), is_package=name == "IPython")
        return None


class Loader:
    """Loads as the true loader does, and is gone from the module before its code runs."""

    def __init__(self, loader, hook):
        self.loader, self.hook = loader, hook

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        try:
            self.hook(module)
        except Exception as error:  # a version that is unlike all others
            complain("%s is used as it is: %s" % (module.__name__, describe(error)))


class StandIn:
    def __init__(self, fill):
        self.fill = fill

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self.fill(module)
