# SPDX-License-Identifier: Apache-2.0
"""49. Code inside writes to the root by path, by /proc/self/root, unnamed files, attributes, times and modes => refused.
"""
import os


def test_root_is_read_only(box):
    box.attack("root_writes").assert_refused("EROFS", "EACCES", "EPERM", "ENOENT", "EOPNOTSUPP", "ENOTSUP", "EBUSY", "EXDEV")


def test_writable_root_is_private(box):
    """With --read-only=false the root takes writes, and they go with the box."""
    result = box.run("open('/made', 'w').write('x'); print('token')\ntry: open('/usr/made', 'w')\nexcept OSError as e: print(e.errno)",
                     **{"read-only=false": True})
    assert result.stdout in ("token\n30\n", "token\n13\n"), result.explain()
    assert not os.path.exists("/made") and not os.path.exists("/usr/made")
