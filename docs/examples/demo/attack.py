# What an agent should not have written. Every step is tried; none may work.
import ctypes
import os
import socket


def read_shadow():
    return open("/etc/shadow").read()


def read_ssh_keys():
    return os.listdir("/root/.ssh") + os.listdir("/home")


def reach_the_network():
    return socket.create_connection(("1.1.1.1", 53), timeout=2)


def overwrite_a_program():
    return open("/usr/bin/python3", "wb")


def become_root():
    os.setuid(0)


def see_other_processes():
    pids = [int(p) for p in os.listdir("/proc") if p.isdigit()]
    if max(pids) > 100:
        return pids
    raise PermissionError(f"only our own {sorted(pids)}")


def mount_something():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0:
        return True
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


worked = 0
for step in (read_shadow, read_ssh_keys, reach_the_network, overwrite_a_program, become_root,
             see_other_processes, mount_something):
    try:
        step()
        print(f"  WORKED   {step.__name__}")
        worked += 1
    except OSError as e:
        print(f"  refused  {step.__name__:22} {e}")
raise SystemExit(worked)
