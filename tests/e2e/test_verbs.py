# SPDX-License-Identifier: Apache-2.0
"""The other verbs, the installation and the example of the C interface."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import BINARY, ROOT
from sessions import libexec

BUILD = BINARY.resolve().parents[2]
VERBS = ["run", "repl", "doctor", "verify", "languages", "templates", "warm", "serve", "token", "audit", "ps", "stats", "top", "logs", "session", "image", "mcp", "clean",
         "guard", "policy", "completion", "help"]
GROUPS = {"guard": ["check", "test", "list", "scrub"], "policy": ["show", "check"], "token": ["create", "list", "revoke"], "session": ["create", "exec", "ls", "show", "rm", "files"],
          "image": ["build", "list", "rm", "import", "export"]}


@pytest.mark.parametrize("verb", VERBS)
def test_help(own_box, verb):
    a = own_box.call("help", verb)
    assert a.returncode == 0 and a.err == b"" and b"Usage: glovebox" in a.out
    for sub in GROUPS.get(verb, [None, "install"] if verb == "mcp" else [None]):
        words = [verb, sub] if sub else [verb]
        b = own_box.call(*words, "--help")
        assert b.returncode == 0 and b"Usage: glovebox " + " ".join(words).encode() in b.out and b.err == b""
        assert b"\nExamples:\n" in b.out and b.out == own_box.call("help", *words).out
        assert max(map(len, b.out.decode().splitlines())) <= 80, max(b.out.decode().splitlines(), key=len)


def test_overview(own_box):
    result = own_box.call("help")
    assert result.returncode == 0
    for verb in VERBS:
        assert verb in result.out.decode()
    assert own_box.call("--help").out == result.out
    assert own_box.call("--version").out.startswith(b"glovebox ")
    assert own_box.call().returncode in (0, 110)


def test_exit_codes_page(own_box):
    text = own_box.call("help", "exit-codes").out.decode()
    for number in (*range(100, 110), 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 130, 141):
        assert f"  {number}  " in text


def test_languages(own_box):
    listed = json.loads(own_box.call("languages", "--json").out)
    text = json.dumps(listed)
    names = own_box.call("languages", "--names").out.decode().split()
    assert {"python", "bash", "sh", "c"} <= set(names) and all(name in text for name in names)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(own_box, shell):
    script = own_box.call("completion", shell)
    assert script.returncode == 0 and b"glovebox" in script.out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script.out, check=True)


def test_bash_completion_completes(own_box):
    path = own_box.directory() / "completion"
    path.write_bytes(own_box.call("completion", "bash").out)
    script = f'. {path}; COMP_WORDS=(glovebox run --tim); COMP_CWORD=2; COMP_LINE="glovebox run --tim"; COMP_POINT=${{#COMP_LINE}}; _glovebox glovebox --tim run; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True)
    assert "--timeout" in done.stdout, done


@pytest.mark.parametrize("words, found", [("session ", "exec"), ("session files p", "pull push put"), ("token create --sc", "--scope"), ("top --sort ", "cpu"),
                                          ("serve --li", "--listen"), ("ps --a", "--all"),
                                          ("guard ", "scrub"), ("guard check --guard ", "strict"), ("run --sec", "--secret --secrets --secret-file")])
def test_bash_completion_of_groups(own_box, words, found):
    path = own_box.directory() / "completion"
    path.write_bytes(own_box.call("completion", "bash").out)
    typed = ["glovebox", *words.split(" ")]
    script = f'. {path}; COMP_WORDS=({" ".join(w or chr(34) * 2 for w in typed)}); COMP_CWORD={len(typed) - 1}; _glovebox; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True)
    assert set(found.split()) <= set(done.stdout.split()), done


def test_manual(own_box):
    page = own_box.call("help", "--man").out.decode()
    assert page.startswith((".TH", ".\\\"", "'\\\"")) or ".TH" in page
    for word in ("--timeout", "--workspace", "EXIT STATUS"):
        assert word.replace("--", "\\-\\-") in page or word in page


def test_verify(own_box):
    weaker = ["--allow-weaker", ",".join(own_box.weaker)] if own_box.weaker else []
    result = own_box.call("verify", "--json", *weaker)
    assert result.returncode == 0 and result.json, result.explain()


@pytest.fixture(scope="module")
def installed(session_dir):
    if not shutil.which("meson"):
        pytest.skip("meson is not installed")
    dest = session_dir / "dest"
    done = subprocess.run(["meson", "install", "-C", str(BUILD), "--no-rebuild", "--destdir", str(dest)], capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return dest


def find(top, name, below=""):
    return next(pathlib.Path(d) / name for d, _, files in os.walk(top) if name in files and d.endswith(below))


def test_installation(box, installed):
    program, warden, policy = find(installed, "glovebox", "bin"), find(installed, "glovebox-warden"), find(installed, "sandbox.yaml")
    environ = {"GLOVEBOX_LIBEXEC_DIR": str(warden.parent), "GLOVEBOX_CONFIG_DIR": str(policy.parent)}
    box.binary = program
    result = box.run("print('installed')", environ=environ)
    assert result.stdout == "installed\n" and result.json["policy"]["origin"] == str(policy), result.explain()
    for name in ("glovebox.1", "glovebox.h", "languages.yaml"):
        assert find(installed, name)


def test_installation_without_its_warden(own_box, installed):
    own_box.binary = find(installed, "glovebox", "bin")
    result = own_box.run("print(1)", environ={"GLOVEBOX_LIBEXEC_DIR": "/nowhere", "GLOVEBOX_CONFIG_DIR": str(find(installed, "sandbox.yaml").parent)})
    assert result.returncode == 115 and "GLOVEBOX_LIBEXEC_DIR" in result.error["message"], result.explain()


def test_example_of_the_c_interface(own_box, installed):
    libraries = [p for p in BUILD.glob("src/lib/libglovebox.*") if p.suffix in (".so", ".a") or ".so." in p.name]
    if not libraries:
        pytest.skip("this build has no library")
    program = own_box.directory() / "example"
    subprocess.run(["cc", "-o", str(program), str(ROOT / "docs/examples/run.c"), f"-I{ROOT}/include", f"-L{BUILD}/src/lib", "-lglovebox",
                    f"-Wl,-rpath,{BUILD}/src/lib"], check=True)
    environ = {**own_box.environ, "GLOVEBOX_LIBEXEC_DIR": str(libexec()), "GLOVEBOX_CONFIG_DIR": str(ROOT / "config")}
    if own_box.weaker:
        pytest.skip("the example asks for everything, and this host does not give it to this user")
    done = subprocess.run([str(program), "python", "print(6 * 7)"], capture_output=True, env=environ, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout == b"42\n", done
    done = subprocess.run([str(program), "--json", "sh", "exit 3"], capture_output=True, env=environ, timeout=60, check=False)
    assert json.loads(done.stdout)["exit_code"] == 3, done
