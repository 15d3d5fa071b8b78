# SPDX-License-Identifier: Apache-2.0
"""142. Code inside fills its workspace while the API writes into it => 507, or the whole file; of one that did not fit nothing is left, and what
was there before is there whole.
"""
import random

from file_fixtures import Workspace, files_server, tar_of

FILL = """
import itertools, os
print('on', flush=True)
for i in itertools.count():
    try:
        with open(f'fill{i % 3}', 'wb') as f:
            for _ in range(200): f.write(bytes(20000))
    except OSError: pass
    try: os.unlink(f'fill{(i + 1) % 3}')
    except OSError: pass
"""


def test_full_while_writing(files_server):
    space = Workspace(files_server, policy={"disk_limit": "4m"})
    run = space.start(FILL, timeout=60)
    rng, expected, statuses = random.Random(142), {}, []
    for i in range(120):
        path = f"d{i % 4}/file" if i % 2 else f"file{i % 4}"
        body = rng.randbytes(rng.choice([10, 500_000, 1_500_000]))
        answer = space.put(path, body, parents=True)
        statuses.append(answer.status)
        assert answer.status in (201, 507), answer.explain()
        if answer.status == 201:
            expected[path] = body
        else:
            assert answer.code == "disk_full"
    for i in range(20):
        answer = space.unpack(tar_of((f"t{i}/a", rng.randbytes(300_000)), (f"t{i}/b", rng.randbytes(300_000))))
        assert answer.status in (200, 507), answer.explain()
    space.kill(run)
    assert {201, 507} <= set(statuses), "both happened"
    for path, body in expected.items():
        assert space.get(path).expect(200).body == body
    names = space.names() + [f"{d}/{n}" for d in space.names() if d.startswith(("d", "t")) and "." not in d for n in space.names(d)]
    assert not [n for n in names if ".glovebox" in n], "no part of a file is left"
    space.close()
