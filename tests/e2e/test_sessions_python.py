# SPDX-License-Identifier: Apache-2.0
"""A Python context in a real box: what it keeps, the values it gives, errors, streams, children."""
import base64
import time

import pytest
from session_fixtures import own_warden, sessions

RICH = """
class Rich:
    def __init__(self, **values): self.values = values
    def __repr__(self): return 'rich'
    def __getattr__(self, name):
        values = self.__dict__.get('values', {})
        if name in values: return lambda **_: values[name]
        raise AttributeError(name)
"""


def good(context, code, **options):
    result = context.run(code, **options)
    assert (result.verdict, result.error, result.kept) == ("ok", None, True), result
    return result


def output_before(result, index):
    """What was printed before the value of that number came."""
    values = [i for i, e in enumerate(result.events) if e.kind == "result"]
    return b"".join(e.data for e in result.events[:values[index]] if e.kind == "stdout")


def test_state_persists(sessions):
    context = sessions.context()
    first = good(context, "import math, os\nx = 20\ndef f(n): return n + x\nos.mkdir('d')\nos.chdir('d')\nos.environ['E'] = '1'")
    assert (first.results, first.restarted, first.stdout, first.stderr) == ([], False, b"", b"")
    assert good(context, "x += 1\n(f(21), math.floor(2.5), os.getcwd(), os.environ['E'])").text == "(42, 2, '/sandbox/d', '1')"
    assert context.run("1 / 0").error["name"] == "ZeroDivisionError"
    assert good(context, "f(0)").text == "21"


@pytest.mark.parametrize("code, text", [
    ("1 + 1", "2"), ("x = 5\nx", "5"), ("x = 5", None), ("None", None), ("5;", None), ("'é'", "'é'"), ("for i in range(3): i", None), ("# nothing", None)])
def test_value_of_the_last_expression(sessions, code, text):
    result = good(sessions.context(), code)
    assert result.text == text
    assert len(result.results) == (text is not None)


def test_display_in_order_with_output(sessions):
    context = sessions.context()
    result = good(context, "print('a')\ndisplay(1)\nprint('b')\ndisplay('x', {'text/plain': 'p'})\nprint('c')\n2")
    assert [r["parts"]["text/plain"] for r in result.results] == [b"1", b"'x'", b"{'text/plain': 'p'}", b"2"]
    assert [r["main"] for r in result.results] == [False, False, False, True]
    assert result.out == "a\nb\nc\n"
    # What was printed before a value comes before it; what was printed after it may be faster.
    printed = [output_before(result, i) for i in range(4)]
    assert [p[:n] for p, n in zip(printed, (2, 4, 4, 6))] == [b"a\n", b"a\nb\n", b"a\nb\n", b"a\nb\nc\n"]
    raw = good(context, "display({'text/plain': 'a', 'text/html': '<b>a</b>'}, raw=True)")
    assert raw.displayed == [{"text/plain": b"a", "text/html": b"<b>a</b>"}] and raw.value is None


def test_rich_representations(sessions):
    context = sessions.context()
    good(context, RICH)
    result = good(context, """Rich(_repr_html_='<b>', _repr_png_=b'\\x89png\\xff', _repr_jpeg_='/9j/', _repr_svg_='<svg/>',
        _repr_json_={'a': [1]}, _repr_markdown_='*m*', _repr_latex_='$x$')""")
    assert result.value == {"text/plain": b"rich", "text/html": b"<b>", "image/png": b"\x89png\xff", "image/jpeg": b"\xff\xd8\xff",
                            "image/svg+xml": b"<svg/>", "application/json": b'{"a": [1]}', "text/markdown": b"*m*", "text/latex": b"$x$"}
    data = result.json["results"][0]["data"]
    assert base64.b64decode(data["image/png"]["base64"]) == b"\x89png\xff" and data["image/svg+xml"] == "<svg/>"
    bundle = good(context, "Rich(_repr_mimebundle_={'text/plain': 'p', 'application/x.y+json': {'k': 1}})")
    assert bundle.value == {"text/plain": b"p", "application/x.y+json": b'{"k": 1}'}
    shown = good(context, "from IPython.display import display, HTML, Markdown\ndisplay(HTML('<i>'), Markdown('#'))").displayed
    assert [(b"<i>", None), (None, b"#")] == [(p.get("text/html"), p.get("text/markdown")) for p in shown]


def test_limits_of_results(sessions):
    context = sessions.context({"result_count": "3", "result_limit": "4k"})
    many = good(context, "for i in range(10): display(i)\n'end'")
    assert [r["parts"]["text/plain"] for r in many.results] == [b"0", b"1", b"2"]
    assert "more than 3 results" in many.err
    large = good(context, "class Large:\n def __repr__(self): return 'small'\n def _repr_html_(self): return 'y' * 100000\nLarge()")
    assert list(large.value) == ["text/plain"] and "left out" in large.text and "100000 bytes" in large.text
    assert good(context, "'next'").text == "'next'"
    # Who goes past the runner meets the host, which counts what it drops.
    forged = good(context, "import os\nfor i in range(10): os.write(20, b'P 4 14\\ntext/plain 1\\nx')")
    assert (len(forged.results), forged.dropped, forged.json["results_dropped"]) == (3, 7, 7)
    assert any("7 results were dropped" in note for note in forged.json["notes"])
    forged = good(context, "os.write(20, b'P 5 5015\\ntext/html 5000\\n' + b'z' * 5000)\n'small'")
    assert (forged.text, forged.displayed, forged.dropped) == ("'small'", [], 1)


