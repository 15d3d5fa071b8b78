# SPDX-License-Identifier: Apache-2.0
"""154. The value of a run is hostile: its repr() is a gigabyte, recursive, forks, raises, sleeps or kills, its class lies =>
it is computed inside, under the limits of the run, and comes as bytes.
"""
import pytest
from hostile_sessions import assert_works, good, memory_of, witness
from session_fixtures import cold_sessions, own_warden, sessions, warm_sessions

LIAR = """
class Meta(type):
    def __instancecheck__(cls, x): return True
    def __subclasscheck__(cls, x): return True
    def __getattribute__(cls, name): return {'__name__': 7, '__module__': None, '__mro__': ()}.get(name, 3)
    def __call__(cls, *a): return object.__new__(cls)
    def __eq__(cls, other): return True
    def __hash__(cls): return 1
    def __repr__(cls): return 5
class Liar(metaclass=Meta):
    def __getattribute__(self, name): return lambda *a, **k: (1, 2, 3)
    def __eq__(self, other): return True
    def __bool__(self): raise SystemExit(0)
    def __hash__(self): return 1
    def __repr__(self): return 'liar'
    def __str__(self): return 3
"""

# Code, the verdict, and either the text of the value or the name of the exception.
VALUES = {
    "raises": ("class A:\n    def __repr__(self): raise KeyError('x')\nA()", "error", "KeyError"),
    "raises SystemExit(0)": ("class A:\n    def __repr__(self): raise SystemExit(0)\nA()", "ok", None),
    "raises SystemExit(1)": ("class A:\n    def __repr__(self): raise SystemExit(1)\nA()", "error", "SystemExit"),
    "raises StopIteration": ("class A:\n    def __repr__(self): raise StopIteration\nA()", "error", "StopIteration"),
    "raises what cannot be described": ("class E(Exception):\n    def __str__(self): raise self\nclass A:\n    def __repr__(self): raise E\nA()", "error", "E"),
    "is no text": ("class A:\n    def __repr__(self): return b'x'\nA()", "error", "TypeError"),
    "is recursive": ("class A:\n    def __repr__(self): return repr(self)\nA()", "error", "RecursionError"),
    "contains itself": ("x = []\nx.append(x)\nx", "ok", "[[...]]"),
    "is a subclass of str": ("class S(str):\n    def encode(self, *a): return b'forged'\n    def __len__(self): return 1\n    def __mul__(self, n): return 1\n"
                             "class A:\n    def __repr__(self): return S('true')\nA()", "ok", None),
    "lies about its class": ("class A:\n    @property\n    def __class__(self): return int\n    def __repr__(self): return 'an int'\nA()", "ok", "an int"),
    "its class raises": ("class A:\n    @property\n    def __class__(self): raise ZeroDivisionError\n    def __repr__(self): return 'a'\nA()", None, None),
    "is a class of a lying class": (LIAR + "Liar", None, None),
    "is a liar": (LIAR + "Meta.__call__(Liar)", None, None),
    "fails with a liar": (LIAR + "class E(Exception, metaclass=Meta): pass\nraise BaseException.__new__(E)", "error", None),
    "is deep": ("x = []\nfor i in range(100000): x = [x]\nx", "error", "RecursionError"),
    "prints, displays, and runs code": ("class A:\n    def __repr__(self):\n        print('p'); display('d'); exec('y = 1', globals()); return 'a'\nA()", "ok", "a"),
    "has all attributes": ("class A:\n    def __getattr__(self, name): return self\n    def __call__(self, *a, **k): return self\n    def __repr__(self): return 'a'\nA()", "ok", "a"),
    "gives hostile bundles": ("class D(dict):\n    def items(self): return iter([(1, 2), ('a', object()), (None, None), ('text/plain', 'mine')])\n"
                              "class A:\n    def _repr_mimebundle_(self, **k): return D(a=1)\nA()", None, None),
    "has parts that raise": ("class A:\n    def _repr_html_(self): raise MemoryError\n    def _repr_png_(self): raise ValueError\n    def __repr__(self): return 'a'\nA()", "ok", "a"),
}


@pytest.mark.parametrize("what", VALUES)
def test_values(warm_sessions, what):
    assert_survives(warm_sessions.context({"timeout": "5s"}), what)


@pytest.mark.parametrize("what", ["raises", "is recursive", "is a liar", "fails with a liar"])
def test_values_in_a_fresh_one(cold_sessions, what):
    assert_survives(cold_sessions.context({"timeout": "5s"}), what)


