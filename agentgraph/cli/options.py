"""Options and arguments that several commands have."""

import json
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TypeVar

import click

from agentgraph.cli.session import WRONG_USE
from agentgraph.cli.target import Target
from agentgraph.events.json_forms import JsonObject
from agentgraph.journal.savers.urls import is_database_url
from agentgraph.safe_repr import cut
from agentgraph.show.lines import without_controls
from agentgraph.threads.runner import Runner

F = TypeVar("F", bound=Callable[..., object])
_LONGEST = 200
"""How many characters of a wrong option are repeated."""


def json_object(text: str) -> JsonObject:
    """Return the JSON object that an option is.

    Raises:
        click.BadParameter: It is none.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{cut(text, _LONGEST)!r} is not JSON ({error}).") from None
    if not isinstance(values, dict):
        start = cut(text, _LONGEST)
        raise click.BadParameter(f'{start!r} is not a JSON object such as {{"topic": "bees"}}.')
    return values


class UserError(click.ClickException):
    """An error of the user: a message on standard error, and exit code 2."""

    exit_code = WRONG_USE

    def format_message(self) -> str:
        """Return the message without control characters."""
        return without_controls(self.message)


def options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator that adds several options in order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


thread_argument = click.argument("thread", metavar="THREAD")


db_option = click.option(
    "--db",
    metavar="PATH",
    default="agentgraph.db",
    show_default=True,
    help="The SQLite file in which threads are saved, or postgresql://USER@HOST/NAME, with the "
    "password in PGPASSWORD or ~/.pgpass.",
)


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print each event as a line of JSON, and ask nothing."
)


def existing(db: str) -> str:
    """Return the path of a file that exists, or the URL of a database.

    Raises:
        UserError: It does not exist.
    """
    if is_database_url(db):
        return db
    if not Path(db).is_file():
        is_folder = bool(db) and Path(db).is_dir()
        what = f"{db} is a folder" if is_folder else f"there is no file {db or repr(db)}"
        raise UserError(f"{what}; name the file of the thread by --db")
    return db


def runner_of(target: Target, db: str) -> Runner:
    """Return a runner of a tree for the threads of an existing file or database."""
    return Runner(target.load(), checkpointer=existing(db), allow=target.types())
