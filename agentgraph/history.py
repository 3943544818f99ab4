"""What an agent sees: the user's messages as they are, then the history visible to it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from agentgraph.agents import HistoryPolicy
from agentgraph.run_path import RunPath
from agentgraph.state import address_of, speaker_of

PathOf = Callable[[str], RunPath | None]
"""Returns the run path of an address; None where the tree has no such."""
MyPath = Callable[[], RunPath]
"""Returns the run path of the agent that looks; called only where a policy needs it."""


@dataclass(frozen=True)
class Entry:
    """A message of the history, as a `history` function is given it.

    Attributes:
        message: The message.
        agent_name: The agent that said it; None for the user.
        address: Where it was said; None for the user.
    """

    message: BaseMessage
    agent_name: str | None
    address: str | None
    _path_of: PathOf = field(repr=False, compare=False)

    @cached_property
    def run_path(self) -> RunPath:
        """How the run got to where it was said; empty for the user's messages."""
        return (self.address and self._path_of(self.address)) or RunPath()


def visible(
    messages: Sequence[BaseMessage], policy: HistoryPolicy, me: str, my_address: str, path_of: PathOf
) -> list[BaseMessage]:
    """Return what the agent `me` sees of `messages`.

    Its own messages stay as they are; what others said becomes a user message that names the
    speaker, as google-adk does it for the agents of one session.
    """
    entries = [Entry(m, speaker_of(m), address_of(m), path_of) for m in messages]
    if callable(policy):
        return list(policy(entries))
    chosen = POLICIES[policy](entries, me, lambda: path_of(my_address) or RunPath())
    return [e.message if e.agent_name in (None, me) else _told(e) for e in chosen]


def unchanged(entries: list[Entry]) -> list[BaseMessage]:
    """Return the whole history as it is: a `history` function for those who are no agent."""
    return [entry.message for entry in entries]


def _shared(entries: list[Entry], me: str, my_path: MyPath) -> list[Entry]:
    return entries


def _path(entries: list[Entry], me: str, my_path: MyPath) -> list[Entry]:
    mine = my_path()
    return [e for e in entries if e.agent_name is None or (e.run_path and mine.starts_with(e.run_path))]


def _own(entries: list[Entry], me: str, my_path: MyPath) -> list[Entry]:
    return [e for e in entries if e.agent_name in (None, me)]


def _last(entries: list[Entry], me: str, my_path: MyPath) -> list[Entry]:
    answers = [i for i, e in enumerate(entries) if e.agent_name is not None]
    chosen = {*_input_indexes(entries), *answers[-1:]}
    return [entries[i] for i in sorted(chosen)]


def _input(entries: list[Entry], me: str, my_path: MyPath) -> list[Entry]:
    return [entries[i] for i in _input_indexes(entries)]


def _input_indexes(entries: list[Entry]) -> range:
    """Return where the last input of the user stands: the last messages that no agent said."""
    end = len(entries)
    while end and entries[end - 1].agent_name is not None:
        end -= 1
    begin = end
    while begin and entries[begin - 1].agent_name is None:
        begin -= 1
    return range(begin, end)


POLICIES: dict[Any, Callable[[list[Entry], str, MyPath], list[Entry]]] = {
    "shared": _shared,
    "path": _path,
    "own": _own,
    "last": _last,
    "input": _input,
}


def _is_call(block: Any) -> bool:
    """Tell whether a block of content is a tool call, which is told as text."""
    return isinstance(block, dict) and block.get("type") in ("tool_use", "tool_call", "function_call")


def _told(entry: Entry) -> BaseMessage:
    message, name = entry.message, entry.agent_name
    verb = f"{message.name} returned" if isinstance(message, ToolMessage) else "said"
    calls = [
        f"[{name}] called {call['name']}({json.dumps(call['args'], ensure_ascii=False, default=str)})"
        for call in (message.tool_calls if isinstance(message, AIMessage) else ())
    ]
    content: str | list[Any]
    if isinstance(message.content, str):
        said = [f"[{name}] {verb}: {message.content}"] if message.content or not calls else []
        content = "\n".join(said + calls)
    else:
        head = {"type": "text", "text": f"[{name}] {verb}:"}
        said_blocks = [block for block in message.content if not _is_call(block)]
        content = [head, *said_blocks, *({"type": "text", "text": call} for call in calls)]
    return HumanMessage(content, name=name, id=message.id)