def assert_survives(context, what):
    """The interpreter goes on after each of them."""
    code, verdict, expected = VALUES[what]
    good(context, "mark = 1")
    result = context.run(code)
    assert result.verdict == verdict if verdict else result.verdict in ("ok", "error"), result
    if verdict == "ok" and expected:
        assert result.text == expected, result
    elif verdict == "error" and expected:
        assert result.error["name"] == expected, result
    assert result.kept and good(context, "mark").text == "1", result
    assert_works(context)


# Limits hold while a value is made.

def needs_cgroup(sessions):
    if sessions.weaker:
        pytest.skip("this host gives no cgroup to this user")


LARGE = {
    "repr": "class A:\n    def __repr__(self): return 'x' * (1 << 30)\nA()",
    "png": "class A:\n    def _repr_png_(self): return b'x' * (1 << 30)\nA()",
    "html in parts": "class A:\n    def _repr_html_(self): return ''.join(['x' * (1 << 20)] * 1024)\nA()",
    "message of an exception": "raise ValueError('x' * (1 << 30))",
}


@pytest.mark.parametrize("what", LARGE)
def test_gigabytes(sessions, witness, what):
    needs_cgroup(sessions)
    context = sessions.context({"mem_limit": "64m", "timeout": "10s"})
    before = memory_of("self")
    result = context.run(LARGE[what])
    assert result.verdict == "memory" or (result.verdict == "error" and result.error["name"] == "MemoryError"), result
    assert memory_of("self") - before < 32 << 20, "nothing of it was made here"
    assert_works(context)


def test_large_values_are_cut(sessions, witness):
    context = sessions.context({"result_limit": "2m"})
    result = good(context, "'x' * (8 << 20)")
    assert len(result.value["text/plain"]) <= 1 << 20 and b"8388610 characters in all" in result.value["text/plain"]
    result = good(context, "class A:\n    def _repr_png_(self): return b'x' * (8 << 20)\n    def __repr__(self): return 'a'\nA()")
    assert set(result.value) == {"text/plain"} and b"8388608 bytes" in result.value["text/plain"]
    failed = context.run("raise ValueError('x' * (8 << 20))")
    assert len(failed.error["value"]) <= 64 << 10 and len(failed.error["traceback"]) <= 256 << 10
    chained = context.run("def f(n):\n    try:\n        if n: f(n - 1)\n        raise ValueError('y' * 100000)\n    except ValueError as e: raise KeyError('z' * 100000) from e\nf(30)")
    assert (chained.verdict, len(chained.error["traceback"]) <= 256 << 10) == ("error", True)


def test_value_that_sleeps(sessions, witness):
    context = sessions.context({"timeout": "3s"})
    for code in ("import time\nclass A:\n    def __repr__(self): time.sleep(60)\nA()", "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E"):
        result = context.run(code)
        assert (result.verdict, result.kept, result.results) == ("timeout", True, []), result
    assert_works(context)


def test_value_that_forks(sessions, witness):
    """The child makes a text of its own and comes back into the runner: it sends nothing."""
    context = sessions.context()
    result = good(context, "import os\nclass A:\n    def __repr__(self):\n        global child\n        child = os.fork()\n        if child: os.waitpid(child, 0)\n        return 'parent' if child else 'child'\nA()")
    assert result.text == "parent", result
    assert_works(context)


@pytest.mark.parametrize("code, exit_code, number", [("os.kill(os.getpid(), 9)", -1, 9), ("os._exit(0)", 0, 0), ("os._exit(4)", 4, 0), ("os.abort()", -1, 6)])
def test_value_that_kills(sessions, code, exit_code, number):
    context = sessions.context()
    result = context.run(f"import os\nclass A:\n    def __repr__(self): {code}\nA()")
    assert (result.verdict, result.exit_code, result.signal, result.kept, result.results) == ("ok" if exit_code == 0 else "error", exit_code, number, False, []), result
    assert_works(context)


def test_storm_of_finalizers(sessions, witness):
    """Objects that die at the end of the run, come back, and show something: they belong to this run or to the next, never to both."""
    context = sessions.context({"timeout": "10s"})
    code = """
import gc
class A:
    def __init__(self, n): self.n, self.me = n, self
    def __del__(self):
        if self.n: A(self.n - 1)
        display('d')
    def __repr__(self):
        gc.collect()
        return 'a'
for i in range(50): A(20)
A(3)
"""
    result = good(context, code)
    assert result.text == "a" and len(result.results) <= 64
    shown = len(result.displayed) + result.dropped
    assert good(context, "import gc\ngc.collect()\n1").text == "1"
    assert shown > 0
