# SPDX-License-Identifier: Apache-2.0
"""Tables and figures in a Python context, from the template python-data and without one."""
import struct

import pytest
from session_fixtures import data_sessions, needs, own_warden

pytestmark = needs("numpy", "pandas", "matplotlib")

PNG = b"\x89PNG\r\n\x1a\n"
ROOM = {"mem_limit": "1g", "cpu_count": "2"}


def good(context, code):
    result = context.run(code)
    assert (result.verdict, result.error, result.kept) == ("ok", None, True), result
    return result


def size_of(png):
    """Width and height that a picture says it has; it must be a whole one."""
    assert png.startswith(PNG) and png.endswith(b"IEND\xaeB`\x82"), png[:40]
    return struct.unpack(">II", png[16:24])


def figures(result):
    return [size_of(parts["image/png"]) for parts in result.displayed if "image/png" in parts]


def test_table_as_html_and_text(data_sessions):
    context = data_sessions.context(ROOM)
    value = good(context, "import pandas as pd\ntable = pd.DataFrame({'name': ['a<b', 'c'], 'n': [1, 2]})\ntable").value
    html, text = value["text/html"].decode(), value["text/plain"].decode()
    assert "<table" in html and "a&lt;b" in html and "<td>2</td>" in html
    assert text.splitlines()[0].split() == ["name", "n"] and "a<b" in text
    assert good(context, "table['n'].sum()").text == "3"
    assert set(good(context, "display(table)").displayed[0]) == {"text/html", "text/plain"}


def is_near(size, wanted):
    """The margins of a figure are cut to what is drawn."""
    return all(0.6 * w <= n <= 1.2 * w for n, w in zip(size, wanted))


def test_figures_at_show_and_at_the_end(data_sessions):
    context = data_sessions.context(ROOM)
    result = good(context, "import matplotlib.pyplot as plt\nplt.figure(figsize=(4, 2), dpi=100)\nplt.plot([1, 4, 9])\nplt.title('Text')\n"
                           "print('before')\nplt.show()\nprint('after')\nplt.figure(figsize=(2, 4), dpi=100)\nplt.plot([1])\nplt.gcf().number;")
    assert [is_near(size, wanted) for size, wanted in zip(figures(result), [(400, 200), (200, 400)])] == [True, True], result
    assert result.err == "" and len(result.results) == 2, "drawn without a complaint"
    kinds = [(e.kind, e.data if e.kind == "stdout" else None) for e in result.events if e.kind != "started"]
    assert kinds[0][0] == "stdout" and kinds[0][1].startswith(b"before\n") and kinds[-1][0] == "result"
    assert figures(good(context, "len(plt.get_fignums())")) == [], "they are closed when they were shown"

    # One that is the run's value, or was displayed, is not shown again.
    both = good(context, "fig, ax = plt.subplots(figsize=(3, 3), dpi=100)\ndisplay(fig)\nfig2, _ = plt.subplots(figsize=(6, 6), dpi=100)\nfig2")
    assert len(both.results) == 2 and is_near(figures(both)[0], (300, 300)) and is_near(size_of(both.value["image/png"]), (600, 600))

    # Its figures come although the run fails; not when it is interrupted.
    failed = context.run("plt.plot([1, 2])\n1 / 0")
    assert (failed.verdict, failed.error["name"], len(figures(failed))) == ("error", "ZeroDivisionError", 1)
    running = context.start("plt.plot([1, 2])\nimport time\nprint('on', flush=True)\ntime.sleep(30)")
    running.wait_for("stdout")
    context.interrupt()
    assert (running.join().verdict, running.value.results) == ("cancelled", [])


def test_limits_of_figures(data_sessions):
    context = data_sessions.context({**ROOM, "result_count": "3", "result_limit": "200k"})
    many = good(context, "import matplotlib.pyplot as plt\nfor i in range(6):\n    plt.figure(figsize=(1, 1), dpi=50)\n    plt.plot([i])")
    assert len(figures(many)) == 3 and "more than 3 results" in many.err
    large = good(context, "import numpy as np\nplt.figure(figsize=(10, 10), dpi=100)\nplt.imshow(np.random.rand(1000, 1000, 3))\nplt.show()")
    assert figures(large) == [] and b"left out" in large.displayed[0]["text/plain"] and b"image/png of" in large.displayed[0]["text/plain"], large
    assert len(figures(good(context, "plt.figure(figsize=(1, 1), dpi=50)\nplt.plot([1])\nplt.show()"))) == 1


def test_numbers(data_sessions):
    context = data_sessions.context(ROOM)
    assert good(context, "import numpy as np\na = np.arange(12).reshape(3, 4)\n(a @ a.T).trace()").text == "506"
    assert good(context, "float(np.linalg.inv(np.array([[2.0, 0], [0, 4.0]]))[1, 1])").text == "0.25"
    assert context.run("np.zeros(3) + np.zeros(4)").error["name"] == "ValueError"
    code = "import pandas as pd\npd.read_csv('t.csv').groupby('k')['v'].mean().to_dict()"
    context.session.write("t.csv", "k,v\na,1\na,3\nb,5\n")
    assert good(context, code).text == "{'a': 2.0, 'b': 5.0}"
