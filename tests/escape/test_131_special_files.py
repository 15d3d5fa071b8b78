# SPDX-License-Identifier: Apache-2.0
"""131. Code inside puts FIFOs, sockets and links to devices in the place of files => refused at once: nobody waits for the other end of a
pipe, and nothing is read.
"""
import time

from file_fixtures import files_server, tar_of, workspace


def timed(call):
    start = time.monotonic()
    answer = call()
    assert time.monotonic() - start < 15, "somebody waited"
    return answer


def test_special_files(workspace):
    workspace.run("""
import os, socket
os.mkfifo('fifo')
socket.socket(socket.AF_UNIX).bind('socket')
for name, target in (('zero', '/dev/zero'), ('tty', '/dev/tty'), ('stdin', '/proc/self/fd/0'), ('mem', '/proc/self/mem'), ('kmsg', '/dev/kmsg')):
    os.symlink(target, name)
try:
    os.mknod('device', 0o20666, os.makedev(1, 5))
    print('a device was made')
except OSError as error:
    print(error.errno)
""")
    for name in ("fifo", "socket", "zero", "tty", "stdin", "mem", "kmsg", "fifo/x", "socket/x"):
        answer = timed(lambda n=name: workspace.get(n))
        assert answer.status == 400, (name, answer.explain())
        assert timed(lambda n=name: workspace.list(n)).status == 400
    assert timed(workspace.archive).expect(200).headers["Glovebox-Skipped"] == "7"
    assert timed(lambda: workspace.unpack(tar_of(("fifo/x", b"")))).status == 400
    for name in ("fifo", "socket", "zero"):
        timed(lambda n=name: workspace.put(n, b"a file")).expect(201)
        assert workspace.get(name).expect(200).body == b"a file"
        timed(lambda n=name: workspace.delete(n)).expect(204)


def test_fifo_with_a_writer(workspace):
    """Somebody is at the other end, too."""
    run = workspace.start("import os\nos.mkfifo('fifo')\nprint('on', flush=True)\nopen('fifo', 'w').write('from inside')\nimport time; time.sleep(30)")
    assert timed(lambda: workspace.get("fifo")).expect(400).code == "usage"
    workspace.kill(run)


def test_lease(workspace):
    """An open that would have to wait for the code to give up its lease does not."""
    run = workspace.start("import fcntl, signal, time\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\nf = open('leased', 'w')\n"
                          "try: fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK); print('leased', flush=True)\nexcept OSError: print('refused', flush=True)\ntime.sleep(30)")
    assert timed(lambda: workspace.get("leased")).status in (200, 409)
    workspace.kill(run)
