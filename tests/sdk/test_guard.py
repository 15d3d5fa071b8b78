# SPDX-License-Identifier: Apache-2.0
"""The guard through the SDK: code that is refused, secrets that do not come out, and values that the package itself shows to nobody."""
import asyncio
import copy
import json
import pickle
import traceback

import pytest

import glovebox
from glovebox import _body, _http, _secrets
from sdk_helpers import each_backend
from test_display import HOSTILE, check

VALUE = "correct-horse-battery"
SHAPE = "AK" + "IA" + "Z7Q2M4XWPLK5RT3J"
REFUSED = "x = 1\nopen('/home/u/.aws/' + 'credentials').read()"
RULE = "aws-credentials"


def blocked(**finding):
    row = {"rule": RULE, "set": "credential-files", "action": "block", "line": 2, "column": 6, "message": "No credentials here.", "remedy": "Ask for them.", **finding}
    return glovebox.Result({"verdict": {"kind": "blocked", "message": "Nothing was run."}, "guard": {"findings": [row], "more": 3}, "state": {"kept": True}})


# ---- what needs no server ----

def test_secrets_as_the_server_wants_them():
    given = {"A": VALUE, "B": {"value": VALUE, "file": "/run/secrets/b"}, "C": {"value": VALUE}}
    wanted = {"A": VALUE, "B": {"value": VALUE, "file": "/run/secrets/b"}, "C": VALUE}
    assert json.loads(_http.encode_json(_secrets.secrets_body(given))) == wanted
    assert json.loads(_http.encode_json(_body.session_body(None, "python", None, None, "private", None, None, given)))["secrets"] == wanted
    assert _secrets.secrets_body({}) is None and _secrets.secrets_body(None) is None


@pytest.mark.parametrize("wrong", [{"A": VALUE.encode()}, {"A": 12345678}, {"A": None}, {"A": {"value": VALUE.encode()}}, {"A": {"value": VALUE, "path": "/x"}},
                                   {"A": {"value": VALUE, "file": 3}}, {"A": {"file": "/run/secrets/a"}}, {"A": VALUE + "\udc80"}, [VALUE], VALUE])
def test_errors_name_a_secret_and_do_not_show_it(wrong):
    with pytest.raises(glovebox.UsageError, match="secrets") as caught:
        glovebox.Sandbox(secrets=wrong, server="unix:/nonexistent")
    error = caught.value
    shown = "".join(traceback.format_exception(type(error), error, error.__traceback__)) + repr(error) + repr(error.__dict__) + repr(error.__context__)
    assert VALUE not in shown and VALUE.encode() not in pickle.dumps(error)


def test_values_are_shown_by_nothing():
    box = glovebox.Sandbox(secrets={"A": VALUE, "B": {"value": VALUE, "file": "/run/secrets/b"}}, server="unix:/nonexistent")
    request = _http.Request.with_json("POST", "/v1/sessions", box._core._body)
    assert VALUE.encode() in request.body
    for shown in (repr(box), repr(box._core), repr(vars(box)), repr(vars(box._core)), repr(request), repr(copy.deepcopy(box._core._body))):
        assert VALUE not in shown
    assert "[secret]" in repr(box._core._body)
    for each in (box, box._core, box._core._body):
        with pytest.raises(TypeError):
            pickle.dumps(each)
    with pytest.raises(glovebox.ConnectionFailed) as caught:
        box.open()
    assert VALUE not in repr(caught.value) + str(caught.value) + repr(vars(caught.value))


def test_findings_of_a_result():
    result = blocked()
    found = result.guard
    assert found.blocked and found.more == 3 and found[0] == glovebox.Finding(RULE, "credential-files", "block", 2, 6, "No credentials here.", "Ask for them.")
    assert str(found[0]) == f"line 2, column 6: No credentials here. Ask for them. [{RULE}]"
    assert repr(result) == f"<Result blocked rule={RULE} line=2>"
    with pytest.raises(glovebox.BlockedVerdict) as caught:
        result.raise_for_verdict()
    assert caught.value.findings == found and pickle.loads(pickle.dumps(caught.value)).findings[0].rule == RULE
    counted = glovebox.Result({"verdict": {"kind": "ok"}, "scrubbed": {"total": 3, "names": {"A": 2, "github-token": 1}}})
    assert counted.scrubbed == {"A": 2, "github-token": 1} and repr(counted) == "<Result ok scrubbed=3>"


@pytest.mark.parametrize("raw", [{}, {"guard": None, "scrubbed": None}, {"guard": [], "scrubbed": []}, {"guard": {"findings": {}}, "scrubbed": {"names": []}},
                                 {"guard": {"findings": ["x", None], "more": None}, "scrubbed": {"names": {"A": None}}}])
def test_a_server_that_says_nothing_of_it(raw):
    result = glovebox.Result({"verdict": {"kind": "ok", "message": ""}, **raw})
    assert result.guard == [] and not result.guard.blocked and result.scrubbed == {} and repr(result) == "<Result ok>"


