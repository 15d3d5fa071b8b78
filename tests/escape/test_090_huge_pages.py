# SPDX-License-Identifier: Apache-2.0
"""90. Code inside takes huge pages by map, file, System V segment and by collapse => none are given, or they are charged.
"""


def test_huge_pages(box):
    attack = box.attack("huge_pages")
    attack.assert_refused()
