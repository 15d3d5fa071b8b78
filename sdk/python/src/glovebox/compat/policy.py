# SPDX-License-Identifier: Apache-2.0
"""A code-generating agent with a policy file: boxes by trust level, watched while they run.

    executor = SandboxExecutor("config/sandbox.yaml")
    outcome = executor.execute("print(6 * 7)", trust="trusted", on_usage=print)
    print(outcome.output, outcome.security["controls"]["network"])
"""
from __future__ import annotations

import dataclasses
import json
import logging
import math
import os
import pathlib
import re
import subprocess
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from .. import Client, Sandbox, Secrets
from .._private import program
from ..errors import GloveboxError, LimitError, PolicyError, UnenforceableError, UsageError
from ..network import rules_body
from ..records import Stats
from ..results import Result
from . import _arguments, _backend, _options
from ._container import Container

IMAGE = "glovebox-python"
TEMPLATE = "python"
WATCH_SECONDS, WATCH_FIRST_SECONDS = 0.2, 0.05
_log = logging.getLogger("glovebox")
_DEFAULT = "default"  # of a name in a policy
#: What create_container() understands of a container's configuration, and what it must be.
_FIXED = {"read_only": True, "privileged": False, "cap_add": [], "network_disabled": True}
_NO_NEW_PRIVILEGES = ("no-new-privileges", "no-new-privileges:true", "no-new-privileges=true")
#: What says nothing about isolation, and has no meaning for a box: it waits for code until it is removed.
_IGNORED = ("detach", "command", "stdin_open", "tty", "auto_remove", "remove")
_CPU_PERIOD = "cpu_period"
_WRITABLE = re.compile(r"^[^#]*\bread_only[\"']?\s*:\s*(?i:false|no|off|0)\b")
_LIMITS = {"mem_limit": "mem_limit", "pids_limit": "pids_limit", "timeout": "timeout", "tmp_size": "tmp_size", "disk_limit": "disk_limit", "cpu_count": "cpu_count"}
_GUARD = ("guard", "scrub", "guard_rules", "guard_imports")
_KNOWN = tuple(sorted([*_LIMITS, *_FIXED, *_IGNORED, *_GUARD, "nano_cpus", "cpu_quota", _CPU_PERIOD, "memswap_limit", "tmpfs", "labels", "name", "working_dir",
                       "cap_drop", "security_opt", "user", "environment", "network_mode", "network_allow", "secrets"]))


class ContainerManager:
    """Boxes with the configuration of a container. What would weaken one is refused, and what is always so may be said."""

    def __init__(self, *, backend: Optional[str] = None, client: Optional[Client] = None) -> None:
        self._backend, self._client = backend, client
        self._boxes: Dict[str, Container] = {}
        self._lock = threading.Lock()

    def create_container(self, image: str = IMAGE, runtime_configs: Optional[Mapping[str, Any]] = None) -> Container:
        """runtime_configs has the keys of docker-py. Limits: mem_limit, memswap_limit, cpu_count, nano_cpus, cpu_quota with cpu_period, pids_limit, tmpfs,
        and timeout. network_mode: "none", "host", or "whitelist": hosts that dependencies come from, or the rules of network_allow. environment, labels,
        name, working_dir, user. secrets: {"NAME": text}, which do not come back. guard, scrub, guard_rules, guard_imports. What holds anyway may be
        said: cap_drop ALL, security_opt no-new-privileges, read_only. What would weaken the box is refused."""
        made_of = _backend.box(self._backend, image, TEMPLATE, self._client)
        config = _configuration(runtime_configs)
        policy: Dict[str, Any] = _network_of(config)
        environment, secrets = _environment(config.pop("environment", None)), config.pop("secrets", None)
        name, place = config.pop("name", None), config.pop("working_dir", None)
        metadata = {**_labels(config.pop("labels", None)), "made-by": "container-manager", "image": image}
        policy.update(_understand_together(config))
        for key, value in config.items():
            policy.update(_understand(key, value))
        box = _backend.opened(Container(**made_of, **_backend.KEPT, policy=policy, env=environment, secrets=secrets, metadata=metadata, name=name, client=self._client), TEMPLATE)
        try:
            if place is not None:
                _enter(box, str(place))
            with self._lock:
                self._boxes[box.id] = box
        except BaseException:
            box.close()  # nobody else knows of it
            raise
        return box

    def remove_container(self, container: Union[str, Container]) -> bool:
        """Ends one; whether it was there. An error when the server cannot be reached: it can be removed later, then."""
        id = container if isinstance(container, str) else container.id
        with self._lock:
            box = self._boxes.get(id)
        if box is None:
            return False
        there = _backend.end(box)
        with self._lock:
            self._boxes.pop(id, None)  # not before: one that may live is not forgotten
        return there

    def cleanup(self) -> int:
        """Ends all that this manager has made; how many were there. An error when one cannot be ended: those that are
        left are ended by another call."""
        with self._lock:
            ids = list(self._boxes)
        return sum(self.remove_container(id) for id in ids)

    def __enter__(self) -> "ContainerManager":
        return self

    def __exit__(self, *_: Any) -> None:
        # As `with` does for one box: nothing is claimed here, so a server that cannot be reached is no error.
        with self._lock:
            boxes = list(self._boxes.values())
        for box in boxes:
            box.close()


