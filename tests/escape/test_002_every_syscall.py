# SPDX-License-Identifier: Apache-2.0
"""2. Code inside makes every system call number from 0 to 600 with zero arguments, in a child each
=> the answers are those of the declared list (docs/seccomp.md), unknown numbers answer ENOSYS.
"""
import platform
import re

import pytest
from conftest import ROOT


COLUMNS = {"x86_64": 2, "aarch64": 3}
ZERO = {"0", "PRIO_PROCESS", "SCHED_OTHER", "SOL_IP", "no such bit"}  # names in the list whose value is 0
UNFILTERED = {"x86_64": {335, 336}}  # uretprobe, uprobe: the kernel asks no filter, and kills whoever is not a probe


def refused_at_zero(condition):
    """The errno of a row such as "EPERM unless argument 1 & 0xf is A, B or C" when all is 0, or None."""
    match = re.match(r"(E\w+) (unless|if) (.*?): ", condition)
    errno, sense, rest = match.groups()
    guard, _, tested = rest.rpartition(" and ") if rest.startswith("argument 1 is SOL_") or "and argument" in rest else ("", "", rest)
    if guard and guard.rpartition(" is ")[2] not in ZERO:
        return None
    listed = bool(ZERO & set(re.split(r", | or ", tested.partition(" is ")[2])))
    return errno if listed == (sense == "if") else None


def declared():
    """Number => ("allowed", None) or ("refused", errno) or ("nothing", None)."""
    numbers, column = {}, COLUMNS.get(platform.machine())
    if not column:
        pytest.skip(f"no list for {platform.machine()}")
    for line in (ROOT / "docs/seccomp.md").read_text().splitlines():
        cells = [c.strip() for c in line.split("|")]
        if len(cells) < 7 or not cells[column].isdigit():
            continue
        number, answer = int(cells[column]), cells[4]
        if answer.startswith("refused: "):
            numbers[number] = ("refused", answer.split()[1])
        elif answer.startswith("does nothing"):
            numbers[number] = ("nothing", None)
        else:
            errno = refused_at_zero(cells[5]) if cells[5] else None
            if errno and numbers.get(number, ("allowed",))[0] == "allowed":
                numbers[number] = ("refused", errno)
            numbers.setdefault(number, ("allowed", None))
    return numbers


def test_every_number(box):
    attack = box.attack("syscalls", timeout="30s", pids=64)
    assert attack.finished and len(attack.notes) == 601, attack.result.explain()
    expected, wrong = declared(), {}
    assert len(expected) > 250
    for number in range(601):
        answer, (kind, errno) = attack.notes[str(number)], expected.get(number, ("refused", "ENOSYS"))
        # errno numbers with two names: the C library knows one of them
        errno = {"EOPNOTSUPP": "ENOTSUP", "EWOULDBLOCK": "EAGAIN"}.get(errno, errno)
        answer = {"EOPNOTSUPP": "ENOTSUP"}.get(answer, answer)
        right = {"refused": answer == errno, "nothing": answer == "0", "allowed": answer != "ENOSYS"}[kind]
        if not right and number not in UNFILTERED.get(platform.machine(), ()):
            wrong[number] = f"declared {kind} {errno or ''}, answered {answer}"
    assert not wrong
