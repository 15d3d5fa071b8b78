# SPDX-License-Identifier: Apache-2.0
"""The Bash runner, without a box: state, statuses, standard input, interrupts."""

import os
import pathlib
import random
import signal
import time

import pytest

from context_channel import Context, Ended, pack

RUNNER = pathlib.Path(__file__).resolve().parents[2] / "src/runner/contexts/bash_runner.bash"
COMMAND = ["bash", "--norc", "--noprofile", "-c", f'. {RUNNER}; eval "$__gb_loop"', "bash"]


@pytest.fixture
def context():
    with Context(COMMAND) as c:
        yield c


def ends(context, code):
    """The exit status of a shell that code ends."""
    context.start(code)
    with pytest.raises(Ended):
        context.finish()
    return context.process.wait(10)


def test_start(context):
    assert context.version.startswith(("4.", "5."))
    run = context.run('echo "$0|$#|$-|${BASH_SOURCE[0]}|$(declare -p | grep -c "^declare -x.*__gb_")"')
    assert (run.status, run.stdout, run.stderr, run.frames) == ("ok", "bash|0|hBc||0\n", "", []), run.explain()


def test_variables_of_the_configuration():
    with Context(COMMAND, env=["GREETING=hello world", "EMPTY=", "LINES2=a\nb=c"]) as c:
        assert c.run("printenv GREETING EMPTY LINES2").stdout == "hello world\n\na\nb=c\n"


def test_state(context):
    context.run("x=5; declare -A map=([a]=1); list=(1 2 3); f() { echo \"f $1\"; }; cd /usr; shopt -s nullglob; set -f; export E=exported")
    run = context.run('echo "$x ${map[a]} ${#list[@]} $PWD $(f 1)"; shopt -q nullglob && echo nullglob; echo *; printenv E')
    assert run.stdout == "5 1 3 /usr f 1\nnullglob\n*\nexported\n", run.explain()
    context.run("sleep 30 & echo $!")
    run = context.run("jobs %1; kill $!; wait $!; echo $?")
    assert "sleep 30" in run.stdout and run.stdout.endswith("143\n"), run.explain()


def test_traps_of_the_user(context):
    context.run("trap 'echo got usr1' USR1; trap 'echo bye' EXIT")
    assert context.run("kill -USR1 $$; :").stdout == "got usr1\n"
    context.here.close()
    assert context.process.wait(10) == 0
    assert context.output(context.pipes[0][0]) == "bye\n"


def test_statuses(context):
    run = context.run("echo a; (exit 7)")
    assert run.status == "error" and run.error == {"name": "ExitStatus", "value": "7", "traceback": ""} and run.exit == b"7", run.explain()
    run = context.run("echo $?")
    assert (run.status, run.stdout, run.of("X")) == ("ok", "7\n", []), run.explain()
    run = context.run("true\n\nif fi\necho no")
    assert run.status == "error" and run.error["value"] == "2" and "line 3: syntax error" in run.stderr and run.stdout == "", run.explain()
    run = context.run("\nnosuchcommand")
    assert run.error["value"] == "127" and run.stderr == "bash: line 2: nosuchcommand: command not found\n", run.explain()
    assert context.run("").status == "ok"


@pytest.mark.parametrize("code", ["break", "continue", "break 9", "return", "for i in 1 2; do break 3; done", "f() { break; }; f"])
def test_stray_jumps(context, code):
    """As in a script: Bash says so, and what follows is run."""
    context.run("x=kept")
    for _ in range(3):
        run = context.run(f"echo before\n{code}\necho after")
        assert (run.status, run.stdout) == ("ok", "before\nafter\n"), run.explain()
        said = ": can only `return'" if code == "return" else ": only meaningful in a"
        assert run.stderr == "" if code.startswith("for") else said in run.stderr, run.explain()
    assert context.run("break; false").error["value"] == "1"
    run = context.run("echo $x; for i in 1 2; do echo $i; done")
    assert (run.status, run.stdout) == ("ok", "kept\n1\n2\n"), run.explain()


