# SPDX-License-Identifier: Apache-2.0
"""139. Code inside prepares its workspace for who removes it: links to everything, closed directories, a hundred thousand files, trees deeper
than paths, a directory somebody stands in, and new files without pause => only the tree itself goes, in bounded time; the host is as before.
"""
import os
import time

import pytest

from file_fixtures import Workspace, files_server
from server import Server

FARM = """
import os
os.mkdir('farm')
for i in range(300): os.symlink('/', f'farm/{i}')
for i, target in enumerate(['/etc', '/tmp', '/usr', '..', '.', '/proc/self/root', '/sandbox/../..']): os.symlink(target, f'farm/x{i}')
os.mkdir('farm/closed'); os.mkdir('farm/closed/in'); open('farm/closed/in/f', 'w').close(); os.symlink('/', 'farm/closed/in/l')
os.mkfifo('farm/fifo')
os.chmod('farm/closed/in', 0); os.chmod('farm/closed', 0); os.chmod('farm', 0o500)
"""


@pytest.fixture
def sentinel(scratch):
    """Something next to the workspaces that nobody must touch."""
    place = scratch / "sentinel"
    place.mkdir()
    (place / "file").write_text("here")
    place.chmod(0o777)
    yield place
    assert [p.name for p in place.iterdir()] == ["file"] and (place / "file").read_text() == "here"


def test_farm_of_links(files_server, sentinel):
    before = sorted(os.listdir("/etc"))
    space = Workspace(files_server)
    space.run(FARM + f"os.chmod('farm', 0o700); os.symlink({str(sentinel)!r}, 'farm/sentinel'); os.chmod('farm', 0o500)")
    assert space.delete("farm").expect(409).code == "conflict"
    space.delete("farm", recursive=True).expect(204)
    assert space.names() == [] and sorted(os.listdir("/etc")) == before
    space.close()


def test_many_files(files_server):
    space = Workspace(files_server, policy={"inode_limit": 200_000, "timeout": "120s", "mem_limit": "1g"})
    space.run("import os\nos.mkdir('many')\nfor i in range(100_000): os.close(os.open(f'many/{i}', os.O_CREAT | os.O_WRONLY))")
    page = space.list("many", limit=1000).expect(200).json
    assert len(page["entries"]) == 1000 and page["next"]
    start = time.monotonic()
    space.delete("many", recursive=True).expect(204)
    assert time.monotonic() - start < 30 and space.names() == []
    space.close()


def test_deep_tree(files_server):
    """As deep as code gets in some seconds; src/engine/test_files_tree.c has 50,000."""
    space = Workspace(files_server, policy={"timeout": "120s"})
    space.run("import os\nfor i in range(6000):\n    os.mkdir('d', 0o300 if i % 3 else 0o700); os.chdir('d')\nos.chdir('/sandbox')")
    start = time.monotonic()
    space.delete("d", recursive=True).expect(204)
    assert time.monotonic() - start < 30 and space.names() == []
    space.close()


def test_somebody_is_in_it(files_server):
    space = Workspace(files_server)
    run = space.start("import os, time\nos.makedirs('d/e'); os.chdir('d/e'); f = open('open', 'w')\nprint('on', flush=True)\ntime.sleep(60)", timeout=60)
    space.delete("d", recursive=True).expect(204)
    assert space.names() == []
    space.kill(run)
    space.close()


def test_more_files_without_pause(files_server, sentinel):
    """It ends, with success or by saying that it cannot; and the session goes away all the same."""
    space = Workspace(files_server, policy={"inode_limit": 5000})
    space.start(f"""
import os, itertools
os.symlink({str(sentinel)!r}, 'out')
print('on', flush=True)
for i in itertools.count():
    try:
        os.makedirs(f'd/{{i % 20}}/x', exist_ok=True)
        open(f'd/{{i % 20}}/x/{{i % 200}}', 'w').close()
        if i % 7 == 0: os.symlink({str(sentinel)!r}, f'd/{{i % 20}}/l{{i}}')
    except OSError: pass
""", timeout=120)
    for _ in range(3):
        start = time.monotonic()
        answer = space.delete("d", recursive=True)
        assert answer.status in (204, 404, 409) and time.monotonic() - start < 60, answer.explain()
    start = time.monotonic()
    space.close()
    assert time.monotonic() - start < 30


def test_on_the_host(binary, scratch, sentinel):
    """The same in a kept workspace, whose files are the host's own."""
    with Server(workspaces=str(scratch / "kept")) as server:
        space = Workspace(server, workspace="kept")
        path = server.get(space.address).json["workspace"]["path"]
        space.put("stays", b"x").expect(201)
        server.run(FARM, space.id, context=None)
        space.put("more", b"x").expect(507)  # the farm has directories that cannot be looked into: its size is not known
        space.delete("farm", recursive=True).expect(204)
        assert os.listdir(path) == ["stays"]
        space.close()
        assert os.listdir(path) == ["stays"]
