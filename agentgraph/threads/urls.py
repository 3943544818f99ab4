"""URLs of databases: what tells them from paths, and how they are shown without their passwords."""

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
    rest, _, query = name[found.end() :].partition("?")
    at, _, database = rest.partition("/")
    userinfo, _, hosts = at.rpartition("@")
    user = userinfo.partition(":")[0]
    shown = [(key, value) for key, value in parse_qsl(query) if key in _SHOWN]
    return (
        f"{found[0]}{user}{'@' * bool(user)}{','.join(map(_host, hosts.split(',')))}/{database}"
        f"{'?' * bool(shown)}{urlencode(shown, safe='/')}"
    )


def is_ambiguous(url: str) -> bool:
    """Return whether characters of its password may have been read as parts of a URL."""
    rest = url.partition("://")[2].partition("?")[0]
    return rest.count("@") > 1 or "@" in rest.partition("/")[2] or "#" in rest


def _host(host: str) -> str:
    """Return a host with its port; a port that is none may be part of a password."""
    return host if re.search(r"(^|\]|:\d+|^[^:]*)$", host) else host.partition(":")[0]
