# SPDX-License-Identifier: Apache-2.0
"""`glovebox repl`: at a terminal (a pseudo terminal of ours) and from a pipe."""
import base64
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest
from conftest import BINARY, process_stat, wait_until

PROMPT, MORE = ">>> ", "... "
UP, CTRL_A, CTRL_C, CTRL_D = "\x1b[A", "\x01", "\x03", "\x04"
HAS_MATPLOTLIB = subprocess.run(["/usr/bin/python3", "-c", "import matplotlib"], capture_output=True).returncode == 0

# The name of a key binding that only the line editor has.
HAS_EDITING = BINARY.exists() and b"em-inc-search-prev" in BINARY.read_bytes()
needs_editing = pytest.mark.skipif(not HAS_EDITING, reason="built without libedit")

# A PNG of one pixel, made by code without any library, so that nothing has to be installed.
PNG = r"""
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

def png(width=1, height=1):
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")

"""


class Terminal:
    """The command at a terminal of its own: what is typed, and everything that it showed."""

    def __init__(self, box, home, *argv, environ=None, cwd=None, prompt=PROMPT, columns=200):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        env = {**box.environ, "TERM": "xterm", "HOME": str(home), **(environ or {})}
        argv = [str(box.binary), "repl", *(["--allow-weaker", ",".join(box.weaker)] if box.weaker else []), *map(str, argv)]
        self.process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd or home, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **box.ids)
        os.close(slave)
        self.master, self.shown, self.seen, self.prompt = master, "", 0, prompt

    def read(self, seconds):
        """Reads what comes first; False when nothing did."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            data = b""
        self.shown += data.decode(errors="replace")
        return bool(data)

    def expect(self, text, seconds=30):
        """Waits until the text is shown after what was expected before; what came until then."""
        end = time.monotonic() + seconds
        while text not in self.shown[self.seen:]:
            if time.monotonic() > end or (not self.read(0.2) and self.process.poll() is not None):
                pytest.fail(f"{text!r} does not come after {self.shown[self.seen:]!r} (all: {self.shown!r})")
        at = self.shown.index(text, self.seen)
        before, self.seen = self.shown[self.seen:at], at + len(text)
        return before

    def type(self, keys):
        os.write(self.master, keys.encode())

    def enter(self, line, prompt=None):
        """Types a line at the prompt and waits for the next prompt; what was shown between them."""
        self.type(line + "\r")
        self.expect("\r\n")
        return self.expect(prompt or self.prompt)

    def leave(self, keys=CTRL_D):
        self.type(keys)
        return self.wait()

    def wait(self, seconds=20):
        """Reads to the end; the exit status."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.1)
        while self.read(0):
            pass
        assert self.process.poll() is not None, f"it does not end: {self.shown!r}"
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


@pytest.fixture
def home(own_box):
    return own_box.directory("home")


@pytest.fixture
def terminal(own_box, home):
    """Opens terminals; each waits at its first prompt."""
    opened = []

    def open_terminal(*argv, ready=True, **options):
        t = Terminal(own_box, home, *argv, **options)
        opened.append(t)
        if ready:
            t.expect(t.prompt)
        return t

    yield open_terminal
    for t in opened:
        t.close()


