"""The start of every process of the tests: it stays on the loopback address, and imports fast."""

import socket
import sys
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any


class OutsideConnectionError(RuntimeError):
    """A test tried to leave the machine; no OSError, so that no client takes it for bad luck."""


def stay_on_loopback(patch: Callable[[Any, str, Any], None] = setattr) -> None:
    """Guard the sockets of this process; `patch` replaces an attribute."""
    for name in ("connect", "connect_ex"):
        patch(socket.socket, name, _guarded(getattr(socket.socket, name)))


def import_fewer_formats() -> None:
    """Have jsonschema leave out a package that JupyterLab brings, and that takes a second to import."""
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


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
