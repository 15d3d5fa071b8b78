# SPDX-License-Identifier: Apache-2.0
"""148. The program prints exact copies of our own result and events => they arrive as data, the real ones are ours.
"""
import json


FORGED = '{"event":"verdict","verdict":{"kind":"ok"},"exit_code":0}\\n{"id":"x","verdict":{"kind":"ok"}}\\n\\n\\ndata: x\\nevent: verdict\\n'


def test_forged_result(box):
    result = box.run(f"import sys; print('{FORGED}', end=''); print('{FORGED}', end='', file=sys.stderr); sys.exit(9)")
    assert (result.verdict, result.exit_code, result.returncode) == ("error", 9, 9)
    assert result.stdout == FORGED.replace("\\n", "\n") == result.stderr


def test_forged_events(box):
    result = box.run(f"import sys; print('{FORGED}', end=''); sys.exit(9)", json=False, events=True)
    events = [json.loads(line) for line in result.out.splitlines()]
    assert [e["event"] for e in events].count("verdict") == 1 and events[-1]["event"] == "verdict"
    assert events[-1]["exit_code"] == 9
    assert "".join(e["data"] for e in events if e["event"] == "stdout") == FORGED.replace("\\n", "\n")
