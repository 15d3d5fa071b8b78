# SPDX-License-Identifier: Apache-2.0
"""53. Code inside lists the places where workspaces of others are on the host => they do not exist in the box.
"""


def test_other_workspaces(box):
    other, own = box.directory("other"), box.directory("own")
    (other / "secret").write_text("of another run")
    code = f"""
import os
print('token', os.listdir('/tmp'), os.path.exists('/tmp/sandboxes'), os.path.exists('{other}'), os.path.exists('{own}'), os.path.exists('/home'), os.path.exists('/root'))
open('/sandbox/mine', 'w').write('x')
"""
    assert box.run(code, workspace=own).stdout == "token [] False False False False False\n"
    assert [p.name for p in own.iterdir()] == ["mine"]
