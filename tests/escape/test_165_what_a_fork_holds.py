# SPDX-License-Identifier: Apache-2.0
"""165. Code in a child of a template looks for what the child needed to become one: descriptors of namespaces, the ruleset, the
files that join a cgroup, the template's orders => it holds three streams and its channel; nothing else is in it, nor in what it starts.
"""
import json
import re

from hostile_sessions import good
from session_fixtures import own_warden, sessions

LOOK = r"""
import json, os, fcntl, stat
def kinds():
    found = {}
    listed = [int(f) for f in os.listdir('/proc/self/fd')]
    for fd in listed:
        try: mode = os.fstat(fd).st_mode
        except OSError: continue  # the list itself
        found[fd] = stat.filemode(mode)[0] + ' ' + os.readlink('/proc/self/fd/%d' % fd).split(':')[0]
    return found
seen = {'fds': kinds(), 'more': []}
for fd in list(range(3, 1100)):
    try: flags = fcntl.fcntl(fd, fcntl.F_GETFD)
    except OSError: continue
    if fd != 20: seen['more'].append(fd)
seen['flags'] = [fcntl.fcntl(fd, fcntl.F_GETFD) for fd in (0, 1, 2, 20)]
seen['info'] = open('/proc/self/fdinfo/20').read()
r, w = os.pipe()
if os.spawnvp(os.P_WAIT, 'sh', ['sh', '-c', 'for f in /proc/self/fd/*; do echo ${f##*/}; done > held']) == 0:
    seen['started'] = sorted(int(n) for n in open('held').read().split())
seen['environ'] = open('/proc/self/environ').read()
seen['cgroup'] = open('/proc/self/cgroup').read()
seen['mountinfo'] = open('/proc/self/mountinfo').read()
print(json.dumps(seen))
"""


def test_descriptors(sessions):
    session = sessions()
    for context in (session.context(), session.context()):  # the second is forked into a session that is used
        seen = json.loads(good(context, LOOK).out)
        assert set(seen["fds"]) == {"0", "1", "2", "20"} and seen["more"] == [], seen
        assert (seen["fds"]["0"], seen["fds"]["1"], seen["fds"]["2"], seen["fds"]["20"]) == ("c /dev/null", "p pipe", "p pipe", "s socket"), seen["fds"]
        assert seen["flags"] == [0, 0, 0, 1], "only the channel is closed at an exec"
        # 3 or 10 is the shell's own, for its output or its script.
        assert set(seen["started"]) - {0, 1, 2} <= {3, 10}, seen["started"]


def test_after_a_restart(sessions):
    """An interpreter that follows a dead one, in a session where other code still runs."""
    session = sessions()
    hostile, context = session.context(), session.context()
    good(hostile, "import os\nfor i in range(4):\n    if os.fork() == 0:\n        import time\n        time.sleep(30)")
    for _ in range(5):
        assert context.run("import os\nos._exit(1)").exit_code == 1
        seen = json.loads(good(context, LOOK).out)
        assert set(seen["fds"]) == {"0", "1", "2", "20"} and seen["more"] == []


def test_no_host_path(sessions):
    """Neither the host's paths of the workspace, nor of cgroups, nor names of the template's own."""
    session = sessions()
    seen = json.loads(good(session.context(), LOOK).out)
    assert "GLOVEBOX" not in seen["environ"] and session.id not in seen["environ"]
    assert all(re.fullmatch("/|/glovebox-[0-9a-f]{16}", line.split(":", 2)[2]) for line in seen["cgroup"].split("\n") if line), seen["cgroup"]
    roots = {line.split()[3] for line in seen["mountinfo"].split("\n") if line}
    assert all(not root.startswith(("/tmp", "/home", "/root", "/var")) for root in roots), roots


def test_peer_of_the_channel(sessions):
    """What a socket tells of its other end: credentials of a process outside have no number in the box, and its name is empty."""
    code = """
import socket, struct
s = socket.socket(fileno=__import__('os').dup(20))
pid, uid, gid = struct.unpack('iII', s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
refused = 0
for option in (77, 31):  # SO_PEERPIDFD, SO_PEERSEC
    try: s.getsockopt(socket.SOL_SOCKET, option, 64)
    except OSError: refused += 1
print(pid, s.getpeername(), s.getsockname())
try: s.connect('\\0x'); print('open')
except OSError: print('refused')
"""
    lines = good(sessions.context(), code).out.split("\n")
    assert lines[0].split()[0] == "0" and lines[1] == "refused", lines


def test_keyrings_and_timers(sessions):
    """A fork inherits what is bound to the process: it has a keyring of its own, and no timer runs in it."""
    code = "import signal\nprint(signal.getitimer(signal.ITIMER_REAL), signal.getitimer(signal.ITIMER_VIRTUAL), signal.getitimer(signal.ITIMER_PROF), signal.alarm(0), signal.sigpending())\ntry: print(open('/proc/self/timers').read())\nexcept OSError: print('')"
    assert good(sessions.context(), code).out == "(0.0, 0.0) (0.0, 0.0) (0.0, 0.0) 0 set()\n\n"
