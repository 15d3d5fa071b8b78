# SPDX-License-Identifier: Apache-2.0
"""135. Code inside replaces a name without pause: a file, a FIFO, a directory, a link to the host, nothing => what was opened is what is
judged: its bytes, or a refusal; nobody waits, and the host's bytes never come.
"""
import time

from file_fixtures import files_server, workspace

PLAY = """
import os, itertools
def make(kind):
    if kind == 'file': open('new', 'w').write('ours')
    if kind == 'fifo': os.mkfifo('new')
    if kind == 'link': os.symlink('/etc/passwd', 'new')
    if kind == 'dir': os.mkdir('new')
print('on', flush=True)
for kind in itertools.cycle(['file', 'fifo', 'link', 'dir', 'none']):
    try:
        if os.path.isdir('f') and not os.path.islink('f'): os.rmdir('f')
        if kind != 'none':
            make(kind)
            if kind == 'dir' and os.path.lexists('f'): os.unlink('f')
            os.rename('new', 'f')
        elif os.path.lexists('f'): os.unlink('f')
    except OSError:
        os.system('rm -rf new')
"""


def test_files_that_are_replaced(workspace):
    run = workspace.start(PLAY, timeout=60)
    seen = set()
    end = time.monotonic() + 5
    while time.monotonic() < end:
        start = time.monotonic()
        answer = workspace.get("f")
        assert time.monotonic() - start < 15
        assert answer.status in (200, 400, 404, 409), answer.explain()
        seen.add(answer.status)
        if answer.status == 200:
            assert answer.body in (b"ours", b""), answer.body[:100]
        packed = workspace.archive()
        assert packed.status in (200, 400, 404) and b"root:x:" not in packed.body
    workspace.kill(run)
    assert len(seen) > 1, seen
