# SPDX-License-Identifier: Apache-2.0
"""The Python runner in context mode: values, results, figures, await, errors, standard streams."""
import re
import subprocess
import time

import pytest
from python_client import PNG, PYTHON, VERSION, Runner, binary, clean_environ, has_module, needs, runner


# Namespace and values


def test_names_persist(runner):
    assert re.fullmatch(r"3\.\d+\.\d+\S*", runner.version)
    runner.good("x = 1\ndef f(): return x")
    runner.good("x += 1")
    assert runner.good("f()").value == "2"


@pytest.mark.parametrize("code, value", [
    ("1 + 1", "2"), ("x = 5\nx", "5"), ("x = 5", None), ("None", None), ("5;", None), ("5 ; # quiet", None), ("'a;'", "'a;'"), ("5 # ;", "5"),
    ("(1,\n 2);", None), ("(1,\n 2)", "(1, 2)"), ("'é';", None), ("if 1:\n  7", None), ("", None), ("# nothing", None), ("'doc'", "'doc'"),
    ("1\r\n2\r\n", "2"), ("\ufeff3", "3"), ("for i in range(3): i", None), ("x = 1; x", "1"), ("'''a\nb'''", "'a\\nb'"), ("...", "Ellipsis")])
def test_value_of_the_last_expression(runner, code, value):
    assert runner.good(code.encode()).value == value


def test_underscore_is_the_last_value(runner):
    runner.good("6 * 7")
    assert runner.good("_ + 1").value == "43"
    for code in ("None", "x = 1", "99;"):
        runner.good(code)
    assert runner.good("_").value == "43"
    runner.good("_ = 'mine'")
    runner.good("1000")
    assert runner.good("_").value == "'mine'"


def test_namespace_looks_like_an_interactive_one(runner):
    code = "print(sorted(globals()), __name__, __spec__, __loader__, '__file__' in globals(), __builtins__.len is len)\nimport sys\n"
    fresh = subprocess.run([PYTHON, "-i"], input=code.encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, env=clean_environ()).stdout.decode()
    assert runner.good(code).out == fresh
    assert runner.good("import __main__\n__main__.__dict__ is globals(), sys.argv").value == "(True, [''])"
    expected = subprocess.run([PYTHON, "-c", "import sys; print(sys.path)"], stdout=subprocess.PIPE, check=True, env=clean_environ()).stdout.decode()
    assert runner.good("print(sys.path)").out == expected
    assert runner.good("[m for m in sys.modules if 'glovebox' in m]").value == "[]"
    assert runner.run("import glovebox_runner").error["name"] == "ModuleNotFoundError"


def test_future_imports_persist(runner):
    runner.good("from __future__ import annotations")
    assert runner.good("def f(a: nonsense): pass\nf.__annotations__").value == "{'a': 'nonsense'}"


def test_code_too_deep_for_a_tree_still_runs(runner):
    # The compiler takes some thousand terms; as a tree of Python objects that is too deep for some versions.
    assert runner.run("y = " + "+".join(["1"] * 2000) + "\nprint(y)").out in ("2000\n", "")
    assert runner.run("-" * 100000 + "1").status == "error"
    assert runner.good("1 + 1").value == "2"


def test_large_code_and_much_output(runner):
    assert runner.good("x = '" + "a" * 3000000 + "'\nlen(x)").value == "3000000"
    runner.start("print('b' * 1000000)")
    runner.wait_for("b" * 1000000)
    assert runner.finish().status == "ok"


# Representations

RICH = """
class Rich:
    def __init__(self, **values): self.values = values
    def __repr__(self): return 'rich'
    def __getattr__(self, name):
        values = self.__dict__.get('values', {})
        if name in values: return lambda **_: values[name]
        raise AttributeError(name)
"""


def test_rich_representations(runner):
    runner.good(RICH)
    run = runner.good("""Rich(_repr_html_='<b>', _repr_png_=b'\\x89png', _repr_jpeg_='/9j/', _repr_svg_='<svg/>', _repr_json_={'a': [1]},
                         _repr_markdown_=('*m*', {'meta': 1}), _repr_latex_='$x$')""")
    assert run.of("R") == [{"text/plain": b"rich", "text/html": b"<b>", "image/png": b"\x89png", "image/jpeg": b"\xff\xd8\xff",
                            "image/svg+xml": b"<svg/>", "application/json": b'{"a": [1]}', "text/markdown": b"*m*", "text/latex": b"$x$"}]


