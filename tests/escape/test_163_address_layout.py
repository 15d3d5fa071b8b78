# SPDX-License-Identifier: Apache-2.0
"""163. An address that leaks in one session tells the layout of another => so it is for forks of one template, which is stated;
with `warm: false` it differs, and the layouts of warden and front are never the template's.
"""
import json

from conftest import needs_root
from hostile_sessions import good, own_warden_process
from session_fixtures import cold_sessions, own_warden, warm_sessions
from sessions import template_processes

LAYOUT = """
import ctypes, json, struct
at = {}
for line in open('/proc/self/maps'):
    words = line.split()
    name = words[5] if len(words) > 5 else 'anonymous'
    at.setdefault(name.rsplit('/', 1)[-1], int(words[0].split('-')[0], 16))
auxv = open('/proc/self/auxv', 'rb').read()
pairs = dict(struct.unpack_from('<QQ', auxv, i) for i in range(0, len(auxv), 16))
seen = {'stack': at['[stack]'], 'vdso': at['[vdso]'], 'libc': ctypes.cast(ctypes.CDLL('libc.so.6').gnu_get_libc_version, ctypes.c_void_p).value, 'object': id(json),
        'secret': ctypes.string_at(pairs[25], 16).hex()}
print(json.dumps(seen))
"""


def look(context):
    return json.loads(good(context, LAYOUT).out)


def differ(one, other):
    return {key for key in one if one[key] != other[key]}


def test_forks_share_it(warm_sessions):
    """Stated in docs/templates.md, and as the control `layout` of each result."""
    one, other = look(warm_sessions.context()), look(warm_sessions.context())
    assert differ(one, other) <= {"object"}, "if this differs, the documentation is wrong"
    result = good(warm_sessions.context(), "1")
    assert result.control("layout")["state"] == "weaker" and "shared with its other sessions" in result.control("layout")["how"]


def test_fresh_ones_do_not(warm_sessions, cold_sessions):
    warm, cold_sessions.may_be_cold = look(warm_sessions.context()), True
    fresh = [look(cold_sessions.context({"warm": False}, template="python")) for _ in range(4)]
    for i, one in enumerate(fresh):
        for other in [warm, *fresh[i + 1:]]:
            assert differ(one, other) == set(one), (one, other)


def maps_of(pid):
    """First addresses of what is mapped; and the random bytes that canaries are made of."""
    found = {}
    with open(f"/proc/{pid}/maps") as file:
        for line in file:
            words = line.split()
            found.setdefault(words[5].rsplit("/", 1)[-1] if len(words) > 5 else "anonymous", words[0].split("-")[0])
    with open(f"/proc/{pid}/auxv", "rb") as file:
        auxv = file.read()
    pairs = dict((int.from_bytes(auxv[i:i + 8], "little"), int.from_bytes(auxv[i + 8:i + 16], "little")) for i in range(0, len(auxv), 16))
    with open(f"/proc/{pid}/mem", "rb") as file:
        file.seek(pairs[25])
        return found, file.read(16)


@needs_root
def test_warden_and_front_have_their_own(warm_sessions):
    session = look(warm_sessions.context())
    [template] = template_processes()
    image, secret = maps_of(template)
    assert secret.hex() == session["secret"] and int(image["[stack]"], 16) // (1 << 24) == session["stack"] // (1 << 24), "this is not the template"
    for pid in (own_warden_process(), "self"):
        theirs, other = maps_of(pid)
        assert other != secret
        same = {name for name in theirs.keys() & image.keys() - {"[vsyscall]"} if theirs[name] == image[name]}
        assert not same, (pid, same)
    # Nor has a second template the layout of the first.
    assert len({maps_of(pid)[1] for pid in template_processes()}) == len(template_processes())
