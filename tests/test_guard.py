"""The tests, and every process that they start, reach the loopback address only."""

import socket
import subprocess
import sys

import pytest
from guarded.guard import OutsideConnectionError

OUTSIDE = [
    ("192.0.2.1", 80),
    ("example.org", 443),
    ("2001:db8::1", 80, 0, 0),
    ("::ffff:192.0.2.1", 80, 0, 0),
]


@pytest.mark.parametrize("address", OUTSIDE)
@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_a_test_cannot_leave_the_machine(address: tuple[object, ...], method: str) -> None:
    family = socket.AF_INET6 if len(address) == 4 else socket.AF_INET
    with socket.socket(family) as made, pytest.raises(OutsideConnectionError, match="loopback"):
        getattr(made, method)(address)


def test_the_loopback_address_is_open() -> None:
    with socket.socket() as listening, socket.socket() as made:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        made.connect(listening.getsockname())


def test_neither_can_a_process_that_a_test_starts() -> None:
    code = "import urllib.request; urllib.request.urlopen('http://192.0.2.1/', timeout=1)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "OutsideConnectionError" in child.stderr
