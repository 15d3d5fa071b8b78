# SPDX-License-Identifier: Apache-2.0
"""138. Code inside prepares what the API packs: hostile names, times before and after all clocks, files of holes, trees without end =>
names come back byte for byte, everything belongs to nobody in particular, times are sane, and what is larger than it may be is refused before the first byte.
"""
import http.client
import os

from file_fixtures import Workspace, files_server, tar_open, workspace

NAMES = [b"new\nline", b"esc\x1b]52;c;x\x07", b"\xff\xfe", b"-rf", b"x" * 255, "\u202efdp.exe".encode(), b" ", b"PaxHeader", b"...", b"a\\b", b"%2e%2e"]


def test_names_and_times(workspace):
    workspace.run(f"""
import os
for name in {NAMES!r}:
    open(name, 'wb').write(name)
os.mkdir('d')
for i, t in enumerate([-1, 0, 1, -2**40, 2**33, 2**35, 2**40]):
    open(f'd/{{i}}', 'w').close()
    try: os.utime(f'd/{{i}}', (t, t))
    except OSError: pass
try: os.chmod('d/0', 0o7777)
except OSError: pass
""")
    with tar_open(workspace.archive().expect(200).body) as archive:
        members = archive.getmembers()
        found = {os.fsencode(m.name): archive.extractfile(m).read() for m in members if m.isreg() and "/" not in m.name}
    assert found == {name: name for name in NAMES}
    for member in members:
        assert member.isreg() or member.isdir()
        assert (member.uid, member.gid, member.uname, member.gname) == (1000, 1000, "", "") and 0 <= member.mtime < 1 << 33 and member.mode <= 0o777
        assert not member.name.startswith("/") and ".." not in member.name.split("/")


def test_holes(files_server):
    space = Workspace(files_server, policy={"disk_limit": "8m"})
    space.run("open('small', 'w').write('x')\nf = open('holes', 'w')\nf.truncate(4 << 20)")
    with tar_open(space.archive().expect(200).body) as archive:
        assert archive.getmember("holes").size == 4 << 20
    for size in ("9 << 20", "1 << 40", "(1 << 62)"):
        space.run(f"import os; os.truncate('holes', {size})")
        answer = space.archive().expect(400)
        assert answer.code == "limit" and "holes" in answer.error["message"]
    space.run("os.unlink('holes')\nfor i in range(5): open(f'h{i}', 'w').truncate(2 << 20)")
    assert space.archive().expect(400).code == "limit", "many small ones count, too"
    space.close()


def test_trees_without_end(files_server):
    space = Workspace(files_server, policy={"inode_limit": 20000})
    space.run("import os\nfor i in range(5000):\n    os.mkdir('d'); os.chdir('d')\nos.chdir('/sandbox')")
    assert space.archive().expect(400).code == "limit"
    space.delete("d", recursive=True).expect(204)
    space.run("for i in range(20):\n    os.mkdir('n' * 250); os.chdir('n' * 250)\nos.chdir('/sandbox')")
    assert space.archive().expect(400).code == "limit"
    assert space.archive("n" * 250).status == 400
    space.close()


def test_tree_that_changes(workspace):
    """Made, moved and removed while it is packed: each entry that comes is whole, or the answer is cut."""
    run = workspace.start("""
import os, itertools
print('on', flush=True)
for i in itertools.count():
    try:
        os.makedirs(f't/{i % 7}/a', exist_ok=True)
        open(f't/{i % 7}/a/f', 'w').write('x' * (i % 5000))
        os.rename(f't/{i % 7}', f't/{(i + 3) % 7}-moved')
        os.system(f'rm -rf t/{i % 5}-moved') if i % 50 == 0 else None
    except OSError: pass
""", timeout=60)
    good = 0
    for _ in range(40):
        try:
            answer = workspace.archive()
        except http.client.IncompleteRead:
            continue
        assert answer.status in (200, 400, 404), answer.explain()
        if answer.status == 200:
            with tar_open(answer.body) as archive:
                good += all(not m.isreg() or len(archive.extractfile(m).read()) == m.size for m in archive)
    workspace.kill(run)
    assert good > 0
