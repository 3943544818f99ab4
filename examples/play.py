"""Plays an example in the terminal: `python examples/NAME/app.py [--offline] [TEXT ...]`."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import agentgraph as ag
from agentgraph.testing import transcript
from examples.models import announce, arguments, why_offline

THREAD = "play"
Turn = str | dict[str, Any] | Callable[[ag.Runner, str], ag.Result | None]
"""A message, an answer to the open question, or a function from the runner and the thread id."""


def play(tree: ag.Agent, *turns: Turn, values: Mapping[str, Any] | None = None) -> None:
    """Run the turns of a conversation with a tree, and print its events.

    Texts on the command line replace the turns. With a key in a terminal, only the first turn is run;
    then the user continues the conversation, and an empty line ends it.

    Args:
        tree: The tree of the example.
        turns: The turns of the conversation.
        values: Values for the first turn.
    """
    given: list[Turn] = [*arguments("a message to the tree, or an answer to its question")] or [*turns]
    announce()
    is_chat = sys.stdin.isatty() and not why_offline()
    with ag.Runner(tree) as runner:
        run = partial(_run, runner)
        try:
            pending: Sequence[Any] = []
            for n, turn in enumerate(given[:1] if is_chat else given):
                print(f"\n> {turn}" if not callable(turn) else f"\n({turn.__doc__})")
                pending = run(turn, pending, values if n == 0 else None)
        except ag.AgentGraphError as error:
            sys.exit(str(error))
        while is_chat and (text := _typed()):
            try:
                pending = run(text, pending)
            except ag.AgentGraphError as error:
                print(error)


def _typed() -> str:
    try:
        return input("\n> ")
    except EOFError:
        return ""


def _run(
    runner: ag.Runner, turn: Turn, pending: Sequence[Any], values: Mapping[str, Any] | None = None
) -> Sequence[Any]:
    """Run a turn, or resume it with an answer to the first open question; return the open questions."""
    if callable(turn):
        result = turn(runner, THREAD)
        _print(result.events if result else [])
    elif pending:
        with runner.resume(THREAD, {pending[0].id: _answer(turn, pending[0])}) as run:
            _print(run)
    elif isinstance(turn, str):  # a model may not ask what the script asks
        with runner.run(turn, thread_id=THREAD, values=values) as run:
            _print(run)
    return runner.pending(THREAD)


def _print(events: Iterable[ag.AgentEvent]) -> None:
    for event in events:
        _, _, text = transcript([event])[0].partition(": ")
        print(f"{event.address}: {text}", flush=True)


def _answer(turn: str | dict[str, Any], question: Any) -> Any:
    """Return an answer: a decision such as `approve` for all calls, JSON, or a text."""
    if not isinstance(turn, str):
        return turn
    if isinstance(question.value, dict) and (requests := question.value.get("action_requests")):
        return {"decisions": [{"type": turn}] * len(requests)}
    try:
        return json.loads(turn) if question.response_schema else turn
    except ValueError:
        return turn
