"""A pooler before a PostgreSQL server, as PgBouncer in its transaction mode.

A session of the server serves one transaction of a client, then one of another client.
"""

import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

_READY = b"Z"
_IDLE = b"I"
_SSL = 80877103


class Pooler:
    """Listens on a socket in a folder, and passes transactions to one session of a server.

    Attributes:
        folder: The folder, for the `host` of a URL.
    """

    def __init__(self, folder: Path, server: str) -> None:
        """Make it.

        Args:
            folder: Where it listens.
            server: The path of the server's socket.
        """
        self.folder, self._server_at = folder, server
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / ".s.PGSQL.5432"))
        self._listening.listen()
        self._turn = threading.Lock()
        self._server: socket.socket | None = None
        self._greeting = b""

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        if self._server is not None:
            self._server.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError), client:
            startup = _startup(client)
            with self._turn:
                if self._server is None:
                    self._server = socket.socket(socket.AF_UNIX)
                    self._server.connect(self._server_at)
                    self._server.sendall(startup)
                    self._greeting = self._answer()
            client.sendall(self._greeting)
            while True:
                kind, message = _message(client)
                if kind == b"X":
                    return
                with self._turn:
                    self._transaction(client, message)

    def _transaction(self, client: socket.socket, message: bytes) -> None:
        """Pass on messages of a client until the server is in no transaction."""
        assert self._server is not None
        while True:
            self._server.sendall(message)
            if message[:1] in (b"S", b"Q"):
                answer = self._answer()
                client.sendall(answer)
                if answer[-1:] == _IDLE:
                    return
            _, message = _message(client)

    def _answer(self) -> bytes:
        """Return the messages of the server until it is ready for the next query."""
        assert self._server is not None
        answer = b""
        while True:
            kind, message = _message(self._server)
            answer += message
            if kind == _READY:
                return answer


def _startup(client: socket.socket) -> bytes:
    """Return the first message of a client; encryption is rejected."""
    while True:
        (length,) = struct.unpack("!I", head := _read(client, 4))
        body = _read(client, length - 4)
        if struct.unpack("!I", body[:4]) != (_SSL,):
            return head + body
        client.sendall(b"N")


def _message(one: socket.socket) -> tuple[bytes, bytes]:
    """Return the kind of the next message, and all of it."""
    kind = _read(one, 1)
    (length,) = struct.unpack("!I", head := _read(one, 4))
    return kind, kind + head + _read(one, length - 4)


def _read(one: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        if not (piece := one.recv(size - len(found))):
            raise EOFError
        found += piece
    return found
