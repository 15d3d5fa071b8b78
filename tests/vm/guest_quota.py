# SPDX-License-Identifier: Apache-2.0
"""A limit on a directory by ext4's project quota: the steps, and what a process bound by it can do."""
import ctypes
import errno
import os
import pathlib
import subprocess

from guest_host import USER, Place, finish

DISK, MOUNT, PROJECT = "/dev/nvme1n1", pathlib.Path("/mnt"), 1073741824
MIB = 1 << 20
LIMIT, INODES = 8 * MIB, 50
TOOL = "/vm/projquota"
SYS_FINIT_MODULE = 313
libc = ctypes.CDLL(None, use_errno=True)


def tool(*argv, uid=0):
    done = subprocess.run([TOOL, *map(str, argv)], capture_output=True, text=True, user=uid, group=uid, extra_groups=[])
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def as_user(function):
    """Calls it in a child without privilege; its errno (0: none) is the answer."""
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            os.setgroups([])
            os.setresgid(USER, USER, USER)
            os.setresuid(USER, USER, USER)
            function()
            code = 0
        except OSError as error:
            code = error.errno
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fill(file, size):
    """Up to size, or to the first error: the write that meets the limit may be a short one."""
    while size > 0:
        size -= file.write(b"1" * min(size, MIB))


def fill_path(path, size):
    with open(path, "wb", 0) as file:
        fill(file, size)


def make_many(path, count):
    for n in range(count):
        os.close(os.open(path / str(n), os.O_CREAT | os.O_WRONLY))


def load_modules():
    for name in ["quota_tree", "quota_v2"]:
        fd = os.open(f"/vm/modules/{name}.ko", os.O_RDONLY)
        if libc.syscall(SYS_FINIT_MODULE, fd, b"", 0) < 0 and ctypes.get_errno() != errno.EEXIST:
            raise OSError(ctypes.get_errno(), f"cannot load {name}")
        os.close(fd)


def project_dir(name, project=PROJECT):
    path = MOUNT / name
    path.mkdir(mode=0o755)
    tool("set", path, project, LIMIT, INODES)
    os.chown(path, USER, USER)
    return path


def used(path, project):
    return int(tool("show", path, project).split()[0])


def mounts():
    load_modules()
    subprocess.run(["mount", "-t", "ext4", "-o", "prjquota,nosuid,nodev", DISK, str(MOUNT)], check=True)
    MOUNT.chmod(0o777)
    line = next(text for text in pathlib.Path("/proc/mounts").read_text().splitlines() if text.startswith(DISK))
    assert "prjquota" in line, line
    return [line]


def bytes_are_limited():
    path = project_dir("bytes")
    got = as_user(lambda: fill_path(path / "x", 2 * LIMIT))
    assert got == errno.EDQUOT, f"{errno.errorcode.get(got, got)}"
    size, inodes = map(int, tool("show", path, PROJECT).split())
    assert LIMIT - MIB <= size <= LIMIT, size
    st = os.statvfs(path)
    (path / "x").unlink()
    after = tool("show", path, PROJECT)
    return [f"EDQUOT at {size} bytes, {inodes} inodes; statvfs says size {st.f_blocks * st.f_frsize}, free {st.f_bfree * st.f_frsize}, "
            f"inodes {st.f_files}; after unlink: {after.strip()}"]


def unlinked_files_count():
    """What a walk over the tree does not see."""
    path = project_dir("unlinked", PROJECT + 1)

    def hide():
        with open(path / "x", "wb", 0) as file:
            os.unlink(path / "x")
            fill(file, 2 * LIMIT)

    got = as_user(hide)
    assert got == errno.EDQUOT, f"{errno.errorcode.get(got, got)}"
    assert used(path, PROJECT + 1) < MIB, "the last close gives the bytes back"


def inodes_are_limited():
    path = project_dir("inodes", PROJECT + 2)
    got = as_user(lambda: make_many(path, 2 * INODES))
    assert got == errno.EDQUOT, f"{errno.errorcode.get(got, got)}"
    made = len(list(path.iterdir()))
    assert made == INODES - 1, f"{made} files: the directory itself counts"


