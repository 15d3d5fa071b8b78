# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of a real server, without asyncio."""
import gc
import os
import threading
import warnings

import pytest

import glovebox
from sdk_helpers import each_backend, wait_until

pytestmark = each_backend


def test_variables_output_and_values(box):
    assert box.run("x = 6 * 7").ok
    result = box.run("import sys; print('out'); print('err', file=sys.stderr); x")
    assert (result.stdout, result.stderr, result.text) == ("out\n", "err\n", "42")
    assert result.verdict == "ok" and result.verdict.kind == "ok" and result.exit_code is None and result.state_kept is True
    assert result.main.main and len(result.results) == 1 and result.error is None and result.images == []
    assert len(result.id) == 32 and result.raw["verdict"]["kind"] == "ok" and result.duration > 0
    assert result.peak.output_bytes == 8 and result.limits.memory_bytes == 512 << 20 and result.controls["network"].enforced
    assert result.language == "python" and not result.truncated


def test_an_exception(box):
    result = box.run("def f():\n    return 1 / 0\nf()")
    assert not result.ok and result.verdict == "error" and result.error.name == "ZeroDivisionError" and "f()" in result.error.traceback
    with pytest.raises(glovebox.ErrorVerdict, match="ZeroDivisionError: division by zero") as caught:
        result.raise_for_verdict()
    assert caught.value.result is result and caught.value.verdict == "error"
    with pytest.raises(glovebox.ErrorVerdict):
        box.run("1 / 0", check=True)
    assert box.run("5", check=True).text == "5"


def test_limits_are_typed(client):
    with client.sandbox(memory="64m", timeout=30, policy={"pids_limit": 32}, env={"WHO": "me"}, trust="standard") as box:
        assert box.run("import os; os.environ['WHO']").text == "'me'"
        timeout = box.run("while True: pass", timeout=0.5)
        assert timeout.verdict == "timeout" and timeout.verdict.unit == "usec" and timeout.verdict.limit == 500_000
        assert timeout.limits.memory_bytes == 64 << 20 and timeout.limits.pids == 32
        with pytest.raises(glovebox.TimeoutVerdict):
            timeout.raise_for_verdict()
        memory = box.run("a = bytearray(500 << 20)\nfor i in range(0, len(a), 4096): a[i] = 1")
        assert memory.verdict in ("memory", "error")  # without cgroups nobody counts
        output = box.run("while True: print('x' * 1000)")
        assert output.verdict == "output" and output.truncated
        with pytest.raises(glovebox.OutputVerdict):
            output.raise_for_verdict()


def test_languages_and_fresh_programs(box):
    assert box.run("echo $((6 * 7)); true", language="bash").stdout == "42\n"
    box.run("x = 1")
    fresh = box.run("import sys; print(sys.argv, 'x' in globals()); sys.exit(3)", context="fresh", name="prog.py", args=["a", "b"])
    assert fresh.stdout.endswith("'a', 'b'] False\n") and "prog.py" in fresh.stdout and fresh.exit_code == 3 and fresh.context is None
    assert fresh.state_kept is None and fresh.verdict == "error"
    assert box.run("import sys; sys.stdin.read()", stdin="text").text == "'text'"
    assert box.run("import sys; sys.stdin.buffer.read()", stdin=b"\xff\x00", context=None).text == "b'\\xff\\x00'"


def test_output_that_is_not_text(box):
    result = box.run("import os; os.write(1, b'a\\xff')")
    assert result.stdout == "a\ufffd" and result.stdout_bytes == b"a\xff"


def test_pictures_and_tables(box):
    result = box.run("display({'image/png': b'\\x89PNG', 'text/plain': 'p'}, raw=True); display({'text/html': '<b>t</b>', 'text/plain': 't'}, raw=True)")
    assert result.ok, result.raw
    assert [value.mimes for value in result.results][1] and result.results[1].html == "<b>t</b>"
    assert result.images and result.images[0].mime == "image/png" and result.images[0].data == b"\x89PNG"
    assert result.text is None and result.main is None


def test_callbacks(box):
    out, err, values = [], [], []
    result = box.run("import sys\nfor i in range(3): print(i, flush=True)\nprint('e', file=sys.stderr)\ndisplay(1)\n2", on_stdout=out.append,
                     on_stderr=err.append, on_result=values.append)
    assert "".join(out) == "0\n1\n2\n" == result.stdout and "".join(err) == "e\n" and [value.text for value in values] == ["1", "2"]
    assert result.text == "2" and result.ok

    def raises(text):
        raise RuntimeError("mine")
    with pytest.raises(RuntimeError, match="mine"):
        box.run("import time\nprint(1, flush=True)\ntime.sleep(600)", on_stdout=raises)
    assert box.run("'at once'").text == "'at once'"  # the run was cancelled, and its end was waited for


