# SPDX-License-Identifier: Apache-2.0
"""Control groups of one's own, so that what a server leaves behind is not taken for somebody else's.

    with OwnGroups() as groups:
        with Server(environ=groups.environ) as server:
            ...
        assert not groups.boxes()

Where none can be made (they belong to root) `environ` is empty, and nothing is found.
"""
import os
import pathlib
import re
import secrets

CONTROLLERS = {"memory", "pids", "cpu", "cpuacct"}


def hierarchies():
    """Where they are mounted: path, and whether it is v2. Of v1 those that boxes have groups in."""
    found = []
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        path = pathlib.Path(re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), fields.split()[4]))
        if kind == "cgroup2" or (kind == "cgroup" and CONTROLLERS & set(options.split(","))):
            found.append((path, kind == "cgroup2"))
    return found


class OwnGroups:
    def __init__(self):
        self.name, self.places = f"gbtest-{secrets.token_hex(6)}", []

    def __enter__(self):
        all_of_them = hierarchies()
        try:
            for path, is_v2 in all_of_them:
                if is_v2 and len(all_of_them) == 1:
                    (path / "cgroup.subtree_control").write_text("+memory +pids +cpu")
                (path / self.name).mkdir(mode=0o755)
                self.places.append(path / self.name)
        except OSError:
            self.__exit__()
        return self

    def __exit__(self, *_):
        for place in self.places:
            for path, _, _ in os.walk(place, topdown=False):
                try:
                    os.rmdir(path)
                except OSError:
                    pass  # something lives in it: that was told
        self.places = []

    @property
    def environ(self):
        return {"GLOVEBOX_CGROUP": f"/{self.name}"} if self.places else {}

    def boxes(self):
        """All groups below."""
        return {path for place in self.places for path, _, _ in os.walk(place)} - set(map(str, self.places))