def _configuration(given: Any) -> Dict[str, Any]:
    """What is None is as if it were not given; a key that is unknown stays, and is refused."""
    if given is not None and not isinstance(given, Mapping):
        raise _arguments.wrong("runtime_configs", given, "a mapping")
    return {key: value for key, value in (given or {}).items() if value is not None or key not in _KNOWN}


def _network_of(config: Dict[str, Any]) -> Dict[str, Any]:
    """The keys about the network, which are taken out. Those that contradict each other are refused: neither is a guess to make."""
    mode, allow, is_disabled = config.pop("network_mode", None), config.pop("network_allow", None), bool(config.get("network_disabled"))
    if mode is not None and not isinstance(mode, str):
        raise PolicyError(f"network_mode must be text, not {_arguments.shown(mode)}", hint='"none", "host", "whitelist" or "allowlist"')
    if allow is not None and (is_disabled or mode == "none"):
        if len(rules_body(allow)) > 0:
            raise PolicyError(f"network_allow contradicts {'network_disabled' if is_disabled else 'network_mode none'}: it lists what may be reached",
                              hint="leave one of them out")
        allow = None
    if is_disabled and mode not in (None, "none"):
        raise PolicyError(f"network_mode {mode!r} contradicts network_disabled", hint="leave one of them out")
    return _options.limits(network=mode or "none", allow=allow)


def _environment(value: Any) -> Optional[Dict[str, str]]:
    """A dict, or a list of NAME=value."""
    made: Dict[str, str] = {}
    try:
        pairs = _arguments.variables("environment", value)
    except UsageError as error:
        raise PolicyError(error.message, hint=error.hint, details=error.details) from None
    for name, text in pairs:
        if text is None:
            raise PolicyError(f"environment: {name!r} has no value", hint="NAME=value; variables of this process are not passed on")
        made[name] = text
    return made or None


def _labels(value: Any) -> Dict[str, str]:
    """A dict, or a list of names."""
    if isinstance(value, Mapping):
        return {str(name): str(text) for name, text in value.items()}
    if value is not None and not isinstance(value, (list, tuple)):
        raise PolicyError(f"labels must be a mapping or a list of names, not {_arguments.shown(value)}")
    return {str(name): "" for name in value or ()}


def _enter(box: Container, place: str) -> None:
    """Where the code begins, and commands of exec_run()."""
    done = box.run(f"import os\nos.makedirs({place!r}, exist_ok=True)\nos.chdir({place!r})\ndel os")
    if not done.ok:
        raise PolicyError(f"working_dir {place!r} cannot be used: {done.error.value if done.error else done.verdict.message}",
                          hint="/sandbox, /tmp and what is below them can be written to")
    box.working_dir = place


def _understand_together(config: Dict[str, Any]) -> Dict[str, Any]:
    """Keys that have a meaning only together; they are taken out of the configuration."""
    policy: Dict[str, Any] = {}
    policy.update(_understand_processors(config))
    swap = config.pop("memswap_limit", None)
    if swap is not None and _options.size(swap) != _options.size(config.get("mem_limit")):
        raise PolicyError(f"memswap_limit {swap!r} is refused: a box has no swap", hint="leave it out, or give it the value of mem_limit")
    places = config.pop("tmpfs", None)
    if places is not None:
        policy.update(_understand_tmpfs(places))
    return policy


