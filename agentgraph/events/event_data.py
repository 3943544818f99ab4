"""The JSON form of an event as types, from which pydantic and FastAPI take its schema."""

from typing import Any, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

_keeps_further_keys = with_config(ConfigDict(extra="allow"))


@_keeps_further_keys
class MessageData(TypedDict):
    """A message in LangChain's form: `type` is "ai", "tool", ..., `data` has its fields."""

    type: str
    data: dict[str, Any]


@_keeps_further_keys
class OutputData(TypedDict):
    """What an agent said; see `Output`."""

    message: MessageData | None
    custom: Any
    partial: bool


@_keeps_further_keys
class InterruptData(TypedDict):
    """A question; see `Interrupt`."""

    id: str
    address: str
    agent_name: str
    value: Any
    response_schema: dict[str, Any] | None


@_keeps_further_keys
class ActionData(TypedDict):
    """What an agent did; see `Action`."""

    exit: bool
    break_loop: bool
    transfer_to: str | None
    interrupted: InterruptData | None
    discarded: list[str]
    custom: Any


@_keeps_further_keys
class AgentEventData(TypedDict):
    """An event as `AgentEvent.to_dict` returns it; the run path has `[agent_name, iteration]`s."""

    agent_name: str
    run_path: list[list[str | int | None]]
    address: str
    output: NotRequired[OutputData | None]
    action: NotRequired[ActionData | None]
    error: NotRequired[str | None]
    id: str
    thread_id: NotRequired[str | None]
    turn: NotRequired[int | None]
    step: NotRequired[str | None]
    cursor: NotRequired[str | None]
    time: NotRequired[float | None]