def test_mime_bundle(runner):
    runner.good(RICH)
    run = runner.good("Rich(_repr_mimebundle_=({'text/plain': 'p', 'application/x.y+json': {'k': 1}, 'bad name': 'x', 3: 'y', 'a' * 128: 'z'}, {}),"
                      " _repr_html_='<i>')")
    assert run.of("R") == [{"text/plain": b"p", "application/x.y+json": b'{"k": 1}', "text/html": b"<i>"}]


def test_representations_that_fail(runner):
    run = runner.run("class A:\n def _repr_html_(self): raise ValueError('no html')\n def __repr__(self): return 'a'\nA()")
    assert (run.status, run.value, list(run.of("R")[0])) == ("ok", "a", ["text/plain"])
    assert "_repr_html_ of A failed: ValueError: no html" in run.err
    run = runner.run("class B:\n def _repr_html_(self): raise NotImplementedError\nB")
    assert run.value == "<class '__main__.B'>" and run.err == ""
    assert list(runner.good("B()").of("R")[0]) == ["text/plain"]
    assert list(runner.good("from unittest.mock import MagicMock\nMagicMock()").of("R")[0]) == ["text/plain"]
    error = runner.run("class C:\n def __repr__(self): return 1 / 0\nC()").error
    assert error["name"] == "ZeroDivisionError" and "glovebox" not in error["traceback"] and "return 1 / 0" in error["traceback"]
    assert runner.run("class D:\n def __repr__(self): return repr(self)\nD()").error["name"] == "RecursionError"
    assert runner.run("class E:\n def __repr__(self): raise SystemExit(4)\nE()").error["name"] == "SystemExit"
    assert runner.good("1").value == "1"


def test_huge_text_is_cut(runner):
    text = runner.good("'x' * 5000000").value
    assert 900000 < len(text) <= 1 << 20 and "cut: 5000002 characters in all" in text and text[0] == text[-1] == "'"
    assert runner.good("class S:\n def __repr__(s): return 'a\\ud800b'\nS()").value == "a\\ud800b"


def test_display(runner):
    runner.good(RICH)
    run = runner.good("print('before')\ndisplay(1, Rich(_repr_html_='<b>'))\ndisplay({'text/plain': 'p', 'image/png': b'x'}, raw=True)\nprint('after')\n3")
    assert [kind for kind, _ in run.frames] == ["P", "P", "P", "R"]
    assert run.of("P") == [{"text/plain": b"1"}, {"text/plain": b"rich", "text/html": b"<b>"}, {"text/plain": b"p", "image/png": b"x"}]
    assert run.out == "before\nafter\n"


def test_output_is_there_before_the_frame(runner):
    runner.start("import time\nprint('before')\ndisplay(1)\nprint('after')\ntime.sleep(0.3)")
    assert runner.frame()[0] == "P"
    assert runner.drain(runner.process.stdout) == "before\n"
    runner.finish()


def test_display_from_threads_makes_whole_frames(runner):
    run = runner.good("""
        from threading import Thread
        threads = [Thread(target=lambda: [display('x' * 20000) for _ in range(5)]) for _ in range(6)]
        for t in threads: t.start()
        display('main')
        for t in threads: t.join()
    """)
    assert len(run.of("P")) == 31 and {len(p["text/plain"]) for p in run.of("P")} == {20002, 6}


def test_display_outside_of_a_run_is_printed(runner):
    runner.start("import threading, time, os\nthreading.Thread(target=lambda: (time.sleep(.5), display('late'), os.write(1, b'!'))).start()")
    runner.finish()
    runner.wait_for("!")
    assert runner.good("print('flushed')").out.startswith("'late'\n")


