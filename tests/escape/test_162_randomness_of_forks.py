# SPDX-License-Identifier: Apache-2.0
"""162. Sessions that are forked from one template draw random numbers, names and keys => no two draw the same. What cannot
differ between them, the seed of hash(), differs with `warm: false`.
"""
import json

import pytest
from hostile_sessions import good
from session_fixtures import PYTHON, cold_sessions, has_module, own_warden, warm_sessions

SOURCES = """
import json, os, random, secrets, ssl, tempfile, uuid, ctypes, multiprocessing.process, string
libc = ctypes.CDLL(None)
made = uuid.uuid1()
got = {
    'random': random.random(), 'bits': random.getrandbits(64), 'choice': ''.join(random.choices(string.ascii_letters, k=20)), 'instance': random.Random().random(),
    'gauss': random.gauss(0, 1), 'system': random.SystemRandom().random(), 'secrets': secrets.token_hex(16), 'urandom': os.urandom(16).hex(), 'getrandom': os.getrandom(16).hex(),
    'uuid1': str(made), 'node': uuid.getnode(), 'uuid4': str(uuid.uuid4()), 'mktemp': tempfile.mktemp(), 'mkdtemp': tempfile.mkdtemp(), 'mkstemp': tempfile.mkstemp()[1],
    'names': next(tempfile._get_candidate_names()), 'ssl': ssl.RAND_bytes(16).hex(), 'authkey': multiprocessing.process.current_process().authkey.hex(),
    'shuffle': str(random.sample(range(100), 30)),
}
try: got['arc4random'] = ''.join('%08x' % libc.arc4random() for i in range(3))
except AttributeError: pass
"""
NUMPY = """
import numpy as np
got.update({'legacy': np.random.rand(), 'ints': int(np.random.randint(1 << 62)), 'state': np.random.get_state()[1].tobytes().hex(), 'rng': np.random.default_rng().random(),
            'RandomState': np.random.RandomState().rand(), 'normal': np.random.normal(), 'permutation': str(np.random.permutation(50))})
"""
TELL = "print(json.dumps(got))"


def draw(sessions, n, code, language="python", **options):
    """What n sessions draw: one after the other, five at a time, and two in each."""
    seen = []
    while len(seen) < n:
        group = [sessions(**options) for _ in range(5)]
        for session in group:
            for _ in range(2):
                seen.append(json.loads(good(session.context(language), code).out))
        for session in group:
            session.close()
            sessions.opened.remove(session)
    return seen


def assert_all_differ(seen, n):
    assert len(seen) >= n
    for name in seen[0]:
        values = [str(one[name]) for one in seen]
        assert len(set(values)) == len(values), f"{name}: {len(values) - len(set(values))} of {len(values)} are the same"


def test_random_sources(warm_sessions):
    assert_all_differ(draw(warm_sessions, 300, SOURCES + TELL), 300)


@pytest.mark.skipif(not has_module("numpy"), reason=f"numpy is not installed for {PYTHON}")
def test_random_sources_of_numpy(warm_sessions):
    assert_all_differ(draw(warm_sessions, 20, SOURCES + NUMPY + TELL, template="python-data"), 20)


def test_order_of_runs_is_no_seed(warm_sessions):
    """Not the first number only: streams that were set apart do not meet."""
    seen = draw(warm_sessions, 20, "import json, random\ngot = [random.getrandbits(32) for i in range(500)]\n" + TELL)
    assert len({number for one in seen for number in one}) > 20 * 500 - 20


def test_node(warm_sessions):
    code = "const c = require('crypto'); console.log(JSON.stringify({random: Math.random(), bytes: c.randomBytes(16).toString('hex'), uuid: c.randomUUID(), key: c.generateKeyPairSync('x25519').publicKey.export({type: 'spki', format: 'pem'})}))"
    assert_all_differ(draw(warm_sessions, 20, code, "node"), 20)


def test_forks_of_the_code(warm_sessions):
    """The residual of every fork(), here and anywhere: Python's own generator goes on from the same state only when the code
    forks behind Python's back."""
    context = warm_sessions.context()
    code = "import os, random\nr, w = os.pipe()\npid = os.fork()\nmine = random.random()\nif pid == 0:\n    os.write(w, repr(mine).encode()); os._exit(0)\nos.wait()\nprint(repr(mine) != os.read(r, 100).decode())"
    assert good(context, code).out == "True\n"


def test_seed_of_hashes(warm_sessions, cold_sessions):
    code = "import json\ngot = {'hash': hash('x'), 'bytes': hash(b'x'), 'order': str({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l'})}\n" + TELL
    warm = draw(warm_sessions, 10, code)
    assert len({one["hash"] for one in warm}) == 1, "a stated residual: if this differs, the documentation is wrong"
    cold_sessions.may_be_cold = True
    fresh = draw(cold_sessions, 10, code, template="python", policy={"warm": False})
    assert_all_differ(fresh, 10)
    assert warm[0]["hash"] not in {one["hash"] for one in fresh}