def _understand_processors(config: Dict[str, Any]) -> Dict[str, Any]:
    """cpu_count, nano_cpus and cpu_quota are three words for the same; they are taken out."""
    period = _number(_CPU_PERIOD, config.pop(_CPU_PERIOD, None))
    said = {"cpu_count": config.pop("cpu_count", None)}
    for key, unit in (("nano_cpus", 1e9), ("cpu_quota", period or _options.CPU_PERIOD)):
        number = _number(key, config.pop(key, None))
        said[key] = number / unit if number is not None else None
    found = {key: value for key, value in said.items() if value is not None}
    if len(found) > 1 and len({round(_number(key, value) or 0, 3) for key, value in found.items()}) > 1:
        raise PolicyError(f"{' and '.join(found)} name different numbers of processors: {', '.join(f'{float(value):g}' for value in found.values())}",
                          hint="leave all but one of them out")
    return {"cpu_count": next(iter(found.values()))} if found else {}


def _number(key: str, value: Any) -> Optional[float]:
    """A number that is more than 0, also as text. Docker takes 0 or -1 as no limit, which a box does not have."""
    if value is None:
        return None
    try:
        number = float(value) if not isinstance(value, bool) else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not math.isfinite(number):
        raise PolicyError(f"{key} must be a number, not {_arguments.shown(value)}")
    if number <= 0:
        raise PolicyError(f"{key} {value!r} is refused: it must be more than 0, and a box always has a limit",
                          hint="100000 microseconds are usual" if key == _CPU_PERIOD else "leave it out for the default, or ask for more")
    return number


def _understand_tmpfs(places: Any) -> Dict[str, Any]:
    """{"/tmp": "size=64m,..."}: /tmp is one in every box, and its size can be chosen."""
    if not isinstance(places, (str, Mapping, Sequence)):
        raise PolicyError(f"tmpfs must be a mapping of paths to options, not {_arguments.shown(places)}")
    if not isinstance(places, Mapping):
        places = [places] if isinstance(places, str) else places
        places = {str(each).partition(":")[0]: str(each).partition(":")[2] for each in places}
    elsewhere = [path for path in places if str(path).rstrip("/") != "/tmp"]
    if elsewhere:
        raise PolicyError(f"tmpfs at {elsewhere[0]!r} is nothing that a box has", hint="/tmp and /sandbox can be written to")
    sizes = [word.partition("=")[2] for text in places.values() for word in str(text or "").split(",") if word.startswith("size=")]
    return {"tmp_size": sizes[-1]} if sizes else {}