def test_ipython_display_without_ipython(runner):
    run = runner.run("from IPython.display import display, HTML, Image, SVG, Markdown, JSON, Latex\n"
                     "display(HTML('<p>'), Markdown('*'), JSON({'a': 1}), Image(b'\\xff\\xd8\\xff'), Image(data=b'\\x89PNG\\r\\n\\x1a\\n'), SVG('<svg/>'), Latex('$'))")
    assert run.status == "ok", run
    shown = [{mime: data for mime, data in parts.items() if mime != "text/plain"} for parts in run.of("P")]
    if not has_module("IPython"):
        assert shown == [{"text/html": b"<p>"}, {"text/markdown": b"*"}, {"application/json": b'{"a": 1}'}, {"image/jpeg": b"\xff\xd8\xff"},
                         {"image/png": PNG}, {"image/svg+xml": b"<svg/>"}, {"text/latex": b"$"}]
        assert runner.run("import IPython.nonsense").error["name"] == "ModuleNotFoundError"
    assert shown[0] == {"text/html": b"<p>"}


@needs("pandas")
def test_pandas_tables(runner):
    (parts,) = runner.good("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\ndf").of("R")
    assert parts["text/plain"] == b"   a\n0  1\n1  2" and b"<table" in parts["text/html"]


# Limits


def test_results_are_counted():
    with Runner(count=b"3") as runner:
        run = runner.run("for i in range(5): display(i)\n'value'")
        assert [parts["text/plain"] for parts in run.of("P")] == [b"0", b"1", b"2"] and run.value is None and run.status == "ok"
        assert run.err.count("more than 3 results") == 1
        assert runner.good("1").value == "1"  # each run has its own count


def test_results_have_a_size_together():
    with Runner(limit=b"20000") as runner:
        runner.good(RICH)
        run = runner.good("display(Rich(_repr_html_='h' * 15000))\ndisplay(Rich(_repr_png_=b'p' * 15000))\nRich(_repr_html_='x')")
        first, second = run.of("P")
        assert len(first["text/html"]) == 15000
        assert list(second) == ["text/plain"]
        assert re.match(rb"rich\n\[left out: .*image/png of 15000 bytes; .* 20000 bytes together\]", second["text/plain"])
        assert run.of("R") == [{"text/plain": b"rich", "text/html": b"x"}]
        run = runner.run("for i in range(60): display('y' * 1000)")
        assert sum(len(parts["text/plain"]) for parts in run.of("P")) <= 20000 and "left out" in run.err


# matplotlib


@needs("matplotlib")
class TestMatplotlib:
    @pytest.fixture(autouse=True)
    def own_cache(self, tmp_path):
        self.environ = {"MPLCONFIGDIR": str(tmp_path)}
        with Runner(environ=self.environ) as self.runner:
            self.runner.run("import matplotlib.font_manager")  # may say that it makes its cache
            yield

    def test_figures_come_at_show_and_at_the_end(self):
        run = self.runner.good("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('shown')\nplt.plot([3]); plt.figure(); plt.plot([4]);")
        assert [kind for kind, _ in run.frames] == ["P", "P", "P"]
        for parts in run.of("P"):
            assert parts["image/png"].startswith(PNG) and parts["text/plain"] == b"<Figure size 640x480 with 1 Axes>"
        assert self.runner.good("plt.get_fignums()").value == "[]"
        assert self.runner.good("plt.get_backend()").value.lower() == "'agg'"

    def test_figure_as_value_or_displayed_comes_once(self):
        run = self.runner.good("from matplotlib import pyplot as plt\nfig, ax = plt.subplots()\nfig")
        assert [kind for kind, _ in run.frames] == ["R"] and run.of("R")[0]["image/png"].startswith(PNG)
        run = self.runner.good("fig, ax = plt.subplots()\ndisplay(fig)")
        assert [kind for kind, _ in run.frames] == ["P"] and run.of("P")[0]["image/png"].startswith(PNG)

    def test_error_keeps_the_figure_and_interrupt_drops_it(self):
        run = self.runner.run("import matplotlib.pyplot as plt\nplt.plot([1])\n1/0")
        assert [kind for kind, _ in run.frames] == ["P", "X"] and run.status == "error"
        self.runner.start("import time\nplt.plot([1])\nprint('on', flush=True)\ntime.sleep(60)")
        self.runner.wait_for("on")
        self.runner.interrupt()
        assert [kind for kind, _ in self.runner.finish().frames] == ["X"]
        assert self.runner.good("plt.get_fignums()").value == "[]"

    def test_figure_that_cannot_be_drawn_is_an_error(self):
        error = self.runner.run("import matplotlib.pyplot as plt\nplt.title('$\\\\nonsense$')").error
        assert error["name"] == "ValueError" and "glovebox" not in error["traceback"]
        assert self.runner.good("plt.get_fignums()").value == "[]"
        error = self.runner.run("plt.title('$\\\\nonsense$')\nplt.show()").error
        assert "line 2, in <module>" in error["traceback"] and "glovebox" not in error["traceback"]

    def test_backend_of_the_users_choice(self):
        run = self.runner.good("import matplotlib\nmatplotlib.use('svg')\nimport matplotlib.pyplot as plt\nplt.plot([1])\nplt.get_backend()")
        assert run.value.lower() == "'svg'" and not run.of("P")
        assert self.runner.good("plt.get_fignums()").value == "[1]"
        assert len(self.runner.good("matplotlib.use('Agg')\nplt.plot([1])\nplt.show()").of("P")) == 1

    def test_limits_hold_for_figures(self):
        with Runner(count=b"2", limit=b"20000", environ=self.environ) as runner:
            run = runner.run("import matplotlib.pyplot as plt\nfor i in range(4): plt.figure(); plt.plot(range(i + 2)); plt.show()\n")
            assert len(run.of("P")) == 2, run
            assert re.search(rb"left out: .*image/png of \d+ bytes", run.of("P")[1]["text/plain"])


