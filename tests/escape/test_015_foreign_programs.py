# SPDX-License-Identifier: Apache-2.0
"""15. Code inside makes 32-bit and x32 calls and executes 32-bit, a.out and foreign ELF files
=> the calls kill the process, the files are not executed or killed.
"""
import base64
import platform
import struct

import pytest


pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="about the ABIs of x86_64")


def elf32(machine):
    """A whole ELF file whose only code is exit(42) by int 0x80."""
    code = bytes.fromhex("b801000000bb2a000000cd80")
    base = 0x08048000
    header = b"\x7fELF\1\1\1" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, machine, 1, base + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    program = struct.pack("<IIIIIIII", 1, 0, base, base, 84 + len(code), 84 + len(code), 5, 0x1000)
    return header + program + code


def test_foreign_calls(box):
    attack = box.attack("other_abis")
    assert attack.finished and attack.notes == {"int80": "SIGSYS", "x32": "SIGSYS"}, attack.notes


@pytest.mark.parametrize("kind", ["elf_i386", "elf_arm", "elf_mips", "a_out"])
def test_foreign_files(box, kind):
    files = {"elf_i386": elf32(3), "elf_arm": elf32(40), "elf_mips": elf32(8), "a_out": bytes.fromhex("0b010000") + bytes(28) + b"\xcd\x80"}
    code = f"""
import os, base64
open('/tmp/foreign', 'wb').write(base64.b64decode('{base64.b64encode(files[kind]).decode()}'))
os.chmod('/tmp/foreign', 0o755)
pid = os.fork()
if pid == 0:
    try:
        os.execv('/tmp/foreign', ['foreign'])
    except OSError as e:
        os._exit(100 + e.errno)
status = os.waitpid(pid, 0)[1]
print('token', 'signal', os.WTERMSIG(status), 'code', os.WEXITSTATUS(status) if os.WIFEXITED(status) else None)
"""
    words = box.run(code).stdout.split()
    assert words[0] == "token"
    killed, refused = words[2] == "31", words[4] == "108"  # SIGSYS; ENOEXEC
    assert killed or refused, words
    assert words[4] != "42", "it ran"
