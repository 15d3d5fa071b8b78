# SPDX-License-Identifier: Apache-2.0
"""146. A client chooses names, metadata and a tenant that would be good parts of a path => in paths of the host there is nothing that
a client chose: a tenant's checked name, and ids that the server made.
"""
import os
import re

from file_fixtures import Workspace
from server import Server


def test_names_in_paths_of_the_host(binary, scratch):
    base = scratch / "kept"
    with Server(workspaces=str(base)) as server:
        names = ["../../evil", "/tmp/evil", "a/b", "..", "x" * 64, "%2e%2e", "new\nline", "$(id)"]
        spaces = [Workspace(server, workspace="kept", name=name, metadata={name: name, "path": "/etc"}) for name in names]
        for space in spaces:
            path = server.get(space.address).json["workspace"]["path"]
            assert re.fullmatch(re.escape(str(base)) + r"/local/[0-9a-f]{32}", path) and os.path.isdir(path)
            space.close()
        assert os.listdir(base) == ["local"] and len(os.listdir(base / "local")) == len(names)
        for wrong in ("../x", "kept/../..", {"kept": "x"}, {"path": "relative"}, {"path": "../x"}):
            assert server.post("/v1/sessions", {"workspace": wrong}).expect(400).code == "usage"
    assert sorted(os.listdir(scratch)) == ["kept"] and not os.path.exists("/tmp/evil")
