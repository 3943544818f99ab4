"""The saved form of the calls of `ctx.run`, and how a resume finds a call again."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Literal, NotRequired, cast
from uuid import uuid4

from langchain_core.messages import BaseMessage
from langgraph.config import get_config
from typing_extensions import TypedDict

from agentgraph.graph.internals import MISSING, RESUMING, RETURN
from agentgraph.graph.lane_position import GivenAnswer, Position
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.saving import first_input, saved_results, saver_of, step_config
from agentgraph.graph.sync_async import Call
from agentgraph.graph.task_results import TAG, ours
from agentgraph.graph.values import Write

KEYED = 2**40
"""Call numbers of LangGraph from here on are made of keys."""


class CallResult(TypedDict):
    """The saved result of a call; a task's result whose `messages` join no history."""

    agentgraph: Literal["call"]
    messages: list[BaseMessage]
    """None."""
    values: list[Write]
    number: int
    call: int | str
    made: NotRequired[int]
    """How many calls the function had made before; an older version did not save it."""
    agent: str
    request: str
    text: str
    said: list[BaseMessage]
    """The messages of the lane."""
    data: object
    """The value of the agent's last `output_key`, or its structured answer as plain data."""
    answered: NotRequired[GivenAnswer]
    """The structured answer with which it ended."""
    began: int
    """When the function made the call, in microseconds."""
    ended: int


class UnendedCall(TypedDict):
    """The saved form of a call that paused or failed, under an id that no task has."""

    agentgraph: Literal["unended"]
    call: int | str
    agent: str
    request: str
    failed: NotRequired[Mapping[str, object]]
    """The failure, as data."""
    saved: int
    """When, in microseconds: of several the last one counts."""
    again: NotRequired[bool]
    """Whether the function ended by the failure, so that the call runs again."""
    given_up: NotRequired[bool]
    """Whether the failure is that the function did not await it any more."""
    position: NotRequired[Position]
    """The notes of the failure."""


def number_of(call: int | str) -> int:
    """Return the number of LangGraph's task for a call, given its number or its key as a counter."""
    if isinstance(call, int):
        return call
    return KEYED + int.from_bytes(blake2b(call.encode(), digest_size=7).digest())


class SavedCalls:
    """The saved form of the calls of one activation.

    Attributes:
        carried: The results of the calls before a question of the function, by call.
    """

    def __init__(self, activation: Activation, tasks: Iterable[str]) -> None:
        """Begin with what LangGraph has loaded.

        Args:
            activation: The activation.
            tasks: The names of the tasks that run calls.
        """
        self._activation, self._tasks = activation, [*tasks]
        self._results, self._task = saved_results(get_config())
        self._unended: dict[object, UnendedCall] = {}
        carried = activation.view.position.get("calls") or ()
        self.carried: dict[object, Mapping[str, object]] = {each["call"]: each for each in carried}

    async def read(self) -> None:
        """Read the calls of this step that have no result, if it is resumed."""
        config = self._activation.config
        if not config["configurable"].get(RESUMING) or (saver := saver_of(config)) is None:
            return
        saved = await Call(saver.get_tuple, saver.aget_tuple, (step_config(config),))
        unended = [
            value
            for _, channel, value in (saved.pending_writes if saved else None) or ()
            if channel == RETURN and ours(value).get(TAG) == "unended"
        ]
        for each in sorted(unended, key=itemgetter("saved")):
            self._unended[each["call"]] = each

    def before(self, call: int | str) -> Mapping[str, Any] | None:
        """Return the saved form of a call, with a result or without one; None if nothing is saved."""
        if (carried := self.carried.get(call)) is not None:
            return carried
        for name in self._tasks:
            if (result := self._results.get(self._task(name, number_of(call)), MISSING)) is not MISSING:
                return cast(Mapping[str, object], result)
        return self._unended.get(call)

    async def in_flight(self) -> str | None:
        """Return the request with which the lane of the current task began before a kill, if it did."""
        if not self._activation.config["configurable"].get(RESUMING):
            return None
        begun = await first_input(get_config())
        return cast(str | None, (begun or {}).get("position", {}).get("request"))

    async def save(self, call: UnendedCall) -> None:
        """Save the outcome of a call without a result, next to the results of tasks."""
        config = self._activation.config
        if (saver := saver_of(config)) is not None:
            arguments = (step_config(config), [(RETURN, dict(call))], str(uuid4()))
            await Call(saver.put_writes, saver.aput_writes, arguments)