def test_nothing_is_imported_by_us(runner):
    code = "import sys\n[m for m in ('matplotlib', 'numpy', 'asyncio', 'json', 'IPython', 're', 'traceback', 'threading', 'signal') if m in sys.modules]"
    fresh = subprocess.run([PYTHON, "-c", code.replace("\n", "; print(") + ")"], stdout=subprocess.PIPE, check=True, env=clean_environ()).stdout.decode()
    assert runner.good(code).value + "\n" == fresh


# Await


def test_top_level_await(runner):
    assert runner.good("import asyncio\nawait asyncio.sleep(0.01, 'slept')").value == "'slept'"
    runner.good("async def work():\n    await asyncio.sleep(.05)\n    return 8")
    runner.good("lock = asyncio.Lock()\nawait lock.acquire()\ntask = asyncio.create_task(work())")
    assert runner.good("(await task, lock.locked())").value == "(8, True)"
    assert runner.good("asyncio.run(work())").value == "8"
    assert runner.good("await asyncio.sleep(0, 'again')").value == "'again'"
    assert runner.good("async def each():\n    yield 1\n    yield 2\nfound = []\nasync for x in each(): found.append(x)\nfound").value == "[1, 2]"


def test_errors_in_await(runner):
    error = runner.run("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    1 / 0\nawait f()").error
    assert error["name"] == "ZeroDivisionError"
    assert re.findall(r'File "(.*?)", line (\d+)', error["traceback"]) == [("<cell 1>", "5"), ("<cell 1>", "4")]
    assert runner.run("await asyncio.sleep(0)\nraise SystemExit(3)").error["value"] == "3"
    runner.good("asyncio.get_event_loop_policy().get_event_loop().close()")
    assert runner.good("await asyncio.sleep(0, 1)").value == "1"


def test_interrupt_in_await(runner):
    runner.start("import asyncio\ntry:\n    print('on', flush=True)\n    await asyncio.sleep(60)\nfinally:\n    print('cleaned')")
    runner.wait_for("on\n")
    time.sleep(0.1)
    runner.interrupt()
    run = runner.finish()
    assert run.status == "interrupted" and run.error["name"] == "KeyboardInterrupt" and run.out == "cleaned\n" and run.err == "", run
    assert runner.good("await asyncio.sleep(0, 5)").value == "5"
    assert runner.good("len(asyncio.all_tasks(asyncio.get_event_loop_policy().get_event_loop()))").value == "0"


# Errors


def test_traceback_has_the_users_lines_only(runner):
    runner.good("def outer(x):\n    return inner(x)\ndef inner(x):\n    return [][x]")
    run = runner.run("y = 3\nouter(y)")
    trace = run.error["traceback"]
    assert run.status == "error" and run.error["name"] == "IndexError" and run.error["value"] == "list index out of range"
    assert re.findall(r'File "(.*?)", line (\d+), in (\S+)\n    (.*)', trace) == [
        ("<cell 2>", "2", "<module>", "outer(y)"), ("<cell 1>", "2", "outer", "return inner(x)"), ("<cell 1>", "4", "inner", "return [][x]")]
    assert trace.startswith("Traceback (most recent call last):\n") and trace.endswith("IndexError: list index out of range\n")
    assert run.out == run.err == ""


