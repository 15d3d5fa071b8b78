# SPDX-License-Identifier: Apache-2.0
"""133. A client gives paths that lead up, are absolute, empty, doubled, encoded twice, too long, or no text => 400; what is only an unusual name
is that name and nothing else.
"""
import pytest

from file_fixtures import files_server, tar_of, workspace

WRONG = ["..", "../x", "a/../../x", "a/..", "./a", "a/.", ".", "a//b", "a/", "/etc/passwd", "//sandbox/x", "%2e%2e/x", "..%2fx", "%2e%2e%2fx", "a/%2e%2e/x", "%2fetc%2fpasswd", "a%00b", "%00",
         "x%ff", "%c0%ae%c0%ae/x", "%c0%af", "%ed%a0%80", "%", "%2", "%zz", "x" * 4096, "a/" * 2048 + "b", "/sandbox", "/sandbox/", "/sandbox/../x", "/sandboxes/x"]
UNUSUAL = ["..%5c..%5cx", "a%5cb", "...", "%252e%252e%252fx", "~", "~root", "-rf", "C:", "x%0ay", "%20", "a%3Bb", "%24%28id%29", "x%0d%0aSet-Cookie%3a%201"]


@pytest.mark.parametrize("path", WRONG, ids=[w[:24] for w in WRONG])
def test_refused(workspace, path):
    before = workspace.names()
    for method in ("GET", "PUT", "DELETE"):
        answer = workspace.server.request(method, f"{workspace.address}/files/{path}", body=b"x" if method == "PUT" else None)
        # A path that has become another address is not this one's.
        assert answer.status in (400, 404, 405, 414), (method, path, answer.explain())
        if answer.status != 404:
            assert answer.code in ("usage", "protocol", "method"), answer.explain()
        else:
            assert method != "PUT", answer.explain()
    assert workspace.names() == before


@pytest.mark.parametrize("path", UNUSUAL)
def test_only_a_name(workspace, path):
    address = f"{workspace.address}/files/{path}"
    assert workspace.server.get(address).expect(404).code == "not_found"
    workspace.server.put(address, b"x").expect(201)
    got = workspace.server.get(address).expect(200)
    assert got.body == b"x" and "Set-Cookie" not in got.headers
    assert len(workspace.names()) == 1 and workspace.run("import os; print(os.listdir('/sandbox') == os.listdir('.'), len(os.listdir('.')))") == "True 1\n"


def test_in_queries(workspace):
    for path in ("..", "../..", "/etc", "a/../..", "%2e%2e", "%00", "", "x" * 4096, "%ff"):
        for address in (f"{workspace.address}/files?path={path}", f"{workspace.address}/archive?path={path}"):
            answer = workspace.server.get(address)
            assert answer.status in (400, 414) and answer.code in ("usage", "protocol"), (path, answer.explain())
        answer = workspace.server.put(f"{workspace.address}/archive?path={path}", tar_of(("x", b"")), headers={"Content-Type": "application/x-tar"})
        assert answer.status in (400, 414), (path, answer.explain())
    assert workspace.names() == []