def test_contexts(box):
    box.run("x = 1")
    with box.context() as other:
        assert other.run("x").error.name == "NameError"
        other.run("x = 2")
        assert box.run("x").text == "1" and other.run("x").text == "2" and box.run("x", context=other).text == "2"
        assert box.run("x", context=other.id).text == "2"
        assert other.info().runs == 5 and other.info().alive and not other.info().busy and other.language == "python"
        assert {each.id for each in box.contexts()} >= {other.id}
        other.restart()
        assert other.run("x").error.name == "NameError"
    with pytest.raises(glovebox.NotFoundError):
        other.run("1")
    with pytest.raises(glovebox.NotFoundError):
        other.info()
    with box.context("bash") as shell:
        shell.run("y=7")
        assert shell.run("echo $y").stdout == "7\n"


def test_restart(box):
    box.restart()  # there is nothing to restart yet
    box.run("x = 1")
    box.files.write("kept", "k")
    box.restart()
    assert box.run("x").error.name == "NameError" and box.run("open('kept').read()").text == "'k'"
    with glovebox.Sandbox.attach(box.id, client=box.client) as again:
        again.run("x = 5")
    with glovebox.Sandbox.attach(box.id, client=box.client) as again:
        with again.context():  # a second one of the language: the default one is restarted all the same
            again.restart()
    assert box.run("x").error.name == "NameError"


def test_interrupt_from_another_thread(box):
    box.run("x = 5")
    box.run("y = 6", context=None)
    done = []
    thread = threading.Thread(target=lambda: done.append(box.run("import time\nprint('on', flush=True)\ntime.sleep(600)")))
    thread.start()
    assert wait_until(lambda: any(context.info().busy for context in box.contexts()), 30)
    assert wait_until(lambda: box.interrupt() or not thread.is_alive(), 30)
    thread.join(60)
    assert not thread.is_alive() and not done[0].ok and done[0].error.name == "KeyboardInterrupt" and done[0].state_kept
    assert box.run("x").text == "5"
    assert box.interrupt() == 0  # nothing runs


def test_interrupt_of_a_fresh_program(box):
    run = box.start("import time\ntime.sleep(600)", context="fresh")
    assert wait_until(lambda: run.info().state == "running", 30)
    assert box.interrupt() == 1
    assert run.wait(60).verdict in ("cancelled", "error")


def test_one_interpreter_runs_one_thing(box):
    run = box.start("import time; time.sleep(600)")
    assert wait_until(lambda: run.info().state == "running", 30)
    with pytest.raises(glovebox.ConflictError) as caught:
        box.run("1")
    assert caught.value.status == 409 and caught.value.code == "conflict"
    run.kill()
    assert run.wait(60).verdict == "cancelled"
    assert box.run("1").text == "1"