def _understand(key: str, value: Any) -> Dict[str, Any]:
    """One key of a container's configuration as keys of a policy."""
    if key in _IGNORED:
        return {}
    if key in _LIMITS:
        return {_LIMITS[key]: value}
    if key in _GUARD:
        return {key: value}
    if key == "cap_drop":
        if "ALL" not in [name.upper() for name in _arguments.texts(key, value)]:
            raise PolicyError(f"{key}: {value!r} is refused: a box never has capabilities", hint=f'["ALL"], or leave {key} out')
        return {}
    if key == "security_opt":
        weaker = [option for option in _arguments.texts(key, value) if option not in _NO_NEW_PRIVILEGES]
        if weaker:
            raise PolicyError(f"security_opt {weaker[0]!r} is refused", hint="no-new-privileges always holds, and glovebox has its own filter of system calls")
        return {}
    if key == "user":
        if str(value).split(":")[0] in ("0", "root"):
            raise PolicyError("nothing runs as root in a box", hint="leave user out")
        return {}
    if key in _FIXED:
        if (list(value) if isinstance(value, tuple) else value) != _FIXED[key]:
            raise PolicyError(f"{key}: {value!r} is refused: it is {_FIXED[key]!r} in every box", hint=f"leave {key} out")
        return {}
    raise PolicyError(f"{key} is nothing that a box has", hint="known: " + ", ".join(_KNOWN))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended, with what was enforced and what it used."""

    success: bool
    output: str
    error: str
    verdict: str
    message: str
    exit_code: Optional[int]
    violation: Optional[str]       #: the limit that ended it: "timeout", "memory", "pids", ...; None: none
    usage: Dict[str, Any]          #: peaks
    samples: List[Stats]           #: what was seen while it ran
    security: Dict[str, Any]       #: trust level, limits, controls, backend, what the guard found, what was scrubbed
    result: Result
    usage_error: Optional[BaseException] = None  #: the first one that on_usage has raised


_VIOLATIONS = ("timeout", "cpu", "memory", "pids", "disk", "output", "syscall")


class SandboxExecutor:
    """Runs Python with the limits that a policy file gives to a trust level. The file is the policy of glovebox (config/sandbox.yaml): cpu_count,
    mem_limit, timeout, security_opt, cap_drop, read_only, network_mode, trust_levels; a mistake in it is told with line and column."""

    def __init__(self, config: Union[None, str, "os.PathLike[str]"] = None, *, template: Optional[str] = TEMPLATE, image: Optional[str] = None, backend: Optional[str] = None,
                 client: Optional[Client] = None) -> None:
        _backend.require(backend, image, template, client)
        self._config, self._template, self._image, self._backend, self._client = config, template, image, backend, client

    def policy(self, trust: Optional[str] = None) -> Dict[str, Any]:
        """The policy of a trust level, as the file has it; read by glovebox itself."""
        command = [program(), "policy", "show", "--json"]
        if self._config is not None:
            if not isinstance(self._config, (str, os.PathLike)) or not os.fspath(self._config):
                raise _arguments.wrong("config", self._config, "the path of a policy file")
            command += ["--policy", os.fspath(self._config)]
        if trust is not None:
            command += ["--trust", trust]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
        try:
            found = json.loads(done.stdout)
        except ValueError:
            raise PolicyError(done.stderr.strip() or "glovebox policy show said nothing") from None
        if "error" in found:
            raise PolicyError(found["error"]["message"])
        if not found["read_only"]:  # as create_container() refuses the key: here it is no setting
            raise PolicyError(f"{self._place_of(_WRITABLE, found['origin'])}: read_only: false is refused: the root of a box is read-only",
                              hint="leave read_only out; /sandbox and /tmp can be written to")
        return dict(found)

    def _place_of(self, pattern: "re.Pattern[str]", origin: str) -> str:
        """The file with the first line that has this."""
        try:
            lines = pathlib.Path(os.fspath(self._config or origin)).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return origin
        return next((f"{origin}:{number}" for number, line in enumerate(lines, 1) if pattern.search(line)), origin)

    def execute(self, code: str, trust: Optional[str] = None, *, timeout: Optional[float] = None, stdin: Union[None, str, bytes] = None,
                on_usage: Optional[Callable[[Stats], Any]] = None, secrets: Optional[Secrets] = None) -> Outcome:
        """Runs code at a trust level. secrets: variables of the code that do not come back in what it prints. on_usage is called with a sample of what the
        box uses, about five times a second while it runs and once after that: percent of a processor, memory, tasks, disk, network. What it raises is logged
        once. The box is gone afterwards, however it ended."""
        code = _arguments.code(code)  # type: ignore[assignment]
        policy = self.policy(trust)
        _check_timeout(policy, timeout)
        with _backend.opened(Sandbox(**self._made_of(policy), policy=_wire(policy), secrets=secrets, client=self._client), self._template) as box:
            samples: List[Stats] = []
            with _Watch(box, samples, on_usage) as watch:
                result = box.run(code, timeout=timeout, stdin=stdin, last=True)
            return _outcome(result, policy, samples, watch.error)

    def _made_of(self, policy: Mapping[str, Any]) -> Dict[str, Any]:
        """By the file, unless the caller names another. The variables of the environment are in what glovebox has read already."""
        image = self._image or (None if policy["image"] == _DEFAULT else str(policy["image"]))
        made_of = _backend.box(self._backend or str(policy["backend"]), image or IMAGE, self._template, self._client)
        if made_of["backend"] != "docker" and image is not None:
            made_of.update(template=None, image=image)  # a root of the store, which has no template
        if policy["runtime"] != _DEFAULT:
            made_of["runtime"] = policy["runtime"]
        return made_of


def _check_timeout(policy: Mapping[str, Any], timeout: Union[None, float, str]) -> None:
    """The server has a maximum of its own. That of the file is checked here, as the command line does it."""
    most = policy["timeout_max_usec"] / 1e6
    if timeout is not None and not _arguments.seconds("timeout", timeout) <= most:
        raise LimitError(f"a timeout of {_arguments.seconds('timeout', timeout):g}s is above timeout_max, which is {most:g}s at trust level \"{policy['trust']}\"",
                         hint="ask for less, or raise timeout_max in the policy file", details={"field": "timeout"})


def _wire(policy: Mapping[str, Any]) -> Dict[str, Any]:
    """The policy as a request has it. Mounts and weaker controls are the operator's, who owns the file and the server alike."""
    sent: Dict[str, Any] = {
        "cpu_count": policy["cpu_count_milli"] / 1000, "mem_limit": policy["mem_limit_bytes"], "timeout": policy["timeout_usec"] / 1e6,
        "pids_limit": policy["pids_limit"], "tmp_size": policy["tmp_size_bytes"], "disk_limit": policy["disk_limit_bytes"], "inode_limit": policy["inode_limit"],
        "output_limit": policy["output_limit_bytes"], "nofile": policy["nofile"], "read_only": policy["read_only"], "env": policy["env"],
    }
    if policy["cpu_time_usec"]:
        sent["cpu_time"] = policy["cpu_time_usec"] / 1e6
    sent.update(_network(policy))
    for key in ("mounts", "allow_weaker", "guard", "scrub", "guard_rules", "scratch_only"):
        if policy[key]:
            sent[key] = policy[key]
    if policy["guard_imports"] is not None:
        sent["guard_imports"] = policy["guard_imports"]  # a list without modules is one, too
    return sent


