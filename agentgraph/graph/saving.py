"""Refuses what a saver cannot save, or would change silently, before anything is written.

A saver finds such a value too late: what was written before it in the same step is stored, and the
step counts as done. LangGraph's serializer raises for most such values, but replaces a lone surrogate
in a text by a question mark.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import aclosing, closing, nullcontext
from functools import partial
from traceback import walk_tb
from types import MethodType
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.constants import START

from agentgraph.errors import AgentGraphError, InvalidOutputError
from agentgraph.graph.collecting import read_all
from agentgraph.graph.internals import (
    CALL,
    DURABILITY,
    RETURN,
    SAVER,
)
from agentgraph.graph.open_types import Saver
from agentgraph.graph.read_back import (
    Serializer,
    UnsavableError,
    cannot_be_encoded,
    check_savable,
    read_back,
)
from agentgraph.graph.strict_serializer import listing
from agentgraph.graph.sync_async import Call
from agentgraph.graph.task_ids import called_tasks
from agentgraph.graph.values import Reducers
from agentgraph.safe_repr import shown

_SERIALIZERS = ("langgraph.checkpoint.serde", "agentgraph.graph.strict_serializer")
"""The modules that turn values into bytes: LangGraph's, and that for files that we open."""


def serializer_of(config: RunnableConfig) -> Serializer | None:
    """Return the serializer of a run's saver; None if nothing is saved."""
    saver = config.get("configurable", {}).get(SAVER)
    serializer: Serializer | None = getattr(saver, "serde", None)
    return serializer


def has_saver(config: RunnableConfig) -> bool:
    """Return whether a run has a saver."""
    return isinstance(config.get("configurable", {}).get(SAVER), BaseCheckpointSaver)


def saver_of(config: RunnableConfig) -> Saver | None:
    """Return the saver of a run; None if nothing is saved before the run ends."""
    configurable = config.get("configurable", {})
    saver = configurable.get(SAVER)
    is_used = isinstance(saver, BaseCheckpointSaver) and not is_saved_at_exit(config)
    return saver if is_used else None


def is_saved_at_exit(config: RunnableConfig) -> bool:
    """Return whether a run saves only as it ends."""
    return config.get("configurable", {}).get(DURABILITY) == "exit"


def step_config(config: RunnableConfig) -> RunnableConfig:
    """Return the config under which a saver stores the writes of the step in which a node runs.

    A lane that is one leaf has no step. LangGraph's map of checkpoints also has the namespace of the
    node that runs lanes, with the checkpoint of the graph around it.

    Args:
        config: LangGraph's config of the node.
    """
    configurable = config["configurable"]
    around = str(configurable["checkpoint_ns"]).rpartition("|")[0]
    checkpoints: Mapping[str, str] = configurable["checkpoint_map"]
    while around not in checkpoints:
        around = around.rpartition("|")[0]
    while around and checkpoints.get(outer := around.rpartition("|")[0]) == checkpoints[around]:
        around = outer
    return {
        "configurable": {
            "thread_id": configurable["thread_id"],
            "checkpoint_ns": around,
            "checkpoint_id": checkpoints[around],
        }
    }


async def has_begun(config: RunnableConfig) -> bool:
    """Return whether the lane of a task has saved anything, in an earlier run of the task.

    Args:
        config: LangGraph's config of the task, whose namespace is that of the lane.
    """
    return await _last_of_lane(config) is not None


async def last_position(config: RunnableConfig) -> Mapping[str, object] | None:
    """Return where the lane of a task is, from an earlier run of the task; None if it has not begun.

    Args:
        config: As in `has_begun`.
    """
    saved = await _last_of_lane(config)
    position: Mapping[str, object] | None = None
    if saved is not None:
        position = saved.checkpoint["channel_values"].get("position")
    return position


async def _last_of_lane(config: RunnableConfig) -> CheckpointTuple | None:
    if (saver := saver_of(config)) is None:
        return None
    own = config["configurable"]
    at = {"thread_id": own["thread_id"], "checkpoint_ns": own["checkpoint_ns"]}
    saved: CheckpointTuple | None = await Call(
        saver.get_tuple, saver.aget_tuple, ({"configurable": at},)
    )
    return saved


async def first_input(config: RunnableConfig) -> Mapping[str, Any] | None:
    """Return the input with which the lane of a task began, in an earlier run of the task; or None.

    Args:
        config: LangGraph's config of the task, whose namespace is that of the lane.
    """
    if (saver := saver_of(config)) is None:
        return None
    own = config["configurable"]
    at = {"thread_id": own["thread_id"], "checkpoint_ns": own["checkpoint_ns"]}
    call = list_checkpoints(saver, {"configurable": at}, filter={"source": "input"}, limit=1)
    for saved in await call:
        begun: Mapping[str, Any] | None = saved.checkpoint["channel_values"].get(START)
        return begun
    return None


