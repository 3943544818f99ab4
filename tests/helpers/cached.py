"""Shared by the tests of cached agents: agents that record their runs, and runs that check replay."""

import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage
from langgraph.cache.base import BaseCache
from langgraph.types import CachePolicy
from typing_extensions import TypedDict

import agentgraph as ag
from helpers import Drive, Session, foreign, lines, unvoided

Cache = BaseCache[Any]


class Ran(list[str]):
    """The names of the agents that ran, in order; its methods make cached agents."""

    def agent(self, name: str, *items: Any, **options: Any) -> ag.Agent:
        """Return an agent that yields items, or its name; a function is called with the context.

        An exception among the items is raised.
        """

        def fn(ctx: ag.Context) -> Iterator[Any]:
            self.append(name)
            for item in items or (name,):
                given = item(ctx) if callable(item) else item
                if isinstance(given, BaseException):
                    raise given
                yield given

        return ag.function_agent(name, fn, **{"cache_policy": CachePolicy(), **options})

    def graph(self, name: str, *nodes: Callable[[Any], Any], **options: Any) -> ag.Agent:
        """Return an agent that runs the nodes of a graph one after the other."""

        def begin(messages: Any) -> list[Any]:
            self.append(name)
            return []

        return ag.graph_agent(name, foreign(begin, *nodes), cache_policy=CachePolicy(), **options)


class Values(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def heard(drive: Drive, runner: ag.Runner, thread: str) -> list[ag.AgentEvent]:
    """Run a turn on a new thread, check its replay, and return the events that are not discarded."""
    events = unvoided(drive.run(runner, "Go.", thread_id=thread))
    assert list(runner.events(thread)) == events
    return events


def message(number: int) -> AIMessage:
    """Return a message with all fields that a model sets."""
    return AIMessage(
        f"Say {number}.",
        tool_calls=[{"name": "look", "args": {"n": number}, "id": f"{number}", "type": "tool_call"}],
        usage_metadata={"input_tokens": 9, "output_tokens": number, "total_tokens": 9 + number},
        response_metadata={"model_name": "m"},
        additional_kwargs={"more": [number]},
    )


class Kept(Session):
    """A session whose runners have a cache, and declare `log`."""

    def __init__(self, tree: ag.Agent, drive: Drive, path: Path | None, cache: Any) -> None:
        super().__init__(tree, drive, path)
        self.cache = cache
        self.heard: list[ag.AgentEvent] = []

    def runner(self, saver: Any) -> ag.Runner:
        return ag.Runner(self.tree, checkpointer=saver, cache=self.cache, values=Values)

    def turn(self, text: str = "Go.") -> list[str]:
        return self._lines("run", text, thread_id=self.id)

    def resume(self, *answers: Any) -> list[str]:
        return self._lines("resume", self.id, *answers)

    def _lines(self, method: str, *args: Any, **options: Any) -> list[str]:
        events: list[ag.AgentEvent] = []
        try:
            self.follow(method, *args, hear=events.append, **options)
        finally:
            self.heard = unvoided([*self.heard, *events])
        assert self.events() == self.heard
        return lines(events)
