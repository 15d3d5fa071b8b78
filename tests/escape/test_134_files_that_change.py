# SPDX-License-Identifier: Apache-2.0
"""134. Code inside truncates and grows a file without pause while the API reads it, alone and in an archive => every answer is as long as it
said, or visibly cut; the server lives (it never maps a file of the box).
"""
import http.client
import time

from file_fixtures import files_server, tar_open, workspace

PLAY = "import os\nf = os.open('f', os.O_RDWR | os.O_CREAT)\nprint('on', flush=True)\nwhile True:\n    os.ftruncate(f, 0)\n    os.ftruncate(f, 3 << 20)\n    os.pwrite(f, b'1' * 100000, 1 << 20)\n    os.ftruncate(f, 5 << 20)"


def test_files_that_change(workspace):
    run = workspace.start(PLAY, timeout=60)
    whole = cut = 0
    end = time.monotonic() + 5
    while time.monotonic() < end or not whole:
        for address in ("files/f", "archive"):
            try:
                answer = workspace.server.get(f"{workspace.address}/{address}")
            except http.client.IncompleteRead:
                cut += 1
                continue
            assert answer.status in (200, 400, 404), answer.explain()
            if answer.status == 200:
                whole += 1
                if address == "archive":
                    with tar_open(answer.body) as archive:
                        assert all(len(archive.extractfile(m).read()) == m.size for m in archive)
                else:
                    assert len(answer.body) == int(answer.headers["Content-Length"]) <= 5 << 20
    with open(f"/proc/{workspace.server.pid}/maps") as maps:
        assert "sandbox" not in maps.read()
    workspace.kill(run)
    assert whole > 0 and workspace.server.get("/healthz").status == 200
