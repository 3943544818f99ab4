"""Connections to a PostgreSQL database, and what is said where there is none.

Connections notice within about 20 s that the network or the server's machine is gone: by TCP
keepalives while nothing is sent, by `tcp_user_timeout` while something is. A URL may set these itself.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow

from agentgraph.errors import SaverError
from agentgraph.journal.savers.urls import is_ambiguous, without_password
from agentgraph.safe_repr import reason

Connection = psycopg.Connection[TupleRow]

UNANSWERED_SECONDS = 10
"""After how long a connection is lost if the server's machine acknowledges nothing."""
_DEFAULTS: Mapping[str, str | int] = {
    "fallback_application_name": "agentgraph",
    "connect_timeout": UNANSWERED_SECONDS,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 1000 * UNANSWERED_SECONDS,
}
"""Parameters of connections that a URL may set otherwise; the last one in milliseconds."""
_FEWER = (
    "have fewer processes, because each saver holds one for the locks of its runs and up to "
    "max_connections for reads and writes; or raise the limit, such as the server's max_connections"
)
_ADVICE = {
    "too many clients": _FEWER,
    "connection slots": _FEWER,
    "too many connections": _FEWER,
    "already closed": "use the runner while its saver is open",
    "permission denied": "have its owner open it once, or grant CREATE on the schema to the user",
    "password": "correct the password, in the URL, PGPASSWORD or ~/.pgpass",
    "does not exist": "create it, or name another one in the URL",
}
_PERCENT = "in its user and password write characters such as @, / and : as urllib.parse.quote does"


_MARK = "agentgraph.session"
"""A setting of a session, by which it is known."""


class Database:
    """A database, by its URL.

    Attributes:
        name: The URL without its password.
        parameters: The connection parameters, with the password.
    """

    def __init__(self, url: str) -> None:
        """Read a URL; nothing is connected yet.

        Raises:
            SaverError: It is malformed.
        """
        if is_ambiguous(url):  # what is shown of it could be part of the password
            raise SaverError(f"the URL of the database has an @ too many; {_PERCENT}")
        self.name = without_password(url)
        try:
            given = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            malformed = f"{self.name} cannot be read as the URL of a database"
        else:
            self.parameters: dict[str, Any] = {**_DEFAULTS, **given}
            return
        raise SaverError(f"{malformed}; {_PERCENT}, and parameters as libpq names them")

    def connect(self) -> Connection:
        """Return a new connection that commits each statement.

        Raises:
            SaverError: There is none to be had.
        """
        try:
            return psycopg.connect(autocommit=True, **self.parameters)
        except psycopg.Error as error:
            raise self.error("cannot be opened", error) from error

    def error(self, what: str, error: psycopg.Error, thread_id: str | None = None) -> SaverError:
        """Return the error to raise from one of psycopg.

        Args:
            what: The state that the database cannot have, or why it was asked.
            error: The error.
            thread_id: The thread that it is about.
        """
        said = self.reason(error)
        return SaverError(f"{self.name} {what}: {said}; {_advice(said)}", thread_id=thread_id)

    def reason(self, error: psycopg.Error) -> str:
        """Return the text of an error of psycopg, without passwords."""
        text = reason(error)
        for key in ("password", "sslpassword"):
            if secret := self.parameters.get(key):
                text = text.replace(str(secret), "***")
        return text


def check_connection(connection: psycopg.Connection[object]) -> None:
    """Raise an error if an idle connection is known here to be lost; the server is not asked.

    That is so once the server has closed it, or TCP has given it up.

    Raises:
        psycopg.OperationalError: It is lost.
    """
    for _ in range(2):  # first there may be why it was closed
        if connection.closed:
            raise psycopg.OperationalError("the connection is closed")
        connection.pgconn.consume_input()


def check_sessions(database: Database, one: Connection, other: Connection) -> None:
    """Refuse a pooler that does not keep a connection on one session of the server.

    There a setting of one connection is seen by another one, or is gone in the next statement.

    Args:
        database: The database.
        one: A connection.
        other: Another one.

    Raises:
        SaverError: There is such a pooler, or the server cannot be asked.
    """
    marked, seen = (
        "SELECT pg_backend_pid(), set_config(%s, %s, false)",
        "SELECT current_setting(%s, true)",
    )
    pid, mark = "SELECT pg_backend_pid()", uuid4().hex
    try:
        before = one.execute(marked, [_MARK, mark]).fetchone()
        seen_by_other = other.execute(seen, [_MARK]).fetchone()
        there = one.execute(f"{pid}, current_setting(%s, true)", [_MARK]).fetchone()
    except psycopg.Error as error:
        raise database.error("cannot be asked for its sessions", error) from error
    if before != there or (seen_by_other and seen_by_other[0] == mark):
        raise SaverError(
            f"{database.name}: a pooler in its transaction mode is before the server, so that no "
            "session, and no lock of a thread, stays on one connection; connect to the server itself, "
            "or set the pooler to its session mode"
        )


def _advice(said: str) -> str:
    for words, way in _ADVICE.items():
        if words in said:
            return way
    return "look whether its server runs, and can be reached from here; then try again"
