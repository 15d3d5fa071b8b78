# SPDX-License-Identifier: Apache-2.0
"""81. Code inside makes a file of 8 EiB without content => refused in a directory of the host; in the private workspace only blocks count.
"""


def test_on_the_host(box):
    workspace = box.directory("workspace")
    attack = box.attack("sparse_file", workspace=workspace, disk="10m")
    if attack.result.verdict == "disk" and not attack.finished:
        # The measure saw the blocks of the second step before the kernel refused the rest, and the box was ended then.
        assert attack.steps and set(attack.steps.values()) == {"EFBIG"}, attack.result.explain()
    else:
        attack.assert_refused("EFBIG")
    # The limit of one file is 4 MB above that of all, so that the measure can see it passed.
    assert sum(p.stat().st_size for p in workspace.iterdir()) <= 14 << 20
    assert attack.result.verdict == "disk" or sum(p.stat().st_blocks for p in workspace.iterdir()) * 512 <= 10 << 20


def test_private(box, no_leaks):
    attack = box.attack("sparse_file", disk="10m")
    assert attack.finished and attack.steps["fallocate_1TiB"] != "ok"
    assert int(attack.notes["blocks"]) * 512 <= 10 << 20
    assert attack.result.json["peaks"]["disk_bytes"] <= 11 << 20