def test_await(sessions):
    context = sessions.context()
    good(context, "import asyncio\ntask = asyncio.create_task(asyncio.sleep(0.05, 'slept'))\nawait asyncio.sleep(0)")
    assert good(context, "await task").text == "'slept'"
    assert good(context, "async def g():\n    yield 3\n[i async for i in g()]").text == "[3]"
    assert context.run("await asyncio.wait_for(asyncio.sleep(9), 0.01)").error["name"] == "TimeoutError"


def test_traceback_has_lines_of_the_user_only(sessions):
    context = sessions.context()
    good(context, "def inner(n):\n    return 1 // n\n")
    result = context.run("x = 0\ndef outer():\n    inner(x)  # deep\nouter()")
    assert (result.verdict, result.kept, result.stderr) == ("error", True, b"")
    assert result.error["name"] == "ZeroDivisionError" and "ZeroDivisionError" in result.message
    text = result.error["traceback"]
    assert all(line in text for line in ("    outer()\n", "    inner(x)  # deep\n", "    return 1 // n\n"))
    files = {line.split('"')[1] for line in text.splitlines() if line.startswith("  File ")}
    assert files == {"<cell 1>", "<cell 2>"} and "glovebox" not in text and "runner" not in text
    syntax = context.run("a = 1\nb = = 2")
    assert syntax.error["name"] == "SyntaxError" and "b = = 2" in syntax.error["traceback"] and "glovebox" not in syntax.error["traceback"]


def test_standard_input(sessions):
    context = sessions.context()
    assert good(context, "input() + '|' + input('? ')", stdin=b"one\ntwo\nthree\n").text == "'one|two'"
    assert context.run("input()").error["name"] == "EOFError"
    assert good(context, "import sys\nsys.stdin.read()", stdin=b"four\n").text == "'four\\n'"
    large = b"x" * 3_000_000
    assert good(context, "len(sys.stdin.buffer.read())", stdin=large).text == "3000000"
    assert good(context, "sys.stdin.read()").text == "''"


def test_bytes_that_are_not_text(sessions):
    context = sessions.context()
    raw = bytes(range(256)) + b"\xff\xfe\xc3\x28\xed\xa0\x80"
    result = good(context, f"import os\nn = os.write(1, {raw!r}) + os.write(2, b'\\xff')")
    assert (result.stdout, result.stderr) == (raw, b"\xff")
    assert base64.b64decode(result.json["stdout_base64"]) == raw
    assert b"".join(e.data for e in result.events if e.kind == "stdout") == raw
    assert good(context, "n").text == str(len(raw) + 1)


def test_events_in_order(sessions):
    context = sessions.context()
    good(context, "import sys, time")
    began = time.monotonic()
    result = context.run("print('one', flush=True)\ntime.sleep(0.5)\nprint('two')\ndisplay(3)\nsys.stderr.write('err')\nraise ValueError('v')")
    assert (result.verdict, result.kept) == ("error", True)
    kinds = [e.kind for e in result.events]
    assert kinds[0] == "started" and kinds.count("started") == 1
    assert kinds[-1] == "error" and result.events[-1].data[:2] == (b"ValueError", b"v")
    assert [e.data for e in result.events if e.kind == "stdout"] == [b"one\n", b"two\n"]
    assert kinds.index("result") > max(i for i, k in enumerate(kinds) if k == "stdout") and "stderr" in kinds
    times = [e.t_usec for e in result.events]
    assert times == sorted(times)
    one, two = (e for e in result.events if e.kind == "stdout")
    assert two.t_usec - one.t_usec >= 100_000, "they come as they are written"
    assert times[-1] <= result.json["duration_ms"] * 1000 + 1000 and times[-1] / 1e6 <= time.monotonic() - began


def test_children_and_threads(sessions):
    session = sessions({"pids_limit": "32"})
    session.write("work.py", "import os\ndef f(x): return x * x\n")
    context = session.context()
    assert good(context, "import subprocess\nsubprocess.run(['sh', '-c', 'echo out; exit 3'], capture_output=True)").text.endswith(
        "returncode=3, stdout=b'out\\n', stderr=b'')")
    printed = good(context, "subprocess.run(['echo', 'child']).returncode")
    assert (printed.text, printed.out) == ("0", "child\n")
    for method in ("fork", "spawn"):
        code = f"import multiprocessing, work\nwith multiprocessing.get_context('{method}').Pool(2) as pool:\n    got = pool.map(work.f, range(4))\ngot"
        assert good(context, code).text == "[0, 1, 4, 9]", method
    code = ("import threading\nnumbers = []\nthreads = [threading.Thread(target=numbers.append, args=(i,)) for i in range(8)]\n"
            "for t in threads: t.start()\nfor t in threads: t.join()\nsorted(numbers)")
    assert good(context, code).text == "[0, 1, 2, 3, 4, 5, 6, 7]"
    forked = good(context, "import os\nprint('before', flush=True)\npid = os.fork()\nif pid == 0:\n    print('inside', flush=True)\n    os._exit(5)\n"
                           "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    assert (forked.text, forked.out) == ("5", "before\ninside\n")
    threads = ("import time\nstarted = []\nfor i in range(64):\n    t = threading.Thread(target=time.sleep, args=(0.5,), daemon=True)\n"
               "    t.start()\n    started.append(t)")
    many = context.run(threads)
    assert (many.verdict, many.kept) == ("error" if sessions.weaker else "pids", True), many
    assert many.error["name"] == "RuntimeError" and 10 < int(good(context, "len(started)").text) < 32


def test_exit_ends_the_run_and_not_the_context(sessions):
    context = sessions.context()
    good(context, "x = 1\nimport sys")
    assert good(context, "sys.exit()").exit_code == 0 and good(context, "pass").exit_code == -1
    left = context.run("sys.exit(3)")
    assert (left.verdict, left.kept, left.error["name"], left.error["value"]) == ("error", True, "SystemExit", "3")
    assert good(context, "x").text == "1"
