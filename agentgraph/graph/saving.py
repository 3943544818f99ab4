"""What a saver cannot keep, or would change without a word: found before anything is written.

A saver meets such a value too late: what was written before it in the same step is stored, and the
step counts as done. LangGraph's serializer raises for most; a lone surrogate in a text it replaces by
a question mark.
"""

from collections.abc import Iterable, Mapping
from traceback import walk_tb
from typing import Any, Protocol

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_config

from agentgraph.errors import InvalidOutputError
from agentgraph.safe_repr import shown

_SAVER = "__pregel_checkpointer"
"""Where LangGraph's config has the saver of a run."""
DURABILITY = "__pregel_durability"
"""Where it says when a run saves."""
_SERIALIZER = "langgraph.checkpoint.serde"
"""Where LangGraph turns what is saved to bytes."""
_AROUND = 8
"""How many levels deep what is written lies in what is saved: the serializer has a limit."""
_LONGEST = 30
"""Of how many items plain data is looked through here, where that is cheaper than saving it."""
_INTEGERS = range(-(2**63), 2**64)


class Serializer(Protocol):
    """What a saver turns values to bytes with."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return a value as bytes, with the name of their form."""


def serializer_of(config: Mapping[str, Any]) -> Serializer | None:
    """Return what the saver of a run saves with; None where nothing is saved."""
    saver = config.get("configurable", {}).get(_SAVER)
    found: Serializer | None = getattr(saver, "serde", None)
    return found


def saver_of(config: Mapping[str, Any]) -> BaseCheckpointSaver[Any] | None:
    """Return the saver of a run; None where nothing is saved before it ends."""
    configurable = config.get("configurable", {})
    saver = configurable.get(_SAVER)
    is_used = isinstance(saver, BaseCheckpointSaver) and configurable.get(DURABILITY) != "exit"
    return saver if is_used else None


def step_config(config: Mapping[str, Any]) -> RunnableConfig:
    """Return where a saver keeps what is written beside the step in which a node runs.

    Args:
        config: LangGraph's config of the node.
    """
    configurable = config["configurable"]
    around = str(configurable["checkpoint_ns"]).rpartition("|")[0]
    return {
        "configurable": {
            "thread_id": configurable["thread_id"],
            "checkpoint_ns": around,
            "checkpoint_id": configurable["checkpoint_map"][around],
        }
    }


def save_result(result: Any, around: RunnableConfig) -> None:
    """Save what the task that runs here is about to hand back.

    LangGraph saves it too, but while the run goes on: a kill could lose it, and keep what came next.

    Args:
        result: What it hands back.
        around: LangGraph's config of the node that runs the task.
    """
    if (saver := saver_of(around)) is not None:
        saver.put_writes(*_as_saved(result, around))


async def asave_result(result: Any, around: RunnableConfig) -> None:
    """Save what the task that runs here is about to hand back, on the event loop."""
    if (saver := saver_of(around)) is not None:
        await saver.aput_writes(*_as_saved(result, around))


def _as_saved(result: Any, around: RunnableConfig) -> tuple[RunnableConfig, list[Any], str]:
    """Return what LangGraph gives a saver for a task's result."""
    task_id: str = get_config()["configurable"]["__pregel_task_id"]
    return step_config(around), [("__return__", result)], task_id


def save_fault(serializer: Serializer, value: Any) -> str | None:
    """Return why a value cannot be saved as it is, or None."""
    if _is_plain(value):
        return None
    wrapped = value
    for _ in range(_AROUND):
        wrapped = [wrapped]
    try:
        kind, data = serializer.dumps_typed(wrapped)
    except Exception as error:
        return str(error).partition("\n")[0] or type(error).__name__
    if (kind != "msgpack" or b"?" in data) and _has_surrogate(value):
        return "a text in it has a lone surrogate, which is no character"
    return None


def name_fault(name: object) -> str | None:
    """Return what is wrong with the name of a value, and what to do, or None."""
    if not isinstance(name, str):
        return "is no text; name values by texts, such as 'topic'"
    if cannot_be_encoded(name):
        return "has a lone surrogate, which is no character; leave it out"
    return None


def check_saved(config: Mapping[str, Any], where: str, named: Iterable[tuple[str, Any]]) -> None:
    """Refuse what cannot be saved, where it is written.

    Args:
        config: LangGraph's config of the run.
        where: The address of the agent that writes.
        named: What it writes, each with what it is called in a message.

    Raises:
        InvalidOutputError: Something cannot be saved.
    """
    serializer = serializer_of(config)
    if serializer is None:
        return
    for name, value in named:
        fault = save_fault(serializer, value)
        if fault is not None:
            raise InvalidOutputError(
                f"{where}: {name} cannot be saved ({fault}); give plain data: texts, numbers, lists, "
                "dicts. The step can be tried again"
            )


def check_names(where: str, values: Mapping[Any, Any]) -> None:
    """Refuse values whose names are no texts.

    Args:
        where: The address of the agent that writes them.
        values: The values, by name.

    Raises:
        InvalidOutputError: A name is no text, or cannot be saved.
    """
    for name in values:
        if (fault := name_fault(name)) is not None:
            raise InvalidOutputError(f"{where}: the name {shown(name)} of a value {fault}")


def arose_in_saving(error: BaseException) -> bool:
    """Tell whether LangGraph's serializer raised an exception, for what it was given to save."""
    frames = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
    return any(name.startswith(_SERIALIZER) for name in frames)


def _is_plain(value: Any) -> bool:
    """Tell whether a value is small plain data, which every saver keeps; False where in doubt."""
    if isinstance(value, BaseMessage):
        more = value.__pydantic_extra__
        return not more and all(map(_is_small, vars(value).values()))
    return _is_small(value)


def _is_small(value: Any, depth: int = 6) -> bool:
    kind = type(value)
    if kind is str:
        return bool(value.isascii())
    if value is None or kind is bool or kind is float:
        return True
    if kind is int:
        return value in _INTEGERS
    if depth == 0 or kind not in (dict, list) or len(value) > _LONGEST:
        return False
    inner = (*value, *value.values()) if kind is dict else value
    return all(_is_small(each, depth - 1) for each in inner)


def _has_surrogate(value: Any) -> bool:
    """Tell whether a text with a lone surrogate is anywhere in a value."""
    seen: set[int] = set()
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            if not each.isascii() and cannot_be_encoded(each):
                return True
        elif id(each) not in seen:
            seen.add(id(each))
            left += _inside(each)
    return False


def _inside(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return [*value]
    extra = getattr(value, "__pydantic_extra__", None) or {}
    return [*getattr(value, "__dict__", {}).values(), *extra.values()]


def cannot_be_encoded(text: str) -> bool:
    """Return whether a text has a lone surrogate, which is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