def test_a_notebook_shows_rule_line_and_remedy():
    result = blocked()
    page, _ = check(result._repr_html_())
    for text in ("".join(page.text), result._repr_mimebundle_()["text/plain"]):
        assert f"{RULE}, line 2, column 6\n  No credentials here.\n  Ask for them.\n3 more" in text and text.startswith("blocked: nothing was run"), text
    warned = glovebox.Result({"verdict": {"kind": "ok", "message": ""}, "stdout": "out\n", "guard": {"findings": [
        {"rule": "a", "action": "warn", "line": 1, "column": 1, "message": "Mind.", "remedy": "Do."}, {"rule": "b", "action": "log", "message": "Seen."}]}})
    assert warned._repr_mimebundle_()["text/plain"] == "out\nwarning\na, line 1, column 1\n  Mind.\n  Do."
    assert "Mind." in "".join(check(warned.guard._repr_html_())[0].text)
    assert "nothing was found" in glovebox.Findings()._repr_html_()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_findings_stay_text(text):
    result = blocked(rule=text, message=text, remedy=text)
    check(result._repr_html_())
    check(result.guard._repr_html_())


# ---- with a server ----

@each_backend
def test_refused_code_is_a_verdict_and_variables_stay(box):
    box.run("kept = 41")
    result = box.run(REFUSED)
    assert result.verdict == "blocked" and result.exit_code is None and result.state_kept is True, result.raw
    finding = result.guard[0]
    assert (finding.rule, finding.set, finding.action, finding.line) == (RULE, "credential-files", "block", 2) and finding.message and finding.remedy
    assert box.run("kept + 1").text == "42"
    with box.stream(REFUSED) as stream:
        events = list(stream)
    assert [type(event) for event in events] == [glovebox.VerdictEvent] and stream.result.guard == result.guard
    assert box.run(REFUSED, context="fresh").guard == result.guard


@each_backend
def test_secrets_do_not_come_out(client):
    code = "import base64, os, sys\na = os.environ['A']\nprint(len(a), a, base64.b64encode(a.encode()).decode())\nprint(len(open('/run/secrets/b').read()), file=sys.stderr)\na"
    with client.sandbox(secrets={"A": VALUE, "B": {"value": "another-" + VALUE, "file": "/run/secrets/b"}}) as box:
        assert sorted(box.info().secrets) == ["A", "B"] and VALUE not in json.dumps(box.info().raw)
        assert "secrets" not in box._core._body
        said = []
        result = box.run(code, on_stdout=said.append)
        assert result.stdout.startswith("21 [scrubbed:A] ") and VALUE not in json.dumps(result.raw), result.raw
        assert result.stderr == "29\n" and result.text == "'[scrubbed:A]'" and "".join(said) == result.stdout
        assert result.scrubbed["A"] >= 3, result.scrubbed
        failed = box.run("raise ValueError(open('/run/secrets/b').read())")
        assert failed.error.value == "[scrubbed:B]" and failed.scrubbed["B"] >= 1, failed.raw
    assert client.run("import os; print(os.environ['A'])", secrets={"A": VALUE}).stdout == "[scrubbed:A]\n"


def test_a_look_without_a_run(client):
    found = client.check(REFUSED)
    assert found.blocked and found[0].rule == RULE and found[0].line == 2
    assert client.check("print(1)") == [] and client.check("cat ~/.aws/credentials", language="bash").blocked
    carried = client.check(f"x = '{VALUE}'", secrets={"A": VALUE})
    assert [each.rule for each in carried] == ["secret-in-code"] and not carried.blocked and VALUE not in str(carried)
    assert client.check(f"x = '{VALUE}'", secrets={"A": VALUE}, policy={"scrub": "strict"}).blocked
    assert client.check("import json", policy={"guard_imports": ["json"]}).blocked
    assert glovebox.check("import selenium", client=client).blocked
    with pytest.raises(glovebox.PolicyError, match="no-such-rule"):
        client.check("1", policy={"guard_rules": {"no-such-rule": "off"}})


def test_policies_make_it_stricter_or_switch_it_off(client):
    warned = client.run("open('.env')")
    assert warned.verdict == "error" and [each.rule for each in warned.guard.warnings] == ["dotenv-file"], warned.raw
    assert client.run("open('.env')", policy={"guard": "strict"}).verdict == "blocked"
    assert client.run("open('.env')", policy={"guard_rules": {"dotenv-file": "block"}}).verdict == "blocked"
    code = f"print('{SHAPE[:8]}' + '{SHAPE[8:]}')"
    assert client.run(code).stdout == "[scrubbed:aws-access-key]\n"
    assert client.run(code, policy={"scrub": "off"}).stdout == SHAPE + "\n"  # through the socket, where the server's own user may


def test_a_stranger_cannot_make_it_weaker(server):
    with glovebox.Client("http://127.0.0.1:%d" % server.tcp[1], server.token("guarded", "run")) as stranger:
        for policy in ({"guard": "off"}, {"scrub": "off"}, {"guard_rules": {RULE: "off"}}, {"guard_imports": []}):
            with pytest.raises(glovebox.DeniedError):
                stranger.run("1", policy=policy)
        assert stranger.run("open('.env')", policy={"guard": "strict"}).verdict == "blocked"


def test_asyncio_has_the_same(address):
    async def main():
        async with glovebox.AsyncClient(address) as client, client.sandbox(secrets={"A": VALUE}) as box:
            assert (await client.check(REFUSED)).blocked and VALUE not in repr(vars(box))
            result = await box.run("import os; print(os.environ['A'])")
            assert result.stdout == "[scrubbed:A]\n" and result.scrubbed == {"A": 1}
            with pytest.raises(glovebox.BlockedVerdict, match=RULE) as caught:
                await box.run(REFUSED, check=True)
            assert caught.value.findings[0].line == 2
    asyncio.run(main())
