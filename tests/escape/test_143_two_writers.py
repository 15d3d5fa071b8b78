# SPDX-License-Identifier: Apache-2.0
"""143. Two clients and the code inside write the same file at once => who reads sees one of them whole, never a mixture.
"""
import threading
import time

from file_fixtures import Workspace, files_server

SIZE = 400_000


def test_two_writers(files_server):
    space = Workspace(files_server, policy={"disk_limit": "50m"})
    space.put("f", b"0" * SIZE).expect(201)
    run = space.start(f"import os\nprint('on', flush=True)\nwhile True:\n    open('own', 'w').write('i' * {SIZE})\n    os.rename('own', 'f')", timeout=60)
    end, wrong = time.monotonic() + 4, []

    def write(letter):
        while time.monotonic() < end and not wrong:
            answer = space.put("f", letter * SIZE)
            if answer.status != 201:
                wrong.append(answer.explain())

    writers = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b")]
    for writer in writers:
        writer.start()
    seen = set()
    while time.monotonic() < end and not wrong:
        body = space.get("f").expect(200).body
        assert len(body) == SIZE and len(set(body)) == 1
        seen.add(body[:1])
    for writer in writers:
        writer.join()
    space.kill(run)
    assert not wrong and len(seen) > 1, (wrong, seen)
    assert [n for n in space.names() if n not in ("f", "own")] == []
    space.close()
