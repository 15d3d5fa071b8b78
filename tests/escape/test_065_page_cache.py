# SPDX-License-Identifier: Apache-2.0
"""65. Code inside asks which pages of shared files are in memory (cachestat, mincore, preadv2) => refused. Timing stays: a stated residual.
"""


def test_page_cache(box):
    attack = box.attack("page_cache")
    attack.assert_refused("ENOSYS", "EPERM", "EINVAL")
    assert attack.notes["mapped"] == "1"
