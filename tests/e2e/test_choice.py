# SPDX-License-Identifier: Apache-2.0
"""Who isolates, and what a box is made of: what can be asked for, by whom, and how it is refused. None of these needs an engine (catalogue 192)."""
import json
import os
import pathlib
import socket
import subprocess

import pytest

from server import BINARY, Server

NO_ENGINE = {"DOCKER_HOST": "unix:///nonexistent/docker.sock"}
USAGE, NOT_FOUND, LIMIT, UNAVAILABLE = 110, 113, 114, 105
NAMES = ["--privileged", "-v", "a;b", "a b", "../x", "a/../x", "/etc", "a//b", "a%2fb", "a?b", "a\nb", ""]


@pytest.mark.parametrize("options, status, words", [
    (["--backend", "podman"], USAGE, ["--backend", "native or docker"]),
    (["--runtime", "runsc"], USAGE, ["runtime", "the backend is native"]),
    (["--runtime", "x" * 64, "--backend", "docker"], LIMIT, ["--runtime", "at most 63"]),
    (["--image", "x" * 256], LIMIT, ["--image", "at most 255"]),
    (["--image", "nothing-of-this-name"], NOT_FOUND, ["there is no image nothing-of-this-name", "glovebox image"]),
    (["--image", "a", "--rootfs", "/"], USAGE, ["both an image", "leave one of them out"]),
    (["--image", "a", "--template", "python"], USAGE, ["both an image", "a template has its own"]),
    (["--backend", "docker", "--rootfs", "/"], USAGE, ["is for the native backend", "name an image"]),
    (["--backend", "docker", "--template", "python"], USAGE, ["templates are of the native backend"]),
])
def test_what_is_wrong_is_told(own_box, options, status, words):
    for verb in (["run", "-c", "print(1)"], ["repl"]):
        done = own_box.call(*verb, *options, environ=NO_ENGINE)
        assert done.returncode == status, (verb, done.explain())
        assert all(word in done.err.decode() for word in words), done.err


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("flag", ["image", "runtime"])
def test_192_names_that_are_none(own_box, flag, name):
    done = own_box.call("run", f"--{flag}={name}", "--backend", "docker", "-c", "print(1)", environ=NO_ENGINE)
    assert done.returncode == USAGE and f"--{flag}: " in done.err.decode() and "a letter or digit first" in done.err.decode(), done.explain()
    if name:
        variable = {f"GLOVEBOX_{flag.upper()}": name, **NO_ENGINE}
        done = own_box.call("run", "-c", "print(1)", environ=variable)
        assert done.returncode == USAGE and f"GLOVEBOX_{flag.upper()}: " in done.err.decode(), done.explain()


def test_an_engine_that_is_not_there(own_box):
    for options, environ in ((["--backend", "docker"], {}), ([], {"GLOVEBOX_BACKEND": "docker"})):
        done = own_box.call("run", "--json", *options, "-c", "print(1)", environ={**NO_ENGINE, **environ})
        assert done.returncode == UNAVAILABLE, done.explain()
        error = json.loads(done.out)["error"]
        assert error["code"] == "unavailable" and "/nonexistent/docker.sock" in error["message"], error
    # Native runs do not look for one.
    assert own_box.run("print(1)", environ=NO_ENGINE).returncode == 0


def test_the_policy_shows_what_was_chosen(own_box):
    done = own_box.call("policy", "show", "--backend", "docker", "--runtime", "runsc", "--image", "team/py:3", "--json")
    shown = json.loads(done.out)
    assert (shown["backend"], shown["runtime"], shown["image"]) == ("docker", "runsc", "team/py:3")
    file = own_box.directory() / "policy.yaml"
    file.write_bytes(own_box.call("policy", "show", "--backend", "docker", "--image", "team/py:3").out)
    assert own_box.call("policy", "check", file).returncode == 0
    shown = json.loads(own_box.call("policy", "show", "--policy", file, "--json").out)
    assert (shown["backend"], shown["runtime"], shown["image"]) == ("docker", "default", "team/py:3")


def test_help_and_completion_have_the_flags(own_box):
    for verb in ("run", "repl"):
        text = own_box.call("help", verb).out.decode()
        assert all(f"--{flag}" in text for flag in ("backend", "runtime", "image")), text
    for shell in ("bash", "zsh", "fish"):
        done = own_box.call("completion", shell)
        assert done.returncode == 0 and b"native docker" in done.out.replace(b"'native' 'docker'", b"native docker"), shell


# ---- a server ----

def refused(server, policy, status, code, words, path="/v1/runs", **fields):
    body = {"policy": policy, **fields, **({"code": "print(1)"} if path == "/v1/runs" else {})}
    answer = server.post(path, body).expect(status)
    assert answer.code == code and all(word in answer.error["message"] for word in words), answer.explain()
    return answer


def test_callers_choose_what_the_configuration_lists():
    with Server(environ=NO_ENGINE) as server:
        info = server.get("/v1/info").expect(200).json
        assert info["backend"] == "native" and info["backends"] == ["native"]
        for path in ("/v1/runs", "/v1/sessions"):
            answer = refused(server, {"backend": "docker"}, 403, "denied", ['"docker"', '"backends" of its server.yaml'], path)
            assert answer.error["details"]["field"] == "policy.backend"
            refused(server, {"image": "other"}, 403, "denied", ['"other"', '"images" of its server.yaml'], path)
            refused(server, {"image": "--privileged"}, 400, "usage", ["is not the name of an image"], path)
            refused(server, {"image": 1}, 400, "usage", ["text is wanted"], path)
            refused(server, {"runtime": "../x"}, 400, "usage", ["is not the name of a runtime"], path)
            refused(server, {"runtime": "runsc"}, 403, "denied", ['"runtimes" of its server.yaml'], path)
            refused(server, {"backend": "vm"}, 400, "usage", ["native or docker"], path)
        assert server.post("/v1/runs", {"code": "print(1)", "policy": {"backend": "native", "image": "default", "runtime": "default"}}).result["backend"] == "native"
        session = server.post("/v1/sessions", {}).expect(201).json
        assert (session["backend"], session["runtime"], session["image"]) == ("native", None, None)


