"""The state that a LangGraph graph compiled with `checkpointer=True` keeps over activations and turns.

LangGraph passes on to such a graph only that the step around it is resumed or retried. The graph then
continues from its last checkpoint, which may be of an earlier activation: if the step failed before the
graph started, the graph would return its last answer again. In a retry LangGraph also assigns another
namespace to the graph, without the state. So each activation saves at which checkpoint it found the
graph: a graph that is still there starts with its input, unless one of its questions is answered; any
other continues.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from agentgraph.graph.internals import REPLAY, RESUME_MAP, RESUMING, SCRATCHPAD
from agentgraph.graph.paired_calls import answers_in, paired
from agentgraph.graph.saving import has_saver


def keeps_state(graph: object, config: RunnableConfig) -> bool:
    """Return whether a graph keeps its state in a run; in a fork LangGraph chooses the state."""
    is_kept = getattr(graph, "checkpointer", None) is True
    return is_kept and has_saver(config) and not config.get("configurable", {}).get(REPLAY)


class KeptState:
    """The state of a graph as an activation finds it.

    Attributes:
        began_at: The id of the graph's checkpoint at which the activation began; None for none.
        messages: The messages of the graph at that checkpoint.
    """

    def __init__(self, now: StateSnapshot, config: RunnableConfig, before: "KeptState | None") -> None:
        """Take the state.

        Args:
            now: The state of the graph.
            config: The config of the node.
            before: The checkpoint that the last attempt found, if this is a retry.
        """
        self._now: str | None = now.config["configurable"].get("checkpoint_id")
        self.began_at: str | None = self._now if before is None else before.began_at
        self.messages = _messages_in(now)
        self._is_answered = any(_has_answer(each.id, config) for each in now.interrupts)

    @property
    def continues(self) -> bool:
        """Whether the graph has begun in this activation, or a question of it is answered."""
        return self._is_answered or self._now != self.began_at

    def beginning(self, config: RunnableConfig) -> RunnableConfig | None:
        """Return the config of the state at which the activation began; None if it is known."""
        if self._now == self.began_at:
            return None
        if self.began_at is None:
            self.messages = []
            return None
        configurable = {**config["configurable"], "checkpoint_id": self.began_at}
        return RunnableConfig(configurable=configurable)

    def take(self, began: StateSnapshot) -> None:
        """Take the messages of the state at which the activation began."""
        self.messages = _messages_in(began)

    def open_results(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return results for calls that an earlier activation left open, if they are not given."""
        return [] if self.continues else open_results(self.messages, messages)

    def configurable(self, outer: Mapping[str, Any]) -> dict[str, object]:
        """Return the keys with which the graph begins or continues in its own namespace."""
        scratchpad = replace(outer[SCRATCHPAD], subgraph_counter=itertools.count().__next__)
        return {**outer, RESUMING: self.continues, SCRATCHPAD: scratchpad}


def open_results(earlier: Sequence[BaseMessage], messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return results for the calls in kept messages that have none, there or in given messages."""
    there, given = {each.id for each in earlier}, [*messages]
    own = {at for results in answers_in(given).values() for at in results}  # of calls in these
    rest = (each for at, each in enumerate(given) if at not in own)
    answered = {each.tool_call_id for each in rest if isinstance(each, ToolMessage)}
    added = (each for each in paired(earlier) if isinstance(each, ToolMessage))
    return [each for each in added if each.id not in there and each.tool_call_id not in answered]


def _has_answer(interrupt_id: str, config: RunnableConfig) -> bool:
    outer = config["configurable"]
    return interrupt_id in (outer.get(RESUME_MAP) or {}) or (
        outer[SCRATCHPAD].get_null_resume(False) is not None
    )


def _messages_in(state: StateSnapshot) -> Sequence[BaseMessage]:
    values: object = state.values
    return messages_among(values.get("messages") if isinstance(values, Mapping) else None)


def messages_among(value: object) -> list[BaseMessage]:
    """Return the messages in a list; none of anything else."""
    return [each for each in value if isinstance(each, BaseMessage)] if isinstance(value, list) else []
