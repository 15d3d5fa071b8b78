# SPDX-License-Identifier: Apache-2.0
"""30. Code inside executes set-user-id, set-group-id and capability files, of root and of its own, from a
mount and from the workspace => it stays who it is.
"""
import os
import shutil

from conftest import needs_root


CAPABILITIES = b"\1\0\0\2" + b"\xff" * 16  # all of them, permitted and effective


@needs_root
def test_set_id_files(box):
    give = box.directory("give")
    for name, mode in (("suid", 0o4755), ("sgid", 0o2755), ("caps", 0o755)):
        shutil.copy(box.attack_dir / "attack", give / name)
        os.chown(give / name, 0, 0)
        os.chmod(give / name, mode)
    os.setxattr(give / "caps", "security.capability", CAPABILITIES)
    attack = box.attack("set_id_files", "before", mount=[f"{give}:/give"])
    assert attack.finished, attack.result.explain()
    before = attack.notes["before"]
    assert before == "1000 1000 1000 1000 1000 1000 caps 0 secure 0"
    for name in ("/give/suid", "/give/sgid", "/give/caps", "/sandbox/own"):
        assert attack.notes[name] in (before, "exec EPERM", "exec EACCES"), (name, attack.notes[name])


def test_set_id_programs_of_the_host(box):
    """su, mount and their like are in /usr with their bits: they give nothing."""
    code = """
import os, stat, subprocess
found = 0
for d in ('/usr/bin', '/usr/sbin'):
    for n in os.listdir(d):
        try:
            if os.lstat(f'{d}/{n}').st_mode & stat.S_ISUID:
                found += 1
        except OSError:
            pass
print('token', found)
p = subprocess.run(['/usr/bin/su', '-c', 'id -u'], stdin=subprocess.DEVNULL, capture_output=True)
print('su', p.returncode != 0, b'0' in p.stdout.split())
"""
    result = box.run(code)
    assert result.stdout.startswith("token "), result.explain()
    assert result.stdout.endswith("su True False\n"), result.explain()


def test_set_id_file_in_a_workspace(box):
    """It could be rewritten through a mapping, which leaves the bit: such a workspace is refused."""
    workspace = box.directory("workspace")
    shutil.copy("/usr/bin/id", workspace / "mighty")
    os.chmod(workspace / "mighty", 0o4755)
    for options in ({"workspace": workspace}, {"mount": f"{workspace}:/data:rw"}):
        result = box.run("print(1)", **options)
        assert result.returncode == 110 and "set-user-id" in result.stderr, result.explain()
    assert box.run("print(1)", mount=f"{workspace}:/data").verdict == "ok"
