"""The states of lanes: the types of their channels, and what a node writes."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple, NotRequired, cast, get_type_hints

from langchain_core.messages import BaseMessage
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.channels.untracked_value import UntrackedValue
from typing_extensions import TypedDict

from agentgraph.graph.delta_channels import (
    CHANGES,
    LANE_MESSAGES,
    RECORDS,
    SNAPSHOT_FREQUENCY,
    LaneWrites,
    Messages,
)
from agentgraph.graph.lane_position import Position, Where
from agentgraph.graph.stored_values import ValuesChannel
from agentgraph.graph.type_hints import make_typed_dict
from agentgraph.graph.values import Reducers, Write


class TurnInput(EphemeralValue[object]):
    """The input of a compiled tree, to which it adds the position at which the turn begins.

    LangGraph saves the input before any node has run. So a thread that stopped there shows which tree
    begins a turn on it, and where.
    """

    __slots__ = ("position",)

    def __init__(self, typ: object, guard: bool = True, position: Position | None = None) -> None:
        super().__init__(typ, guard)
        self.position = position

    def copy(self) -> "TurnInput":
        """Return a copy of the channel."""
        made: TurnInput = super().copy()
        made.position = self.position
        return made

    def from_checkpoint(self, checkpoint: object) -> "TurnInput":
        """Return the channel with saved input."""
        made: TurnInput = super().from_checkpoint(checkpoint)
        made.position = self.position
        return made

    def update(self, values: Sequence[object]) -> bool:
        """Take the input, with the position in the place of any that it has."""
        begun = {"position": self.position}
        return super().update([{**v, **begun} if isinstance(v, Mapping) else v for v in values])


class LaneState(TypedDict):
    """The state of a lane; only the nodes that need the last three read them."""

    messages: list[BaseMessage]
    values: Any
    """The merged values in the root, elsewhere the `Write`s of the lane."""
    position: Position
    failure: NotRequired[BaseException]
    """The exception of a function that was asked at the boundary, in the step before."""
    middleware: NotRequired[Mapping[str, Any]]
    """The saved state of middleware: `AgentRecords` in the root, else `RecordChanges` of the lane."""
    untracked: NotRequired[list[Any]]
    """The address of an activation, and the state of its middleware that is never saved."""


class StateTypes(NamedTuple):
    """The types of the states of a tree's lanes, with the reducers of its values.

    Attributes:
        root: The state of the root, as most nodes read it.
        conversation: Input and output of a compiled tree: the messages, and the values of the run.
        lane: The state of every other lane, as most nodes read it.
        begun: The input of a compiled tree, with the middleware state of a turn that was given up.
    """

    root: type
    conversation: type
    lane: type
    begun: type


def state_types(reducers: Reducers) -> StateTypes:
    """Return the types of the states of a tree whose values are merged by `reducers`."""
    return _undeclared_types() if reducers == Reducers() else _types_of(reducers)


@cache
def _undeclared_types() -> StateTypes:
    return _types_of(Reducers())


def _types_of(reducers: Reducers) -> StateTypes:
    make, schema = make_typed_dict, reducers.schema
    values: object = Annotated[(schema, ValuesChannel(reducers))]
    writes = Annotated[list[Write], LaneWrites(reducers.folded, snapshot_frequency=SNAPSHOT_FREQUENCY)]
    conversation = {"messages": Messages, "values": NotRequired[values]}
    return StateTypes(
        root=make("LaneState", {"messages": Messages, "values": values, "position": Where}),
        conversation=make("Conversation", conversation),
        lane=make("LaneState", {"messages": LANE_MESSAGES, "values": writes, "position": Where}),
        begun=make("Begun", conversation | {"middleware": NotRequired[RECORDS]}),
    )


def reading(state: type, channels: Collection[str], *, is_root: bool) -> type:
    """Return a lane's state type with further channels, for a node that reads them.

    Args:
        state: The type that most nodes read.
        channels: The names of the further ones: "failure", "middleware", "untracked".
        is_root: Whether the lane is the root.
    """
    further = {
        "failure": Annotated[BaseException, UntrackedValue],
        "middleware": RECORDS if is_root else CHANGES,
        "untracked": Annotated[list[object], UntrackedValue],
    }
    fields = get_type_hints(state, include_extras=True)
    return cast(type, make_typed_dict("LaneState", fields | {name: further[name] for name in channels}))


class Update(TypedDict, total=False):
    """The update of a node."""

    messages: list[BaseMessage]
    values: dict[str, object] | Sequence[dict[str, object]] | list[Write]
    """In the root a dict, or several where one would lose a write; elsewhere `Write`s."""
    position: Position
    failure: BaseException
    middleware: Mapping[str, object]
    """The `RecordChanges` of the state of middleware."""
    untracked: list[object]
