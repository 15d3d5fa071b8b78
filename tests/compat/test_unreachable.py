# SPDX-License-Identifier: Apache-2.0
"""A box whose server cannot be reached may live: nobody reports it as ended, forgets it, or removes its files."""
import pytest

from glovebox import Client
from glovebox.compat.dolphin import DockerSandboxExecutor
from glovebox.compat.ironclaw import SandboxManager
from glovebox.compat.policy import ContainerManager
from glovebox.errors import ConnectionFailed
from server import Server


class Way:
    """The way to a server that goes on. It can be cut, and is there again after that."""

    def __init__(self, server, path):
        self._server, self._path = server, path
        self.there = Client(f"unix:{server.socket}")
        self.client = Client(f"unix:{path}", retry_for=0)
        self.client.close()  # connections are not kept
        self.mend()

    def cut(self):
        self._path.unlink()

    def mend(self):
        self._path.symlink_to(self._server.socket)

    def sessions(self):
        return {session.id for session in self.there.sessions()}


@pytest.fixture(scope="module")
def server(nothing_left_at_the_end):
    with Server(private=True) as made:
        yield made


@pytest.fixture
def way(server, tmp_path, monkeypatch):
    monkeypatch.setenv("GLOVEBOX_BACKEND", "native")  # other tests of this suite may have chosen
    made = Way(server, tmp_path / "way.sock")
    yield made
    for id in made.sessions():
        made.there.delete_session(id)
    made.there.close()


def test_a_container_is_not_removed(way):
    manager = ContainerManager(client=way.client)
    boxes = [manager.create_container() for _ in range(3)]
    way.cut()
    for remove in (lambda: manager.remove_container(boxes[0]), manager.cleanup, manager.cleanup):
        with pytest.raises(ConnectionFailed):
            remove()
    assert way.sessions() == {box.id for box in boxes}
    way.mend()
    assert manager.remove_container(boxes[0]) and manager.cleanup() == 2 and manager.cleanup() == 0
    assert not way.sessions()


def test_one_that_was_closed_meanwhile_is_removed_later(way):
    """close() says nothing of the session, and so does `with`: the manager still has it."""
    with ContainerManager(client=way.client) as manager:
        box, other = manager.create_container(), manager.create_container()
        way.cut()
        box.close()
    assert not box.is_open and not other.is_open and len(way.sessions()) == 2
    way.mend()
    assert manager.remove_container(box) and manager.cleanup() == 1 and not way.sessions()


def test_files_of_a_box_that_may_live_stay(way, tmp_path):
    executor = DockerSandboxExecutor("one", str(tmp_path / "base"), template="python", client=way.client)
    executor.execute_code("open('made', 'w').write('x')")
    way.cut()
    for _ in range(2):
        with pytest.raises(ConnectionFailed):
            executor.cleanup(remove_files=True)
    assert (executor.host_dir / "made").read_text() == "x" and len(way.sessions()) == 1
    way.mend()
    executor.cleanup(remove_files=True)
    assert not executor.host_dir.exists() and not way.sessions()
    way.cut()
    executor.cleanup(remove_files=True)  # it has ended: nobody needs to be asked


def test_an_executor_without_a_box_needs_no_server(way, tmp_path):
    executor = DockerSandboxExecutor("none", str(tmp_path / "base"), template="python", client=way.client)
    way.cut()
    executor.cleanup(remove_files=True)
    assert not executor.host_dir.exists()


def test_a_box_that_was_not_stopped_is_stopped_later(way, tmp_path):
    manager = SandboxManager(tmp_path / "workspace", template="python", client=way.client)
    manager.get_or_create_container()
    way.cut()
    for _ in range(2):
        with pytest.raises(ConnectionFailed):
            manager.stop_container()
    assert len(way.sessions()) == 1
    way.mend()
    manager.stop_container()
    assert not way.sessions()
