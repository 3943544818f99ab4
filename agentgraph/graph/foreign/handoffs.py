"""Reads LangGraph handoffs: to which agent they go, and what of their update is new.

The tools of langgraph-supervisor and langgraph-swarm return `Command(goto=name, graph=Command.PARENT,
update=...)` with the whole state, all messages included. In a tree the next agent sees the history
anyway. So what the state has already is left out: written again, it would double lists with a reducer,
and say other agents' messages a second time.

The payload of a `Send` is the task of the agent that gets it. Without a target a command is an update
of the run: its values, and the messages of its history.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast
from uuid import uuid4

from langchain_core.messages import (
    BaseMessage,
    InvalidToolCall,
    RemoveMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
)
from langgraph.graph import END
from langgraph.types import Command, Send

from agentgraph.agents.tool_results import TRANSFERRED
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.internals import get_cached_annotated_keys, get_update_as_tuples
from agentgraph.graph.lane_position import Leaving, Task
from agentgraph.graph.message_changes import with_id
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.tasks import task_of
from agentgraph.graph.paired_calls import call_id, calls_of
from agentgraph.graph.saving import check_names
from agentgraph.graph.values import is_same
from agentgraph.safe_repr import reason, shown

State = Callable[[], Mapping[str, object]]
"""Returns the state as the tool saw it."""

PASSED_OVER = "Not carried out: of several transfers in one message only the last one is."
"""The result of a call that transfers, if a later one in the same message does too."""
_ACTIVE = "active_agent"
"""langgraph-swarm's key for the active agent, which in a tree is known from the position."""


def sole_target(goto: object) -> str | None:
    """Return the one agent that a command goes to; None for no agent or several.

    >>> sole_target("bob"), sole_target([Send("bob", {})]), sole_target(["ann", "bob"])
    ('bob', 'bob', None)
    """
    if isinstance(goto, list | tuple):
        return sole_target(goto[0]) if len(goto) == 1 else None
    name = goto.node if isinstance(goto, Send) else goto
    return name if isinstance(name, str) and name not in ("", END) else None


def sent_by(goto: object) -> Send | None:
    """Return the payload of a command for one node; None if it sends nothing.

    Raises:
        ValueError: It sends several, or goes elsewhere too.
    """
    several = goto if isinstance(goto, list | tuple) else [goto]
    if not any(isinstance(each, Send) for each in several):
        return None
    if len(several) > 1:
        names = ", ".join(repr(each.node if isinstance(each, Send) else each) for each in several)
        raise ValueError(f"it goes to {names} at once")
    return cast(Send, several[0])


def task_sent(activation: Activation, sent: Send, state: Mapping[str, Any], call: str | None) -> Task:
    """Return the task of a handoff that sends a state to an agent, as LangGraph's guide writes them.

    Its `messages` replace the history, all other keys are values. If all messages before the call are
    among them, as langgraph-supervisor's tools send them, they come after the history.

    Args:
        activation: The activation that transfers.
        sent: The payload.
        state: The state that it was made of; what is the same there is not sent.
        call: The id of the call that transfers.

    Raises:
        ValueError: It is not a state, or its messages cannot be read.
        InvalidOutputError: It cannot be saved.
    """
    given = _state_in(sent)
    given.pop(_ACTIVE, None)
    messages, is_added = given.pop("messages", None), False
    if messages is not None:
        messages, is_added = _read(messages, state["messages"], sent.node, call)
    values = flattened({k: v for k, v in given.items() if not (k in state and is_same(v, state[k]))})
    check_names(activation.address, values)
    values = activation.view.state.reducers.all_typed(values)
    task = task_of(messages, values, activation.view.seen, is_added=is_added)
    saved: Task = activation.output.saved(f"what it sends to {sent.node!r}", task)
    return saved


