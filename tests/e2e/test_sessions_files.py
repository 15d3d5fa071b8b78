# SPDX-License-Identifier: Apache-2.0
"""Files of a session, in and out, also when the code in it is hostile; directories of the host in a session."""
import errno
import os
import stat
import time

import pytest
from conftest import IS_ROOT, needs_root, wait_until
from session_fixtures import cold_sessions, own_warden, sessions, warm_sessions
from sessions import Refused, Session, call_as_user


def good(context, code):
    result = context.run(code)
    assert (result.verdict, result.kept) == ("ok", True), result
    return result


def refused(function, *args):
    with pytest.raises(Refused) as caught:
        function(*args)
    return caught.value


def test_files_in_and_out(sessions):
    session = sessions()
    context = session.context()
    content = bytes(range(256)) * 1000
    session.write("in.bin", content)
    session.write("/sandbox/run.sh", "#!/bin/sh\necho ran\n", 0o755)
    session.make_directory("dir")
    session.write("dir/deep", "d")
    assert good(context, "import os\nopen('in.bin', 'rb').read() == bytes(range(256)) * 1000, os.stat('run.sh').st_mode & 0o777 == 0o755, "
                         "os.stat('dir/deep').st_uid == os.getuid()").text == "(True, True, True)"
    assert good(context, "import subprocess\nsubprocess.run(['./run.sh'], capture_output=True).stdout").text == "b'ran\\n'"
    good(context, "open('in.bin', 'ab').write(b'more')\nos.mkdir('made')\nopen('made/out', 'w').write('out')\nos.chmod('made/out', 0o600)")
    assert session.read("in.bin") == content + b"more"
    assert session.read("made/out") == b"out"
    listed = session.list()
    assert list(listed) == sorted([b"in.bin", b"run.sh", b"dir", b"made"])
    assert stat.S_ISDIR(listed[b"made"]["mode"]) and listed[b"in.bin"]["size"] == len(content) + 4
    assert abs(listed[b"in.bin"]["modified"] - time.time()) < 60
    assert list(session.list("made")) == [b"out"]
    assert refused(session.remove, "made").errnum == errno.ENOTEMPTY
    session.remove("made/out")
    session.remove("/sandbox/made")
    assert good(context, "os.path.exists('made')").text == "False"
    session.write("in.bin", b"")
    assert session.read("in.bin") == b"" and good(context, "os.path.getsize('in.bin')").text == "0"


def test_paths_that_lead_out(sessions):
    session = sessions()
    session.make_directory("d")
    for path in ("../x", "d/../../x", "/etc/passwd", "/sandbox/../etc/passwd", "..", "", "/", "d/..", "/sandboxed", "/workspace2"):
        for function, args in ((session.read, ()), (session.write, (b"x",)), (session.remove, ()), (session.make_directory, ())):
            with pytest.raises(Refused):
                function(path, *args)
    assert list(session.list()) == [b"d"] and refused(session.read, "none").errnum == errno.ENOENT
    assert refused(session.read, "d").errnum in (errno.EISDIR, errno.EINVAL)
    assert refused(session.list, "d/none").errnum == errno.ENOENT


def test_links_are_not_followed(sessions, scratch):
    """The code makes links to the host's files and to its own; none of them leads anywhere."""
    secret = scratch / "secret"
    secret.write_text("of the host")
    session = sessions()
    context = session.context()
    good(context, f"import os\nopen('real', 'w').write('real')\nos.mkdir('dir')\nopen('dir/f', 'w').close()\nos.symlink('{secret}', 'out')\n"
                  "os.symlink('/etc/passwd', 'passwd')\nos.symlink('real', 'in')\nos.symlink('dir', 'way')\nos.symlink('/proc/1/root', 'root')\n"
                  "os.symlink('loop', 'loop')\nos.link('real', 'hard')")
    for name in ("out", "passwd", "in", "way/f", "root/etc/passwd", "loop"):
        assert refused(session.read, name).errnum == errno.ELOOP, name
    for name in ("way/new", "root/new", "loop/new"):
        assert refused(session.write, name, b"x").errnum in (errno.ELOOP, errno.ENOTDIR), name
    assert refused(session.list, "way").errnum in (errno.ELOOP, errno.ENOTDIR)
    session.write("out", b"a file now")
    assert secret.read_text() == "of the host" and session.read("out") == b"a file now"
    session.write("in", b"another")
    assert session.read("real") == b"real"
    assert stat.S_ISLNK(session.list()[b"passwd"]["mode"]), "a link is listed as one"
    session.remove("passwd")
    session.remove("way")
    assert session.read("dir/f") == b"" and session.read("hard") == b"real"