def test_chained_errors(runner):
    trace = runner.run("try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('v') from e").error["traceback"]
    assert "KeyError: 'k'" in trace and "direct cause" in trace and trace.endswith("ValueError: v\n") and "glovebox" not in trace


@pytest.mark.parametrize("code, name, line", [
    ("x = 1\nif x\n    pass", "SyntaxError", 2), ("x = 1 +\n", "SyntaxError", 1), ("  x = 1\n y = 2", "IndentationError", None),
    ("1\nreturn 5", "SyntaxError", 2), ("1\n'a' = 5", "SyntaxError", 2), ("yield 1", "SyntaxError", 1), ("nonlocal x", "SyntaxError", 1)])
def test_syntax_errors(runner, code, name, line):
    error = runner.run(code.encode()).error
    assert error["name"] == name and not error["traceback"].startswith("Traceback") and "glovebox" not in error["traceback"]
    if line:
        assert f'  File "<cell 1>", line {line}\n    {code.splitlines()[line - 1]}' in error["traceback"], error["traceback"]


@pytest.mark.parametrize("code", [b"print('\xff')", b"x = 'a\0b'"])
def test_code_that_is_no_text(runner, code):
    assert runner.run(code).error["name"] in ("UnicodeDecodeError", "ValueError", "SyntaxError")
    assert runner.good("1").value == "1"


def test_odd_exceptions(runner):
    error = runner.run("class Bad(Exception):\n    def __str__(self): raise RuntimeError\nraise Bad").error
    assert error["name"] == "Bad" and error["value"] == "<exception str() failed>" and "Bad" in error["traceback"]
    error = runner.run("def f(): f()\nf()").error
    assert error["name"] == "RecursionError" and "more times" in error["traceback"] and len(error["traceback"]) < 5000
    assert runner.run("x = [0] * (1 << 60)").error["name"] == "MemoryError"
    error = runner.run("raise ValueError('z' * 3000000)").error
    assert len(error["value"]) <= 65536 and "cut: 3000000 characters" in error["value"] and len(error["traceback"]) <= 1 << 18
    assert runner.run("raise GeneratorExit").error["name"] == "GeneratorExit"
    assert runner.run("raise ValueError('\\ud800')").error["value"] == "\\ud800"
    error = runner.run("class M(type):\n    __name__ = 5\nclass E(Exception, metaclass=M): pass\nraise E('q')").error
    assert error["name"] in ("E", "TypeError", "AttributeError")


@pytest.mark.skipif(VERSION < (3, 11), reason=f"exception groups are not installed for {PYTHON}")
def test_exception_groups(runner):
    trace = runner.run("def f(): 1/0\ntry: f()\nexcept Exception as e: raise ExceptionGroup('g', [e, KeyError('k')])").error["traceback"]
    assert "ZeroDivisionError" in trace and "KeyError: 'k'" in trace and "glovebox" not in trace and "2 sub-exceptions" in trace


def test_exits(runner):
    for code in ("exit()", "import sys; sys.exit(0)", "raise SystemExit", "quit()", "sys.exit(False)"):
        run = runner.good(code)
        assert run.frames == [] and run.exit == b"0", run
    for code, value, status, said in (("sys.exit(3)", "3", b"3", ""), ("exit('gone')", "gone", b"1", "gone\n"), ("sys.exit(True)", "True", b"1", ""),
                                      ("sys.exit(-1)", "-1", b"255", ""), ("sys.exit('3')", "3", b"1", "3\n"), ("sys.exit(1 << 70)", str(1 << 70), b"255", "")):
        run = runner.run(code)
        assert run.status == "error" and run.error == {"name": "SystemExit", "value": value, "traceback": ""} and run.err == said, run
        assert run.exit == status, run
    assert runner.good("input()", stdin=b"still\n").value == "'still'"


