# SPDX-License-Identifier: Apache-2.0
"""141. Code inside makes files that a browser would show and run: pages, pictures with scripts, things that look like something else => always
bytes, as an attachment, not to be guessed at, and without the right to run anything.
"""
from file_fixtures import files_server, workspace

FILES = {"page.html": b"<html><script>alert(1)</script>", "picture.svg": b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "x.js": b"alert(1)", "data.json": b"{}", "none": b"<!doctype html>",
         "a.pdf": b"%PDF-1.4", "x.xhtml": b"<html xmlns='http://www.w3.org/1999/xhtml'/>", "\"; filename=evil.html\r\nX: y": b"<html>", "ünï.htm": b"<html>"}


def check(answer, kind):
    assert answer.headers["Content-Type"] == kind
    assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["Content-Disposition"] == "attachment"
    assert "sandbox" in answer.headers["Content-Security-Policy"] and answer.headers["Cache-Control"] == "no-store"
    assert "X" not in answer.headers and answer.headers.get("Access-Control-Allow-Origin") != "*"


def test_pages_as_files(workspace):
    workspace.run("\n".join(f"open({name!r}, 'wb').write({data!r})" for name, data in FILES.items()))
    for name, data in FILES.items():
        answer = workspace.get(name).expect(200)
        assert answer.body == data
        check(answer, "application/octet-stream")
    check(workspace.archive().expect(200), "application/x-tar")
    for other in ("text/html", "image/svg+xml"):
        got = workspace.server.get(f"{workspace.address}/files/page.html", headers={"Accept": other})
        assert got.status in (200, 406) and got.headers["Content-Type"] in ("application/octet-stream", "application/json")
