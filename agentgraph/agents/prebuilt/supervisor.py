"""A supervisor: a chat agent that calls workers as tools, or hands over to them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from agentgraph.agents.agents import (
    Agent,
    Approval,
    ChatAgent,
    HistoryPolicy,
    Instruction,
    Middleware,
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
"""The options of `supervisor` that `chat_agent` does not have."""


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
    output_schema: OutputSchema = None,
    history: HistoryPolicy = "shared",
    worker_history: Literal["input", "shared"] = "input",
    max_iterations: int | None = 20,
    on_max_iterations: Literal["raise", "answer"] = "raise",
    exit_tool: bool = False,
    approve: Approval = (),
    interrupt_mode: Literal["batched", "per_call"] = "batched",
    on_tool_error: OnToolError = "return",
    retry: Retry = None,
    timeout: Timeout = None,
    model_input: ModelInput | None = None,
    middleware: "Iterable[Middleware]" = (),
) -> ChatAgent:
    """Make an agent whose model decides which worker does what, until it answers by itself.

    With `mode="tools"` each worker is a tool of the supervisor: it sees its request, several workers
    run at the same time, and the supervisor sees the last message of each. With `mode="handoff"`
    the supervisor transfers: the worker sees the history and adds its messages to it, and when it
    ends the supervisor continues. In this mode a worker's Exit ends the run.

    If a worker is called repeatedly with the same result, the model gets a reminder.

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

    Args:
        workers: The workers, which may be composites and supervisors; at least one. The model reads
            their descriptions.
        mode: Whether the supervisor calls workers as tools, or hands over to them.
        worker_history: With `mode="tools"`, whether workers see only their request ("input"), or
            what the supervisor sees, and then their request ("shared").

    The other options are those of `chat_agent`; its model must take tools. `max_iterations` counts the
    calls after a worker's return too. `approve` may name workers: the tool of a worker has the worker's
    name, or with `mode="handoff"` the name `transfer_to_<name>`. `on_tool_error` also decides what
    happens when a worker fails; with `mode="handoff"` a worker's failure always raises. `middleware`
    also wraps the tool calls of workers.

    Returns:
        The agent; `compile_agent` checks it.
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
