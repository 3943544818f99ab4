"""What all tests share: OpenAI's protocol on the loopback address, and no way to any other."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import commands
import pytest
from driving import Async, Drive, Sync
from openai_server import OpenAIServer, serving


class OutsideConnectionError(RuntimeError):
    """A test tried to leave the machine; no OSError, so that no client takes it for bad luck."""


@pytest.fixture
def openai_server() -> Iterator[OpenAIServer]:
    with serving() as server:
        yield server
    assert server.errors == []


@pytest.fixture(params=[Sync, Async])
def drive(request: pytest.FixtureRequest) -> Drive:
    """Run a test on the sync and on the async methods of the runner."""
    driver: Drive = request.param
    return driver


@pytest.fixture(scope="module")
def forker() -> Iterator[subprocess.Popen[str]]:
    with commands.serving() as forker:
        yield forker


@pytest.fixture
def command(forker: subprocess.Popen[str], tmp_path: Path) -> Iterator[commands.Commands]:
    command = commands.Commands(forker, tmp_path)
    yield command
    command.stop()


@pytest.fixture(autouse=True, scope="session")
def loopback_only() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))
        yield


def _guarded(connect: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: socket.socket, address: Any) -> Any:
        if self.family != getattr(socket, "AF_UNIX", None) and not _is_loopback(address):
            self.close()
            raise OutsideConnectionError(
                f"a test tried to connect to {address!r}; tests reach the loopback address only"
            )
        return connect(self, address)

    return guarded


def _is_loopback(address: Any) -> bool:
    host = address[0] if isinstance(address, tuple) and address else address
    try:
        found = ip_address(host)
    except ValueError:
        return bool(host == "localhost")
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback
