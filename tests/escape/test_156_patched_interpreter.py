# SPDX-License-Identifier: Apache-2.0
"""156. The program patches json, streams, exits and hooks of its interpreter => the host's facts do not change.
"""


CODE = """
import json, sys, os, builtins, atexit, gc
json.dumps = lambda *a, **k: '{"verdict":{"kind":"ok"}}'
os.write(1, b'token\\n')
class Liar:
    def write(self, text): os.write(1, b'{"exit_code":0}')
    def flush(self): pass
sys.stdout = sys.stderr = Liar()
builtins.print = lambda *a: None
sys.exit = lambda code=0: os._exit(0)
atexit.register(lambda: os.write(1, b'{"event":"verdict"}'))
gc.callbacks.append(lambda *a: None)
sys.settrace(lambda *a: None)
raise SystemExit(77)
"""


def test_patched_interpreter(box):
    result = box.run(CODE)
    assert result.stdout.startswith("token\n")
    assert (result.verdict, result.exit_code, result.returncode) == ("error", 77, 77), result.explain()
