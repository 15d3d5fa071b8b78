# SPDX-License-Identifier: Apache-2.0
"""140. A client guesses ids of sessions: others' letters, parts, twins in other scripts, ways up, ids of sessions that are gone =>
404, or no address at all; ids are 128 random bits.
"""
from file_fixtures import Workspace, files_server, workspace


def test_guesses(workspace):
    own = workspace.id
    twins = [own.upper(), own[:-1], own + "0", own[::-1], "0" * 32, own.replace(own[0], "%EF%BC%90", 1), own + "%00", own + "%20", "%20" + own, own + "/", own + "%2f", "..%2f" + own,
             "*", "%25", "'", own[:16] + "%0a" + own[16:]]
    for guess in twins:
        if guess == own:
            continue
        for tail in ("", "/files", "/files/x", "/archive", "/stats", "/contexts"):
            answer = workspace.server.get(f"/v1/sessions/{guess}{tail}")
            assert answer.status in (400, 404), (guess, tail, answer.explain())
    assert workspace.server.get(f"/v1/sessions/{own}").status == 200


def test_after_the_end(files_server):
    space = Workspace(files_server)
    space.put("x", b"x").expect(201)
    space.close()
    for answer in (space.get("x"), space.put("x", b""), space.delete("x"), space.list(), space.archive(), files_server.get(space.address), files_server.delete(space.address)):
        assert answer.expect(404).code == "not_found"


def test_ids_are_random(files_server):
    ids = [files_server.session(template=None) for _ in range(40)]
    numbers = [int(i, 16) for i in ids]
    assert len(set(ids)) == 40 and all(len(i) == 32 for i in ids)
    ones = [sum(n >> bit & 1 for n in numbers) for bit in range(128)]
    assert all(2 < count < 38 for count in ones), "each bit is one or zero about as often"
    for one in ids:
        files_server.delete(f"/v1/sessions/{one}").expect(204)
