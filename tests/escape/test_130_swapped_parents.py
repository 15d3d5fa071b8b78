# SPDX-License-Identifier: Apache-2.0
"""130. Code inside exchanges a directory and a link to one of the host as fast as it can, while the API reads, writes, lists, removes
and archives below it => what comes is never the host's, and nothing of the host changes.
"""
import os
import threading
import time

from file_fixtures import encode, files_server, tar_open, workspace

SECONDS = 6
SWAP = "import ctypes\nrename = ctypes.CDLL(None).renameat2\nprint('on', flush=True)\nwhile True: rename(-100, b'd', -100, b'link', 2)"


class Visitor(threading.Thread):
    """One client; what it saw that it must not is in `wrong`."""

    def __init__(self, workspace, end, index):
        super().__init__()
        self.workspace, self.end, self.index = workspace, end, index
        self.done = self.refused = 0
        self.wrong = []

    def ask(self, method, path, body=None):
        answer = self.workspace.server.request(method, f"{self.workspace.address}/{path}", body=body, connection=self.connection)
        if answer.status < 300:
            self.done += 1
        else:
            self.refused += 1
            if answer.status not in (400, 404, 409):
                self.wrong.append(answer.explain())
        return answer

    def run(self):
        self.connection = self.workspace.server.connection()
        try:
            while time.monotonic() < self.end:
                got = self.ask("GET", "files/d/secret")
                if got.status == 200 and got.body != b"ours":
                    self.wrong.append(got.body)
                listed = self.ask("GET", "files?path=d")
                if listed.status == 200 and "host" in {e["name"] for e in listed.json["entries"]}:
                    self.wrong.append(listed.body)
                self.ask("PUT", f"files/d/made-{self.index}", b"x")
                self.ask("PUT", f"files/{encode(f'd/tree-{self.index}/a/b')}?parents=true", b"x")
                self.ask("DELETE", f"files/d/tree-{self.index}?recursive=true")
                packed = self.workspace.server.get(f"{self.workspace.address}/archive?path=d")
                if packed.status == 200:
                    with tar_open(packed.body) as archive:
                        if "host" in archive.getnames():
                            self.wrong.append(archive.getnames())
        except Exception as error:  # told by the main thread
            self.wrong.append(repr(error))
        finally:
            self.connection.close()


def test_swapped_parents(workspace, scratch):
    outside = scratch / "outside"
    outside.mkdir()
    for name in ("secret", "host"):
        (outside / name).write_text("the host's")
        (outside / name).chmod(0o666)
    outside.chmod(0o777)
    workspace.run(f"import os\nos.mkdir('d'); open('d/secret', 'w').write('ours'); os.symlink({str(outside)!r}, 'link')")
    run = workspace.start(SWAP, timeout=60)
    visitors = [Visitor(workspace, time.monotonic() + SECONDS, i) for i in range(3)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    workspace.kill(run)
    assert [v.wrong for v in visitors] == [[], [], []]
    assert sum(v.done for v in visitors) > 50 and sum(v.refused for v in visitors) > 50, "both happened"
    assert sorted(os.listdir(outside)) == ["host", "secret"] and (outside / "secret").read_text() == "the host's"
