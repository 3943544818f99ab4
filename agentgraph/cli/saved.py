"""The commands for saved threads: list, show, delete and copy them."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime

import click

from agentgraph.cli.options import db_option, existing, thread_argument
from agentgraph.cli.target import Target, takes_target
from agentgraph.events.json_forms import as_json as as_data
from agentgraph.safe_repr import as_json as as_text
from agentgraph.show.lines import one_line, print_event, without_controls
from agentgraph.show.screens import text_console
from agentgraph.threads.overview import Thread, Turn
from agentgraph.threads.results import Usage
from agentgraph.threads.runner import Runner

_STATUSES = ("running", "paused", "failed", "stopped", "done")
_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, a line for each thread."
)


def _runner(target: Target, db: str) -> Runner:
    return Runner(target.load(), checkpointer=existing(db), allow=target.types())


@click.command()
@takes_target
@click.option("--status", type=click.Choice(_STATUSES), help="Only threads with this status.")
@db_option
@_json_option
def threads(target: Target, status: str | None, db: str, as_json: bool) -> None:
    """List the threads of a file, those that began last first."""
    with _runner(target, db) as runner:
        for each in runner.threads(status):  # type: ignore[arg-type]
            line = f"{each.thread_id}  {each.status}  {_time(each.updated)}"
            click.echo(json.dumps(asdict(each)) if as_json else without_controls(line))


@click.command()
@takes_target
@thread_argument
@db_option
@_json_option
def show(target: Target, thread: str, db: str, as_json: bool) -> None:
    """Show THREAD: its status, turns, pending questions, values and tokens."""
    with _runner(target, db) as runner:
        found = runner.thread(thread)
        if found.status == "new":
            runner.pending(thread)  # raises the error for an unknown thread
        if as_json:
            click.echo(json.dumps(_data(found)))
        else:
            _print(found)


@click.command()
@takes_target
@thread_argument
@db_option
def delete(target: Target, thread: str, db: str) -> None:
    """Delete THREAD."""
    with _runner(target, db) as runner:
        runner.delete(thread)
    click.echo(without_controls(f"Deleted: thread {thread} in {db}."))


@click.command()
@takes_target
@thread_argument
@click.argument("to", metavar="TO")
@db_option
def copy(target: Target, thread: str, to: str, db: str) -> None:
    """Copy THREAD to the id TO; each can then be continued on its own."""
    with _runner(target, db) as runner:
        runner.copy(thread, to)
    click.echo(without_controls(f"Copied: thread {thread} to {to} in {db}."))


def _data(thread: Thread) -> dict[str, object]:
    """Return a thread as JSON data."""
    turns = [
        {
            "number": turn.number,
            "messages": [message.text for message in turn.messages],
            "events": [event.to_dict() for event in turn.events],
            "began": turn.began,
            "ended": turn.ended,
        }
        for turn in thread.turns
    ]
    return {
        "thread_id": thread.thread_id,
        "status": thread.status,
        "values": as_data(thread.values),
        "turns": turns,
        "pending": [as_data(asdict(question)) for question in thread.pending],
        "usage": asdict(thread.usage),
    }


def _print(thread: Thread) -> None:
    click.echo(without_controls(f"Thread {thread.thread_id}: {thread.status}"))
    for turn in thread.turns:
        _print_turn(turn)
    for question in thread.pending:
        value = question.value
        asked = value if isinstance(value, str) else as_text(value)
        click.echo(without_controls(f"Waits: {question.address}: {one_line(asked)}"))
    if thread.values:
        click.echo(without_controls(f"Values: {as_text(thread.values)}"))
    for line in _usage_lines(thread.usage):
        click.echo(line)


def _print_turn(turn: Turn) -> None:
    console = text_console()
    click.echo(f"Turn {turn.number}, {_time(turn.began)}, {turn.ended - turn.began:.1f} s")
    for message in turn.messages:
        click.echo(without_controls(f"user: {message.text}"))
    for event in turn.events:
        print_event(console, event)


def _usage_lines(usage: Usage) -> Iterator[str]:
    if usage.total["total_tokens"]:
        each = [f"{name} {used['total_tokens']}" for name, used in usage.by_agent.items()]
        yield f"Tokens: {usage.total['total_tokens']} ({', '.join(each)})"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")[:19]


OF_THREADS = (threads, show, delete, copy)
"""The commands of this file."""
