# SPDX-License-Identifier: Apache-2.0
"""A code-generating agent with a policy file."""
import os
import subprocess
import sys
import time

import pytest

from compat_helpers import BINARY, BURN, BURN_MAX, READ_ONLY, ROOT, on_each_backend
from isolation import wait_until
from promises import promise
from glovebox.compat.policy import ContainerManager, SandboxExecutor
from glovebox.errors import LimitError, LostError, PolicyError, UnenforceableError, UsageError

pytestmark = on_each_backend

CONFIG = """
cpu_count: 1
mem_limit: 256m
timeout: 20
pids_limit: 32
read_only: true
network_mode: none
cap_drop: [ALL]
security_opt: [no-new-privileges]
default_trust: standard
trust_levels:
  untrusted:
    mem_limit: 64m
    timeout: 5
  trusted:
    cpu_count: 2
    mem_limit: "1g"
    timeout: 120
"""


@promise("policy-1", "The lines that verify the modules and the file work.")
def test_the_lines_of_the_document(tmp_path):
    """With modules of those names that import the stand-ins, and the policy file that glovebox ships."""
    (tmp_path / "src/sandbox").mkdir(parents=True)
    (tmp_path / "src/sandbox/container_manager.py").write_text("from glovebox.compat.policy import ContainerManager\n")
    (tmp_path / "src/sandbox/executor.py").write_text("from glovebox.compat.policy import SandboxExecutor\n")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/sandbox.yaml").write_text((ROOT / "config/sandbox.yaml").read_text())
    lines = ["from src.sandbox.container_manager import ContainerManager; print('imported')",
             "from src.sandbox.executor import SandboxExecutor; print(SandboxExecutor('config/sandbox.yaml').execute('print(6 * 7)').output.strip())",
             "import yaml; print({'cpu_count', 'mem_limit', 'timeout', 'read_only', 'trust_levels'} <= set(yaml.safe_load(open('config/sandbox.yaml'))))"]
    for line, said in zip(lines, ("imported\n", "42\n", "True\n")):
        done = subprocess.run([sys.executable, "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "sdk/python/src"), "GLOVEBOX": str(BINARY)})
        assert (done.stdout, done.returncode) == (said, 0), done.stderr


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "sandbox.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def manager():
    with ContainerManager() as made:
        yield made


@promise("policy-2", "A container has no capabilities, no new privileges, no root user and a read-only root.")
@promise("policy-4", "network_mode none gives no network.")
def test_a_container_is_hardened(manager, backend):
    box = manager.create_container("glovebox-python", {
        "mem_limit": "128m", "nano_cpus": 500_000_000, "pids_limit": 16, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"], "read_only": True, "user": "1000",
        "network_mode": "none", "environment": {"NAME": "value"}})
    result = box.run("import ctypes, os\nprint(os.environ['NAME'], os.getuid())\nprint([l.split()[1] for l in open('/proc/self/status') if l.startswith('CapBnd')])\n"
                     "print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))\n"  # PR_GET_NO_NEW_PRIVS
                     "try:\n    open('/usr/x', 'w')\nexcept OSError as e:\n    print(e.strerror)")
    assert result.stdout == f"value 1000\n['0000000000000000']\n1\n{READ_ONLY[backend]}\n", result
    assert result.raw["limits"]["memory_bytes"] == 128 << 20 and result.raw["limits"]["cpu_milli"] == 500 and result.raw["limits"]["pids"] == 16


CONNECT = "import socket\ns = socket.socket()\ns.settimeout(5)\ns.connect(('1.1.1.1', 53))"


@promise("policy-4", "network_mode none gives no network.")
@pytest.mark.parametrize("configs", [{}, {"network_mode": "none"}, {"network_disabled": True}])
def test_no_network(manager, configs):
    """Also when nothing is said about it."""
    box = manager.create_container(runtime_configs=configs)
    result = box.run(CONNECT)
    assert result.error.name == "OSError" and result.controls["network"].state == "enforced", result
    assert box.info().policy["network"] == "none"


@promise("policy-13", "With Docker, code runs in a container.")
def test_it_is_a_container_of_the_engine(engine_of_backend, manager):
    assert wait_until(lambda: engine_of_backend.containers() == [], 30)
    manager.create_container("glovebox-python")
    assert len(engine_of_backend.containers()) == 1
    assert manager.cleanup() == 1 and wait_until(lambda: engine_of_backend.containers() == [], 30)


@promise("policy-2", "A container has no capabilities, no new privileges, no root user and a read-only root.")
@pytest.mark.parametrize("key, value", [("privileged", True), ("cap_add", ["SYS_ADMIN"]), ("cap_drop", []), ("read_only", False), ("user", "root"), ("user", "0:0"),
                                        ("security_opt", ["seccomp=unconfined"]), ("security_opt", ["no-new-privileges:false"]),
                                        ("security_opt", ["no-new-privileges=false"]), ("security_opt", ["no-new-privileges-NOT"]), ("security_opt", "no-new-privileges:false"),
                                        ("security_opt", ["no_new_privileges"]), ("security_opt", ["no-new-privileges", "apparmor=unconfined"]), ("volumes", ["/:/host"]), ("devices", ["/dev/kvm"])])
def test_what_would_weaken_it_is_refused(manager, key, value):
    with pytest.raises(PolicyError):
        manager.create_container(runtime_configs={key: value})
    assert manager.cleanup() == 0


@promise("policy-4", "network_mode none gives no network.")
@pytest.mark.parametrize("configs", [
    {"network_mode": "host", "network_disabled": True}, {"network_mode": "host", "network_disabled": 1}, {"network_mode": "whitelist", "network_disabled": True},
    {"network_mode": "none", "network_allow": ["pypi.org"]}, {"network_disabled": True, "network_allow": ["pypi.org"]}])
def test_contradictions_about_the_network_are_refused(manager, configs):
    with pytest.raises(PolicyError, match="network"):
        manager.create_container(runtime_configs=configs)
    assert manager.cleanup() == 0


@promise("policy-3", "create_container(image, runtime_configs) takes the keys of docker-py.")
def test_forms_of_docker_py_that_mean_the_same(manager):
    box = manager.create_container(runtime_configs={"cap_drop": ["all"], "security_opt": "no-new-privileges=true", "cpu_quota": "50000", "nano_cpus": 500_000_000,
                                                    "network_mode": "none", "network_allow": [], "network_disabled": True, "tmpfs": "/tmp:size=32m"})
    assert box.info().policy["network"] == "none" and box.info().policy["limits"]["cpu_milli"] == 500
    nothing = dict.fromkeys(("cap_add", "cap_drop", "mem_limit", "memswap_limit", "network_mode", "network_allow", "network_disabled", "security_opt", "pids_limit",
                             "cpu_quota", "nano_cpus", "environment", "labels", "read_only", "user", "working_dir", "tmpfs"))
    assert manager.create_container(runtime_configs=nothing).info().policy["network"] == "none"
    with pytest.raises(UsageError, match="image must be"):
        manager.create_container(None)


@pytest.mark.parametrize("error", [LostError("of the server"), KeyboardInterrupt()])
def test_a_box_that_cannot_be_entered_is_not_left(manager, monkeypatch, error):
    from glovebox.compat import policy

    def fails(box, place):
        seen.append(box)
        raise error
    seen = []
    monkeypatch.setattr(policy, "_enter", fails)
    with pytest.raises(type(error)):
        manager.create_container(runtime_configs={"working_dir": "/tmp/work"})
    assert not seen[0].is_open and seen[0].id not in {session.id for session in seen[0].client.sessions()}


TRY = """
import urllib.request, urllib.error
for url in {urls}:
    try:
        urllib.request.urlopen(url, timeout=20)
    except urllib.error.URLError as error:
        print(error)
"""
ELSEWHERE = TRY.format(urls=["https://example.com"])


@promise("policy-5", "A whitelist reaches the hosts of dependencies, and only to read.")
def test_the_whitelist_is_where_dependencies_come_from(manager):
    """Nothing is dialled here: what is refused is refused before its name is looked up."""
    box = manager.create_container(runtime_configs={"network_mode": "whitelist"})
    info = box.network()
    assert info.mode == "allowlist" and {"pypi.org", "files.pythonhosted.org"} <= {rule["host"] for rule in info.rules}
    result = box.run(ELSEWHERE)
    assert "403" in result.stdout and [(each.host, each.decision) for each in result.network.refused] == [("example.com", "no-rule")]
    other = manager.create_container(runtime_configs={"network_mode": "whitelist", "network_allow": ["api.example.com"]})
    assert [rule["host"] for rule in other.network().rules] == ["api.example.com"]
    with pytest.raises(UsageError, match="no network mode"):
        manager.create_container(runtime_configs={"network_mode": "bridge"})
    with pytest.raises(UsageError, match="exclude"):
        manager.create_container(runtime_configs={"network_mode": "host", "network_allow": ["api.example.com"]})


@promise("policy-5", "A whitelist reaches the hosts of dependencies, and only to read.")
def test_the_whitelist_of_a_file(config):
    """"Network access is restricted to dependency fetching only." (tests/e2e/test_network_tools.py has pip, and uploads that are refused.)"""
    config.write_text(CONFIG.replace("network_mode: none", "network_mode: whitelist"))
    outcome = SandboxExecutor(config).execute(ELSEWHERE)
    assert "403" in outcome.output and outcome.result.network.refused[0].host == "example.com" and outcome.security["network"] == "allowlist"
    rules = SandboxExecutor(config).policy()["network_allow"]
    assert {"pypi.org", "files.pythonhosted.org"} <= {rule["host"] for rule in rules} and all(rule["methods"] == ["GET", "HEAD"] for rule in rules)


def test_an_allowlist_of_a_file(config):
    config.write_text(CONFIG.replace("network_mode: none", """network_mode: allowlist
network_allow:
  - api.example.com:8443
  - {host: b.example.com, protocol: http, paths: [/a/], methods: [GET]}
network_ranges: [10.1.0.0/16]
network_bytes: 1m
network_requests: 5"""))
    outcome = SandboxExecutor(config).execute(ELSEWHERE)
    assert outcome.success and "403" in outcome.output and outcome.security["network"] == "allowlist"
    assert outcome.security["network_use"]["denied"] == 1 and outcome.result.network.refused[0].host == "example.com"


def test_values_of_headers_are_not_left_out_in_silence(config):
    config.write_text(CONFIG.replace("network_mode: none", "network_mode: allowlist\nnetwork_allow: [{host: b.example.com, protocol: http, headers: {X-Key: value}}]"))
    with pytest.raises(UnenforceableError, match="headers"):
        SandboxExecutor(config).execute("1")


@promise("policy-3", "create_container(image, runtime_configs) takes the keys of docker-py.")
def test_harmless_keys_of_docker_py(manager):
    box = manager.create_container("glovebox-python", {
        "detach": True, "command": "tail -f /dev/null", "name": "worker-1", "labels": {"team": "a"}, "environment": ["A=1", "B=x=y"], "working_dir": "/tmp/work",
        "cpu_quota": 50_000, "cpu_period": 100_000, "mem_limit": "128m", "memswap_limit": "128m", "tmpfs": {"/tmp": "rw,noexec,size=32m"}, "stdin_open": True, "tty": False})
    result = box.run("import os; print(os.environ['A'], os.environ['B'], os.getcwd(), os.statvfs('/tmp').f_blocks * os.statvfs('/tmp').f_frsize >> 20)")
    assert result.stdout == "1 x=y /tmp/work 32\n", result
    assert (result.raw["limits"]["cpu_milli"], result.raw["limits"]["memory_bytes"]) == (500, 128 << 20)
    info = box.info()
    assert info.name == "worker-1" and info.metadata["team"] == "a" and info.metadata["made-by"] == "container-manager"


def test_commands_begin_in_the_working_directory(manager):
    box = manager.create_container(runtime_configs={"working_dir": "/tmp/work", "environment": {"A": "b"}})
    assert box.exec_run(["sh", "-c", "pwd; echo $A"]).output == b"/tmp/work\nb\n" and box.exec_run("pwd", workdir="/").output == b"/\n"
    assert manager.create_container().exec_run("pwd -P").output == b"/sandbox\n"


@promise("policy-3", "create_container(image, runtime_configs) takes the keys of docker-py.")
def test_a_limit_of_swap_in_other_units(manager):
    for limit, swap in ((134217728, "128m"), ("128m", 134217728), ("128m", "131072k"), ("128M", "134217728")):
        box = manager.create_container(runtime_configs={"mem_limit": limit, "memswap_limit": swap})
        assert box.info().policy["limits"]["memory_bytes"] == 128 << 20
        assert manager.remove_container(box)


@pytest.mark.parametrize("config, said", [
    ({"mem_limit": "128m", "memswap_limit": "256m"}, "swap"), ({"memswap_limit": -1}, "swap"), ({"tmpfs": {"/usr": ""}}, "/usr"), ({"tmpfs": ["/run:size=1m"]}, "/run"),
    ({"working_dir": "/usr/x"}, "working_dir"), ({"environment": ["HOME"]}, "HOME"), ({"cpu_period": 0}, "cpu_period"), ({"environment": {"A": None}}, "A"), ({"environment": "A=1"}, "environment"), ({"cpu_quota": "abc"}, "cpu_quota"),
    ({"cpu_quota": -1}, "cpu_quota"), ({"nano_cpus": "x"}, "nano_cpus"), ({"nano_cpus": 10**400}, "nano_cpus"), ({"cpu_quota": 50_000, "nano_cpus": 10**9}, "different"), ({"labels": 5}, "labels"),
    ({"cpu_quota": 50_000, "cpu_period": 0}, "cpu_period"), ({"tmpfs": 5}, "tmpfs"), ({"network_mode": 5}, "network_mode"), ({"oom_kill_disable": True}, "oom_kill_disable")])
def test_keys_that_cannot_be_honoured_are_refused(manager, config, said):
    with pytest.raises(PolicyError, match=said):
        manager.create_container(runtime_configs=config)
    assert manager.cleanup() == 0


@promise("policy-6", "Containers can be removed one by one and all together.")
def test_cleaning_up(manager):
    boxes = [manager.create_container() for _ in range(3)]
    assert manager.remove_container(boxes[0]) and not manager.remove_container(boxes[0])
    boxes[1].client.delete_session(boxes[1].id)  # died by itself
    assert manager.cleanup() == 1 and manager.cleanup() == 0
    left = {session.id for session in boxes[0].client.sessions()}
    assert not left & {box.id for box in boxes} and not any(box.is_open for box in boxes)


def test_a_container_is_kept_for_long(manager):
    """Until somebody removes it, as far as a server allows that."""
    info = manager.create_container().info()
    assert (info.idle_timeout, info.max_lifetime) == (24 * 3600, 7 * 24 * 3600)


def test_one_that_died_is_not_removed(manager):
    box, closed = manager.create_container(), manager.create_container()
    box.client.delete_session(box.id)
    closed.close()
    assert not manager.remove_container(box) and not manager.remove_container(closed.id) and manager.cleanup() == 0


@promise("policy-7", "Limits come from config/sandbox.yaml, by trust level: 2 processors, 1 GB and 120 s when trusted.")
@promise("policy-11", "The result has security metadata.")
@pytest.mark.parametrize("trust, memory, cpus, timeout", [("untrusted", 64 << 20, 1000, 5), (None, 256 << 20, 1000, 20), ("trusted", 1 << 30, 2000, 120)])
def test_limits_by_trust_level(config, trust, memory, cpus, timeout):
    outcome = SandboxExecutor(config).execute("print(6 * 7)", trust)
    assert outcome.success and outcome.output == "42\n" and outcome.violation is None
    limits = outcome.security["limits"]
    assert (limits["memory_bytes"], limits["cpu_milli"], limits["timeout_usec"]) == (memory, cpus, timeout * 1_000_000)
    assert outcome.security["trust"] == (trust or "standard") and outcome.security["controls"]["seccomp"] == "enforced"
    assert outcome.security["network"] == "none" and outcome.security["read_only"] is True


SHIPPED = ROOT / "config/sandbox.yaml"


@promise("policy-7", "Limits come from config/sandbox.yaml, by trust level: 2 processors, 1 GB and 120 s when trusted.")
@promise("policy-15", "config/sandbox.yaml states no-new-privileges, cap_drop ALL, read_only and network_mode none.")
def test_the_file_that_is_shipped():
    shown = SandboxExecutor(SHIPPED).policy("trusted")
    assert (shown["cpu_count_milli"], shown["mem_limit_bytes"], shown["timeout_usec"]) == (2000, 1 << 30, 120_000_000)
    assert shown["read_only"] is True and shown["network_mode"] == "none"
    lines = SHIPPED.read_text().splitlines()
    for line in ("cap_drop: [ALL]", "security_opt: [no-new-privileges]", "read_only: true", "network_mode: none"):
        assert any(each.startswith(line) for each in lines), line
    outcome = SandboxExecutor(SHIPPED).execute("print(6 * 7)", "trusted")
    assert outcome.output == "42\n" and outcome.security["limits"]["memory_bytes"] == 1 << 30


@promise("policy-16", "A policy file cannot weaken the security settings.")
@pytest.mark.parametrize("line", ["cap_drop: []", "cap_drop: [NET_RAW]", "security_opt: []", "security_opt: [seccomp=unconfined]", "privileged: true", "read_only: false",
                                  "read_only: off", "scratch_only: false\nread_only: no"])
def test_a_file_cannot_weaken(config, line):
    name = line.partition(":")[0]
    config.write_text("\n".join(each for each in CONFIG.splitlines() if not each.startswith(name)) + f"\n{line}\n")
    with pytest.raises(PolicyError, match="sandbox.yaml:[0-9]+"):
        SandboxExecutor(config).policy()


@promise("policy-8", "Limits of processor, memory, time and tasks are enforced, and the result names the one that was hit.")
def test_the_processor_is_limited(config):
    """Two processes that never wait get the time of one processor. Nothing is hit: they are slowed down."""
    outcome = SandboxExecutor(config).execute(BURN)
    assert outcome.success and outcome.security["controls"]["cpu"] == "enforced" and float(outcome.output) < BURN_MAX, outcome


def test_sys_exit_has_its_status(config):
    outcome = SandboxExecutor(config).execute("import sys; sys.exit(2)")
    assert (outcome.exit_code, outcome.verdict, outcome.violation) == (2, "error", None)


@promise("policy-9", "Usage is monitored while code runs: processor, memory, tasks, disk and network.")
def test_usage_is_seen_while_it_runs(config):
    seen = []
    outcome = SandboxExecutor(config).execute("import time\nx = bytearray(60 << 20)\nfor i in range(60 << 20 >> 12):\n    x[i << 12] = 1\ntime.sleep(2)", on_usage=seen.append)
    assert outcome.success and len(seen) >= 2 and seen == outcome.samples
    assert max(sample.memory_bytes for sample in seen) > 50 << 20, [sample.memory_bytes for sample in seen]
    assert outcome.usage["memory_bytes"] > 50 << 20
    assert all(sample.cpu_percent is not None and sample.network_requests == 0 for sample in seen) and seen[-1].disk_bytes is not None, seen
    assert any(sample.pids > 0 for sample in seen), seen  # none before the interpreter is up, and none after its end


@promise("policy-9", "Usage is monitored while code runs: processor, memory, tasks, disk and network.")
def test_processor_percent_and_network_of_samples(config):
    config.write_text(CONFIG.replace("network_mode: none", "network_mode: whitelist"))
    outcome = SandboxExecutor(config).execute(ELSEWHERE + "import time\nend = time.monotonic() + 1.2\nwhile time.monotonic() < end: pass")
    used = [sample.cpu_percent for sample in outcome.samples]
    assert max(used) > 5, used  # a box that waits has less than 1; on a busy host a loop has much less than 100
    assert outcome.samples[-1].network_requests == outcome.samples[-1].network_denied == 1, outcome.samples[-1]


def test_a_short_run_has_a_sample(config):
    outcome = SandboxExecutor(config).execute("print(1)")
    assert outcome.samples and outcome.samples[-1].cpu_percent is not None


@promise("policy-10", "A callback that raises is reported once, and monitoring continues.")
def test_a_callback_that_raises_is_reported_once(config, caplog):
    calls = []

    def fails(sample):
        calls.append(sample)
        raise KeyError("of the callback")
    outcome = SandboxExecutor(config).execute("import time; time.sleep(1); print('done')", on_usage=fails)
    assert outcome.success and outcome.output == "done\n" and len(calls) >= 2 and calls == outcome.samples
    assert isinstance(outcome.usage_error, KeyError) and [record.message for record in caplog.records if record.name == "glovebox"] == [
        "on_usage raised KeyError('of the callback'): the run goes on, and so do the samples"]


@promise("policy-10", "A callback that raises is reported once, and monitoring continues.")
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_callback_that_wants_to_exit_does_not_lose_the_outcome(config, kind):
    def fails(sample):
        raise kind("of the callback")
    outcome = SandboxExecutor(config).execute("import time; time.sleep(0.5); print('done')", on_usage=fails)
    assert outcome.success and outcome.output == "done\n" and isinstance(outcome.usage_error, kind)


def test_a_slow_callback_delays_the_result_by_one_call(config):
    calls = []

    def is_slow(sample):
        calls.append(sample)
        time.sleep(3)
    began = time.monotonic()
    outcome = SandboxExecutor(config).execute("import time; time.sleep(0.6)", on_usage=is_slow)
    assert outcome.success and len(calls) == 1 and len(outcome.samples) == 2, (calls, outcome.samples, time.monotonic() - began)


def test_the_longest_time_of_a_trust_level(config):
    """The server has another maximum."""
    config.write_text(CONFIG + "    timeout_max: 120\n  short: {timeout: 5, timeout_max: 7s}\n")
    for timeout in (8, 7.5, "8s", "1m", "1h"):
        with pytest.raises(LimitError, match='above timeout_max, which is 7s at trust level "short"'):
            SandboxExecutor(config).execute("1", "short", timeout=timeout)
    for timeout in ("abc", True, "1e9", float("nan")):
        with pytest.raises((UsageError, LimitError), match="timeout"):
            SandboxExecutor(config).execute("1", "short", timeout=timeout)
    assert SandboxExecutor(config).execute("print(1)", "short", timeout="7s").success


def test_scratch_only_of_a_file(config):
    config.write_text(CONFIG + "scratch_only: true\n")
    outcome = SandboxExecutor(config).execute("import os\nprint(os.getcwd())\ntry:\n    open('/tmp/x', 'w')\nexcept OSError as error:\n    print('refused')")
    assert outcome.output == "/tmp/sandbox\nrefused\n", outcome


FORKS = """
import os
try:
    for i in range(200):
        if os.fork() == 0: os.read(os.pipe()[0], 1)
finally:
    raise SystemExit(1)
"""


@promise("policy-8", "Limits of processor, memory, time and tasks are enforced, and the result names the one that was hit.")
@pytest.mark.parametrize("code, violation", [("while True: pass", "timeout"), ("x = b'x' * (1 << 30)", "memory"),
                                             pytest.param(FORKS, "pids", marks=pytest.mark.needs("task limit"))])
def test_violations_are_told(config, code, violation):
    outcome = SandboxExecutor(config).execute(code, "untrusted", timeout=3 if violation == "timeout" else None)
    assert not outcome.success and (outcome.violation == violation or (violation == "memory" and "MemoryError" in outcome.error)), outcome
    assert outcome.message


def test_a_failure_of_the_code_is_no_violation(config):
    outcome = SandboxExecutor(config).execute("1 / 0")
    assert not outcome.success and outcome.violation is None and "ZeroDivisionError" in outcome.error and outcome.verdict == "error"


def test_a_wrong_file_is_told_with_its_place(tmp_path):
    path = tmp_path / "sandbox.yaml"
    path.write_text("mem_limit: much\n")
    with pytest.raises(PolicyError, match="sandbox.yaml:1:12"):
        SandboxExecutor(path).execute("print(1)")
    with pytest.raises(PolicyError, match="nosuch"):
        SandboxExecutor().execute("print(1)", "nosuch")


@promise("policy-12", "Containers are removed after each run.")
def test_nothing_is_left(config):
    from glovebox import Client
    before = {session.id for session in Client().sessions()}
    SandboxExecutor(config).execute("while True: pass", timeout=0.5)
    assert {session.id for session in Client().sessions()} <= before
