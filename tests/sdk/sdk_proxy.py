# SPDX-License-Identifier: Apache-2.0
"""A proxy that cuts connections where a test wants it.

`plan` is one entry for each connection to come, None: as it is; a number: the connection is cut, on both sides, when so many bytes of
the answers have gone through. With 0 that is when the answer begins, so the server has done all of the request. After the plan, all is
passed on. "refuse": the connection is closed before anything was read. "hold": the request is passed on, and the answer is not.
"""
import os
import selectors
import shutil
import socket
import tempfile
import threading


class Proxy:
    def __init__(self, target, plan=()):
        self.target, self.plan = target, list(plan)
        self.directory = tempfile.mkdtemp(prefix="gbtest-proxy-")
        self.path = os.path.join(self.directory, "proxy.sock")
        self.requests = []  # what each connection sent
        self.cuts = self.held = 0
        self._threads, self._open, self._lock = [], set(), threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(64)
        self._acceptor = threading.Thread(target=self._accept, daemon=True)

    @property
    def address(self):
        return f"unix:{self.path}"

    @property
    def sent(self):
        """All that came from clients."""
        return b"".join(bytes(each) for each in self.requests)

    def __enter__(self):
        self._acceptor.start()
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(10)
        self._listener.close()
        self.cut_all()
        self.join()
        shutil.rmtree(self.directory)

    def join(self):
        """Waits until all connections have ended, which their clients have to do."""
        for thread in self._threads:
            thread.join(10)
        self._threads = []

    def cut_all(self):
        """Cuts what is connected now."""
        with self._lock:
            for each in self._open:
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            limit = self.plan.pop(0) if self.plan else None
            if limit == "refuse":
                near.close()
                self.cuts += 1
                continue
            thread = threading.Thread(target=self._serve, args=(near, limit), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, near, limit):
        with near, socket.socket(socket.AF_UNIX) as far, selectors.DefaultSelector() as selector:
            far.connect(self.target)
            log = bytearray()
            self.requests.append(log)
            with self._lock:
                self._open.add(near)
            try:
                self._pump(near, far, selector, limit, log)
            except OSError:
                pass
            finally:
                with self._lock:
                    self._open.discard(near)

    def _pump(self, near, far, selector, limit, log):
        selector.register(near, selectors.EVENT_READ, (far, True))
        selector.register(far, selectors.EVENT_READ, (near, False))
        passed = 0
        while True:
            for key, _ in selector.select():
                to, from_client = key.data
                data = key.fileobj.recv(65536)
                if not data:
                    return
                if from_client:
                    log += data
                elif limit == "hold":
                    self.held += 1
                    continue
                elif limit is not None:
                    data = data[:limit - passed]
                    passed += len(data)
                to.sendall(data)
                if isinstance(limit, int) and not from_client and passed >= limit:
                    self.cuts += 1
                    return