def test_threads_share_a_sandbox(box):
    contexts = [box.context() for _ in range(4)]
    failures = []

    def work(context, number):
        try:
            for i in range(5):
                assert context.run(f"{number} * 100 + {i}").text == str(number * 100 + i)
        except BaseException as error:
            failures.append(error)
    threads = [threading.Thread(target=work, args=(context, n)) for n, context in enumerate(contexts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures, failures


def test_its_life(client):
    box = client.sandbox(name="mine", metadata={"a": "b"}, idle_timeout=300, max_lifetime="10m")
    with pytest.raises(glovebox.UsageError):
        box.id
    assert "not opened" in repr(box) and not box.is_open
    assert box.run("1").text == "1"  # opened by the first run
    info = box.info()
    assert (info.id, info.name, info.metadata, info.idle_timeout, info.max_lifetime) == (box.id, "mine", {"a": "b"}, 300.0, 600.0)
    assert info.state == "ready" and info.created_at.tzinfo is not None and info.runs_total == 1 and info.controls["seccomp"].enforced
    changed = box.patch(idle_timeout=200, name="yours", metadata={"c": "d"})
    assert (changed.idle_timeout, changed.name, changed.metadata) == (200.0, "yours", {"c": "d"})
    assert box.keep_alive().id == box.id
    assert box.id in [each.id for each in client.sessions()] and box.id in [each.id for each in glovebox.sessions(client=client)]
    with glovebox.Sandbox.attach(box.id, client=client) as other:
        assert other.run("2").text == "2"
    assert box.run("3").text == "3"  # detaching has left it there
    assert len(box.runs()) == 3
    box.close()
    box.close()
    assert "closed" in repr(box)
    with pytest.raises(glovebox.UsageError, match="closed"):
        box.run("1")
    with pytest.raises(glovebox.NotFoundError):
        client.session(box.id)
    with pytest.raises(glovebox.NotFoundError):
        glovebox.Sandbox.attach(box.id, client=client).open()
    with pytest.raises(glovebox.NotFoundError):
        glovebox.Sandbox.attach("../x", client=client).run("1")


def test_deleting_an_attached_one(client):
    with client.sandbox() as box:
        client.attach(box.id).delete()
        with pytest.raises(glovebox.NotFoundError):
            box.run("1")
    other = client.sandbox().open()
    client.delete_session(other.id)
    other.close()  # it is gone already


def test_one_that_was_forgotten_warns(client):
    box = client.sandbox().open()
    session = box.id
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del box
        gc.collect()
    assert any(issubclass(each.category, ResourceWarning) and session in str(each.message) for each in caught)
    client.delete_session(session)


def test_wrong_values_are_refused_by_name(client):
    with pytest.raises(glovebox.GloveboxError) as caught:
        client.sandbox(policy={"mem_limt": "1g"}).open()
    assert caught.value.status == 400 and "mem_limt" in str(caught.value)
    with pytest.raises(glovebox.GloveboxError) as caught:
        client.sandbox(trust="no such level").open()
    assert caught.value.status in (400, 404)
    with pytest.raises(glovebox.GloveboxError) as caught:
        client.run("1", timeout="99h")
    assert caught.value.status == 400
    with pytest.raises(glovebox.GloveboxError, match="klingon") as caught:
        client.run("1", language="klingon")
    assert caught.value.status in (400, 404)
    with pytest.raises(glovebox.GloveboxError):
        client.sandbox(template="no-such-template").open()


def test_statistics(box):
    box.run("1")
    sample = box.stats()
    assert sample.session == box.id and sample.runs_total == 1 and sample.time is not None and sample.pids_limit == 128
    run = box.start("import time\nwhile True: time.sleep(0.01)")
    assert wait_until(lambda: run.info().state == "running", 30)
    assert run.stats().run == run.id
    with box.stats_stream(interval=0.1) as samples:
        seen = [next(samples) for _ in range(3)]
    assert seen[0].cpu_percent is None and all(each.session == box.id for each in seen) and seen[-1].runs_active == 1
    assert list(samples) == []  # closed
    run.kill()
    run.wait(60)
    with pytest.raises(glovebox.ConflictError):
        run.stats()


def test_statistics_end_with_the_session(client):
    with client.sandbox() as box:
        samples = iter(box.stats_stream(interval=0.1))
        next(samples)
    assert sum(1 for _ in samples) < 100


def test_one_shot(client):
    result = client.run("import sys; print(sys.argv[1:], open('a').read(), open('b', 'rb').read())", args=["x"], files={"a": "text", "b": b"\xff"})
    assert result.stdout == "['x'] text b'\\xff'\n" and result.ok and result.exit_code == 0, result.raw
    assert client.run("cat; exit 4", language="sh", stdin="in").exit_code == 4
    assert glovebox.run("print(1)", client=client).stdout == "1\n"
    assert client.run("print(1)", template=None).controls["layout"].enforced
    seen = []
    assert client.run("print(5)", on_stdout=seen.append).ok and seen == ["5\n"]
    with pytest.raises(glovebox.ErrorVerdict):
        client.run("raise SystemExit(1)", check=True)


def test_detached_runs(client, box):
    run = box.start("import time\nprint('begun', flush=True)\ntime.sleep(600)")
    with pytest.raises(TimeoutError):
        run.wait(0.3)
    assert run.info().session == box.id
    first = next(event for event in run.events() if isinstance(event, glovebox.Output))
    assert first.text == "begun\n" and run.info().state == "running"  # leaving the loop has left it alone
    run.cancel()
    result = run.wait(60)
    assert result.verdict == "cancelled" and result.stdout == "begun\n" and run.wait() is result
    again = client.get_run(run.id)
    assert again.info().ended and again.info().result.verdict == "cancelled" and again.wait().stdout == "begun\n"
    late = again.events(from_=2)
    assert [event.seq for event in late][0] == 2
    with pytest.raises(glovebox.UsageError):
        late.result
    with pytest.raises(glovebox.NotFoundError):
        client.get_run("0" * 32)
    assert run.id in [each.id for each in client.runs(session=box.id)]
    assert len(client.runs(limit=1)) == 1 and client.runs(state="running", session=box.id) == []


def test_standard_input_of_a_run_that_goes_on(box):
    run = box.start("while True:\n    try: line = input()\n    except EOFError: break\n    print(line * 2, flush=True)\nprint('end')", context="fresh",
                    interactive=True)
    run.write_stdin("ab\n")
    events = iter(run.events())
    assert next(event.text for event in events if isinstance(event, glovebox.Output)) == "abab\n"
    run.write_stdin(b"cd\n", close=True)
    assert run.wait(60).stdout == "abab\ncdcd\nend\n"
    with pytest.raises(glovebox.ConflictError):
        run.write_stdin("late")
    big = box.start("import sys; print(len(sys.stdin.read()))", context="fresh", interactive=True)
    big.write_stdin("x" * 3_000_000, close=True)
    assert big.wait(60).stdout == "3000000\n"


def test_about_the_server(client, server):
    info = client.info()
    assert info.version == glovebox.__version__ and info.api == "v1" and info.tenant == "local"
    assert client.policies()["default"] == "standard" and "python" in [each["name"] for each in client.templates()]
    assert "python" in [each["name"] for each in client.languages()] and client.doctor()["seccomp"].name == "seccomp"
    assert client.health() and client.ready() == "ready"
    assert client.stats().samples is not None
    client.run("print(1)")
    records = client.audit(limit=5)
    assert 0 < len(records) <= 5 and any(each.get("action") == "run" for each in client.audit())
    with client.stats_stream(0.1) as samples:
        next(samples)
        assert next(samples).server is not None


def test_tokens_over_tcp(server):
    url = "http://127.0.0.1:%d" % server.tcp[1]
    with glovebox.Client(url) as nobody:
        with pytest.raises(glovebox.UnauthorizedError):
            nobody.info()
    with glovebox.Client(url, "gbx_wrong") as wrong:
        with pytest.raises(glovebox.UnauthorizedError):
            wrong.run("1")
    with glovebox.Client(url, server.token("sdk", "run")) as mine, glovebox.Client(url, server.token("other", "run")) as theirs:
        assert mine.info().tenant == "sdk"
        with mine.sandbox() as box:
            assert box.run("1 + 1").text == "2"
            with pytest.raises(glovebox.NotFoundError):
                theirs.session(box.id)
            assert theirs.sessions() == []
            with pytest.raises(glovebox.DeniedError):
                mine.sandbox(workspace="/tmp").open()
    with glovebox.Client(url, server.token("sdk", "read")) as reader:
        with pytest.raises(glovebox.DeniedError):
            reader.run("1")


def test_the_environment_names_the_server(address, monkeypatch, server):
    monkeypatch.setenv("GLOVEBOX_SERVER", address)
    assert glovebox.run("print(7)").stdout == "7\n"
    with glovebox.Sandbox() as box:
        assert box.client.server == address and box.run("8").text == "8"
    monkeypatch.setenv("GLOVEBOX_SERVER", "http://127.0.0.1:%d" % server.tcp[1])
    monkeypatch.setenv("GLOVEBOX_TOKEN", server.token("env", "run"))
    with glovebox.Client() as client:
        assert client.info().tenant == "env"


def test_nobody_there(tmp_path):
    with glovebox.Client(f"unix:{tmp_path}/none.sock") as client:
        with pytest.raises(glovebox.ConnectionFailed, match="none.sock"):
            client.info()
    with glovebox.Client("http://127.0.0.1:1", "t") as client:
        with pytest.raises(glovebox.ConnectionFailed):
            client.run("1")
    with pytest.raises(glovebox.UsageError):
        glovebox.Sandbox(client=client, server="unix:/x")


def test_a_forked_child(box):
    """The child has connections of its own, and does not end what is the parent's."""
    box.run("x = 1")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            text = box.run("x + 1").text
            box.close()  # only forgets it
            os.write(writer, text.encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0 and said == b"2"
    assert box.run("x").text == "1"