def test_an_engine_that_is_not_there_is_503():
    with Server(environ=NO_ENGINE, backends=["native", "docker"], images=["listed"], runtimes=["runsc"]) as server:
        assert server.get("/v1/info").expect(200).json["backends"] == ["native", "docker"]
        for path in ("/v1/runs", "/v1/sessions"):
            for policy in ({"backend": "docker"}, {"backend": "docker", "image": "listed"}, {"backend": "docker", "image": "glovebox-python"},
                           {"backend": "docker", "runtime": "runsc"}):
                answer = refused(server, policy, 503, "unavailable", ["/nonexistent/docker.sock"], path)
                assert "Retry-After" not in answer.headers and "message" in answer.error["hint"], answer.explain()
            refused(server, {"backend": "docker", "image": "other"}, 403, "denied", ['"other"'], path)
            refused(server, {"backend": "docker"}, 400, "usage", ["templates are of the native backend"], path, template="python")
            refused(server, {"image": "listed"}, 404, "not_found", ["there is no image listed"], path)
            refused(server, {"runtime": "runsc"}, 400, "usage", ["the backend is native"], path)
        assert server.post("/v1/runs", {"code": "print(1)"}).result["stdout"] == "1\n"


def test_the_policys_own_is_always_there_and_default_is_a_choice():
    """Who may not choose does not get out of the operator's image and runtime by asking for the default."""
    policy = "backend: docker\nruntime: runsc\nimage: own\n"
    with Server(environ=NO_ENGINE, policy=policy, backends=["docker"]) as server:
        levels = server.get("/v1/policies").expect(200).json["policies"]
        assert all((level["backend"], level["runtime"], level["image"]) == ("docker", "runsc", "own") for level in levels)
        refused(server, {}, 503, "unavailable", ["/nonexistent/docker.sock"])
        refused(server, {"image": "own", "runtime": "runsc", "backend": "docker"}, 503, "unavailable", ["/nonexistent/docker.sock"])
        refused(server, {"image": "default"}, 403, "denied", ['"images"'])
        refused(server, {"runtime": "default"}, 403, "denied", ['"runtimes"'])
        refused(server, {"backend": "native"}, 403, "denied", ['"backends"'])
    with Server(environ=NO_ENGINE, policy=policy) as server:
        # Another backend that is listed: the names of the first one are not meant for it.
        assert server.post("/v1/runs", {"code": "print(1)", "policy": {"backend": "native"}}).result["backend"] == "native"


def test_any():
    with Server(environ=NO_ENGINE, backends=["docker"], images=["*"], runtimes=["*"]) as server:
        refused(server, {"backend": "docker", "image": "registry.example.com/x:1", "runtime": "kata"}, 503, "unavailable", ["/nonexistent/docker.sock"])
        refused(server, {"image": "a;b"}, 400, "usage", ["is not the name of an image"])


@pytest.mark.parametrize("text, message", [
    ("backends: [podman]", "native or docker"), ("images: ['-v']", "the name of an image, or *"), ("runtimes: ['a/b']", "the name of a runtime, or *"),
])
def test_wrong_lists(tmp_path, text, message):
    file = tmp_path / "server.yaml"
    file.write_text(text + "\n")
    done = subprocess.run([str(BINARY), "serve", "--config", str(file), "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == USAGE and message in done.stderr, done.stderr


def test_templates_that_nothing_would_use(tmp_path):
    (tmp_path / "sandbox.yaml").write_text("backend: docker\n")
    done = subprocess.run([str(BINARY), "serve", "--policy", str(tmp_path / "sandbox.yaml"), "--warm", "python", "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == USAGE and "nothing would use a template" in done.stderr, done.stderr


def test_a_server_of_ones_own_takes_the_environment():
    environ = {**NO_ENGINE, "GLOVEBOX_BACKEND": "docker", "GLOVEBOX_RUNTIME": "runsc", "GLOVEBOX_IMAGE": "mine"}
    with Server(environ=environ, private=True) as server:
        assert server.get("/v1/info").expect(200).json["backend"] == "docker"
        level = server.get("/v1/policies").expect(200).json["policies"][0]
        assert (level["backend"], level["runtime"], level["image"]) == ("docker", "runsc", "mine")
        refused(server, {}, 503, "unavailable", ["/nonexistent/docker.sock"])
    with Server(environ=environ) as server:  # a service has its files
        assert server.get("/v1/info").expect(200).json["backend"] == "native"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to give up")
@pytest.mark.parametrize("group, config, kept", [(54321, {"backends": ["docker"]}, "54321"), (54321, {}, ""), (0, {"backends": ["docker"]}, "")],
                         ids=["an engine", "no engine is used", "an engine of root alone"])
def test_root_keeps_the_engines_group_and_nothing_else(tmp_path, group, config, kept):
    place = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(place))
        engine.listen(1)
        os.chown(place, 0, group)
        place.chmod(0o660)
        with Server(environ={"DOCKER_HOST": f"unix://{place}"}, **config) as server:
            status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{server.pid}/status").read_text().splitlines() if ":\t" in line)
            assert server.uid != 0 and status["Groups"].strip() == kept and int(status["CapPrm"], 16) == 0, status
            assert ("can be root on this host" in server.output()) == bool(kept)
            assert ("lets only root talk to it" in server.output()) == (group == 0)
