# SPDX-License-Identifier: Apache-2.0
"""The C interface: the examples of the documentation, compiled as a user would."""
import subprocess

import pytest

from conftest import BINARY, ROOT
from sessions import libexec

BUILD = BINARY.resolve().parents[2]

EXPECTED = """\
ok, variables kept
value: 6
ok, variables kept
sum.txt: 6
picture: 67 bytes
ok, variables kept
error: KeyboardInterrupt: \n\
cancelled, variables kept
value: 3
ok, variables kept
"""


@pytest.fixture
def compile_example(own_box):
    def compile_it(name):
        libraries = [p for p in BUILD.glob("src/lib/libglovebox.*") if p.suffix in (".so", ".a") or ".so." in p.name]
        if not libraries:
            pytest.skip("this build has no library")
        program = own_box.directory() / name
        subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(ROOT / f"docs/examples/{name}.c"), f"-I{ROOT}/include",
                        f"-L{BUILD}/src/lib", "-lglovebox", f"-Wl,-rpath,{BUILD}/src/lib"], check=True)
        return program
    return compile_it


def environment(box):
    if box.weaker:
        pytest.skip("the example asks for everything, and this host does not give it to this user")
    return {**box.environ, "GLOVEBOX_LIBEXEC_DIR": str(libexec()), "GLOVEBOX_CONFIG_DIR": str(ROOT / "config"),
            "GLOVEBOX_RUNNER_DIR": str(BUILD / "src/runner/python")}


def test_session_example(own_box, compile_example):
    done = subprocess.run([str(compile_example("session"))], capture_output=True, text=True, env=environment(own_box), timeout=60, check=False)
    assert done.returncode == 0, done
    assert done.stdout == EXPECTED, done
    assert done.stderr == "", done


def test_guard_example(own_box, compile_example):
    """One run whose secrets do not come out, plain or in another encoding, and one that is refused."""
    program, secrets = compile_example("guard"), own_box.directory() / "secrets.env"
    secrets.write_text("# of a test\nAPI_KEY=correct-horse-battery\n")

    def guard(code):
        done = subprocess.run([str(program), str(secrets), "python", code], capture_output=True, text=True, env=environment(own_box), timeout=60, check=False)
        assert done.returncode == 0 and done.stderr == "", done
        return done.stdout
    said = guard("import os; key = os.environ['API_KEY']; print(len(key), key, key.encode().hex())")
    assert said == "21 [scrubbed:API_KEY] [scrubbed:API_KEY]\nscrubbed: API_KEY, 2 times\nok\n"
    said = guard("x = 1\nopen('/home/u/.aws/' + 'credentials')").splitlines()
    assert said[0].startswith("block, line 2, column 6: aws-credentials: ") and said[-1] == "blocked" and len(said) == 2, said


def test_header_is_cplusplus(own_box):
    source = own_box.directory() / "header.cpp"
    source.write_text("#include <glovebox/glovebox.h>\n"
                      "int main() { gb_run_options r = GB_RUN_OPTIONS_INIT; gb_session_options s = GB_SESSION_OPTIONS_INIT;\n"
                      "gb_context_run_options c = GB_CONTEXT_RUN_OPTIONS_INIT; gb_finding f; return r.size && s.size && c.size && !gb_findings_get(0, 0, &f) ? 0 : 1; }\n")
    subprocess.run(["c++", "-std=c++11", "-Wall", "-Werror", "-fsyntax-only", f"-I{ROOT}/include", str(source)], check=True)
