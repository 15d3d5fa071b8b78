# SPDX-License-Identifier: Apache-2.0
"""105. Code inside connects to the host's loopback, to public, private and metadata addresses and to abstract sockets of the host => unreachable.
"""
import os
import socket


def test_network(box):
    server, local = socket.socket(), socket.socket(socket.AF_UNIX)
    with server, local:
        server.bind(("127.0.0.1", 0))
        server.listen()
        local.bind(f"\0glovebox-test-{os.getpid()}")
        local.listen()
        attack = box.attack("network_out", server.getsockname()[1], f"glovebox-test-{os.getpid()}")
    attack.assert_refused("ENETUNREACH", "ECONNREFUSED", "EPERM")
