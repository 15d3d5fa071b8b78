# SPDX-License-Identifier: Apache-2.0
"""160, in sessions. Standard input is absent, huge, closed early, binary or never ends, in any mix with output => no deadlock, no
byte lost, and what one run did not read no other run sees.
"""
import os
import threading

import pytest
from hostile_sessions import good, witness
from session_fixtures import own_warden, sessions

ECHO = "import sys, shutil\nshutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"


def test_none(sessions, witness):
    context = sessions.context()
    for given in (None, b""):
        assert good(context, "import sys\nsys.stdin.read()", stdin=given).text == "''"
    assert context.run("input()").error["name"] == "EOFError"


def test_echo(sessions, witness):
    context = sessions.context({"output_limit": "30m"})
    small, large = bytes(range(256)) * 256, os.urandom(1 << 20) * 8
    for data in (small, large):
        assert good(context, ECHO, stdin=data).stdout == data
    assert good(context, ECHO).stdout == b"", "nothing is left of it"


def test_what_is_not_read_is_gone(sessions, witness):
    context = sessions.context()
    assert good(context, "import sys\nsys.stdin.readline()", stdin=b"one\ntwo\n" + b"x" * (4 << 20)).text == "'one\\n'"
    assert good(context, "sys.stdin.read()").text == "''"
    assert good(context, "sys.stdin.read()", stdin=b"three").text == "'three'"


def test_closed_by_the_code(sessions, witness):
    context = sessions.context()
    for code in ("import os\nos.close(0)", "import sys\nsys.stdin.close()", "import os\nos.dup2(os.open('/dev/null', 0), 0)"):
        assert good(context, code + "\nprint('on')", stdin=b"x" * (4 << 20)).out == "on\n"
        assert good(context, "import sys\nsys.stdin.read()", stdin=b"again").text == "'again'"


def test_never_ends(sessions, witness):
    ours, theirs = os.pipe()
    context = sessions.context()
    assert good(context, "print('on')", stdin=ours).out == "on\n"
    os.write(theirs, b"later\n")
    assert good(context, "input()", stdin=ours).text in ("'later'",)
    os.close(theirs)
    assert good(context, "import sys\nsys.stdin.read()", stdin=ours).text == "''"
    os.close(ours)


def test_trickle_against_a_flood(sessions, witness):
    """Input comes slowly while output floods, and the other way round."""
    ours, theirs = os.pipe()
    context = sessions.context({"output_limit": "20m"})

    def feed():
        for _ in range(20):
            os.write(theirs, b"x" * 1000)
        os.close(theirs)
    thread = threading.Thread(target=feed)
    thread.start()
    code = "import os\nn = 0\nwhile True:\n    got = os.read(0, 100)\n    if not got: break\n    n += len(got)\n    os.write(1, b'y' * 10000)\nn"
    result = good(context, code, stdin=ours)
    thread.join()
    os.close(ours)
    assert (result.text, len(result.stdout)) == ("20000", 2000000), result


def test_descriptor_stays_out_of_the_box(sessions, witness):
    """A child that a run leaves behind has the old pipe, which has an end, and not the input of the next run."""
    context = sessions.context()
    good(context, "import os\nif os.fork() == 0:\n    import time\n    time.sleep(0.2)\n    open('seen', 'wb').write(os.read(0, 100))\n    os._exit(0)", stdin=b"first" * 10)
    assert good(context, "import sys\nsys.stdin.read()", stdin=b"secret").text == "'secret'"
    good(context, "import time, os\nwhile not os.path.exists('seen'): time.sleep(0.01)\ntime.sleep(0.05)")
    assert b"secret" not in context.session.read("seen")


@pytest.mark.parametrize("language, code", [("bash", "cat"), ("node", "process.stdout.write(require('fs').readFileSync(0))")], ids=["bash", "node"])
def test_others(sessions, language, code):
    context = sessions.context({"mem_limit": "1g"}, language=language)
    data = bytes(range(256)) * 1024
    assert good(context, code, stdin=data).stdout == data
    assert good(context, code).stdout == b""
    assert good(context, code, stdin=b"again").stdout == b"again"
