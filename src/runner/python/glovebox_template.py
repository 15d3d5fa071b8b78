# SPDX-License-Identifier: Apache-2.0
"""A template: python3 glovebox_template.py MODULE...

Imports the modules, makes itself cheap to fork, and serves orders. In a child everything that only the template
needed is gone, and the runner takes over. What the process holds is in every session, so nothing of a user, no
secret and no open file may be here.
"""
import os
import sys

CONTROL = 20  # BOX_CONTROL_FD
ORDERS = 21   # BOX_TEMPLATE_FD
FIRST = 2     # the process id of a session's first program; init has 1

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


def main():
    import _glovebox
    _glovebox.prepare()
    for name in SINGLE:
        os.environ[name] = "1"
    missing = load(sys.argv[1:])
    for name in SINGLE:
        del os.environ[name]
    import glovebox_runner_warm as runner
    runner.prepare()
    channels = runner.prepare_trials()
    places = runner.expect(FIRST, _glovebox.begin)
    trials = (runner.try_context, runner.try_script)
    renewed = _glovebox.serve(trials, channels, ORDERS, " ".join(missing), places, FIRST)
    runner.serve(CONTROL, os._exit, renewed)


# Python looks for modules beside this file only while it starts: PYTHONSAFEPATH may be set.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
main()