def _read(
    sent: object, known: Sequence[BaseMessage], target: str, call: str | None
) -> tuple[list[BaseMessage], bool]:
    """Return messages that are sent, without results of the handoff; and if they follow the history.

    Args:
        sent: The messages.
        known: Those that the agent that sends them has seen.
        target: To whom they are sent.
        call: The id of the call that transfers.
    """
    try:
        read = convert_to_messages(sent if isinstance(sent, list | tuple) else [sent])  # type: ignore[list-item]
    except Exception as error:
        raise ValueError(f"its messages cannot be read ({reason(error)})") from error
    reply = next((i for i in reversed(range(len(known))) if known[i].type == "ai"), len(known))
    before = {each.id for each in known[:reply]}
    is_added = bool(before) and before <= {each.id for each in read}
    calls = {call_id(each) for message in known[reply:] for each in calls_of(message)}
    if is_added:
        read = [each for each in new_messages(read, known) if _call_in(each) not in calls]
    elif not any(call == call_id(each) for message in read for each in calls_of(message)):
        read = [each for each in read if call is None or _call_in(each) != call]
    kept = (each for each in read if not isinstance(each, RemoveMessage))
    marked = (transferred(each, target) if call and _call_in(each) == call else each for each in kept)
    return [with_id(each, str(uuid4())) for each in marked], is_added


def _call_in(message: BaseMessage) -> str | None:
    return message.tool_call_id if isinstance(message, ToolMessage) else None


def _state_in(sent: Send) -> dict[str, Any]:
    """Return the state that is sent, as LangGraph reads it: a mapping, or the fields of an object."""
    if isinstance(sent.arg, Mapping):
        return dict(sent.arg)
    if names := get_cached_annotated_keys(type(sent.arg)):
        return dict(get_update_as_tuples(sent.arg, names))
    raise ValueError(
        f"it sends {shown(sent.arg)} to {sent.node!r}; send a state, such as {{'messages': [...]}}"
    )


def update_of(command: Command[str]) -> dict[str, Any]:
    """Return the update of a command as a dict."""
    update = command.update
    if isinstance(update, list | tuple) and all(isinstance(each, tuple) for each in update):
        return dict(update)
    return dict(update) if isinstance(update, Mapping) else {}


def handoff_update(command: Command[str], state: State) -> dict[str, Any]:
    """Return the update of a handoff: all its messages, and of the other keys what is new."""
    update = update_of(command)
    if not update:
        return {}
    known = state()
    messages = convert_to_messages(update.pop("messages", []))
    rest = {
        key: value
        for key, value in update.items()
        if key != _ACTIVE and not (key in known and is_same(value, known[key]))
    }
    return {**rest, "messages": messages}


