"""The command `inspect`: serves the window, a page about the runs of a tree."""

import hashlib
import hmac
import os
import secrets
import signal
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentgraph.cli.loaded import db_of
from agentgraph.cli.options import json_object
from agentgraph.cli.page_trees import PageTrees
from agentgraph.cli.session import STOPPED
from agentgraph.cli.target import Target, takes_target
from agentgraph.errors import AgentGraphError, pip_install
from agentgraph.events.json_forms import JsonObject
from agentgraph.journal.locks import holders
from agentgraph.journal.savers.urls import is_database_url, without_password
from agentgraph.show.lines import without_controls
from agentgraph.threads.live.active_run import ActiveRun

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from agentgraph.window.trees import Trees

ADDRESS, PORT = "127.0.0.1", 8321
_DAY = 24 * 60 * 60.0
_GRACE = 2
"""Maximum seconds for active requests once the server is ending."""


class InspectError(AgentGraphError):
    """The window cannot be served: a package is missing, or the port is in use."""


@click.command()
@takes_target
@click.option(
    "--db",
    metavar="PATH",
    help="The SQLite file of the threads, by default agentgraph.db, created if it is missing; or "
    "postgresql://USER@HOST/NAME, with the password in PGPASSWORD or ~/.pgpass. A Runner with a "
    "checkpointer needs none.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help=f"The port; by default {PORT}, or a free one if that is in use.",
)
@click.option("--config", metavar="JSON", type=json_object, help="LangGraph's config of all runs.")
@click.option(
    "--context", metavar="JSON", type=json_object, help="LangGraph's runtime context of runs."
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def inspect(
    target: Target,
    db: str | None,
    port: int | None,
    config: "RunnableConfig | None",
    context: JsonObject | None,
    no_browser: bool,
) -> None:
    """Open a page about the runs of a tree: their progress, questions, costs and reruns.

    A file or folder with several trees is one page with a choice. Each tree shows its own threads.

    The server listens on this machine only, and the printed address contains its token. Ctrl-C ends
    the server and stops the runs that the page started, before their next steps; each can be resumed.
    """
    _check_installed()
    with ExitStack() as opened, _listening(port) as listener:
        loading = PageTrees(target, db, opened, config, context)
        trees = loading.page(_title(target))
        bound: int = listener.getsockname()[1]
        token = _token(db_of(db), bound)
        address = f"http://{ADDRESS}:{bound}/?token={token}"
        places = ", ".join(loading.places)
        click.echo(without_controls(f"{target.name}, threads in {places}:\n{address}"))
        if not no_browser:
            threading.Thread(target=_open_browser, args=[address], daemon=True).start()
        _serve(trees, listener, token)
    sys.exit(STOPPED)


def _check_installed() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InspectError(
            f"the page needs packages that are not installed ({error.name}): {pip_install('inspect')}"
        ) from None


def _title(target: Target) -> str:
    return without_controls(target.name.rstrip("/").rpartition("/")[2] or target.name)


@contextmanager
def _listening(port: int | None) -> Iterator[socket.socket]:
    """Listen on a port of the loopback address, by default on the usual one or a free one."""
    try:
        listener = socket.create_server((ADDRESS, port or PORT))
    except OSError as error:
        if port is not None:
            raise InspectError(
                f"port {port} of {ADDRESS} cannot be used: {error.strerror}; choose another with --port"
            ) from None
        listener = socket.create_server((ADDRESS, 0))
    with listener:
        # without it, the end of each answer waits 40 ms until the client acknowledges its start
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listener


def _serve(trees: "Trees", listener: socket.socket, token: str) -> None:
    """Serve until Ctrl-C or a termination signal, then stop the runs and wait for their steps."""
    import uvicorn

    from agentgraph.window.app import make_app

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # the handlers below receive the signals, also after the server has ended

    config = uvicorn.Config(
        make_app(trees, token),
        loop="asyncio",
        lifespan="off",
        ws="none",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
    )
    server = Server(config)

    def at_once(*_: object) -> None:
        os._exit(STOPPED)

    def soon(number: int, _: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, at_once)
        server.should_exit = True
        trees.end_updates()
        for run in holders():
            if isinstance(run, ActiveRun):
                run.stop("the server was ended")
        if not trees.is_idle:
            os.write(2, b"Stopping after the running steps; Ctrl-C again stops at once.\n")

    before = {each: signal.signal(each, soon) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run(sockets=[listener])
        trees.close()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _open_browser(address: str) -> None:
    with suppress(webbrowser.Error):
        webbrowser.open(address)


def _token(db: str, port: int) -> str:
    """Return the token of a page: the same for a day, so that open pages survive a restart."""
    name = db if is_database_url(db) else os.path.realpath(db)
    text = f"{port} {without_password(name)}"
    return hmac.new(_secret(), text.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()[:43]


def _secret() -> bytes:
    """Return the day's secret for tokens, stored in a file that only this user may read."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "agentgraph"
    file = folder / "inspect"
    with suppress(OSError):
        found = file.stat()
        is_private = found.st_mode & 0o077 == 0 and found.st_uid == getattr(os, "getuid", lambda: 0)()
        if is_private and time.time() - found.st_mtime < _DAY and found.st_size >= 32:
            return file.read_bytes()
    secret = secrets.token_bytes(32)
    with suppress(OSError):  # then open pages do not survive a restart
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = folder / f"inspect.{os.getpid()}"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(secret)
        new.replace(file)
    return secret
