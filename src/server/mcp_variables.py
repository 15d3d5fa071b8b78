# SPDX-License-Identifier: Apache-2.0
"""What session_info tells of the variables of a Python context: mcp_variables.c.

It runs in the user's interpreter, with globals of its own: `namespace` is the user's, `piece` is how many characters of a preview are
wanted. No name of his is used, so that one who calls a variable `list` does no harm, and none is left. Nothing of his is called
either: no __repr__, no __len__, no property. Asked are only builtins, and attributes of types that say they are of libraries
which are known to answer at once.
"""
import builtins
import sys

MIME = "application/vnd.glovebox.variables+json"
ROWS_MAX = 200
NAME_MAX = 120
BITS_MAX = 512             # of a number; more is slow to print
DEPTH_MAX = 3
PREVIEWS_MAX = 256 << 10   # characters of all of them
LIBRARIES = frozenset(("numpy", "pandas", "polars", "pyarrow", "scipy", "torch", "jaxlib", "cupy", "xarray"))
COUNTED = frozenset((list, dict, set, frozenset, tuple, str, bytes, bytearray, range))
PLAIN = COUNTED | frozenset((int, float, complex, bool, type(None)))
FUNCTIONS = frozenset((type(lambda: None), type(len), type([].append), type("".join), type(str.join), type(object().__str__)))
MODULE = type(sys)

type_name = type.__dict__["__name__"].__get__      # what a metaclass says of itself is not asked
type_module = type.__dict__["__module__"].__get__


def clean(text):
    """Printable, and so without what JSON or its readers refuse."""
    text = text[:NAME_MAX]
    return text if text.isprintable() else repr(text)[1:-1]


def library_of(kind):
    module = type_module(kind)
    root = module.partition(".")[0] if type(module) is str else ""
    return root if root in LIBRARIES else None


def show_items(values, depth, room, pair=False):
    parts, total = [], 0
    for item in values:
        if total > room:
            parts.append("...")
            break
        if pair:
            text = show(item[0], depth - 1, room - total) + ": " + show(item[1], depth - 1, room - total)
        else:
            text = show(item, depth - 1, room - total)
        parts.append(text)
        total += len(text) + 2
    return ", ".join(parts)


def show(value, depth, room):
    """As repr(), for builtins; others are named only."""
    kind = type(value)
    if value is None or kind is bool or kind is float or kind is complex:
        return repr(value)
    if kind is int:
        return repr(value) if value.bit_length() <= BITS_MAX else "<int of %d bits>" % value.bit_length()
    if kind is str or kind is bytes or kind is bytearray:
        return repr(value[:room + 1])
    if kind is range:
        return "range(%s)" % ", ".join(show(n, depth, room) for n in (value.start, value.stop, value.step))
    if kind not in COUNTED:
        return "<%s>" % clean(type_name(kind))
    if depth == 0:
        return "..."
    if kind is dict:
        return "{%s}" % show_items(value.items(), depth, room, True)
    inner = show_items(value, depth, room)
    if kind is list:
        return "[%s]" % inner
    if kind is tuple:
        return "(%s,)" % inner if len(value) == 1 else "(%s)" % inner
    return ("frozenset({%s})" if kind is frozenset else "{%s}") % inner if value else kind.__name__ + "()"


def shape_of(value):
    """"(3, 4)", or None."""
    shape = getattr(value, "shape", None)
    if not issubclass(type(shape), tuple) or not all(type(n) is int for n in shape):
        return None
    return repr(tuple(shape))


def describe(name, value, room):
    """[name, type, shape, size, preview]"""
    kind = type(value)
    if kind in FUNCTIONS:
        return [name, "function", None, None, ""]
    if issubclass(kind, type):
        return [name, "class", None, None, ""]
    row = [name, clean(type_name(kind)), None, None, ""]
    try:
        if kind in PLAIN:
            row[3] = sys.getsizeof(value)
            row[4] = show(value, DEPTH_MAX, room)[:room] if room > 0 else ""
            row[2] = str(len(value)) if kind in COUNTED else None
        elif library_of(kind):
            row[2] = shape_of(value)
            size = getattr(value, "nbytes", None)
            row[3] = size if type(size) is int else None
            if row[2] == "()" and room > 0:
                row[2], row[4] = None, show(value.item(), DEPTH_MAX, room)[:room]
    except Exception:  # what another thread changes meanwhile, a length beyond all bounds, a version that is unlike all others
        pass
    return row


def look():
    rows, more, room = [], 0, PREVIEWS_MAX
    for name in sorted([name for name in list(namespace) if type(name) is str and not name.startswith("_")]):
        value = namespace.get(name, sys)
        if issubclass(type(value), MODULE):
            continue
        if len(rows) == ROWS_MAX:
            more += 1
            continue
        # A shorter piece could end within a secret, and nobody would find it there.
        rows.append(describe(clean(name), value, piece if room >= piece else 0))
        room -= len(rows[-1][4])
    builtins.display({MIME: {"variables": rows, "more": more}}, raw=True)


try:
    look()
finally:
    globals().clear()