def flattened(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state that has `values`, those of the run, in addition to its other keys."""
    nested = state.get("values")
    if not isinstance(nested, Mapping):
        return dict(state)
    return {**nested, **{key: value for key, value in state.items() if key != "values"}}


def new_messages(messages: Iterable[BaseMessage], known: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return the messages that are new: no removals, and none under the id of a known message."""
    ids = {message.id for message in known if message.id}
    return [m for m in messages if not isinstance(m, RemoveMessage) and m.id not in ids]


def transferred(message: BaseMessage, target: str) -> BaseMessage:
    """Return a message; a tool result is marked as that of a transfer that was carried out."""
    if not isinstance(message, ToolMessage):
        return message
    marked = {**message.additional_kwargs, TRANSFERRED: target}
    return message.model_copy(update={"additional_kwargs": marked})


class Handoff(NamedTuple):
    """How a graph ends by a command to its parent graph.

    Attributes:
        target: The name of the agent that is transferred to; None for none.
        messages: The new messages: those of the command, or the result of the call that made it.
        values: All else that the command writes, by name.
        task: The task of that agent.
        leaving: Where the run leaves the tree for.
    """

    target: str | None
    messages: list[BaseMessage]
    values: Mapping[str, object]
    task: Task | None = None
    leaving: Leaving | None = None


def handoff_of(
    activation: Activation,
    command: Command[str],
    messages: Sequence[BaseMessage],
    known: Mapping[str, object],
    said: Sequence[BaseMessage] = (),
    call: str | None = None,
) -> Handoff:
    """Return the effect of a command to the parent graph, in the form of LangGraph's handoff tools.

    Without a target it is an update of the run, and the agent ends, as LangGraph's subgraphs do.

    Args:
        activation: The activation of the agent that runs the graph.
        command: The command.
        messages: The messages in the state of the graph.
        known: The rest of that state.
        said: The messages of its nodes since then.
        call: The id of the call that made the command, if that is known.

    Raises:
        InvalidOutputError: It names several agents, or an unknown one.
    """
    try:
        sent = sent_by(command.goto)
        target, there = sole_target(command.goto), activation.node_context.targets
        handed = handoff_update(command, lambda: {**known, "messages": messages})
        new = new_messages(handed.pop("messages", []), messages)
        made_by = _open_call([*messages, *said], call)
        if not command.goto:
            new = new or _result_of(made_by, "Done.")
            return Handoff(None, new, flattened(handed))
        if target in there:
            new = new or _result_of(made_by, f"Transferred to {target}.")
            done = [transferred(each, str(target)) for each in new]
            state = {**known, "messages": messages}
            task = None if sent is None else task_sent(activation, sent, state, _call_of(new))
            return Handoff(target, done, handed, task)
        if target is not None and activation.may_leave:
            new = new or _result_of(made_by, f"Transferred to {target}.")
            done = [transferred(each, target) for each in new]
            return Handoff(None, done, {}, leaving=leaving_for(activation, target, sent, handed))
        raise _command_error(activation, command)
    except ValueError as error:
        raise _command_error(activation, command, f"{error}; ") from error


def _command_error(
    activation: Activation, command: Command[str], fault: str = ""
) -> InvalidOutputError:
    there = ", ".join(map(repr, activation.node_context.targets))
    names = there or "none: only agents in a chat agent's sub_agents can"
    return InvalidOutputError(
        f"{activation.address}: a LangGraph graph in the agent "
        f"{activation.node_context.place.home.name!r} ended by Command(goto={command.goto!r}, "
        f"graph=Command.PARENT), and nothing of the command was written; {fault}it may transfer to "
        f"one agent, by its name; possible: {names}"
    )


def end_by_command(activation: Activation, handoff: Handoff, inner: Container[str]) -> bool:
    """Write the values of a command to the parent graph, and go where it leads.

    Args:
        activation: The activation of the agent that runs the graph.
        handoff: The effect of the command.
        inner: The channels of the graph, whose values a handoff hands on as it found them.

    Returns:
        Whether it leads elsewhere; else the agent has only ended.
    """
    if handoff.leaving is not None:
        activation.leave_tree(handoff.leaving)
    elif handoff.target is not None:
        activation.output.set_values({k: v for k, v in handoff.values.items() if k not in inner})
        activation.transfer(handoff.target, task=handoff.task)
    else:
        _write(activation, handoff.values)
        return False
    return True


def _write(activation: Activation, values: Mapping[str, object]) -> None:
    if values:
        activation.output.emit_values(values)


def leaving_for(
    activation: Activation, node: str, sent: Send | None, update: Mapping[str, object]
) -> Leaving:
    """Return how the run leaves the tree for a node of the graph around it.

    Raises:
        InvalidOutputError: A written or sent value there cannot be saved.
    """
    saved = activation.output.saved(f"the update for {node!r}", dict(update))
    leaving = Leaving(goto=node, update=saved)
    if sent is not None:
        leaving["sent"] = [activation.output.saved(f"what it sends to {node!r}", sent.arg)]
    return leaving


def _call_of(messages: Iterable[BaseMessage]) -> str | None:
    calls = [call for each in messages if (call := _call_in(each))]
    return calls[-1] if calls else None


def _open_call(messages: Sequence[BaseMessage], call: str | None) -> ToolCall | InvalidToolCall | None:
    """Return the call of the last reply with an id; without one, the only call that has no result."""
    replies = (at for at in reversed(range(len(messages))) if messages[at].type == "ai")
    if (at := next(replies, None)) is None:
        return None
    results = {_call_in(each) for each in messages[at + 1 :]}
    calls = {call_id(each): each for each in calls_of(messages[at])}
    wanted = [call] if call else [each for each in calls if each not in results]
    return calls.get(wanted[0]) if len(wanted) == 1 else None


def _result_of(call: ToolCall | InvalidToolCall | None, text: str) -> list[BaseMessage]:
    return [] if call is None else [ToolMessage(text, name=call["name"], tool_call_id=call_id(call))]


def ignored(handoff: Handoff) -> Handoff:
    """Return a handoff that is not carried out, as a later one is: what it writes stays."""
    done = [
        each.model_copy(update={"content": PASSED_OVER, "status": "error", "additional_kwargs": {}})
        if isinstance(each, ToolMessage)
        else each
        for each in handoff.messages
    ]
    return handoff._replace(target=None, leaving=None, messages=done)
