# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of a real server, with asyncio."""
import asyncio
import os

import pytest

import glovebox
from glovebox import AsyncClient, AsyncSandbox
from sdk_helpers import each_backend

pytestmark = each_backend

PATIENCE = 120


def run(coroutine):
    """asyncio.run, which must not hang, with the loop's own checks."""
    async def bounded():
        return await asyncio.wait_for(coroutine, PATIENCE)
    return asyncio.run(bounded(), debug=True)


def test_variables_output_and_values(address):
    async def main():
        async with AsyncSandbox(server=address, memory="256m") as box:
            await box.run("x = 6 * 7")
            result = await box.run("print('out'); x")
            assert (result.stdout, result.text, result.verdict) == ("out\n", "42", "ok")
            assert result.limits.memory_bytes == 256 << 20
            with pytest.raises(glovebox.ErrorVerdict):
                await box.run("1 / 0", check=True)
            assert (await box.info()).id == box.id and (await box.stats()).session == box.id
            async with await box.context() as other:
                assert (await other.run("x")).error.name == "NameError"
            await box.restart()
            assert (await box.run("x")).error.name == "NameError"
            return box.id
    session = run(main())

    async def gone():
        async with AsyncClient(address) as client:
            with pytest.raises(glovebox.NotFoundError):
                await client.session(session)
            assert (await client.run("print(2)")).stdout == "2\n"
    run(gone())
    assert run(glovebox.run_async("print(3)", server=address)).stdout == "3\n"


def test_streams(address):
    async def main():
        async with AsyncSandbox(server=address) as box:
            async with box.stream("for i in range(5): print(i, flush=True)\n'v'") as stream:
                events = [event async for event in stream]
            assert isinstance(events[0], glovebox.Started) and isinstance(events[-1], glovebox.VerdictEvent)
            assert "".join(event.text for event in events if isinstance(event, glovebox.Output)) == "0\n1\n2\n3\n4\n"
            assert stream.result.text == "'v'" and stream.ended
            async with box.stream("import time\nprint(1, flush=True)\ntime.sleep(600)") as stream:
                async for event in stream:
                    if isinstance(event, glovebox.Output):
                        break
            assert stream.result.verdict == "cancelled"
            assert (await box.run("1")).text == "1"

            async def later(text):
                await asyncio.sleep(0)
                said.append(text)
            said = []
            await box.run("print('a'); print('b')", on_stdout=later)
            assert "".join(said) == "a\nb\n"
    run(main())


def test_detached_and_interrupted(address):
    async def main():
        async with AsyncSandbox(server=address) as box:
            started = await box.start("import time\nprint('begun', flush=True)\ntime.sleep(600)")
            with pytest.raises(TimeoutError):
                await started.wait(0.2)
            waiting = asyncio.ensure_future(started.wait())
            while (await started.info()).state != "running":
                await asyncio.sleep(0.02)
            async for event in started.events():
                if isinstance(event, glovebox.Output):
                    break
            assert await box.interrupt() == 1
            result = await waiting
            assert result.error.name == "KeyboardInterrupt" and result.stdout == "begun\n"
            fresh = await box.start("print(input())", context="fresh", interactive=True)
            await fresh.write_stdin("typed\n")
            assert (await fresh.wait()).stdout == "typed\n"
    run(main())


def test_a_cancelled_task_cancels_its_run(address):
    async def main():
        async with AsyncClient(address) as client, client.sandbox() as box:
            await box.run("1")
            task = asyncio.ensure_future(box.run("import time\nprint('on', flush=True)\ntime.sleep(600)"))
            while not await client.runs(session=box.id, state="running"):
                await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await client.runs(session=box.id, state="running") == []
            newest = (await client.runs(session=box.id))[0]
            assert (await (await client.get_run(newest.id)).wait()).verdict == "cancelled"
            assert len(await client.runs(session=box.id)) == 2  # it was not run a second time
            assert (await box.run("2")).text == "2"
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(box.run("import time; time.sleep(600)"), 1)
            assert (await box.run("3")).text == "3"
    run(main())


def test_a_sandbox_whose_opening_was_cancelled_is_not_left(address, proxy):
    async def main():
        async with AsyncClient(address) as direct, AsyncClient(proxy.address) as client:
            before = {session.id for session in await direct.sessions()}
            proxy.plan = ["hold"]
            task = asyncio.ensure_future(client.sandbox().open())
            while not proxy.held:
                await asyncio.sleep(0.01)
            assert {session.id for session in await direct.sessions()} - before
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not {session.id for session in await direct.sessions()} - before
    run(main())


def test_files(address, tmp_path):
    async def main():
        async with AsyncSandbox(server=address) as box:
            await box.files.write("d/a", b"\x00\xff" * 1000)
            assert await box.files.read("d/a") == b"\x00\xff" * 1000 and await box.files.exists("d") and not await box.files.exists("e")
            (tmp_path / "up").mkdir()
            (tmp_path / "up/f").write_text("f")
            assert await box.files.push_dir(tmp_path / "up", "pushed") >= 1
            pulled = await box.files.pull_dir("", tmp_path / "down")
            assert pulled.files == 2 and (tmp_path / "down/pushed/f").read_text() == "f"
            assert await box.files.download("d/a", tmp_path / "a") == str(tmp_path / "a") and os.path.getsize(tmp_path / "a") == 2000
            assert await box.files.upload(tmp_path / "a") == 2000
            assert [entry.name for entry in await box.files.list("d")] == ["a"]
    run(main())


def test_statistics(address):
    async def main():
        async with AsyncSandbox(server=address) as box:
            async with box.stats_stream(0.1) as samples:
                seen = []
                async for sample in samples:
                    seen.append(sample)
                    if len(seen) == 3:
                        break
            assert seen[1].session == box.id
            assert [sample async for sample in samples] == []
    run(main())


def test_fifty_at_once(address):
    async def work(client, number):
        async with client.sandbox(memory="64m", metadata={"n": str(number)}) as box:
            assert (await box.run(f"x = {number}")).ok
            async with box.stream("print(x)") as stream:
                await stream.wait()
            assert stream.result.stdout == f"{number}\n"
            assert (await box.run("x * 2")).text == str(number * 2)
            return box.id

    async def main():
        async with AsyncClient(address) as client:
            ids = await asyncio.gather(*(work(client, number) for number in range(50)))
            assert len(set(ids)) == 50
            alive = {session.id for session in await client.sessions()}
            assert not alive & set(ids)
    run(main())


def test_one_client_in_two_loops(address):
    """Connections belong to a loop; the client does not."""
    client = AsyncClient(address)

    async def main():
        said = (await client.run("print(1)")).stdout
        await client.close()
        return said
    assert run(main()) == "1\n" and run(main()) == "1\n"


def test_nobody_there(tmp_path):
    async def main():
        async with AsyncClient(f"unix:{tmp_path}/none.sock") as client:
            with pytest.raises(glovebox.ConnectionFailed):
                await client.info()
    run(main())