def test_sources_of_cells(runner):
    runner.good("def f():\n    return 1  # one")
    assert runner.good("import inspect\nprint(inspect.getsource(f))").out == "def f():\n    return 1  # one\n\n"
    assert "return 1  # one" in runner.good("import linecache\nlinecache.checkcache()\nlinecache.getline('<cell 1>', 2)").value
    runner.good("import warnings")
    assert re.search(r"<cell 5>:1: UserWarning: careful\n", runner.run("warnings.warn('careful')").err)
    for _ in range(110):
        runner.good("pass")
    assert runner.good("sum(n.startswith('<cell') for n in linecache.cache)").value == "100"


# Standard streams


def test_standard_input(runner):
    run = runner.good("input('name? ')", stdin=b"box\n")
    assert run.value == "'box'" and run.out == "name? "
    assert runner.good("import sys\nsys.stdin.read()", stdin=b"a\nb\n").value == "'a\\nb\\n'"
    assert runner.run("input()").error["name"] == "EOFError"
    assert runner.good("import os\nos.read(0, 5), os.readlink('/proc/self/fd/0')").value == "(b'', '/dev/null')"
    runner.good("input()", stdin=b"first\nsecond\n")
    assert runner.run("input()").error["name"] == "EOFError"  # what was not read is gone
    runner.good("sys.stdin.close()")
    assert runner.good("import subprocess\nsubprocess.run(['cat'], stdout=-1).stdout", stdin=b"for cat").value == "b'for cat'"
    assert runner.good("sys.stdin.read()").value == "''"
    descriptors = [runner.good("len(os.listdir('/proc/self/fd'))", stdin=b"x").value for _ in range(3)]
    assert len(set(descriptors)) == 1


HOARD = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
hoard = []
try:
    while True:
        hoard.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
"""


def test_standard_input_that_is_lost(runner):
    """The descriptor cannot be received: the code is not run with an empty input instead."""
    runner.good(HOARD)
    run = runner.run("print('ran')\nimport sys\nsys.stdin.read()", stdin=b"data")
    assert run.status == "error" and run.out == "" and run.value is None, run
    assert run.error["name"] == "OSError" and run.error["value"].startswith("[Errno 24] "), run
    assert "standard input" in run.error["value"] and "glovebox" not in run.error["traceback"], run
    assert runner.good("import sys\nsys.stdin.read()").value == "''"  # it has none
    runner.good("for fd in hoard: os.close(fd)")
    assert runner.good("sys.stdin.read()", stdin=b"data").value == "'data'"


def test_standard_input_is_over_without_descriptors(runner):
    run = runner.good("input()\n" + HOARD + "len(hoard) > 9", stdin=b"first\nsecond\n")
    assert run.value == "True", run
    assert runner.good("import sys\nsys.stdin.read()").value == "''"
    runner.good("for fd in hoard: os.close(fd)")
    assert runner.good("import subprocess\nsubprocess.run(['cat'], stdout=-1).stdout").value == "b''"


def test_output_is_buffered_and_flushed(runner):
    run = runner.good("import sys\nsys.stdout.write('no newline')\nsys.stdout.line_buffering")
    assert run.out == "no newline" and run.value == "False"


@pytest.mark.parametrize("sabotage", [
    "sys.stdout = None", "del sys.stdout", "sys.stdout.close()", "sys.stdout = sys.stderr = 5", "sys.stdout = open('/dev/null', 'w'); sys.stdout.close()",
    "sys.stdout.flush = None", "sys.stdout.detach()", "sys.__stdout__ = None; sys.stdout = object()", "del sys.stdin", "sys.stdout.buffer.close()",
    "class Bad:\n    write = 1\n    def flush(self): raise RuntimeError\nsys.stdout = Bad()", "class Tee:\n    pass\nsys.stdin = Tee()"])
def test_streams_are_mended(runner, sabotage):
    assert runner.run("import sys\nprint('before')\n" + sabotage).status in ("ok", "error")
    assert runner.good("print('works')").out.endswith("works\n")
    assert runner.run("1/0").status == "error"
    assert runner.good("input()", stdin=b"line\n").value == "'line'"


def test_a_good_stream_of_the_users_stays(runner):
    runner.good("import io, sys\nprint('a')\nsys.stdout = io.StringIO()\nprint('b')")
    assert runner.good("print('c')\nsys.stdout.getvalue()").value == "'b\\nc\\n'"
