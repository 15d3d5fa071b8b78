# SPDX-License-Identifier: Apache-2.0
"""Control groups for one server of a test, so that its groups are told apart from those of other servers.

    with OwnGroups() as groups:
        with Server(environ=groups.environ) as server:
            ...
        assert not groups.boxes()

They have the name of the suite as a prefix (isolation.py). Where none can be made (they belong to root) `environ` is
empty, and nothing is found.
"""

import os
import secrets

from isolation import PREFIX, all_groups, hierarchies, remove_groups


class OwnGroups:
    def __init__(self):
        suite = os.environ.get("GLOVEBOX_TEST_SUITE") or f"{PREFIX}{secrets.token_hex(4)}"
        self.name, self.places = f"{suite}-{secrets.token_hex(4)}", []

    def __enter__(self):
        every = hierarchies()
        try:
            for path, controllers, _ in every:
                if not controllers and len(every) == 1:
                    (path / "cgroup.subtree_control").write_text("+memory +pids +cpu")
                (path / self.name).mkdir(mode=0o755)
                self.places.append(path / self.name)
        except OSError:
            self.__exit__()
        return self

    def __exit__(self, *_):
        remove_groups(self.places)  # a group that stays has processes: the suite reports those
        self.places = []

    @property
    def environ(self):
        return {"GLOVEBOX_CGROUP": f"/{self.name}"} if self.places else {}

    def boxes(self):
        """All groups below."""
        return {str(path) for place in self.places for path in all_groups(place)} - set(map(str, self.places))
