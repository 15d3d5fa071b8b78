# SPDX-License-Identifier: Apache-2.0
"""The Node.js runner, without a box: state, results, errors, standard input, interrupts."""

import os
import pathlib
import random
import shutil
import signal
import time

import pytest

from context_channel import Context, Ended

pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="node is not installed on this host")

RUNNER = pathlib.Path(__file__).resolve().parents[2] / "src/runner/contexts/node_runner.js"
COMMAND = ["node", str(RUNNER)]


@pytest.fixture
def context():
    with Context(COMMAND, fill=True) as c:
        yield c


def value(context, code, **options):
    run = context.run(code, **options)
    assert run.status == "ok", run.explain()
    return run.result["text/plain"]


def test_start(context):
    assert int(context.version.split(".")[0]) >= 16
    assert value(context, "[process.argv.length, typeof require, __dirname === process.cwd(), require.main === module, "
                          "Object.keys(globalThis).filter((k) => /glovebox|run|session/.test(k)).length]") == "[ 1, 'function', true, true, 0 ]"


def test_variables_of_the_configuration():
    with Context(COMMAND, env=["GREETING=hello world", "EMPTY=", "LINES2=a\nb=c"]) as c:
        assert value(c, "[process.env.GREETING, process.env.EMPTY, process.env.LINES2]") == "[ 'hello world', '', 'a\\nb=c' ]"


def test_state_and_declaring_again(context):
    assert context.run("const x = 1; let y = 2; class A {}; function f() { return x + y; }").of("R") == []
    assert value(context, "f()") == "3"
    assert value(context, "const x = 10; let y = 20; class A { z = 1 }; f() + new A().z") == "31"
    assert value(context, "y += 1; var v = 5; w = 6; f() + v + w") == "42"
    context.run("let half = 1; throw new Error('stop')")
    assert value(context, "half") == "1"


@pytest.mark.parametrize("code, shown", [
    ("({a: [1, 2], b: 'x'})", "{ a: [ 1, 2 ], b: 'x' }"), ("'text'", "'text'"), ("null", "null"), ("-0", "-0"), ("NaN", "NaN"), ("2n ** 70n", "1180591620717411303424n"),
    ("if (true) { 5 }", "5"), ("[1,2].map((n) => n * 2)", "[ 2, 4 ]"), ("Symbol('s')", "Symbol(s)"), ("Promise.resolve(3)", "Promise { 3 }"), ("/a+/.exec('caat')[0]", "'aa'"),
    ("({get x() { throw 1 }})", "{ x: [Getter] }"), ("({[Symbol.for('nodejs.util.inspect.custom')]() { throw 1 }})", "(a value that cannot be shown: number)"),
])
def test_values(context, code, shown):
    assert value(context, code) == shown


@pytest.mark.parametrize("code", ["undefined", "", "// a comment", "let q = 1", "function g() {}", "console.log", "void 0"])
def test_no_value(context, code):
    run = context.run(code)
    assert run.status == "ok" and (run.of("R") == []) == (code != "console.log"), run.explain()


def test_await(context):
    assert value(context, "const n = await new Promise((r) => setTimeout(() => r(5), 20)); n + 1") == "6"
    assert value(context, "let {a, b: [c]} = await Promise.resolve({a: 1, b: [2]}); function sum() { return a + c + n; } sum()") == "8"
    assert value(context, "a = 10; sum()") == "17"
    assert value(context, "await (async () => 3)()") == "3"
    run = context.run("for (const t of [1, 2]) { await null; console.log(t); }")
    assert run.stdout == "1\n2\n", run.explain()
    run = context.run("await new Promise(() => {})")
    assert run.status == "error" and run.error["name"] == "UnsettledAwait", run.explain()


