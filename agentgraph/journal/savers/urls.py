"""URLs of databases: how they differ from paths, and how they are shown without their passwords."""

import re
from urllib.parse import parse_qsl, urlencode

from agentgraph.errors import AgentGraphError

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SCHEMES = ("postgresql", "postgres")
_SHOWN = ("host", "port", "user", "dbname")
"""The parameters that a URL is shown with: nothing secret."""


def is_database_url(name: object) -> bool:
    """Return whether a name is the URL of a PostgreSQL database; other names are paths.

    >>> is_database_url("postgresql://ann@db.example.org/runs"), is_database_url("runs.db")
    (True, False)

    Raises:
        AgentGraphError: It is a URL of another kind.
    """
    if not isinstance(name, str) or (found := _URL.match(name)) is None:
        return False
    if found[1].lower() not in _SCHEMES:
        raise AgentGraphError(
            f"threads cannot be stored at a URL that begins with {found[0]}; pass "
            "postgresql://user@host/database for PostgreSQL, or the path of a file for SQLite"
        )
    return True


def without_password(name: str) -> str:
    """Return a URL as it may be shown; a path as it is.

    >>> without_password("postgresql://ann:secret@db.example.org/runs?sslmode=require")
    'postgresql://ann@db.example.org/runs'
    """
    if (found := _URL.match(name)) is None:
        return name
    userinfo, rest = _parts(name[found.end() :])
    rest, _, query = rest.partition("?")
    hosts, _, database = rest.partition("/")
    user = userinfo.partition(":")[0]
    shown = [(key, value) for key, value in parse_qsl(query) if key in _SHOWN]
    return (
        f"{found[0]}{user}{'@' * bool(user)}{','.join(map(_host, hosts.split(',')))}/{database}"
        f"{'?' * bool(shown)}{urlencode(shown, safe='/')}"
    )


def is_ambiguous(url: str) -> bool:
    """Return whether characters of its password may have been read as other parts of a URL."""
    return "@" in _parts(url.partition("://")[2])[1].partition("?")[0]


def _parts(text: str) -> tuple[str, str]:
    """Return the text before the first "@", unless that comes after a "/"; and the rest."""
    found = re.match(r"([^/@]*)@", text)
    return (found[1], text[found.end() :]) if found else ("", text)


def _host(host: str) -> str:
    """Return a host with its port; a port that is none may be part of a password."""
    return host if re.search(r"(^|\]|:\d+|^[^:]*)$", host) else host.partition(":")[0]
