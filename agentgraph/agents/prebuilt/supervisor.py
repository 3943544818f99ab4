"""A supervisor with workers: a chat agent that calls them as tools, or hands over to them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from langchain_core.messages import ToolCall

from agentgraph.agents.agents import (
    Agent,
    ChatAgent,
    HistoryPolicy,
    Instruction,
    Model,
    ModelInput,
    OnToolError,
    OutputSchema,
    Retry,
    Timeout,
    Tool,
)
from agentgraph.agents.builders import agent_tool, chat_agent
from agentgraph.agents.composites import as_tuple
from agentgraph.agents.limits import word_faults
from agentgraph.agents.prebuilt.progress import with_reminder

_OWN = ("workers", "mode", "worker_history")
"""The options that a chat agent does not have."""


def supervisor(
    name: str,
    model: Model,
    workers: Iterable[Agent],
    *,
    mode: Literal["tools", "handoff"] = "tools",
    description: str = "",
    instruction: Instruction = "",
    tools: Iterable[Tool] = (),
    output_key: str | None = None,
    output_schema: "OutputSchema | None" = None,
    history: HistoryPolicy = "shared",
    worker_history: Literal["input", "shared"] = "input",
    max_iterations: int | None = 20,
    on_max_iterations: Literal["raise", "answer"] = "raise",
    exit_tool: bool = False,
    approve: Iterable[str] | Callable[[ToolCall], bool] | Mapping[str, Any] = (),
    interrupt_mode: Literal["batched", "per_call"] = "batched",
    on_tool_error: OnToolError = "return",
    retry: Retry = None,
    timeout: Timeout = None,
    model_input: ModelInput | None = None,
    middleware: Iterable[Any] = (),
) -> ChatAgent:
    """Make an agent whose model decides which worker does what, until it answers by itself.

    With `mode="tools"` each worker is a tool of the supervisor: it sees the request that it is
    given, several work at the same time, and the supervisor sees the last message of each. With
    `mode="handoff"` the supervisor transfers: the worker sees the history, says what it says in
    it, and when it ends it is the supervisor's turn again. A worker's Exit ends the run then.

    A worker that is named again and again, and says nothing new, is pointed out to the model.

    >>> from agentgraph.testing import ScriptedChatModel, call, calls, transcript
    >>> find = function_agent("find", lambda ctx: "Bees hum.")
    >>> model = ScriptedChatModel(responses=[calls(call("transfer_to_find")), "So they do."])
    >>> boss = supervisor("boss", model, [find], mode="handoff")
    >>> for line in transcript(Runner(boss).query("Go.")):
    ...     print(line)
    boss: [calls] transfer_to_find({})
    boss: Transferred to find.
    boss: [transfer_to] find
    boss/find: Bees hum.
    boss/find/boss: So they do.

    A run raises the errors of a `chat_agent`.

    Args:
        name: The agent's name: letters, digits, `_` and `-`; a name means one agent in a tree.
        model: A LangChain chat model that takes tools, or a runnable around one, a name, or a
            function, as in `chat_agent`.
        workers: The agents that work: composites and supervisors included; at least one. The model
            reads their descriptions.
        mode: Whether workers are tools, or are handed over to.
        description: What the supervisor is for, in a sentence that other agents read.
        instruction: The system message: a template, a `SystemMessage`, or a function, as in
            `chat_agent`.
        tools: Further tools of the supervisor's own.
        output_key: The value that the text of its last message becomes.
        output_schema: What its answer must fit, as in `chat_agent`.
        history: Which messages it is sent, as in `chat_agent`.
        worker_history: With `mode="tools"`, whether workers see their request only ("input"), or
            what the supervisor sees, and then their request ("shared").
        max_iterations: How many turns it has: how often its model may be asked, those after a
            worker's return included; None for no bound.
        on_max_iterations: What happens then: "raise" `MaxIterationsError`, or "answer", which asks
            once more without tools.
        exit_tool: Whether the model may end the run, with the tool `exit(final_result)`.
        approve: What a person must agree to, as in `chat_agent`; the tool of a worker has its name, or
            with `mode="handoff"` the name `transfer_to_<name>`.
        interrupt_mode: How a person is asked for that, as in `chat_agent`.
        on_tool_error: Whether the model is told of a failure in a worker or a tool ("return"), or
            the supervisor fails with it ("raise"), or what `chat_agent` takes besides; with
            `mode="handoff"` a worker's always raises.
        retry: LangGraph's `RetryPolicy`, or several, for a call of the model.
        timeout: How long a call of the model may take, as in `chat_agent`.
        model_input: Has the last word on what the model is sent, as in `chat_agent`.
        middleware: LangChain's middleware, as in `chat_agent`; what wraps tool calls wraps those of
            workers too.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    options = {key: given for key, given in locals().items() if key not in _OWN}
    agents = as_tuple(workers)
    names = [str(getattr(each, "name", each)) for each in agents]
    options["model_input"] = with_reminder(model_input, names)
    if mode == "handoff":
        options |= {"sub_agents": agents, "sub_agents_return": True}
    else:
        called = (agent_tool(each, history=worker_history) for each in agents)
        options["tools"] = (*called, *as_tuple(tools))
    made = chat_agent(**options)
    return replace(made, faults=tuple(_faults(agents, mode, worker_history)))


def _faults(workers: Sequence[Agent], mode: object, worker_history: object) -> Iterator[str]:
    if not workers:
        yield "a supervisor needs at least one worker"
    yield from word_faults("mode", mode, ("tools", "handoff"))
    if mode == "handoff":
        yield from word_faults("worker_history", worker_history, ("input", "shared"))
