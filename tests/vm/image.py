# SPDX-License-Identifier: Apache-2.0
"""The parts of the test machine: a kernel from Debian's archive, and disk images made of files of this
host. Nothing is installed, nothing needs root."""
import os
import pathlib
import re
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
KERNEL_PACKAGE = "linux-image-cloud-amd64"  # has nvme, ext4 and the serial port built in: no initramfs
MODULES = ["quota_tree", "quota_v2"]        # in the order of their dependencies
PROGRAMS = ["apparmor_parser", "bash", "cat", "chmod", "cp", "dd", "env", "false", "head", "id", "kill", "ls", "mkdir", "mkswap", "mount", "python3",
            "rm", "seq", "sh", "sleep", "swapoff", "swapon", "true", "umount", "unshare", "yes"]
MERGED = ["bin", "lib", "lib64", "sbin"]
CFLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-static"]
ROOT_SIZE, QUOTA_SIZE = "1g", "128m"
SYSTEMD = pathlib.Path("/usr/lib/systemd")
TARGETS = ["basic", "final", "local-fs", "multi-user", "network", "paths", "poweroff", "shutdown", "slices", "sockets", "swap", "sysinit", "timers", "umount"]
TEST_UNIT = """[Unit]
Wants=glovebox.socket
After=glovebox.socket
[Service]
Type=oneshot
ExecStart=/usr/bin/python3 /vm/guest.py
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS1
TimeoutStartSec=600
ExecStopPost=/usr/bin/systemctl poweroff --force --force
"""


def call(*argv, **options):
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"vm: {' '.join(map(str, argv))} failed:\n{done.stdout}")
    return done.stdout


def fetch_kernel(work):
    """Downloads and unpacks Debian's kernel, once; the directory that has boot/ and lib/."""
    target = work / "kernel"
    if not any(target.glob("boot/vmlinuz-*")):
        package = re.search(r"Depends: (linux-image-\S+)", call("apt-cache", "depends", KERNEL_PACKAGE))
        if not package:
            raise SystemExit(f"vm: this host's package lists have no {KERNEL_PACKAGE}; name an unpacked kernel with --kernel")
        debs = work / "deb"
        shutil.rmtree(debs, ignore_errors=True)
        debs.mkdir()
        call("apt-get", "download", package[1], cwd=debs)
        call("dpkg-deb", "-x", next(debs.glob("*.deb")), target)
        shutil.rmtree(debs)
    return target


def libraries(files):
    """What the dynamic linker would load for these files."""
    text = subprocess.run(["ldd", *map(str, files)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return set(re.findall(r"(?:=> |^\s)(/\S+) \(0x", text, re.MULTILINE))


class Tree:
    """A directory that becomes a file system."""

    def __init__(self, top):
        self.top = top
        shutil.rmtree(top, ignore_errors=True)
        for name in ["usr", "etc", "proc", "sys", "dev", "run", "tmp", "root", "vm", "srv", "mnt"]:
            (top / name).mkdir(parents=True)
        for name in MERGED:
            (top / "usr" / name).mkdir()
            (top / name).symlink_to(f"usr/{name}")

    def add(self, source, target=None):
        """A file, with the name it has here; what it links to is copied, not linked."""
        source = pathlib.Path(source)
        name = target or f"{os.path.realpath(source.parent)}/{source.name}"
        place = self.top / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            shutil.copy(source, place)

    def add_program(self, name):
        path = shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin")
        if not path:
            raise SystemExit(f"vm: this host has no {name}")
        self.add(path)
        return path

    def add_libraries(self, files):
        for library in libraries(files):
            self.add(library)

    def add_python(self):
        """The standard library of /usr/bin/python3; returns its extension modules."""
        library = pathlib.Path(call("/usr/bin/python3", "-c", "import os; print(os.path.dirname(os.__file__))").strip())
        skip = shutil.ignore_patterns("test", "tests", "idlelib", "tkinter", "lib2to3", "ensurepip", "dist-packages", "config-*")
        shutil.copytree(library, self.top / str(library).lstrip("/"), ignore=skip, dirs_exist_ok=True)
        return list(library.glob("lib-dynload/*.so"))


def has_systemd():
    return (SYSTEMD / "systemd").exists()


def add_systemd(tree):
    """This host's systemd, as little of it as boots, with our units and one that runs the tests; returns its programs."""
    files = [SYSTEMD / "systemd", SYSTEMD / "systemd-shutdown", pathlib.Path(tree.add_program("systemctl"))]
    files += [p for place in (SYSTEMD, pathlib.Path("/usr/lib/x86_64-linux-gnu/systemd")) for p in place.glob("*.so")]
    for file in files:
        tree.add(file)
    units = tree.top / "usr/lib/systemd/system"
    (units / "multi-user.target.wants").mkdir(parents=True)
    for name in [*(f"{target}.target" for target in TARGETS), "systemd-poweroff.service"]:
        tree.add(SYSTEMD / "system" / name, f"/usr/lib/systemd/system/{name}")
    for unit in (tree.top / "usr/local/lib/systemd/system").glob("glovebox.*"):
        tree.add(unit, f"/usr/lib/systemd/system/{unit.name}")
    (units / "default.target").symlink_to("multi-user.target")
    (units / "tests.service").write_text(TEST_UNIT)
    (units / "multi-user.target.wants/tests.service").symlink_to("../tests.service")
    for name in ["var/lib", "var/log", "var/tmp", "home", "usr/lib/modules"]:
        (tree.top / name).mkdir(parents=True, exist_ok=True)
    (tree.top / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    (tree.top / "etc/os-release").write_text("ID=test\nNAME=test\n")
    return files


def make_root(work, build, kernel):
    tree = Tree(work / "root")
    files = [tree.add_program(name) for name in PROGRAMS] + tree.add_python()
    call("meson", "install", "-C", build, "--no-rebuild", "--destdir", tree.top)
    files += [p for p in (tree.top / "usr/local").rglob("*") if p.is_file() and os.access(p, os.X_OK)]
    files += add_systemd(tree) if has_systemd() else []
    tree.add_libraries(files)
    for name in ["abi", "tunables"]:
        shutil.copytree(f"/etc/apparmor.d/{name}", tree.top / "etc/apparmor.d" / name)
    for name in MODULES:
        tree.add(next(kernel.glob(f"lib/modules/*/kernel/**/{name}.ko")), f"/vm/modules/{name}.ko")
    for name in ["init", "projquota"]:
        call("cc", *CFLAGS, "-o", tree.top / "vm" / name, HERE / f"{name}.c")
    for source in [*HERE.glob("guest*.py")]:
        tree.add(source, f"/vm/{source.name}")
    (tree.top / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nuser:x:4242:4242::/tmp:/bin/sh\nglovebox:x:990:990::/var/lib/glovebox:/bin/false\n")
    (tree.top / "etc/group").write_text("root:x:0:\nuser:x:4242:\nglovebox:x:990:\n")
    image = work / "root.ext4"
    image.unlink(missing_ok=True)
    call("mke2fs", "-q", "-t", "ext4", "-E", "root_owner=0:0", "-d", tree.top, image, ROOT_SIZE)
    return image


def make_quota_disk(work):
    """An empty ext4 that can count by project."""
    image = work / "quota.ext4"
    image.unlink(missing_ok=True)
    call("mke2fs", "-q", "-t", "ext4", "-O", "quota,project", "-E", "quotatype=prjquota", image, QUOTA_SIZE)
    return image
