# SPDX-License-Identifier: Apache-2.0
"""A box that is kept, with the languages of Open Interpreter in it. With the package itself:

    from interpreter import interpreter
    interpreter.computer.terminate()
    interpreter.computer.languages = [DockerPython, DockerShell]
"""
import os
import tempfile

from glovebox.compat.ironclaw import DockerPython, DockerShell, SandboxManager, verify

with tempfile.TemporaryDirectory() as place, SandboxManager(os.path.join(place, "workspace")) as manager:
    DockerPython.manager = DockerShell.manager = manager
    python, shell = DockerPython(), DockerShell()
    for message in python.run("open('/workspace/note.txt', 'w').write('from Python')"):
        pass
    for message in shell.run("cat /workspace/note.txt; echo; id -u"):
        print(message["content"], end="")
    for check in verify(manager):
        print("ok" if check.held else "FAILED", "-", check.name)