@pytest.mark.parametrize("code", ["break", "continue", "break 9", "for i in 1 2; do break 3; done"])
def test_stray_jumps_in_an_old_bash(tmp_path, code):
    """One that drops what follows says so, and the run has failed."""
    text = RUNNER.read_text()
    old = text.replace("BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1]", "403")
    assert old != text
    (tmp_path / "runner").write_text(old)
    command = [part.replace(str(RUNNER), str(tmp_path / "runner")) for part in COMMAND]
    with Context(command) as context:
        context.run("x=kept")
        for _ in range(3):
            run = context.run(f"echo before; {code}; echo after")
            assert run.status == "error" and run.error["value"] == "1" and run.stdout == "before\n", run.explain()
            said = "glovebox: break or continue outside of a loop: the code after it was not run\n"
            assert run.stderr == said, run.explain()
        assert context.run("set -e; for i in 1 2; do false; done; echo no").stderr == ""
        run = context.run("set +e; echo $x; for i in 1 2; do echo $i; done")
        assert (run.status, run.stdout) == ("ok", "kept\n1\n2\n"), run.explain()


def test_exit_is_real(context):
    assert ends(context, "echo bye; exit 7") == 7


def test_unset_variable_under_nounset(context):
    assert ends(context, "set -u; echo $nosuch") == 127
    assert "nosuch: unbound variable" in context.output(context.pipes[1][0])


def test_errexit_ends_the_run_and_not_the_shell(context):
    run = context.run("set -euo pipefail\nx=kept\nf() { false | true; echo no; }\nfor i in 1 2; do f; echo no; done\necho no")
    assert run.status == "error" and run.error["value"] == "1" and run.stdout == "", run.explain()
    run = context.run("[[ $- == *e* ]] && echo $x; false || echo tolerated; if ! false; then echo if; fi; (exit 3); echo no")
    assert run.error["value"] == "3" and run.stdout == "kept\ntolerated\nif\n", run.explain()
    run = context.run("x=$( (set -e; false; echo no >&2); echo sub $?)\necho $x\nset +eu; false; echo $-")
    assert run.status == "ok" and run.stdout.startswith("sub 1\n") and "e" not in run.stdout[6:], run.explain()
    run = context.run("false; echo on; trap -p ERR; echo $-")
    assert (run.status, run.stdout) == ("ok", "on\nhBc\n"), run.explain()


def test_errexit_with_a_trap_of_the_user(context):
    context.run("trap 'echo mine' ERR")
    run = context.run("false; f() { false; }; f; :")
    assert run.stdout == "mine\nmine\n", run.explain()
    assert ends(context, "set -e; false; echo no") == 1


def test_options_do_not_touch_the_runner(context):
    run = context.run("set -x; echo traced")
    assert run.stderr.count("\n") == 1 and "__gb" not in run.stderr, run.explain()
    run = context.run("(exit 5)")
    assert "__gb" not in run.stderr and run.error["value"] == "5", run.explain()
    context.run("set +x; set -aCfk; IFS=0123456789; read() { echo mine; }; printf() { echo mine; }; local() { :; }")
    run = context.run("q=1; read; printf; echo \"$IFS\"; env | grep -c __gb_")
    assert run.stdout == "mine\nmine\n0123456789\n0\n", run.explain()
    assert context.run("set -o posix; unset IFS; set +f").status == "ok"
    assert context.run("echo posix").stdout == "posix\n"


def test_stdin(context):
    data = bytes(random.Random(1).randrange(256) for _ in range(300000))
    run = context.run("cat | cksum; cksum </dev/null", stdin=data)
    assert run.stdout.split()[1] == str(len(data)), run.explain()
    run = context.run('read -r line; echo "first $line"; cat', stdin=b"one\ntwo\n")
    assert run.stdout == "first one\ntwo\n", run.explain()
    run = context.run('read -r line; echo "$? $line"; ls -A /tmp | grep -c "glovebox-stdin.$$"')
    assert run.stdout == "1 \n0\n", run.explain()
    assert context.run("wc -c", stdin=b"").stdout.strip() == "0"


def test_descriptors(context):
    """A program has the three streams; the channel is not among them, with standard input or without."""
    for stdin in (None, b"x"):
        run = context.run("for fd in /proc/self/fd/*; do :; done; ls /proc/self/fd; bash -c 'echo x >&20' 2>&1 | tail -c 20; echo y >&20", stdin=stdin)
        assert run.stdout.split()[:4] == ["0", "1", "2", "3"] and "bad file descriptor" in run.stdout.lower(), run.explain()
        assert "20: Bad file descriptor" in run.stderr, run.explain()
    run = context.run("exec 20>/dev/null; echo lost")
    assert (run.status, run.stdout) == ("ok", "lost\n")
    assert context.run("echo alive").stdout == "alive\n"


def test_large_code(context):
    context.run("LC_ALL=C.UTF-8")
    text = "aé" * 350000
    began = time.monotonic()
    run = context.run(f"x='{text}'\necho ${{#x}}\n")
    assert run.stdout == "700000\n" and time.monotonic() - began < 20, run.explain()
    run = context.run("printf %s \"$x\" | wc -c")
    assert run.stdout.strip() == str(len(text.encode()))


