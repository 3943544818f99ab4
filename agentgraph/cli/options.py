"""What commands share: their options, and how they refuse."""

import json
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

from agentgraph.cli.session import WRONG_USE
from agentgraph.safe_repr import cut
from agentgraph.show.lines import without_controls

_SHOWN = 200
"""How many characters of a wrong option are repeated."""

F = TypeVar("F", bound=Callable[..., Any])


class Refusal(click.ClickException):
    """An error of the user: a message on standard error, and exit code 2."""

    exit_code = WRONG_USE

    def format_message(self) -> str:
        """Return the message without control characters."""
        return without_controls(self.message)


def options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator that adds several options in order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object that an option is.

    Raises:
        click.BadParameter: It is none.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{cut(text, _SHOWN)!r} is not JSON ({error}).") from None
    if not isinstance(values, dict):
        shown = cut(text, _SHOWN)
        raise click.BadParameter(f'{shown!r} is not a JSON object such as {{"topic": "bees"}}.')
    return values


thread_argument = click.argument("thread", metavar="THREAD")
db_option = click.option(
    "--db",
    metavar="PATH",
    default="agentgraph.db",
    show_default=True,
    help="The SQLite file in which threads are saved.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print each event as a line of JSON, and ask nothing."
)


def existing(db: str) -> str:
    """Return the path of a file that exists.

    Raises:
        Refusal: It does not exist.
    """
    if not Path(db).is_file():
        is_folder = bool(db) and Path(db).is_dir()
        what = f"{db} is a folder" if is_folder else f"there is no file {db or repr(db)}"
        raise Refusal(f"{what}; name the file of the thread by --db")
    return db
