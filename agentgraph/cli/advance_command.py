"""The command that brings turns further, for a scheduler or a person after a crash."""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import click

from agentgraph.cli.options import UserError, db_option, json_object, runner_of
from agentgraph.cli.own_threads import own_threads, print_skipped_other
from agentgraph.cli.session import DONE, FAILED, PAUSED, STOPPED
from agentgraph.cli.target import Target, takes_target
from agentgraph.errors import ThreadBusyError, ThreadError, TreeChangedError
from agentgraph.events.json_forms import JsonObject
from agentgraph.journal.answers import UNANSWERED
from agentgraph.reports.result import Result
from agentgraph.safe_repr import error_text
from agentgraph.show.lines import one_line, without_controls
from agentgraph.threads.live.event_loop import needs_event_loop, on_event_loop
from agentgraph.threads.runner import Runner

_CODES = {"done": DONE, "paused": PAUSED, "failed": FAILED, "stopped": STOPPED}
"""The exit code of the command, by the status of a turn."""


@click.command()
@takes_target
@click.argument("thread", metavar="[THREAD]", required=False)
@click.option(
    "--all", "every", is_flag=True, help="All threads whose runs died, or whose questions are answered."
)
@click.option("--turn-id", metavar="ID", help="The name of the turn; by default the last turn.")
@click.option("--message", metavar="TEXT", help="The input of the turn, if it has not begun.")
@click.option(
    "--values",
    metavar="JSON",
    type=json_object,
    help="Values of the turn, the same at each call.",
)
@click.option(
    "--answers",
    metavar="JSON",
    type=json_object,
    help="Answers by question id or address; those that were taken before change nothing.",
)
@db_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one line per thread.")
def advance(
    target: Target,
    thread: str | None,
    every: bool,
    turn_id: str | None,
    message: str | None,
    values: JsonObject | None,
    answers: JsonObject | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Bring a turn of THREAD as far as it can go now: a command that is safe to repeat.

    A turn that has not begun begins, one whose process died or that failed continues, and one that
    waits, has ended or was stopped is shown. With --all: every thread whose process died, whose
    questions are all answered, or that has a question whose deadline has passed. Threads that a person
    stopped, that failed or that wait are left alone.
    """
    if every == (thread is not None) or (every and (turn_id or message or values or answers)):
        raise UserError("name a THREAD with its options, or pass --all alone")
    if turn_id is None and (message is not None or values is not None):
        raise UserError(
            "--message and --values need the name of the turn; pass --turn-id, such as --turn-id night"
        )
    with runner_of(target, db, creates=turn_id is not None) as runner:
        if thread is None:
            codes = [_printed(*each, as_json=as_json) for each in _all(runner)]
            sys.exit(FAILED if FAILED in codes else DONE)
        given = UNANSWERED if answers is None else answers
        came = _came(runner, thread, message, turn_id=turn_id, values=values, answers=given)
        sys.exit(_printed(thread, came, as_json=as_json))


def _all(runner: Runner) -> Iterator[tuple[str, Result | Exception]]:
    """Yield the results, or the failures, of all threads whose runs died, and of overdue ones."""
    died = [each for each in runner.threads("stopped") if each.stop_reason is None]
    for each in own_threads(runner, [*died, *runner.threads("paused", due=True)]):
        with suppress(ThreadBusyError):  # another process runs it now
            try:
                yield each.thread_id, _came(runner, each.thread_id, wait=False)
            except TreeChangedError:
                print_skipped_other(each.thread_id)


def _came(runner: Runner, thread: str, *arguments: Any, **options: Any) -> Result | Exception:
    """Bring a turn as far as it can go, and return its result, or the exception of its agent."""
    try:
        if needs_event_loop(runner.engine):
            return on_event_loop(runner.aadvance(thread, *arguments, **options))
        return runner.advance(thread, *arguments, **options)
    except ThreadError:
        raise
    except Exception as error:
        return error


def _printed(thread: str, came: Result | Exception, *, as_json: bool) -> int:
    """Print what came of a thread, and return its exit code."""
    if isinstance(came, Result):
        status, text = came.status, came.text
    else:
        status, text = "failed", f"{type(came).__name__}: {error_text(came)}"
    row = {"thread_id": thread, "status": status, "text": text}
    click.echo(
        json.dumps(row) if as_json else without_controls(f"{thread}  {status}  {one_line(text)}")
    )
    return _CODES[status]