def list_checkpoints(
    saver: Saver,
    config: RunnableConfig | None,
    made: Callable[[CheckpointTuple], CheckpointTuple] = lambda each: each,
    **bounds: Any,
) -> Call:
    """Return the call that lists checkpoints: a saver's lock is held until its generator has ended.

    Args:
        saver: The saver.
        config: LangGraph's config of what is listed.
        made: Makes of a checkpoint, as soon as it is read, what is kept of it.
        bounds: The further arguments of the saver's `list`.
    """

    def listed() -> list[CheckpointTuple]:
        every = saver.list(config, **bounds)
        with listing(), closing(every) if isinstance(every, Generator) else nullcontext():
            return read_all(map(made, every))

    async def alisted() -> list[CheckpointTuple]:
        every = saver.alist(config, **bounds)
        with listing():
            async with aclosing(every) if isinstance(every, AsyncGenerator) else nullcontext():
                return [made(each) async for each in every]

    return Call(listed, alisted)


def saved_results(
    config: RunnableConfig,
) -> tuple[Mapping[str, object], Callable[[str, int], str]]:
    """Return the saved results of tasks that a node calls, by id, and the function of `called_tasks`.

    LangGraph returns the result to a caller of the task, but then makes all that a call needs first,
    and looks through all writes: 3 to 5 ms. This reads the writes that LangGraph has loaded, under the
    ids that LangGraph computes. With another LangGraph a result may not be there; the task must be
    called then, and LangGraph knows whether it has ended.

    Args:
        config: LangGraph's config of the node.
    """
    loop, caller = loop_around(config)
    results = {} if getattr(loop, "is_replaying", True) else _results_in(loop)
    if not results:
        return {}, lambda name, number: ""
    task = caller()
    within = task.config["configurable"]["checkpoint_ns"]
    return results, called_tasks(loop.checkpoint["id"], within, loop.step, task.path)


def loop_around(config: RunnableConfig) -> tuple[Any, Callable[[], Any]]:
    """Return LangGraph's loop around a node, and its way to the node's task; None where it is unknown.

    Args:
        config: LangGraph's config of the node.
    """
    match config["configurable"].get(CALL):
        case partial(args=(caller,), keywords={"schedule_task": MethodType(__self__=loop)}):
            return loop, caller
    return None, lambda: None


def _results_in(loop: Any) -> dict[str, object]:
    """Return the results of tasks that LangGraph's loop has loaded, by the ids of the tasks."""
    writes = reversed(loop.checkpoint_pending_writes)
    return {task_id: value for task_id, channel, value in writes if channel == RETURN}


def save_fault(serializer: Serializer, value: object) -> str | None:
    """Return why a value cannot be saved as it is, or None."""
    try:
        check_savable(serializer, value)
    except UnsavableError as error:
        return str(error)
    return None


def name_fault(name: object) -> str | None:
    """Return the fault of the name of a value, and what to do, or None."""
    if not isinstance(name, str):
        return "must be a text, such as 'topic'"
    if cannot_be_encoded(name):
        return "has a lone surrogate, which is not a character; remove it"
    return None


def as_saved(
    config: RunnableConfig,
    where: str,
    named: str,
    value: object,
    typed: Callable[[object], object] | None = None,
) -> Any:
    """Return an agent's value as its saver will return it; without a saver as it is.

    Args:
        config: LangGraph's config of the run.
        where: The address of the agent.
        named: The name of the value for the error message.
        value: The value that it writes.
        typed: Gives a value its declared type.

    Raises:
        InvalidOutputError: It cannot be saved, or would not come back as it is.
    """
    saver = config.get("configurable", {}).get(SAVER)
    serializer = getattr(saver, "serde", None)  # without a call: each step saves something
    if serializer is None:
        return value
    try:
        return read_back(serializer, value, typed)
    except UnsavableError as error:
        raise InvalidOutputError(
            f"{where}: {named} cannot be saved ({error}); use plain data: texts, numbers, lists, "
            "dicts. The step can be tried again"
        ) from error


def saved_input(
    serializer: Serializer | None, reducers: Reducers, values: Mapping[str, object]
) -> dict[str, object]:
    """Return values of a call with their declared types, as the saver will give them back.

    Args:
        serializer: The serializer of the saver; None if nothing is saved.
        reducers: The declared types.
        values: The values.

    Raises:
        AgentGraphError: One cannot be saved, or would not come back as it is.
    """
    saved: dict[str, object] = {}
    for name, value in values.items():
        typed = reducers.converter(name)
        given = value if typed is None else typed(value)
        try:
            saved[name] = given if serializer is None else read_back(serializer, given, typed)
        except UnsavableError as error:
            raise AgentGraphError(
                f"the value {shown(name)}, {shown(value)}, cannot be saved ({error}); pass plain data: "
                "texts, numbers, lists, dicts"
            ) from error
    return saved


def check_names(where: str, names: Iterable[object]) -> None:
    """Refuse values whose names are not texts.

    Args:
        where: The address of the agent that writes them.
        names: The names.

    Raises:
        InvalidOutputError: A name is not a text, or cannot be saved.
    """
    for name in names:
        if (fault := name_fault(name)) is not None:
            raise InvalidOutputError(f"{where}: the name {shown(name)} of a value {fault}")


def arose_in_saving(error: BaseException) -> bool:
    """Return whether a serializer raised an exception as it turned a value into bytes."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return any(
        frame.f_globals.get("__name__", "").startswith(_SERIALIZERS)
        and frame.f_code.co_name == "dumps_typed"
        for frame in frames
    )