def test_things_that_are_no_files(sessions):
    """Nothing that can be made in a box makes the caller wait."""
    session = sessions()
    context = session.context()
    good(context, "import os, socket\nos.mkfifo('fifo')\ns = socket.socket(socket.AF_UNIX)\ns.bind('socket')\n"
                  "f = open('large', 'wb')\nf.truncate(65 << 20)\nf.close()\nopen('closed', 'w').write('x')\nos.chmod('closed', 0)\n"
                  "os.mkdir('locked')\nopen('locked/f', 'w').close()\nos.chmod('locked', 0)")
    began = time.monotonic()
    for name in ("fifo", "socket"):
        assert refused(session.read, name)
    assert refused(session.read, "large").errnum == errno.EFBIG
    assert refused(session.read, "closed").errnum == errno.EACCES, "the rights of the box's user hold"
    assert refused(session.read, "locked/f").errnum == errno.EACCES
    session.write("fifo", b"replaced")
    assert session.read("fifo") == b"replaced" and time.monotonic() - began < 10


NAMES = [b"a b", b" ", b"-rf", b"...", b"\xc3\xbcn\xc3\xaf", b"new\nline", b"\x1b[31mred", b"\xff\xfe\x80", b"q'uo\"te`$(x)",
         b"back\\slash", b"x" * 255, b"#", b".hidden", b"*"]


def test_hostile_names(sessions):
    session = sessions()
    context = session.context()
    good(context, f"import os\nfor n in {NAMES!r}:\n    with open(n, 'wb') as f: f.write(n)")
    assert set(session.list()) == set(NAMES)
    for name in NAMES:
        assert session.read(name) == name
        session.write(name, b"new")
    assert good(context, f"all(open(n, 'rb').read() == b'new' for n in {NAMES!r})").text == "True"
    for name in NAMES:
        session.remove(name)
    assert session.list() == {} and refused(session.write, b"x" * 256, b"").errnum == errno.ENAMETOOLONG


def test_many_files_and_deep_directories(sessions):
    session = sessions({"inode_limit": "10000"})
    context = session.context()
    good(context, "import os\nos.mkdir('many')\nfor i in range(4100): open(f'many/{i:04}', 'w').close()")
    good(context, "for i in range(300):\n    os.mkdir('d' * 100)\n    os.chdir('d' * 100)\nopen('deep', 'w').close()\nos.chdir('/sandbox')")
    listed = session.list("many")
    assert None in listed and len(listed) == 4097
    deep = "/".join(["d" * 100] * 300) + "/deep"
    try:  # either it can be read or it is refused; nothing else
        assert session.read(deep) == b""
    except Refused as error:
        assert error.errnum == errno.ENAMETOOLONG


def test_writes_count_to_the_disk_limit(sessions):
    session = sessions({"disk_limit": "1m"})
    session.write("half", bytes(600 << 10))
    assert refused(session.write, "more", bytes(600 << 10)).errnum == errno.ENOSPC
    assert list(session.list()) == [b"half"], "nothing is left of what did not fit"
    session.remove("half")
    session.write("more", bytes(600 << 10))


def test_files_while_names_change(sessions):
    """The code swaps a directory and a link to the host's root as fast as it can; what comes is never the host's."""
    session = sessions({"cpu_count": "1"})
    context = session.context()
    good(context, "import os\nos.mkdir('etc')\nopen('etc/passwd', 'w').write('ours')\nos.symlink('/etc', 'link')")
    code = ("import ctypes\nrename = ctypes.CDLL(None).renameat2\nwhile True: rename(-100, b'etc', -100, b'link', 2)")
    running = context.start("print('on', flush=True)\n" + code)
    running.wait_for("stdout")
    seen, end = set(), time.monotonic() + 0.5
    while time.monotonic() < end:
        try:
            seen.add(session.read("etc/passwd"))
        except Refused as error:
            seen.add(error.errnum)
    context.interrupt()
    running.join()
    assert b"ours" in seen and seen <= {b"ours", errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.EAGAIN}, seen


# Directories of the host

def test_workspace_of_the_host(sessions, own_box):
    directory = own_box.directory("ws")
    sessions.may_be_cold = not IS_ROOT
    session = sessions({"disk_limit": "1m"}, workspace=directory)
    context = session.context()
    good(context, "open('made', 'w').write('by the box')")
    assert (directory / "made").read_text() == "by the box" and (directory / "made").stat().st_uid == own_box.uid
    session.write("given", b"by the host")
    assert good(context, "open('given').read()").text == "'by the host'" and (directory / "given").stat().st_uid == own_box.uid
    assert session.run("sh", "ls").out == "given\nmade\n"
    over = context.run("f = open('big', 'wb')\nimport time\nwhile True:\n    f.write(bytes(1 << 20))\n    f.flush()\n    time.sleep(0.02)")
    assert over.verdict == "disk", over
    assert (directory / "big").stat().st_size < 64 << 20
    (directory / "big").unlink()
    session.close()
    assert (directory / "made").exists()