def test_modules(context):
    pathlib.Path(context.cwd, "common.js").write_text("module.exports = {name: 'common', main: require.main === module};")
    pathlib.Path(context.cwd, "modern.mjs").write_text("export default 'd'; export const name = 'modern'; export const other = 2;")
    pathlib.Path(context.cwd, "node_modules/packed").mkdir(parents=True)
    pathlib.Path(context.cwd, "node_modules/packed/index.js").write_text("exports.name = 'packed';")
    assert value(context, "require('./common').name + require('packed').name + typeof require('fs').readFileSync") == "'commonpackedfunction'"
    assert value(context, "(await import('./modern.mjs')).name + (await import('packed')).name + typeof (await import('node:os')).EOL") == "'modernpackedstring'"
    assert value(context, "import d, {name, other as two} from './modern.mjs'; import * as all from \"packed\"\nimport 'fs'; [d, name, two, all.name]") == \
        "[ 'd', 'modern', 2, 'packed' ]"
    run = context.run("await import('nosuch')")
    assert run.status == "error" and "nosuch" in run.error["value"], run.explain()


def test_import_in_text_is_left_alone(context):
    code = r"""const s = `import('x') ${`${await import('os').then((m) => typeof m.EOL)}}`} import('y')`; // import('z')
    [s, "import('a')", 'it\'s import("b")', /import\('c'\) "/.source, 4 / 2 / 1 /* import('d') */, ({import: 1}).import]"""
    assert value(context, code).replace("\n", "") == \
        r"""[  "import('x') string} import('y')",  "import('a')",  `it's import("b")`,  `import\\('c'\\) "`,  2,  1]"""


def test_errors(context):
    run = context.run("function f() { null.x; }\nf()")
    assert run.status == "error" and run.error["name"] == "TypeError" and run.error["value"].startswith("Cannot read properties of null"), run.explain()
    assert run.error["traceback"].split("\n")[1:] == ["    at f (run-1:1:21)", "    at run-1:2:1"], run.explain()
    run = context.run("let fine = 1;\nlet b = ;")
    assert run.error == {"name": "SyntaxError", "value": "Unexpected token ';'",
                         "traceback": "run-2:2\nlet b = ;\n        ^\n\nSyntaxError: Unexpected token ';'"}, run.explain()
    run = context.run("throw 5")
    assert (run.error["name"], run.error["value"]) == ("Uncaught", "5")
    assert context.run("throw undefined").status == "error"
    run = context.run("class Odd extends Error { get name() { throw 1 } }; throw new Odd('x')")
    assert run.status == "error", run.explain()
    run = context.run("throw new Error('outer', {cause: new Error('inner')})")
    assert "inner" in run.error["traceback"] and "inspector" not in run.error["traceback"] and "node_runner" not in run.error["traceback"], run.explain()
    run = context.run("require('fs').readFileSync('/nosuch')")
    assert "code: 'ENOENT'" in run.error["traceback"] and " {\n" in run.error["traceback"] and "node_runner" not in run.error["traceback"], run.explain()
    run = context.run("throw new Error('x'.repeat(1e7))")
    assert len(run.error["value"]) == 65536 and run.status == "error"


def test_code_that_cannot_be_started(context):
    """Nobody has interrupted it, and nobody says so."""
    deep = 100000
    run = context.run("await import('os'); " + "`${" * deep + "1" + "}`" * deep)
    assert (run.status, run.error["name"]) == ("error", "RangeError"), run.explain()
    assert "call stack" in run.error["value"], run.explain()
    assert "node_runner" not in run.error["traceback"], run.explain()
    assert value(context, "6 * 7") == "42"
    context.run("const wait = Atomics.wait; Atomics.wait = () => { throw new TypeError('mine'); }")
    run = context.run("1")
    assert run.status == "error" and run.error["value"] == "mine", run.explain()
    run = context.run("2")
    assert run.status == "error" and run.error["name"] == "TypeError", run.explain()


def test_late_errors(context):
    run = context.run("Promise.reject(new RangeError('late')); 5")
    assert run.status == "error" and run.error["name"] == "RangeError" and run.of("R") == [], run.explain()
    run = context.run("setTimeout(() => { throw new TypeError('thrown later') }, 5); await new Promise((r) => setTimeout(r, 60000))")
    assert run.status == "error" and run.error["value"] == "thrown later", run.explain()
    run = context.run("setTimeout(() => { throw new Error('between') }, 500); 1")
    assert run.status == "ok", run.explain()
    time.sleep(1)
    run = context.run("2")
    assert run.status == "ok" and run.stderr.startswith("Uncaught Error: between"), run.explain()


