# SPDX-License-Identifier: Apache-2.0
"""A template: python3 glovebox_template.py MODULE...

Imports the modules, makes itself cheap to fork, and serves orders. In a child everything that only the template
needed is gone, and the runner takes over. What the process holds is in every session, so nothing of a user, no
secret and no open file may be here.
"""
import os
import sys

ORDERS = 21  # BOX_TEMPLATE_FD

# One thread, or it could not fork: the numeric libraries would start theirs when they are loaded.
SINGLE = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS")


def load(names):
    """Imports what is there; the names of what is not."""
    missing = []
    for name in names:
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    return missing


def try_out(runner):
    """What a child does: it is served one small run."""
    import socket
    ours, theirs = socket.socketpair()
    config = b"mode 7\ncontextresult_count 1\n1result_limit 4\n1024"
    ours.sendall(b"C 0 %d\n%sE 1 3\n1+1" % (len(config), config))
    ours.shutdown(socket.SHUT_WR)
    control = theirs.detach()

    class Over(BaseException):
        pass

    def leave(status):
        raise Over

    try:
        runner.serve(control, leave)
    except Over:
        pass
    return True


def main():
    import _glovebox
    _glovebox.prepare()
    for name in SINGLE:
        os.environ[name] = "1"
    missing = load(sys.argv[1:])
    for name in SINGLE:
        del os.environ[name]
    import glovebox_runner
    glovebox_runner.prepare()
    try:
        _glovebox.merge()
        _glovebox.trial(lambda: try_out(glovebox_runner))
    except OSError:
        pass  # forks cost more, nothing else
    # From here on the template runs C only; what follows is a child.
    glovebox_runner.serve(_glovebox.serve(ORDERS, " ".join(missing)))


# Python looks for modules beside this file only while it starts: PYTHONSAFEPATH may be set.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
main()