def test_mounts_of_the_policy(sessions, own_box):
    data, out = own_box.directory("data"), own_box.directory("out")
    (data / "f").write_text("data")
    sessions.may_be_cold = not IS_ROOT
    context = sessions.context({"mounts": [f"{data}:/data", f"{out}:/out:rw"]})
    assert good(context, "open('/data/f').read()").text == "'data'"
    assert context.run("open('/data/g', 'w')").error["name"] == "OSError"
    good(context, "open('/out/made', 'w').write('x')")
    assert (out / "made").read_text() == "x" and (out / "made").stat().st_uid == own_box.uid
    assert context.session.run("sh", "cat /data/f; ls /out").out == "datamade\n"
    assert good(context, "import os\nsorted(os.listdir('/'))").text.count("glovebox") == 0


@needs_root
def test_sessions_share_nothing(warm_sessions):
    first, second = warm_sessions(), warm_sessions()
    one, two = first.context(), second.context()
    good(one, "import os\nfor place in ('/sandbox', '/tmp', '/dev/shm'): open(f'{place}/mark', 'w').close()")
    assert good(two, "import os\n[os.listdir(place) for place in ('/sandbox', '/tmp', '/dev/shm')]").text == "[[], [], []]"
    owners = {os.stat(f"/proc/{pid}").st_uid for pid in (host_pid(first), host_pid(second))}
    assert len(owners) == 2 and 0 not in owners, "each has a user of its own on the host"


def host_pid(session):
    """Of a process that the session starts and that can be told from all others."""
    mark = session.id[:12]
    good(session.context("bash"), f"(exec -a {mark} sleep 60) >/dev/null 2>&1 &")
    return wait_until(lambda: next((int(p) for p in filter(str.isdigit, os.listdir("/proc")) if mark.encode() in command_line(p)), None))


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


# As an ordinary user

def user_session(directory, weaker):
    """Runs as the user: see call_as_user()."""
    with Session({"allow_weaker": weaker, "mounts": f"{directory}:/out:rw"} if weaker else {"mounts": f"{directory}:/out:rw"}, workspace=directory) as session:
        context = session.context()
        first = context.run("x = 1\nopen('made', 'w').write('w')\nopen('/out/also', 'w').write('m')")
        second = context.run("x + 1")
        session.write("given", b"g")
        third = context.run("open('given').read()")
        bash = session.context("bash").run("echo $((1 + 1))")
        once = session.run("sh", "ls")
        return {"verdicts": [r.verdict for r in (first, second, third, bash, once)], "texts": [second.text, third.text, bash.out, once.out],
                "layout": first.control("layout"), "stderr": first.err}


def user_limits(weaker):
    policy = {"timeout": "3s", "allow_weaker": weaker} if weaker else {"timeout": "3s"}
    with Session(policy) as session:
        context = session.context()
        context.run("x = 1")
        late = context.run("while True: pass")
        kept = context.run("x")
        left = context.run("import os\nos._exit(3)")
        fresh = context.run("'x' in globals()")
        return [late.verdict, late.kept, kept.text, left.exit_code, left.kept, fresh.text, fresh.restarted, first_words(fresh)]


def first_words(result):
    return result.control("layout")["how"]


def test_ordinary_user(user_box, missing_controls):
    directory = user_box.directory("ws")
    done = call_as_user("test_sessions_files", "user_session", str(directory), missing_controls("user"))
    assert done["verdicts"] == ["ok"] * 5, done
    assert done["texts"] == ["2", "'g'", "2\n", "also\ngiven\nmade\n"]
    assert done["layout"]["state"] == "enforced" and done["layout"]["how"].startswith("fresh exec; no template: "), done
    reason = "directories of the host" if user_box.has_cgroup else "not counted by cgroups"
    assert reason in done["layout"]["how"]
    assert {(directory / name).stat().st_uid for name in ("made", "given", "also")} == {user_box.uid}


def test_limits_of_an_ordinary_user(user_box, missing_controls):
    done = call_as_user("test_sessions_files", "user_limits", missing_controls("user"))
    assert done[:7] == ["timeout", True, "1", 3, False, "False", True], done
    assert done[7].startswith("forked from the template" if user_box.has_cgroup else "fresh exec; no template: memory and tasks are not counted"), done
