# SPDX-License-Identifier: Apache-2.0
"""Secrets of a run reach it the same way everywhere, and are taken out of what comes back; what the guard refuses is nowhere started."""

LOOKS = """
import os, sys
word = open("/run/secrets/WORD", "rb").read()
print(os.environ["TOKEN"], os.environ["TOKEN"][::-1], word.decode(), len(word), "WORD" in os.environ)
print(os.environ["TOKEN"].encode().hex(), file=sys.stderr)
"""


def test_secrets_go_in_and_not_out(backend, scratch):
    token, word = "a token of nobody", "correct horse\nbattery staple\n"
    (scratch / "secrets").write_text(f"TOKEN={token}\n")
    (scratch / "secrets").chmod(0o600)
    (scratch / "word").write_text(word)
    result = backend.run(LOOKS, secrets=scratch / "secrets", secret_file=f"WORD={scratch / 'word'}")
    assert result.verdict == "ok", result.explain()
    assert result.stdout == f"[scrubbed:TOKEN] {token[::-1]} [scrubbed:WORD] {len(word) - 1} False\n", result.explain()
    assert result.stderr == "[scrubbed:TOKEN]\n", result.explain()
    assert result.json["scrubbed"] == {"total": 3, "names": {"TOKEN": 2, "WORD": 1}}


def test_what_is_blocked_is_not_started(backend):
    result = backend.run("print('on')\nopen('/var/run' + '/docker.sock')", guard="on")
    assert (result.verdict, result.returncode, result.stdout) == ("blocked", 117, ""), result.explain()
    found = result.json["guard"]["findings"][0]
    assert (found["rule"], found["line"], found["column"]) == ("container-socket", 2, 6), found
    assert backend.containers() == []