def test_output_comes_before_the_end(context):
    for _ in range(20):
        assert context.run("echo out; echo err >&2; seq 100 | tail -n1").stdout == "out\n100\n"


FOREVER = {
    "program": "sleep 60; echo no",
    "loop": "while :; do :; done; echo no",
    "nested": "f() { while :; do sleep 1; done; echo no; }; g() { f; echo no; }; for i in 1 2; do g; echo no; done; echo no",
    "subshell": "( sleep 60; echo no ); echo no",
    "pipe": "sleep 60 | cat; echo no",
    "substitution": "z=$(sleep 60; echo no); echo $z no",
    "wait": "sleep 60 & wait; echo no",
    "errexit": "set -e; f() { sleep 60; echo no; }; f; echo no",
    "deaf program": "bash -c 'trap \"exit 0\" INT; sleep 60 & wait'; echo no",
    "sourced": "echo 'while :; do :; done; echo no' >forever; . ./forever; echo no",
    "until": "until false; do until false; do :; done; done; echo no",
    "trap": "trap 'echo no' USR2; while :; do :; done",
}


@pytest.mark.parametrize("name", FOREVER)
def test_interrupt(context, name):
    context.run("x=kept; y() { echo function; }")
    for _ in range(2):
        context.start("echo begun; " + FOREVER[name])
        context.wait_for("begun")
        context.interrupt(0.1)
        run = context.finish(10)
        assert run.status == "interrupted" and run.error["value"] == "130" and "no" not in run.stdout, run.explain()
        run = context.run("echo $x; y; for i in 1 2; do echo $i; done; shopt -q extdebug || trap -p DEBUG")
        assert (run.status, run.stdout) == ("ok", "kept\nfunction\n1\n2\n"), run.explain()


def test_interrupt_between_runs(context):
    for _ in range(3):
        context.interrupt(0.05)
        time.sleep(0.05)
        run = context.run("sleep 0.1; echo alive")
        assert (run.status, run.stdout) == ("ok", "alive\n"), run.explain()


def test_interrupt_at_any_moment(context):
    """One that comes just before or after a run's borders must neither end the shell nor stay pending."""
    random_moment = random.Random(2)
    for _ in range(60):
        context.start("for i in {1..300}; do :; done")
        time.sleep(random_moment.random() * 0.003)
        os.killpg(context.process.pid, signal.SIGINT)
        assert context.finish(10).status in ("ok", "interrupted")
        time.sleep(0.01)  # a signal that comes after the run has no effect on the next
        run = context.run("echo $((6 * 7))")
        assert (run.status, run.stdout) == ("ok", "42\n"), run.explain()


def test_interrupt_while_stdin_comes(context):
    data = b"x" * 3000000
    context.seq += 1
    context.here.sendall(b"I %d %d\n" % (context.seq, len(data)) + data[:1000])
    context.interrupt(0.3)
    time.sleep(0.1)
    context.here.sendall(data[1000:])
    context.send("E", context.seq, b"wc -c")
    assert context.finish().stdout.strip() == str(len(data))


def test_interrupt_trap_of_the_user(context):
    context.run("trap 'echo mine' INT")
    context.start("echo begun; sleep 60; echo on")
    context.wait_for("begun")
    context.interrupt(0.1)
    run = context.finish(10)
    assert (run.status, run.stdout) == ("ok", "mine\non\n"), run.explain()
    context.run("trap - INT")
    context.start("echo begun; sleep 60; echo no")
    context.wait_for("begun")
    context.interrupt(0.1)
    assert context.finish(10).status == "interrupted"


def test_many_runs_do_not_nest(context):
    """Neither the stack nor the variables of the shell may grow with each way a run can end."""
    def size():
        return int(context.run("read -r _ n _ </proc/$$/statm; echo $n").stdout)

    codes = ["x=1", "false", "break", "continue 9", "set -e; false", "set +e", "if fi"]
    for code in codes * 20:
        context.run(code)
    before = size()
    for code in codes * 60:
        context.run(code)
    assert size() - before < 64, "pages"


def test_end_of_the_channel(context):
    context.run("x=1")
    context.here.close()
    assert context.process.wait(10) == 0


def test_unknown_frame_ends_the_shell(context):
    context.send("Q", 0, pack([("x", b"y")]))
    assert context.process.wait(10) == 1
