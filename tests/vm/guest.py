# SPDX-License-Identifier: Apache-2.0
"""Runs inside the virtual machine, as root, started by init.c. Standard output is the report."""
import pathlib
import platform
import sys
import time
import traceback

import guest_apparmor
import guest_cgroup
import guest_quota
import guest_server
import guest_systemd
from guest_host import IS_V1, Skip, clean_up


def wanted():
    words = pathlib.Path("/proc/cmdline").read_text().split()
    return [w for word in words if word.startswith("vm.only=") for w in word[8:].split(",")]


def one(name, function, *args):
    start = time.monotonic()
    try:
        for note in function(*args) or []:
            print(f"@vm note {name}: {note}")
    except Skip as reason:
        print(f"@vm skip {name} {reason}")
    except Exception as error:
        print(f"@vm fail {name} {time.monotonic() - start:.1f}")
        # An assertion says all there is to say; of anything else the place matters.
        print(error if isinstance(error, AssertionError) else traceback.format_exc())
        clean_up()
    else:
        print(f"@vm pass {name} {time.monotonic() - start:.1f}")


def tests():
    if pathlib.Path("/run/systemd/system").exists():
        return guest_systemd.tests()
    return [*guest_cgroup.tests(), *([] if IS_V1 else [*guest_quota.tests(), *guest_apparmor.tests(), *guest_server.tests()])]


def main():
    only = wanted()
    print(f"@vm note kernel {platform.release()}, up {time.monotonic():.1f} s")
    for name, function, *args in tests():
        if not only or any(word in name for word in only):
            one(name, function, *args)
    print("@vm done")


if __name__ == "__main__":
    sys.exit(main())
