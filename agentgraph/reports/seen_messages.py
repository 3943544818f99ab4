"""The input messages of an activation, as its model, its function or its graph received them.

The functions of a run compute the messages again from a view. User functions are not called: if one may
have changed the messages, a remark says so.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, cast

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.runnables import Runnable

from agentgraph.agents.agents import ChatAgent, HistoryPolicy
from agentgraph.agents.budgets import ChosenBy, Summarized, Trimmed
from agentgraph.agents.middleware import any_has
from agentgraph.agents.prebuilt.supervisor import Reminder
from agentgraph.errors import MissingValueError
from agentgraph.graph.nodes.view import View
from agentgraph.graph.stamps import is_steered
from agentgraph.graph.sync_async import run_calls
from agentgraph.journal.steps import AgentStep

_COUNTERS = (count_tokens_approximately, len)
"""The token counters that are not user functions."""


class SeenMessages(NamedTuple):
    """The input messages of an activation.

    Attributes:
        messages: The messages.
        remarks: Unknown changes of the messages.
    """

    messages: list[BaseMessage]
    remarks: list[str]


def seen_messages(view: View, agent_step: AgentStep) -> SeenMessages:
    """Return the input messages of an activation in a step.

    Args:
        view: The view of the step.
        agent_step: The step.
    """
    place = view.node_context.place
    if place.chat is not None:
        return _seen_by_model(view, agent_step, place.chat)
    if place.home.kind.is_flattened:
        return SeenMessages([], ["a node of a flattened graph sees the state of its graph"])
    agent: Any = place.agent
    if not hasattr(agent, "history"):
        return SeenMessages([], [])
    policy, remarks = _quiet(agent.history)
    if getattr(agent, "input", None) is not None:
        remarks.append("input= is a function: its changes of these messages are not shown")
    if place.kind.runs_graph and getattr(agent.graph, "checkpointer", None) is True:
        remarks.append("the graph keeps its own messages, which are not shown")
    return SeenMessages(view.context(policy).seen, remarks)


def _seen_by_model(view: View, agent_step: AgentStep, agent: ChatAgent) -> SeenMessages:
    from agentgraph.graph.chat.agent import BuiltAgent
    from agentgraph.graph.chat.context_edits import as_edited, edits_in, with_ids
    from agentgraph.graph.chat.model_call import with_system
    from agentgraph.graph.chat.models import takes_tools

    view = _with_steered(view, agent_step)
    policy, remarks = _quiet(agent.history)
    context, built = view.context(policy), BuiltAgent(view.node_context)
    messages: Sequence[BaseMessage] = context.seen
    edits = edits_in(view.record, is_of_task=bool(view.tasks)) if built.keeps_record else {}
    if edits and (view.progress or (built.keeps_edits and not view.tasks)):
        messages = as_edited(with_ids(view, messages), edits, is_open=False)
    system: SystemMessage | None = None
    try:
        if isinstance(agent.instruction, str | SystemMessage):
            system = run_calls(built.system(context))
        else:
            remarks.append("instruction= is a function: its result is not shown")
    except MissingValueError as error:
        remarks.append(f"the instruction was not filled: {error}")
    seen = [*([system] if system else []), *messages]
    answer_format = built.answer_format
    is_toolless = isinstance(agent.model, Runnable) and not takes_tools(agent.model)
    if answer_format is not None and (is_toolless or not built.takes_node):
        seen = with_system(seen, answer_format.instruction())
    hook: object = agent.model_input
    if isinstance(hook, Reminder):
        seen, hook = [*replace(hook, inner=None)(context, seen)], hook.inner
    if hook is not None:
        remarks.append("model_input= is a function: its changes of these messages are not shown")
    if any_has(agent.middleware, "wrap_model_call"):
        remarks.append("middleware wraps the model call: its changes are not shown")
    return SeenMessages(seen, remarks)


def _with_steered(view: View, agent_step: AgentStep) -> View:
    if agent_step.visit.node != agent_step.place.nodes.round:
        return view
    written = (each.get("messages") for each in agent_step.saved.writes.values() if "position" in each)
    messages = next(written, None) or ()
    steered = [each for each in messages if isinstance(each, BaseMessage) and is_steered(each)]
    view = copy(view)
    view.receive(steered)
    return view


def _quiet(policy: HistoryPolicy) -> tuple[HistoryPolicy, list[str]]:
    match policy:
        case Summarized(history=inner):
            return _quiet(inner)
        case Trimmed(history=inner, token_counter=counter):
            chosen, remarks = _quiet(inner)
            if counter in _COUNTERS:
                return replace(policy, history=cast(ChosenBy, chosen)), remarks
            return chosen, [
                *remarks,
                "token_counter= is a function: its cuts are not shown",
            ]
        case str():
            return policy, []
    return "shared", ["history= is a function: these are the messages of history='shared'"]
