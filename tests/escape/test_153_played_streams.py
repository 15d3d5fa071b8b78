# SPDX-License-Identifier: Apache-2.0
"""153. The program closes, replaces and reconfigures its standard streams, fills a pipe and exits => nothing happens to the host, the last bytes are kept.
"""
import os


def test_closes_everything(box):
    result = box.run("import os\nos.write(1, b'token')\nfor fd in range(3): os.close(fd)\nos._exit(5)")
    assert (result.stdout, result.exit_code) == ("token", 5), result.explain()


def test_swaps_streams(box):
    result = box.run("import os\nos.dup2(1, 9); os.dup2(2, 1); os.dup2(9, 2)\nos.write(1, b'to stderr'); os.write(2, b'to stdout')")
    assert (result.stdout, result.stderr) == ("to stdout", "to stderr")


def test_non_blocking_and_tiny_pipe(box):
    code = """
import fcntl, os
for fd in (0, 1, 2):
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
fcntl.fcntl(1, 1031, 4096)
os.write(2, b'token')
n = 0
while n < 300000:
    try:
        n += os.write(1, b'x' * (300000 - n))
    except BlockingIOError:
        pass
"""
    result = box.run(code, stdin=b"abc")
    assert result.stderr == "token" and len(result.stdout) == 300000


def test_flags_do_not_reach_the_caller(box):
    """O_NONBLOCK set inside is not seen on the caller's own descriptors."""
    pipes = [os.pipe(), os.pipe()]
    code = "import fcntl, os\nfor fd in (0, 1, 2): fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)\nos.write(1, b'token')"
    box.finish(box.start(code, json=False, stdin=pipes[0][0], stdout=pipes[1][1]))
    assert os.get_blocking(pipes[0][0]) and os.get_blocking(pipes[1][1])
    os.close(pipes[1][1])
    assert os.read(pipes[1][0], 100) == b"token"
    for fd in (*pipes[0], pipes[1][0]):
        os.close(fd)


def test_last_bytes_are_kept(box):
    result = box.run("import os; os.write(1, b'x' * 65535 + b'!'); os._exit(3)")
    assert len(result.stdout) == 65536 and result.stdout.endswith("!") and result.exit_code == 3


def test_child_that_keeps_the_pipe_open(box):
    result = box.run("import os, time\nif os.fork() == 0:\n    time.sleep(1000)\nprint('token')", timeout="10s")
    assert (result.stdout, result.verdict) == ("token\n", "ok") and result.json["duration_ms"] < 8000
