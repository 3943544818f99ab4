"""What small middlewares do: pure functions of specs and of what they are called with."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import specs


class Given(NamedTuple):
    """What a hook gives: a message to add, the last one as it rewrites it, if it jumps to the end."""

    added: specs.Rendered | None = None
    rewritten: specs.Rendered | None = None
    ends: bool = False


def hook(
    each: specs.Middleware, count: int, seen: Sequence[specs.Rendered], answer: Any = None
) -> Given:
    """Return what a hook gives that was called so often before, from what it sees.

    Nobody adds a message where calls wait for their results.
    """
    if not is_due(each, count) or not seen:
        return Given()
    said = f"{each.name} {each.does}s {count}"
    match each.does:
        case "rewrite" if seen[-1][0] == "ai":
            return Given(rewritten=rewritten(each, seen[-1]))
        case "end":
            return Given(None if are_open(seen) else ("ai", said, None), ends=True)
        case "add" | "remind" | "ask" if not are_open(seen):
            text = f"{each.name} was given {json.dumps(answer)}" if each.does == "ask" else said
            return Given(("human" if each.does == "remind" else "ai", text, None))
    return Given()


def is_due(each: specs.Middleware, count: int) -> bool:
    """Return whether a hook is to do what it does."""
    return count == each.nth


def is_due_for(each: specs.Middleware, called_with: Any) -> bool:
    """Return whether a wrap is to do what it does, by what it is called with."""
    return crc32(repr(called_with).encode()) % 3 == each.nth


def rewritten(each: specs.Middleware, message: specs.Rendered) -> specs.Rendered:
    """Return a message as a middleware rewrites it."""
    return (message[0], f"{message[1]} {by(each)}", *message[2:])


def by(each: specs.Middleware) -> str:
    """Return what ends a text that a middleware rewrote."""
    return f"by {each.name}"


def asks(each: specs.Middleware, call: specs.Asked | None = None) -> str:
    """Return the question of a hook, or of a wrap around a call."""
    return f"{each.name} asks of {call}" if call else f"{each.name} asks"


def fails(each: specs.Middleware) -> str:
    """Return the error of a middleware."""
    return f"{each.name} fails"


def answers(each: specs.Middleware) -> str:
    """Return what a wrap says in the place of what it wraps."""
    return f"{each.name} answers"


def reminder(each: specs.Middleware) -> specs.Rendered:
    """Return what a wrap shows to the model alone."""
    return ("human", f"{each.name} reminds", None)


def is_said(text: str) -> bool:
    """Return whether a text was said by a middleware, or by the agent of a branch that failed."""
    return bool(re.match(r"Failed: |middleware_\d+ ", text))


def is_rewritten(text: str) -> bool:
    """Return whether a middleware rewrote a text."""
    return bool(re.search(r" by middleware_\d+$", text))


def are_open(seen: Sequence[specs.Rendered]) -> bool:
    """Return whether calls of the last message that has any wait for results."""
    calling = [i for i, message in enumerate(seen) if message[0] == "ai" and len(message) > 3]
    if not calling:
        return False
    results = {message[3] for message in seen[calling[-1] :] if message[0] == "tool"}
    return not results.issuperset(call[2] for call in seen[calling[-1]][3])


def may_ask(args: Any) -> bool:
    """Return whether a wrap may ask around a call: its tool does not ask itself."""
    return "interrupted" not in json.dumps(args)


def note(each: specs.Middleware, counts: Mapping[str, int], seen: Sequence[Any], *more: Any) -> str:
    """Return what is noted of a call of a middleware that ended."""
    return repr((each.name, sorted(counts.items()), list(seen), *more))
