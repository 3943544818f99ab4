"""Options and arguments shared by several commands."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import TypeVar

import click

from agentgraph.cli.session import WRONG_USE
from agentgraph.cli.target import Target
from agentgraph.events.json_forms import JsonObject
from agentgraph.safe_repr import cut
from agentgraph.show.lines import without_controls
from agentgraph.threads.runner import Runner

F = TypeVar("F", bound=Callable[..., object])
_LONGEST = 200
"""Maximum number of characters shown of a wrong option."""


def json_object(text: str) -> JsonObject:
    """Parse an option as a JSON object.

    Raises:
        click.BadParameter: The text is not a JSON object.
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


def print_skipped(why: str) -> None:
    """Print on standard error why a thread is left out."""
    click.echo(without_controls(f"Skipped: {why}"), err=True)


def options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Combine several options, in order, in one decorator."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


thread_argument = click.argument("thread", metavar="THREAD")


db_option = click.option(
    "--db",
    metavar="PATH",
    help="The SQLite file of the threads, by default agentgraph.db, or postgresql://USER@HOST/NAME, "
    "with the password in PGPASSWORD or ~/.pgpass. A Runner with a checkpointer needs none.",
)


def number_option(name: str, default: int, help: str, least: int = 1) -> Callable[[F], F]:
    """Return an option that is a number, with its default in its help."""
    number = click.IntRange(min=least)
    return click.option(name, metavar="N", type=number, default=default, show_default=True, help=help)


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print each event as a line of JSON, and ask nothing."
)


class _Printed(logging.Handler):
    """Prints log records on standard error, which a live tree moves above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        click.echo(without_controls(self.format(record)), err=True)


def _log_to_stderr(ctx: click.Context, _: click.Parameter, count: int) -> None:
    if count:
        log, handler = logging.getLogger("agentgraph"), _Printed()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO if count == 1 else logging.DEBUG)
        ctx.call_on_close(lambda: log.removeHandler(handler))


verbose_option = click.option(
    "-v",
    "--verbose",
    count=True,
    expose_value=False,
    callback=_log_to_stderr,
    help="Log runs, questions and failures on standard error; -vv logs each activation too.",
)


@contextmanager
def runner_of(target: Target, db: str | None, *, creates: bool = False) -> Iterator[Runner]:
    """Load a target, and open its runner with the threads of an existing file or database.

    Args:
        target: The target.
        db: The file or URL of `--db`; None for the default.
        creates: Whether a missing file is created.
    """
    with target.load() as loaded, loaded.open(db, creates=creates) as runner:
        yield runner
