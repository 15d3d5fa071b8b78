# SPDX-License-Identifier: Apache-2.0
"""The workspace of a session of a server, for tests of files.

    from file_fixtures import files_server, workspace

    def test_something(workspace):
        workspace.put("a.txt", b"x").expect(201)
        assert workspace.names() == ["a.txt"]
"""
import io
import tarfile
import urllib.parse

import pytest

from server import Server

TAR, GZIP = "application/x-tar", "application/gzip"


def encode(path):
    return urllib.parse.quote(path, safe="/")


class Workspace:
    def __init__(self, server, **fields):
        self.server, self.id = server, server.session(**fields)
        self.address = f"/v1/sessions/{self.id}"

    def _query(self, options):
        text = {k: v if isinstance(v, (str, bytes)) else str(v).lower() for k, v in options.items()}
        return "?" + urllib.parse.urlencode(text) if text else ""

    def put(self, path, body=b"", **query):
        return self.server.put(f"{self.address}/files/{encode(path)}{self._query(query)}", body)

    def get(self, path):
        return self.server.get(f"{self.address}/files/{encode(path)}")

    def delete(self, path, **query):
        return self.server.delete(f"{self.address}/files/{encode(path)}{self._query(query)}")

    def list(self, path=None, **query):
        if path is not None:
            query["path"] = path
        return self.server.get(f"{self.address}/files{self._query(query)}")

    def names(self, path=None):
        """All of them, by pages."""
        found, query = [], {}
        while True:
            page = self.list(path, limit=1000, **query).expect(200).json
            found += [entry["name"] for entry in page["entries"]]
            if page["next"] is None:
                return found
            query = {"cursor": page["next"]}

    def archive(self, path=None):
        return self.server.get(f"{self.address}/archive{self._query({'path': path} if path else {})}")

    def unpack(self, body, path=None, kind=TAR):
        return self.server.put(f"{self.address}/archive{self._query({'path': path} if path else {})}", body, headers={"Content-Type": kind})

    def run(self, code, **fields):
        """Python code in the session; it must end well. Its output."""
        result = self.server.run(code, self.id, **fields)["result"]
        assert result["verdict"]["kind"] == "ok", result
        return result["stdout"]

    def start(self, code, **fields):
        """The same, and it goes on: the run's id, when it has printed something."""
        run = self.server.post(f"{self.address}/runs", {"code": code, "detach": True, "context": None, **fields}).expect(202).json["id"]
        with self.server.get(f"/v1/runs/{run}/events", stream=True) as events:
            for event in events:
                assert event["event"] not in ("verdict", "error"), event
                if event["event"] == "stdout":
                    break
        return run

    def kill(self, run):
        self.server.post(f"/v1/runs/{run}/cancel", {"kill": True}).expect(202)
        return self.server.wait_run(run)

    def close(self):
        self.server.delete(self.address).expect(204)


@pytest.fixture(scope="module")
def files_server(binary):
    with Server() as server:
        yield server


@pytest.fixture
def workspace(files_server):
    space = Workspace(files_server)
    yield space
    space.close()


def tar_of(*entries, form=tarfile.PAX_FORMAT):
    """An archive of (name, bytes), (name, None) for directories, or TarInfo objects with what they hold."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form, encoding="utf-8", errors="surrogateescape") as archive:
        for name, data in entries:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            if data is None and not isinstance(name, tarfile.TarInfo):
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            if data is not None:
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data or b""))
    return stream.getvalue()


def tar_link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def tar_open(body):
    return tarfile.open(fileobj=io.BytesIO(body), encoding="utf-8", errors="surrogateescape")
