# SPDX-License-Identifier: Apache-2.0
"""Servers that mean harm to the proxy, or to who is behind it: what each says to a request. Every one gets the socket when the request's head has come."""
import contextlib
import socket
import struct
import time

MANY = 1 << 30  # bytes that nobody wants to have


def read_head(plain):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = plain.recv(65536)
        if not piece:
            break
        data += piece
    return data


def flood(plain, piece, total=MANY):
    """Until the other side has enough."""
    with contextlib.suppress(OSError):
        sent = 0
        while sent < total:
            plain.sendall(piece)
            sent += len(piece)


def reset(plain):
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plain.close()


def says(data, then=None):
    def speak(plain):
        plain.sendall(data)
        if then:
            then(plain)

    return speak


OK = b"HTTP/1.1 200 OK\r\n"


def drip(plain):
    """A head that comes slower than anybody waits."""
    for byte in OK + b"X: y\r\n" * 1000:
        plain.sendall(bytes([byte]))
        time.sleep(0.5)


# All of these must end in 502, or in an answer that is cut off, soon and in little memory.
BROKEN_HEADS = {
    "endless field": lambda plain: flood(plain, b"A" * 65536) if plain.sendall(OK + b"X: ") is None else None,
    "endless fields": lambda plain: flood(plain, b"X-Y: z\r\n" * 4096) if plain.sendall(OK) is None else None,
    "endless reason": lambda plain: flood(plain, b"A" * 65536) if plain.sendall(b"HTTP/1.1 200 ") is None else None,
    "endless 100": lambda plain: flood(plain, b"HTTP/1.1 100 Continue\r\n\r\n" * 4096),
    "endless 103": lambda plain: flood(plain, b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 4096),
    "no http": says(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    "http 0.9": says(b"<html>hello</html>\r\n\r\n"),
    "status 99": says(b"HTTP/1.1 99 Low\r\nContent-Length: 0\r\n\r\n"),
    "status 1000": says(b"HTTP/1.1 1000 High\r\nContent-Length: 0\r\n\r\n"),
    "two lengths": says(OK + b"Content-Length: 5\r\nContent-Length: 50\r\n\r\nhello"),
    "length and chunks": says(OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    "negative length": says(OK + b"Content-Length: -5\r\n\r\nhello"),
    "huge length": says(OK + b"Content-Length: 99999999999999999999999999\r\n\r\nhello"),
    "unknown coding": says(OK + b"Transfer-Encoding: xchunked\r\n\r\nhello"),
    "folded field": says(OK + b"X: y\r\n Content-Length: 5\r\n\r\nhello"),
    "space before colon": says(OK + b"Content-Length : 5\r\n\r\nhello"),
    "null in field": says(OK + b"X: y\0z\r\nContent-Length: 5\r\n\r\nhello"),
    "no answer": lambda plain: None,
    "reset": reset,
    "half a head": says(OK + b"X: y"),
    "reset in the head": says(OK + b"X: y", reset),
}
# These begin well: what follows must not be taken for another answer, or kept in memory.
BROKEN_BODIES = {
    "chunk of minus one": says(OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\nhello\r\n0\r\n\r\n"),
    "chunk of 2^64": says(OK + b"Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n"),
    "chunk without digits": says(OK + b"Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n"),
    "chunk of 0x5": says(OK + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"),
    "chunk that is longer": says(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n"),
    "endless extension": lambda plain: flood(plain, b"A" * 65536) if plain.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n5;") is None else None,
    "endless trailers": lambda plain: flood(plain, b"X-Y: z\r\n" * 4096) if plain.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n") is None else None,
    "ends too early": says(OK + b"Content-Length: 500\r\n\r\nhello"),
    "reset in the body": says(OK + b"Content-Length: 500\r\n\r\nhello", reset),
    "second answer": says(OK + b"Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned"),
    "body of 204": says(b"HTTP/1.1 204 No Content\r\nContent-Length: 8\r\n\r\npoisoned"),
    "body of 304": says(b"HTTP/1.1 304 Not Modified\r\n\r\npoisoned"),
}


def after_the_head(function):
    def speak(plain):
        read_head(plain)
        function(plain)

    return speak
