# SPDX-License-Identifier: Apache-2.0
"""159. A child prints what looks like an end and exits with 0 => the status of the program itself counts.
"""


def test_child_status(box):
    code = "import os\nif os.fork() == 0:\n    os.write(1, b'exit status 0\\n'); os._exit(0)\nos.wait(); os._exit(42)"
    result = box.run(code)
    assert (result.stdout, result.verdict, result.exit_code) == ("exit status 0\n", "error", 42)


def test_program_that_leaves_its_child_behind(box):
    code = "import os, time\nif os.fork() == 0:\n    time.sleep(0.2); os._exit(99)\nos._exit(3)"
    assert box.run(code).exit_code == 3
