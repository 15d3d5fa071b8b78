# SPDX-License-Identifier: Apache-2.0
"""The promises of the five systems, and the tests that prove them.

A test quotes what it proves: `@promise("annie-4", "The result has stdout, stderr and returncode.")`. The tables of docs/promises.md
have the same numbers and sentences; test_promises.py compares the two. `python3 tests/compat/promises.py` prints the tables.
"""
import ast
import pathlib

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
SYSTEMS = {
    "annie": "execute_python of a chat assistant (`glovebox.compat.annie`)",
    "ironclaw": "A sandbox for Open Interpreter (`glovebox.compat.ironclaw`)",
    "dolphin": "A sandbox for a reasoning loop (`glovebox.compat.dolphin`)",
    "policy": "Containers by a policy file (`glovebox.compat.policy`)",
    "agentcore": "A hardened image and a tool class (`glovebox.compat.agentcore`)",
}
#: A test that does not run on each backend, and where it runs.
WHERE = {
    **dict.fromkeys(("test_an_image_is_pulled", "test_names_of_our_own_images_are_never_pulled", "test_an_engine_that_is_not_running",
                     "test_no_permission_on_the_socket", "test_an_image_that_is_not_there", "test_the_command_that_builds_it",
                     "test_use_docker_means_it", "test_the_tool_tells_instead_of_raising", "test_the_libraries_of_the_reasoning_loop",
                     "test_the_libraries_of_the_assistant", "test_the_image_with_plain_docker", "test_the_image_with_no_options",
                     "test_the_image_is_built_again", "test_the_image_is_built_on_another_base", "test_the_packages_of_the_tool",
                     "test_the_image_that_was_named_is_the_boxs", "test_the_policy_file_chooses"), "Docker"),
    **dict.fromkeys(("test_code_runs_in_a_container", "test_it_is_a_container_of_the_engine"), "not native"),
    **dict.fromkeys(("test_a_video_downloader_is_there", "test_the_other_data_libraries_are_there"), "native"),
    **dict.fromkeys(("test_the_hosts_network_can_be_asked_for", "test_the_network_can_be_enabled", "test_a_fork_bomb_is_stopped"), "not gVisor"),
}


def promise(number, sentence):
    """Says that the test proves the promise with this number, in these words. It changes nothing about the test."""
    system, _, digits = number.partition("-")
    assert system in SYSTEMS and digits.isdigit() and sentence.endswith("."), (number, sentence)
    return pytest.mark.promise(number, sentence)


def _quoted(function):
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "promise":
            yield tuple(argument.value for argument in decorator.args)


def found():
    """{(number, sentence): [names of tests]}, by system and number."""
    rows = {}
    for path in sorted((TESTS / "compat").glob("test_*.py")):
        for function in ast.parse(path.read_text()).body:
            for row in _quoted(function) if isinstance(function, ast.FunctionDef) else ():
                rows.setdefault(row, []).append(f"{path.stem}.{function.name}")
    order = list(SYSTEMS)
    return dict(sorted(rows.items(), key=lambda item: (order.index(item[0][0].split("-")[0]), int(item[0][0].split("-")[1]))))


def _where(test):
    place = WHERE.get(test.partition(".")[2])
    return f" ({place})" if place else ""


def tables():
    """As docs/promises.md has them: {system: lines}."""
    lines = {system: ["| no. | promise | test |", "|---|---|---|"] for system in SYSTEMS}
    for (number, sentence), tests in found().items():
        names = "<br>".join(f"`{test}`{_where(test)}" for test in tests)
        lines[number.split("-")[0]].append(f"| {number.split('-')[1]} | {sentence} | {names} |")
    return lines


if __name__ == "__main__":
    for name, text in tables().items():
        print(f"## {SYSTEMS[name]}\n")
        print("\n".join(text) + "\n")