def test_timers_go_on_in_the_next_run(context):
    context.run("let ticks = 0; setInterval(() => ticks++, 5)")
    assert int(value(context, "await new Promise((r) => setTimeout(r, 100)); ticks")) > 3


def test_display(context):
    run = context.run("display({a: 1}); display('text'); display('<b>', 'text/html'); display(Buffer.from([0, 255]), 'image/png'); display({a: 1}, 'application/json'); 3")
    assert [dict(parts) for parts in run.of("P")] == [{"text/plain": b"{ a: 1 }"}, {"text/plain": b"text"}, {"text/html": b"<b>"},
                                                      {"image/png": b"\x00\xff"}, {"application/json": b'{"a":1}'}], run.explain()
    run = context.run("display('x', 'a b\\n')")
    assert run.status == "error" and "MIME" in run.error["value"] and run.of("P") == [], run.explain()


def test_limits_of_results(context):
    """The context of these tests has 64 results and 65536 bytes."""
    run = context.run("display('x'.repeat(70000)); 1")
    assert run.of("P") == [[("text/plain", b"[left out: text/plain of 70017 bytes; the results of a run may have 65536 bytes together]")]], run.explain()
    assert run.result["text/plain"] == "1"
    run = context.run("for (let i = 0; i < 100; i++) display('y'.repeat(2000))")
    total = sum(len(v) for parts in run.of("P") for _, v in parts)
    assert total <= 65536 and any(b"left out" in v for parts in run.of("P") for _, v in parts) and "left out" in run.stderr, run.explain()
    run = context.run("for (let i = 0; i < 100; i++) display(i)")
    assert len(run.of("P")) == 64 and run.stderr.count("left out") == 1, run.explain()
    assert len(context.run("display(1)").of("P")) == 1


def test_output_comes_before_the_end(context):
    for _ in range(20):
        run = context.run("console.log('out'); console.error('err')")
        assert (run.stdout, run.stderr) == ("out\n", "err\n")


def test_large_output(context):
    context.start("process.stdout.write('a'.repeat(3000000)); process.stdout.write('end')")
    seen = context.wait_for("end")
    assert len(seen) == 3000003 and context.finish().status == "ok"


def test_stdin(context):
    data = bytes(random.Random(1).randrange(256) for _ in range(300000))
    assert value(context, "const fs = require('fs'); const d = fs.readFileSync(0); d.length + ':' + d[12345]", stdin=data) == f"'300000:{data[12345]}'"
    assert value(context, "fs.readFileSync(0).length") == "0"
    assert value(context, "let all = ''; for await (const chunk of process.stdin) all += chunk; all", stdin=b"one\ntwo\n") == "'one\\ntwo\\n'"
    assert value(context, "let again = ''; process.stdin.on('data', (c) => again += c); await new Promise((r) => process.stdin.on('end', r)); again", stdin=b"three") == "'three'"
    assert value(context, "require('child_process').execSync('cat', {stdio: [0, 'pipe', 2]}).toString()", stdin=b"child") == "'child'"
    assert value(context, "await new Promise((r) => process.stdin.on('end', r).resume()); fs.readdirSync('/tmp').filter((f) => f.includes('stdin.' + process.pid)).length") == "0"


def test_stdin_without_a_directory_for_it(tmp_path):
    """$TMPDIR is no directory that can be written to: /tmp is used, as in Bash."""
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "none"):
        with Context(COMMAND, environ={**os.environ, "TMPDIR": str(place)}, fill=True) as c:
            assert value(c, "require('fs').readFileSync(0).toString()", stdin=b"given") == "'given'"


