# SPDX-License-Identifier: Apache-2.0
"""The examples of the documentation do what it says: those of the docstrings, and the blocks of docs/python.md."""
import ast
import asyncio
import doctest
import importlib
import inspect
import pkgutil
import re
import textwrap

import pytest

import glovebox
from glovebox import Sandbox
from sdk_helpers import ROOT

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    for info in pkgutil.iter_modules(glovebox.__path__):
        module = importlib.import_module(f"glovebox.{info.name}")
        for test in finder.find(module, module.__name__, module=module):
            if test.examples:
                yield pytest.param(test, id=test.name)
    for test in finder.find(glovebox, "glovebox", module=glovebox):
        if test.examples:
            yield pytest.param(test, id=test.name)


@pytest.mark.parametrize("test", list(examples()))
def test_docstrings(test, box, address, monkeypatch, tmp_path):
    monkeypatch.setenv("GLOVEBOX_SERVER", address)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project").mkdir()
    (tmp_path / "project/file").write_text("x")
    box.run("x = 6 * 7")
    said = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    test.globs.update(glovebox=glovebox, box=box, Sandbox=Sandbox, result=box.run("print('a'); x"), Client=glovebox.Client)
    runner.run(test, out=said.append, clear_globs=False)
    assert runner.failures == 0 and runner.tries > 0, "".join(said)


def test_there_are_examples():
    documented = {test.id for test in examples()}
    assert {"glovebox.run", "glovebox._sandbox.Sandbox", "glovebox._sandbox.Sandbox.run", "glovebox._files.Files", "glovebox._runs.Run"} <= documented


def blocks():
    page = (ROOT / "docs/python.md").read_text()
    found = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(found) >= 4
    return found


@pytest.mark.parametrize("number", range(len(blocks())))
def test_blocks_of_the_page(number, box, address, monkeypatch, capsys):
    monkeypatch.setenv("GLOVEBOX_SERVER", address)
    code = blocks()[number]
    scope = {"glovebox": glovebox, "box": box, "Sandbox": Sandbox, "AsyncSandbox": glovebox.AsyncSandbox}
    if code.startswith("Sandbox("):
        # The signature, with its defaults.
        call = ast.parse(textwrap.dedent(code)).body[0].value
        shown = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        real = {name: parameter.default for name, parameter in inspect.signature(Sandbox).parameters.items()}
        assert shown == real and list(shown) == list(real)
    elif code.startswith("async with"):
        exec("async def main():\n" + textwrap.indent(code, "    "), scope)
        asyncio.run(scope["main"]())
    else:
        exec(code, scope)
        wanted = re.findall(r"^ *print\(.*\) +# (.*)$", code, re.M)
        said = [line for line in capsys.readouterr().out.splitlines() if line]
        assert not wanted or said == wanted