def pipe(box, text, *argv, environ=None, **popen):
    weaker = ["--allow-weaker", ",".join(box.weaker)] if box.weaker else []
    process = subprocess.Popen([str(box.binary), "repl", "--quiet", *weaker, *map(str, argv)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env={**box.environ, **(environ or {})}, **box.ids, **popen)
    return box.finish(process, text.encode() if isinstance(text, str) else text)


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


# ---- at a terminal ----


@pytest.mark.smoke
def test_state_is_kept(terminal):
    t = terminal()
    assert t.enter("x = 20") == ""
    assert t.enter("x + 22") == "42\r\n"
    assert t.leave() == 0


def test_banner(terminal):
    t = terminal("--memory", "300m", "--timeout", "7s", ready=False)
    lines = t.expect(PROMPT).strip().splitlines()
    assert len(lines) == 2 and "300m" in lines[0] and "7s" in lines[0] and "no network" in lines[0] and "Ctrl-D" in lines[1], lines
    assert terminal("--no-banner", ready=False).expect(PROMPT) == ""


def test_template_is_warmed(terminal):
    t = terminal("--template", "python", "--quiet", ready=False)
    shown = t.expect(PROMPT)
    assert shown.startswith("warming python...\r") and "from the template python:" in shown, shown
    assert t.enter("import sys; 'decimal' in sys.modules") in ("True\r\n", "False\r\n")  # False where templates cannot be had


def test_blocks(terminal):
    t = terminal()
    assert t.enter("for i in range(2):", MORE) == ""
    assert t.enter("    print(i * 7)", MORE) == ""
    assert t.enter("") == "0\r\n7\r\n"
    t.enter("[1,", MORE)
    assert t.enter("2]") == "[1, 2]\r\n"
    t.enter("'''a", MORE)
    assert t.enter("b'''") == "'a\\nb'\r\n"


def test_bash(terminal):
    t = terminal("--lang", "bash", prompt="$ ")
    t.enter("x=5; cd /tmp")
    assert t.enter("echo $x $PWD") == "5 /tmp\r\n"
    t.enter("for i in a b; do", "> ")
    t.enter("echo $i", "> ")
    assert t.enter("done") == "a\r\nb\r\n"
    assert t.leave("exit\r") == 0


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_node(terminal):
    t = terminal("--lang", "node", "--memory", "1g", prompt="> ")
    t.enter("let x = 5")
    t.enter("[1, 2].map(y => {", MORE)
    assert "[ 5, 10 ]" in t.enter("return x * y })")


@needs_editing
def test_keys(terminal, home):
    t = terminal()
    t.enter("first = 1")
    t.enter("first")
    t.type(UP + UP)
    assert t.enter("") == ""  # first = 1
    t.type("2\x7f3")
    assert t.enter("") == "3\r\n"
    t.type("+ 4" + CTRL_A + "3 ")
    assert t.enter("") == "7\r\n"
    t.enter("if first:", MORE)
    t.type("\tprint('tab')")
    t.enter("", MORE)
    assert t.enter("") == "tab\r\n"
    t.type("'é' + 'ü\x7fö'")
    assert t.enter("") == "'éö'\r\n"
    assert t.leave() == 0
    # Another one, later, has the lines of before.
    t = terminal()
    t.type(UP)
    assert t.enter("") == "'éö'\r\n"


@needs_editing
def test_history_file(terminal, home):
    t = terminal()
    t.enter("secret = 1")
    t.leave()
    path = home / ".local/state/glovebox/history"
    assert path.read_text() == "secret = 1\n" and path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    # It is cut to its last lines, and closed to others again.
    path.write_text("".join(f"line = {i}\n" for i in range(5000)))
    path.chmod(0o644)
    t = terminal()
    t.type(UP)
    t.expect("line = 4999")
    t.enter("")
    t.leave()
    kept = path.read_text().splitlines()
    assert kept == [f"line = {i}" for i in range(3000, 5000)] and path.stat().st_mode & 0o777 == 0o600
    # Where it cannot be had there is none.
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("no directory")
    t = terminal()
    assert t.enter("1") == "1\r\n" and t.leave() == 0
    state = home / "state"
    t = terminal(environ={"XDG_STATE_HOME": str(state)})
    t.enter("there = 1")
    t.leave()
    assert (state / "glovebox/history").read_text() == "there = 1\n"


@needs_editing
def test_secrets_are_not_in_the_history_file(terminal, home):
    """A line that has one is there for the arrow keys, and gone with the command."""
    t = terminal("--secret", "API_KEY", environ={"API_KEY": "correct-horse-battery"})
    t.enter("n = 1")
    t.enter("x = 'correct-horse-battery'")
    t.type(UP)
    t.expect("x = 'correct-horse-battery'")
    t.enter("")
    t.leave()
    assert (home / ".local/state/glovebox/history").read_text() == "n = 1\n"


@needs_editing
def test_history_of_another_is_not_touched(terminal, home):
    path = home / ".local/state/glovebox/history"
    path.parent.mkdir(parents=True)
    target = home / "target"
    target.write_text("mine\n")
    for p in (home / ".local", home / ".local/state", path.parent, target):
        os.chown(p, home.stat().st_uid, home.stat().st_gid)
    path.symlink_to(target)
    t = terminal()
    t.enter("x = 1")
    t.leave()
    assert target.read_text() == "mine\n"


def test_traceback(terminal):
    t = terminal()
    shown = t.enter("1 / 0")
    assert "\x1b[31mTraceback" in shown and "ZeroDivisionError: division by zero" in plain(shown)
    assert "\x1b[" not in terminal(environ={"NO_COLOR": "1"}).enter("1 / 0")


def test_terminal_is_not_driven(terminal):
    t = terminal(environ={"NO_COLOR": "1"})
    shown = t.enter(r"print('\x1b]52;c;aGk=\x07', '\x1b[2J', '\x9b31m', '\u202e')")
    shown += t.enter(r"import sys; sys.stderr.write('\x1b[5n\n');")
    shown += t.enter(r"raise ValueError('\x1b[2J')")
    shown += t.enter(r"type('T', (), {'__repr__': lambda s: '\x1b]0;title\x07'})()")
    assert not set(shown) & {"\x1b", "\x07", "\x9b", "\u202e"}, shown
    assert shown.count("^[") == 5 and "^G" in shown


def test_colours_of_the_program_pass(terminal):
    assert "\x1b[32mgreen\x1b[0m" in terminal().enter(r"print('\x1b[32mgreen')")


def test_ctrl_c_at_the_prompt(terminal):
    t = terminal()
    t.type("garbage(")
    t.expect("garbage(")
    t.type(CTRL_C)
    t.expect("^C")
    t.expect(PROMPT)
    assert t.enter("1 + 1") == "2\r\n"
    t.enter("if True:", MORE)
    t.type(CTRL_C)
    t.expect(PROMPT)
    assert t.enter("2 + 2") == "4\r\n"


def test_ctrl_c_keeps_state(terminal):
    t = terminal()
    t.enter("x = 1")
    t.type("x = 2; print('begun', flush=True); import time; time.sleep(60); x = 3\r")
    t.expect("begun\r\n")
    t.type(CTRL_C)
    assert "KeyboardInterrupt" in plain(t.expect(PROMPT))
    assert t.enter("x") == "2\r\n"


def test_second_ctrl_c_kills(terminal):
    t = terminal()
    t.enter("x = 1; import signal; signal.signal(signal.SIGINT, signal.SIG_IGN);")
    t.type("print('begun', flush=True); exec('while True: pass')\r")
    t.expect("begun\r\n")
    t.type(CTRL_C)
    time.sleep(0.2)
    t.type(CTRL_C)
    shown = plain(t.expect(PROMPT))
    assert "variables are lost" in shown
    shown = plain(t.enter("x"))
    assert "NameError" in shown and "warning" not in shown


def test_leaving(terminal):
    for keys in (CTRL_D, "exit\r", "quit\r", "exit()\r", "quit()\r"):
        assert terminal().leave(keys) == 0
    # What only looks like it, or comes from the code, does not end the session.
    t = terminal()
    t.enter("x = 1; import sys")
    t.enter("sys.exit(3)")
    assert t.enter("x") == "1\r\n"
    t.process.send_signal(signal.SIGTERM)
    assert t.wait() == 130


@needs_editing
def test_terminal_is_left_as_it_was(terminal):
    t = terminal(ready=False)
    before = termios.tcgetattr(t.master)
    t.expect(PROMPT)
    t.enter("1")
    during = termios.tcgetattr(t.master)
    assert not during[3] & termios.ICANON
    t.process.send_signal(signal.SIGTERM)
    t.wait()
    assert termios.tcgetattr(t.master)[3] == before[3]


def test_limits_are_told(terminal):
    t = terminal("--timeout", "2s")
    t.enter("x = 1")
    shown = plain(t.enter("while True: pass"))
    assert "timeout" in shown and "2 s" in shown
    assert t.enter("x") == "1\r\n"
    shown = plain(t.enter("import os; os._exit(3)"))
    assert "status 3" in shown and "variables are lost" in shown


@needs_editing
def test_unknown_and_dumb_terminals(terminal):
    t = terminal(environ={"TERM": "no-such-terminal"})
    t.enter("40 + 2")
    t.type(UP)
    assert t.enter("") == "42\r\n"
    t = terminal(environ={"TERM": "dumb"})
    assert t.enter("40 + 2") == "42\r\n"
    t.type("4" + CTRL_C)
    t.expect(PROMPT)
    t.type("2" + CTRL_D)  # within a line it is no end
    assert t.enter("0") == "20\r\n"
    assert t.leave() == 0


@needs_editing
def test_window(terminal):
    t = terminal(columns=40)
    fcntl.ioctl(t.master, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    time.sleep(0.2)
    t.type("x = 'a" + "b" * 60 + "c'")
    t.expect("b" * 60)  # in one line
    t.enter("")
    assert t.enter("len(x)") == "62\r\n"


def children_of(pid):
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        stat = process_stat(entry)
        if stat and int(stat[1][1]) == pid:
            found.append(int(entry))
    return found


def test_session_dies(terminal, own_box):
    t = terminal()
    t.enter("x = 1; open('f', 'w').write('a');")
    for child in children_of(t.process.pid):
        os.kill(child, signal.SIGKILL)
    assert wait_until(lambda: not children_of(t.process.pid))
    shown = plain(t.enter("x"))
    if "NameError" not in shown:  # its end came to light with this input, which is told and not run
        assert "the session has ended" in shown, shown
        shown = "the session had ended" + plain(t.enter("x"))
    assert "the session had ended" in shown and "NameError" in shown, shown
    assert t.enter("y = 2") == ""
    # And under a run.
    t.type("print('begun', flush=True); import time; time.sleep(60)\r")
    t.expect("begun\r\n")
    for child in children_of(t.process.pid):
        os.kill(child, signal.SIGKILL)
    shown = plain(t.expect(PROMPT))
    # Whether the session went with the interpreter may show only at the next input.
    assert "lost" in shown and "the next input" in shown
    shown = plain(t.enter("y"))
    assert "NameError" in shown
    assert t.leave() == 0
    assert own_box.run("print(1)").stdout == "1\n"  # which removes the cgroups of killed wardens


# ---- pictures ----


@pytest.mark.skipif(not HAS_MATPLOTLIB, reason="python3-matplotlib is not installed")
def test_figure(terminal, own_box, home):
    workspace = own_box.directory("ws")
    t = terminal("--workspace", workspace, "--memory", "1g")
    t.enter("import matplotlib.pyplot as plt")
    shown = t.enter("plt.plot([1, 4, 9]);")
    assert f"picture: {workspace}/figure-1.png\r\n" in shown, shown
    assert (workspace / "figure-1.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert "figure-2.png" in t.enter("plt.plot([1, 4, 9]); plt.show()")


DISPLAY = "display({'image/png': %s}, raw=True)\n"


def test_pictures_are_saved(own_box):
    workspace = own_box.directory("ws")
    (workspace / "figure-2.png").write_text("mine")
    code = PNG + DISPLAY % "png()" + DISPLAY % "png()" + "display({'image/svg+xml': '<svg/>'}, raw=True)\n"
    result = pipe(own_box, code, "--workspace", workspace)
    assert result.returncode == 0, result.explain()
    assert result.out.decode().splitlines() == [f"picture: {workspace}/figure-{name}" for name in ("1.png", "3.png", "4.svg")]
    assert (workspace / "figure-2.png").read_text() == "mine" and (workspace / "figure-4.svg").read_text() == "<svg/>"
    result = pipe(own_box, code)
    assert b"picture: /sandbox/figure-1.png" in result.out and b"%get figure-1.png" in result.out


KITTY, ITERM = {"TERM": "xterm-kitty"}, {"TERM_PROGRAM": "WezTerm"}


@pytest.mark.parametrize("environ, begin, end", [(KITTY, "\x1b_Ga=T,f=100,q=2,m=0;", "\x1b\\"), (ITERM, "\x1b]1337;File=inline=1;size=67:", "\x07")])
def test_pictures_are_shown(own_box, terminal, home, environ, begin, end):
    (home / "png.py").write_text(PNG)
    t = terminal(environ=environ)
    t.enter("%put png.py")
    t.enter("exec(open('png.py').read())")
    shown = t.enter(DISPLAY.strip() % "png()")
    picture = shown[shown.index(begin) + len(begin):shown.index(end)]
    assert base64.b64decode(picture, validate=True).startswith(b"\x89PNG\r\n\x1a\n")
    # What is no PNG, or one that would blow up the terminal, is only saved.
    for bad in (r"b'\x1b[2Jno picture'", "png(100000, 1)", "png(1, 0)", "png()[:20]"):
        shown = t.enter(DISPLAY.strip() % bad)
        assert "\x1b" not in shown and "picture: /sandbox/figure-" in shown, shown


def test_pictures_are_not_shown_elsewhere(terminal, home):
    (home / "png.py").write_text(PNG)
    for environ in ({}, {**KITTY, "TMUX": "x"}, {"TERM": "screen", "KITTY_WINDOW_ID": "1"}):
        t = terminal(environ=environ)
        t.enter("%put png.py")
        t.enter("exec(open('png.py').read())")
        assert "\x1b_G" not in t.enter(DISPLAY.strip() % "png()")


# ---- from a pipe ----


@pytest.mark.smoke
def test_pipe(own_box):
    result = pipe(own_box, "x = 20\nx + 22\nfor i in range(2):\n    print(i)\n\nprint('a', end='')\n'last'")
    assert (result.returncode, result.out, result.err) == (0, b"42\n0\n1\na\n'last'\n", b"")


def test_pipe_status(own_box):
    result = pipe(own_box, "x = 1\n1 / 0\n")
    assert result.returncode == 1 and b"ZeroDivisionError" in result.err and b"\x1b" not in result.err
    assert pipe(own_box, "1 / 0\nx = 1\n").returncode == 0
    assert pipe(own_box, "").returncode == 0
    assert pipe(own_box, "x = 1\nexit\n1 / 0\n").returncode == 0
    assert pipe(own_box, "if True:\n    print('unfinished')").out == b"unfinished\n"
    assert pipe(own_box, b"x = '\xff'\n").returncode == 1


def test_pipe_that_cannot_be_read(own_box):
    """That is not the end of the input: what was read of a block does not run."""
    weaker = ["--allow-weaker", ",".join(own_box.weaker)] if own_box.weaker else []
    directory = os.open(own_box.directory(), os.O_RDONLY)
    process = subprocess.Popen([str(own_box.binary), "repl", *weaker], stdin=directory, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=own_box.environ, **own_box.ids)
    os.close(directory)
    result = own_box.finish(process)
    assert result.returncode == 110 and b"cannot read standard input" in result.err, result.explain()
    result = pipe(own_box, b"print('whole')\nif True:\n    print('half')\n" + b"#" * (17 << 20), "--json")
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert result.returncode == 114 and b"bigger than 16 MB" in result.err, result.err
    assert lines[0]["stdout"] == "whole\n" and lines[1]["error"]["code"] == "limit" and len(lines) == 2


def test_pipe_other_languages(own_box):
    result = pipe(own_box, "x=5\ncat <<EOF\n$x\nEOF\nfalse\n", "--lang", "bash")
    assert result.out == b"5\n" and result.returncode == 1 and b"ExitStatus: 1" in result.err


def test_pipe_json(own_box):
    result = pipe(own_box, "print('out')\n1 + 1\n1 / 0\n%files\n%nothing\n", "--json")
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert [line.get("stdout") for line in lines[:3]] == ["out\n", "", ""]
    assert lines[1]["results"] == [{"main": True, "data": {"text/plain": "2"}}]
    assert lines[2]["error"]["name"] == "ZeroDivisionError" and lines[2]["verdict"]["kind"] == "error"
    assert lines[3]["files"] == [] and lines[4]["error"]["code"] == "usage" and len(lines) == 5
    assert len({line["session"] for line in lines[:3]}) == 1


def test_pipe_interrupt(own_box):
    """A signal ends the run, and nothing that stands after it is run."""
    weaker = ["--allow-weaker", ",".join(own_box.weaker)] if own_box.weaker else []
    process = subprocess.Popen([str(own_box.binary), "repl", *weaker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=own_box.environ, **own_box.ids)
    process.stdin.write(b"print('begun', flush=True); import time; time.sleep(60)\nprint('after')\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    result = own_box.finish(process)
    assert result.returncode == 130 and result.out == b"" and b"KeyboardInterrupt" in result.err


def test_pipe_nobody_reads(own_box):
    weaker = ["--allow-weaker", ",".join(own_box.weaker)] if own_box.weaker else []
    process = subprocess.Popen([str(own_box.binary), "repl", *weaker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=own_box.environ, **own_box.ids)
    process.stdout.close()
    process.stdin.write(b"while True: print('x' * 1000)\n")
    process.stdin.close()
    assert process.wait(30) == 141
    process.stderr.close()


def test_html_alone(own_box):
    result = pipe(own_box, "display({'text/html': '<b>a</b>'}, raw=True)\n")
    assert result.out == b"(text/html, 8 bytes: cannot be shown as text)\n"


# ---- lines that begin with % ----


def test_files(own_box, home):
    (home / "in put.txt").write_text("hello")
    (home / "there").write_text("mine")
    lines = ["%put 'in put.txt'", "open('in put.txt').read()", "open('out', 'w').write('x' * 10);", "import os; os.mkdir('d'); os.symlink('/etc/passwd', 'l')",
             r"open('d/a\nb\x1b[2J', 'w');", "%files", "%files d", "%get out", "%get out there", "%get l stolen", "%get ../../etc/passwd stolen",
             "%get d stolen", "%put nothing", "%put /dev/zero", "%get", "%hlep", "%get 'out"]
    result = pipe(own_box, "\n".join(lines) + "\n", cwd=home)
    out, err = result.out.decode(), result.err.decode()
    assert "'hello'" in out and re.search(r" 10  \S+ \S+  out\n", out) and re.search(r"  d/\n", out) and re.search(r"  l@\n", out)
    assert "a^Jb^[[2J" in out
    assert (home / "out").read_text() == "x" * 10 and (home / "there").read_text() == "mine" and not (home / "stolen").exists()
    for message in ('"there" is there already', "usage: %get FILE [NAME]", "did you mean %help?", "a quote is open", "/dev/zero"):
        assert message in err, err
    assert err.count("glovebox:") == 9, err


def test_restart_and_info(own_box):
    result = pipe(own_box, "x = 1\nopen('f', 'w').write('a');\n%restart\nimport os\n'x' in globals(), os.listdir()\n%info\n%help\n")
    out = result.out.decode()
    assert "(False, ['f'])" in out and "seccomp      enforced" in out and re.search("mem_limit +512m", out) and "%restart" in out


# ---- flags ----


@pytest.mark.parametrize("argv, status, message", [
    (["--template", "pyton-data"], 113, 'did you mean "python-data"?'),
    (["--template", "python", "--lang", "bash"], 110, "--template is for Python"),
    (["--lang", "c"], 110, "those that do: python, bash, node"),
    (["--lang", "pyhton"], 113, "python"),
    (["--no-baner"], 110, "did you mean --no-banner?"),
    (["file.py"], 110, "unexpected argument"),
    (["--memory", "no"], 111, "--memory"),
    (["--workspace", "/nonexistent"], 113, "/nonexistent"),
])
def test_wrong_flags(own_box, argv, status, message):
    result = own_box.call("repl", *argv)
    assert result.returncode in (status, 110) and message in result.err.decode(), result.explain()
    assert json.loads(own_box.call("repl", "--json", *argv).out)["error"]["message"]


def test_template(own_box):
    result = pipe(own_box, "import sys\n'sqlite3' in sys.modules\n", "--template", "python")
    assert result.returncode == 0 and (result.out == b"True\n" or own_box.weaker), result.explain()


def test_as_user(user_box):
    """Limits that this host cannot give to an ordinary user are said to be weaker."""
    result = pipe(user_box, "x = 20\nx + 22\n")
    assert result.returncode == 0 and result.out == b"42\n", result.explain()