def test_descriptors(context):
    """A program has the three streams, and not the channel."""
    run = context.run("require('child_process').execSync('ls /proc/self/fd', {stdio: 'inherit'})", stdin=b"x")
    assert run.stdout.split() == ["0", "1", "2", "3"], run.explain()


FOREVER = {
    "loop": "while (true);",
    "function": "function g() { for (;;) {} }; try { g() } finally { console.log('no') }",
    "await": "await new Promise((r) => setTimeout(r, 60000)); console.log('no')",
    "program": "require('child_process').execSync('sleep 60'); console.log('no')",
    "Atomics": "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    "catch": "for (;;) { try { for (;;); } catch { console.log('no') } }",
}


@pytest.mark.parametrize("name", FOREVER)
def test_interrupt(context, name):
    context.run("const kept = 'kept'")
    for _ in range(2):
        context.start("console.log('begun'); " + FOREVER[name])
        context.wait_for("begun")
        context.interrupt(0.1)
        run = context.finish(10)
        ends = [("interrupted", "the run was interrupted")]
        if name == "program":  # Node loses its own signal when it hears first of the program's end, which the same signal has made
            ends.append(("error", "Command failed: sleep 60"))
        assert (run.status, run.error["value"]) in ends and "no" not in run.stdout, run.explain()
        assert value(context, "kept") == "'kept'"


def test_interrupt_in_a_write(context):
    """The streams of Node stay usable: it once kept the output of all later runs to itself, and called them interrupted."""
    for n in range(12):
        context.start("console.log('begun'); while (true) process[Math.random() < 0.5 ? 'stdout' : 'stderr'].write('');")
        context.wait_for("begun")
        context.interrupt(0.002 * n)
        assert context.finish(10).status == "interrupted"
        run = context.run("console.log('out'); console.error('err')")
        assert (run.status, run.stdout, run.stderr) == ("ok", "out\n", "err\n"), run.explain()


def test_interrupt_between_runs(context):
    for _ in range(3):
        context.interrupt(0.05)
        time.sleep(0.05)
        assert value(context, "await new Promise((r) => setTimeout(r, 50)); 'alive'") == "'alive'"


def test_interrupt_just_after_a_run(context):
    """As soon as D is there, a signal belongs to no run. (Just before it Node may die of one: see the runner.)"""
    random_moment = random.Random(2)
    for _ in range(60):
        assert value(context, "for (let i = 0; i < 1000; i++); 1") == "1"
        time.sleep(random_moment.random() * 0.002)
        os.killpg(context.process.pid, signal.SIGINT)
        time.sleep(random_moment.random() * 0.002)
        assert value(context, "6 * 7") == "42"


def test_listeners_taken_away(context):
    context.run("process.removeAllListeners('SIGINT'); process.removeAllListeners('uncaughtException')")
    context.start("console.log('begun'); await new Promise((r) => setTimeout(r, 60000))")
    context.wait_for("begun")
    context.interrupt(0.1)
    assert context.finish(10).status == "interrupted"


def test_exit_is_real(context):
    context.start("console.log('bye'); process.exit(7)")
    with pytest.raises(Ended):
        context.finish()
    assert context.process.wait(10) == 7 and context.output(context.pipes[0][0]) == "bye\n"


def test_large_code(context):
    began = time.monotonic()
    assert value(context, "'" + "aé" * 350000 + "'.length") == "700000"
    assert time.monotonic() - began < 20


def test_many_runs_keep_the_memory(context):
    size = "global.gc; process.memoryUsage().rss >> 20"
    for i in range(300):
        context.run(f"console.log('x'.repeat(1000)); const a = new Array(20000).fill({i}); a")
    before = int(value(context, size))
    for i in range(600):
        context.run(f"console.log('x'.repeat(1000)); const a = new Array(20000).fill({i}); a")
    assert int(value(context, size)) - before < 60


def test_end_of_the_channel(context):
    context.here.close()
    assert context.process.wait(10) == 0


def test_unknown_frame_ends_the_process(context):
    context.send("Q", 0)
    assert context.process.wait(10) == 1