def _network(policy: Mapping[str, Any]) -> Dict[str, Any]:
    if policy["network_mode"] != "allowlist":
        return {} if policy["network_mode"] == "none" else {"network_mode": policy["network_mode"]}
    for rule in policy["network_allow"]:
        if rule.get("headers"):
            raise UnenforceableError(f"{rule['rule']}: the values of its headers are for the server that reads the file alone", hint="give the file to a server: glovebox serve --policy FILE")
    rules = [{key: value for key, value in rule.items() if key != "rule"} for rule in policy["network_allow"]]
    return {"network_mode": "allowlist", "network_allow": rules, "network_ranges": policy["network_ranges"], "network_bytes": policy["network_bytes"],
            "network_requests": policy["network_requests"], "network_connections": policy["network_connections"]}


class _Watch:
    """Looks at a box from a thread of its own while something runs in it, and once more after that."""

    def __init__(self, box: Sandbox, samples: List[Stats], callback: Optional[Callable[[Stats], Any]]) -> None:
        self._box, self._samples, self._callback = box, samples, callback
        self._over = threading.Event()
        self._is_late = False  # the callback was busy for long when the run ended: it is not called again
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._last: Optional[Stats] = None
        self._ended, self._called = 0.0, (0.0, 0.0)
        self.error: Optional[BaseException] = None  #: the first one that the callback has raised

    def _look(self) -> bool:
        """Whether there was something to see."""
        try:
            sample = _with_percent(self._box.stats(), self._last)
        except GloveboxError:
            return False
        self._last = sample
        self._samples.append(sample)
        if self._callback is not None and not self._is_late:
            began = time.monotonic()
            try:
                self._callback(sample)
            except BaseException as error:  # also SystemExit: the outcome of the run is the caller's in any case
                if self.error is None:
                    self.error = error
                    _log.warning("on_usage raised %r: the run goes on, and so do the samples", error, exc_info=error)
            self._called = (began, time.monotonic())
        return True

    def _watch(self) -> None:
        while not self._over.wait(WATCH_SECONDS if self._samples else WATCH_FIRST_SECONDS):
            if not self._look():
                self._over.wait()
        began, ended = self._called
        self._is_late = ended - max(began, self._ended) > WATCH_SECONDS
        self._look()

    def __enter__(self) -> "_Watch":
        try:
            self._last = self._box.stats()  # what processor time is counted from
        except GloveboxError:
            pass
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended = time.monotonic()
        self._over.set()
        self._thread.join()


def _with_percent(sample: Stats, before: Optional[Stats]) -> Stats:
    """With what it took of one processor since the sample before."""
    if before is None or sample.time is None or before.time is None or sample.cpu_usec is None or before.cpu_usec is None:
        return sample
    seconds = (sample.time - before.time).total_seconds()
    return dataclasses.replace(sample, cpu_percent=(sample.cpu_usec - before.cpu_usec) / seconds / 1e4) if seconds > 0 else sample


def _outcome(result: Result, policy: Mapping[str, Any], samples: List[Stats], usage_error: Optional[BaseException] = None) -> Outcome:
    kind = str(result.verdict.kind)
    error = result.stderr + (result.error.traceback if result.error is not None else "") + (result.verdict.message if kind == "blocked" else "")
    return Outcome(
        success=result.ok, output=result.stdout, error=error, verdict=kind, message=result.verdict.message, exit_code=result.exit_code,
        violation=kind if kind in _VIOLATIONS else None, usage=dict(result.raw.get("peaks") or {}), samples=samples,
        security={"trust": policy["trust"], "policy": policy["origin"], "limits": dict(result.raw.get("limits") or {}), "backend": result.raw.get("backend"),
                  "network": policy["network_mode"], "network_use": result.raw.get("network"), "read_only": policy["read_only"],
                  "controls": {name: control.state for name, control in result.controls.items()},
                  "guard": policy["guard"], "scrub": policy["scrub"], "findings": [dataclasses.asdict(finding) for finding in result.guard],
                  "scrubbed": result.scrubbed},
        result=result, usage_error=usage_error)
