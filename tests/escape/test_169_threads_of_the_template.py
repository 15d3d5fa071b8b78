# SPDX-License-Identifier: Apache-2.0
"""169. A template forks while a thread of its holds a lock of malloc, of imports or of logging => it has one thread, always, and
hundreds of forks from several sides do not hang.
"""
import os
import threading
import time

import pytest
from hostile_sessions import good
from session_fixtures import PYTHON, has_module, own_warden, warm_sessions
from sessions import template_processes

# Locks that a fork would find held for ever: each is taken once.
USE = """
import logging, threading, concurrent.futures, json, sqlite3, zlib, decimal, importlib, gc
logging.getLogger('x').warning('w')
importlib.import_module('wave' if 'wave' not in sys.modules else 'json') if 'sys' in globals() else None
with concurrent.futures.ThreadPoolExecutor(4) as pool: assert sum(pool.map(len, ['a' * i for i in range(100)])) == 4950
blocks = [bytearray(i * 100) for i in range(200)]
t = threading.Thread(target=lambda: [object() for i in range(1000)]); t.start(); t.join()
gc.collect()
threading.active_count()
"""


def count_threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def watch(pids, counts, over):
    while not over.is_set():
        for pid in pids:
            try:
                counts.append(count_threads(pid))
            except OSError:
                pass
        time.sleep(0.001)


def fork_many(sessions, n, code, expected, **options):
    """From two threads, while the number of the template's threads is watched."""
    failures, counts, over = [], [], threading.Event()
    with sessions(**options) as first:
        assert good(first.context(), code).text == expected
    sessions.opened.remove(first)
    watcher = threading.Thread(target=watch, args=(template_processes(), counts, over))

    def work():
        try:
            for _ in range(n // 2):
                with sessions(**options) as session:
                    began = time.monotonic()
                    assert good(session.context(), code).text == expected
                    assert time.monotonic() - began < 10
        except Exception as failure:
            failures.append(failure)
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in [watcher, *threads]:
        thread.start()
    for thread in threads:
        thread.join(60)
    over.set()
    watcher.join()
    sessions.opened.clear()
    assert not failures, failures
    return counts


def test_one_thread(warm_sessions):
    counts = fork_many(warm_sessions, 100, USE, "1")
    assert len(counts) > 20 and set(counts) == {1}, set(counts)


@pytest.mark.skipif(not has_module("numpy"), reason=f"numpy is not installed for {PYTHON}")
def test_one_thread_with_numeric_libraries(warm_sessions):
    """They would start threads when they are loaded; their children may, afterwards."""
    code = "import numpy as np, threading\na = np.random.rand(120, 120)\nfloat(abs(a @ np.linalg.inv(a) - np.eye(120)).max()) < 1e-3"
    counts = fork_many(warm_sessions, 16, code, "True", template="python-data")
    assert counts and set(counts) == {1}, set(counts)
    assert good(warm_sessions.context(template="python-data"), "import os\n'OPENBLAS_NUM_THREADS' in os.environ").text == "False"


def test_children_may_have_threads(warm_sessions):
    """The one thread is the template's rule, not that of what is forked from it."""
    code = """import threading
end = threading.Event()
threads = [threading.Thread(target=end.wait) for i in range(20)]
for t in threads: t.start()
n = threading.active_count()
end.set()
for t in threads: t.join()
n"""
    assert good(warm_sessions.context(), code).text == "21"