def root_is_not_bound():
    """CAP_SYS_RESOURCE of the first user namespace passes every limit: a box must not run as host root."""
    path = project_dir("root", PROJECT + 3)
    fill_path(path / "x", 2 * LIMIT)
    (path / "x").unlink()


def ways_out():
    """Of an ordinary user, outside of any user namespace: he may change the project of his files."""
    path = project_dir("escape", PROJECT + 4)
    return [" ".join(tool("escape", path, PROJECT + 4, uid=USER).split())]


def ways_out_in_a_namespace():
    """In a user namespace, as in a box: refused."""
    path = project_dir("escape-ns", PROJECT + 5)
    done = subprocess.run(["unshare", "--user", "--map-root-user", TOOL, "escape", str(path), str(PROJECT + 5)],
                          capture_output=True, text=True, user=USER, group=USER, extra_groups=[])
    assert done.returncode == 0, done.stderr
    answers = dict(line.split("=") for line in done.stdout.splitlines())
    opened = [name for name, answer in answers.items() if answer == "ok"]
    assert not opened, f"not refused: {opened}"
    return [" ".join(done.stdout.split())]


def workspace(uid):
    """glovebox with a workspace that has a project: the program sees EDQUOT, or is stopped before."""
    place = Place("root-service" if uid == 0 else "user", uid, "system.slice/test.service" if uid == 0 else "user/leaf")
    project = PROJECT + 100 + uid
    path = project_dir(f"workspace-{uid}", project)
    os.chown(path, uid, uid)
    code = "import errno\nf, left = open('x', 'wb', 0), 16 << 20\ntry:\n    while left > 0: left -= f.write(b'1' * (1 << 20))\n" \
           "except OSError as e:\n    print(errno.errorcode[e.errno], flush=True)\n    raise"
    result = finish(place.start("run", "--json", "-w", str(path), "--disk", "64m", "-c", code))
    assert result.json.get("stdout") == "EDQUOT\n" or result.verdict == "disk", result
    assert used(path, project) <= LIMIT
    return [f"verdict {result.verdict}, {result.json['verdict']['message']}"]


def moved_files():
    """One that leaves the directory still counts; one of another project cannot come in."""
    one, other = project_dir("one", PROJECT + 7), project_dir("other", PROJECT + 8)
    assert as_user(lambda: fill_path(one / "x", 2 * MIB)) == 0
    assert as_user(lambda: os.rename(one / "x", MOUNT / "x")) == 0
    assert used(one, PROJECT + 7) >= 2 * MIB, "a file that left is counted no more"
    assert as_user(lambda: fill_path(one / "y", MIB)) == 0
    assert as_user(lambda: os.rename(one / "y", other / "y")) == errno.EXDEV
    assert as_user(lambda: os.link(one / "y", other / "y")) == errno.EXDEV


def lifted():
    path = project_dir("lifted", PROJECT + 9)
    assert as_user(lambda: fill_path(path / "x", 2 * LIMIT)) == errno.EDQUOT
    tool("set", path, PROJECT + 9, 0, 0)
    assert as_user(lambda: fill_path(path / "x", 2 * LIMIT)) == 0
    (path / "x").unlink()


def without_the_option():
    """Mounted without prjquota: usage is counted, nothing is enforced."""
    subprocess.run(["umount", str(MOUNT)], check=True)
    subprocess.run(["mount", "-t", "ext4", DISK, str(MOUNT)], check=True)
    path = MOUNT / "bytes"
    assert as_user(lambda: fill_path(path / "x", 2 * LIMIT)) == 0
    assert used(path, PROJECT) >= 2 * LIMIT
    subprocess.run(["umount", str(MOUNT)], check=True)


def tests():
    for test in [mounts, bytes_are_limited, unlinked_files_count, inodes_are_limited, root_is_not_bound, ways_out,
                 ways_out_in_a_namespace, moved_files, lifted]:
        yield f"quota/{test.__name__}", test
    yield "quota/workspace-root", workspace, 0
    yield "quota/workspace-user", workspace, USER
    yield "quota/without_the_option", without_the_option
