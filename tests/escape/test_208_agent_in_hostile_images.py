# SPDX-License-Identifier: Apache-2.0
"""208, the image: one that has its own agent, links where ours and the places for files go, a library for every program, users of its own
=> process 1 is ours or nothing is run; the code of the image gets what any code gets.
"""
import io
import os
import shutil
import subprocess
import tarfile

import pytest
from hostile_engines import docker_box, engines

SHELL = r"""
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
        char line[256];
        FILE *status = fopen("/proc/self/status", "r");
        printf("shell of the image uid %d parent %d fds", (int)getuid(), getppid() > 1);
        for (int fd = 0; fd < 64; fd++)
                if (fcntl(fd, F_GETFD) >= 0 && fd != fileno(status))
                        printf(" %d", fd);
        while (fgets(line, sizeof(line), status))
                if (!strncmp(line, "Seccomp_filters", 15) || !strncmp(line, "CapEff", 6) || !strncmp(line, "NoNewPrivs", 10))
                        printf(" %s", strtok(strchr(line, '\t') + 1, "\n"));
        printf(" etc %d\n", access("/etc", W_OK));
        return 0;
}
"""
AGENT = b"#!/bin/sh\nexit 77\n"
RIGHT = "shell of the image uid 1000 parent 1 fds 0 1 2 0000000000000000 1 2 etc -1\n"


@pytest.fixture(scope="module")
def shell(session_dir):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler to build the shell of the image with")
    path = session_dir / "evil-sh"
    subprocess.run([compiler, "-static", "-O1", "-w", "-x", "c", "-o", str(path), "-"], input=SHELL.encode(), check=True)
    return path.read_bytes()


def tar_of(entries):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, what in entries:
            info = tarfile.TarInfo(name)
            info.mode = 0o755
            if isinstance(what, str):
                info.type, info.linkname = tarfile.SYMTYPE, what
                archive.addfile(info)
            elif what is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(what)
                archive.addfile(info, io.BytesIO(what))
    return stream.getvalue()


IMAGES = {
    "its-own-agent": ([(".glovebox", None), (".glovebox/agent", AGENT), (".glovebox/runner", None)], True),
    "agent-is-a-link": ([(".glovebox", None), (".glovebox/agent", "/bin/sh")], True),
    "directory-is-a-link": ([("elsewhere", None), (".glovebox", "/elsewhere")], None),
    "directory-is-a-link-to-a-tmpfs": ([(".glovebox", "/tmp")], None),
    "directory-is-a-link-upwards": ([(".glovebox", "../../../../../../etc")], None),
    "directory-is-a-file": ([(".glovebox", b"x")], None),
    "libraries": ([("etc/ld.so.preload", b"/evil.so\n"), ("evil.so", b"x")], True),
    "users": ([("etc/passwd", b"root:x:1000:0::/:/bin/sh\nsandbox:x:0:0::/:/bin/sh\n"), ("etc/group", b"root:x:1000:sandbox\n")], True),
    "places-are-links": ([("sandbox", "/etc"), ("tmp", "/etc"), ("run", "/etc"), ("var", None), ("var/tmp", "/etc")], None),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_process_1_is_ours(docker_box, scratch, shell, kind):
    entries, must_run = IMAGES[kind]
    name = f"glovebox-test-evil-{os.getpid()}-{kind}"
    path = scratch / "image.tar"
    path.write_bytes(tar_of([("bin", None), ("etc", None), ("bin/sh", shell), *entries]))
    docker_box.engine.import_tar(path, name)
    try:
        result = docker_box.run("true", "sh", image=name)
        if result.json and "verdict" in result.json:
            assert (result.verdict, result.stdout) == ("ok", RIGHT), result.explain()
        else:
            assert not must_run and len(result.error["message"]) > 20, result.explain()
    finally:
        docker_box.call("image", "rm", name, "--backend", "docker")
        docker_box.engine.ask("DELETE", f"/images/{name}?force=1")
