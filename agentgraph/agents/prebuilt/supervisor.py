"""A supervisor: a chat agent that calls workers as tools, or transfers to them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from agentgraph.agents.agents import (
    Agent,
    Approval,
    ChatAgent,
    Handoff,
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
from agentgraph.agents.builders import agent_tool, as_tuple, chat_agent
from agentgraph.agents.entries import Entry
from agentgraph.agents.functions import Asks, is_hook, takes_two
from agentgraph.agents.habits.options import hints_options
from agentgraph.agents.limits import Limits, word_faults
from agentgraph.agents.signals import AnswerTimeout
from agentgraph.agents.tool_results import FORWARD, TRANSFERRED, Answer

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from agentgraph.agents.context import Context

_OWN = ("workers", "mode", "worker_history", "output_mode", "forward")
"""The options of `supervisor` that `chat_agent` does not have."""


@hints_options
def supervisor(
    name: str,
    model: Model,
    workers: Iterable[Agent | Handoff],
    *,
    mode: Literal["tools", "handoff"] = "tools",
    output_mode: Literal["full", "last"] = "full",
    forward: bool = False,
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
    approve_timeout: AnswerTimeout = None,
    on_tool_error: OnToolError = "return",
    retry: Retry = None,
    timeout: Timeout = None,
    model_input: ModelInput | None = None,
    middleware: "Iterable[Middleware]" = (),
    limits: Limits | None = None,
) -> ChatAgent:
    """Make an agent whose model assigns tasks to workers until it answers by itself.

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
            their descriptions. With `mode="handoff"` a `handoff(worker, ...)` sets more options.
        mode: Whether the supervisor calls workers as tools, or transfers to them.
        output_mode: With `mode="handoff"`, the messages of a worker that others see: "full", all,
            or "last", its last message. Events and the saved history have all.
        forward: Whether the model has a tool `forward_message(from_agent)`, which makes the last
            message of a worker, unchanged, the answer of the supervisor.
        worker_history: With `mode="tools"`, whether workers see only their request ("input"), or the
            supervisor's messages, and then their request ("shared").

    The other options are those of `chat_agent`; its model must take tools. `max_iterations` counts the
    calls after a worker's return too. `approve` may name workers: the tool of a worker has the worker's
    name, or with `mode="handoff"` the name `transfer_to_<name>`. `on_tool_error` also applies to
    a worker that fails; with `mode="handoff"` a worker's failure always raises. `middleware` also wraps
    the tool calls of workers.

    Returns:
        The agent; `compile_agent` checks it.
    """
    options = {key: value for key, value in locals().items() if key not in _OWN}
    agents = as_tuple(workers)
    names = [str(getattr(each, "name", each)) for each in map(_worker, agents)]
    options["model_input"] = with_reminder(model_input, names)
    options["tools"] = tools = (*as_tuple(tools), *([forward_tool(names)] if forward else []))
    if mode == "handoff":
        options |= {"sub_agents": agents, "sub_agents_return": True}
    else:
        called = (agent_tool(_worker(each), history=worker_history) for each in agents)
        options["tools"] = (*called, *tools)
    faults = tuple(_faults(agents, mode, worker_history, output_mode))
    return replace(chat_agent(**options), output_mode=output_mode, faults=faults)


def _worker(given: Agent | Handoff) -> Agent:
    return given.agent if isinstance(given, Handoff) else given


def _faults(
    workers: Sequence[Agent | Handoff], mode: object, worker_history: object, output_mode: object
) -> Iterator[str]:
    if not workers:
        yield "a supervisor needs at least one worker"
    yield from word_faults("mode", mode, ("tools", "handoff"))
    yield from word_faults("output_mode", output_mode, ("full", "last"))
    if mode == "tools" and output_mode == "last":
        yield "output_mode='last' needs mode='handoff', because others do not see a worker as a tool"
    if mode == "handoff":
        yield from word_faults("worker_history", worker_history, ("input", "shared"))
    elif any(isinstance(each, Handoff) for each in workers):
        yield "a handoff as a worker needs mode='handoff'; pass the agent itself"


def forward_tool(workers: Sequence[str]) -> "BaseTool":
    """Make the tool with which a supervisor forwards the last message of one of its workers."""
    from langchain_core.tools import StructuredTool  # a slow import that most supervisors do not need

    from agentgraph.agents.context import Context
    from agentgraph.agents.tools import CallId

    def forward_message(from_agent: str, tool_call_id: CallId, ctx: Context) -> Answer | ToolMessage:
        turns = worker_turns(ctx.entries, ctx.name, workers)
        said = [turn.result for turn in turns if turn.worker == from_agent]
        if said:
            return Answer(said[-1])
        names = ", ".join(dict.fromkeys(turn.worker for turn in turns)) or "none"
        text = f"Error: {from_agent} has said nothing since the user's input; said by: {names}."
        return ToolMessage(text, tool_call_id=tool_call_id, status="error")

    about = "Answers the user with the last message of a worker, unchanged. Workers: "
    return StructuredTool.from_function(
        forward_message, name=FORWARD, description=about + ", ".join(workers), return_direct=True
    )


PATIENCE = 3
"""Number of equal results of a worker in a row that triggers the reminder."""


def with_reminder(model_input: ModelInput | None, workers: Sequence[str]) -> ModelInput:
    """Make a `model_input` that adds the reminder, and then calls the given one."""
    if model_input is not None and not is_hook(model_input):
        return model_input  # a fault, reported when the tree is compiled
    return Reminder(tuple(workers), model_input)


@dataclass(frozen=True, slots=True)
class Reminder(Asks):
    """Adds a message if the last turns of a worker had the same result.

    Attributes:
        workers: The names of the workers.
        inner: The user's `model_input`, called last.
    """

    workers: tuple[str, ...]
    inner: Callable[..., Any] | None = None

    @property
    def function(self) -> object:
        """The user's `model_input`."""
        return self.inner

    def __call__(self, ctx: "Context", messages: list[BaseMessage]) -> Any:
        """Return the messages to send to the model, or an awaitable of them if `inner` returned one."""
        turns = worker_turns(ctx.entries, ctx.name, self.workers)
        if len(turns) >= PATIENCE and len(set(turns[-PATIENCE:])) == 1:
            messages = [*messages, HumanMessage(_reminder(turns))]
        if self.inner is None:
            return messages
        return self.inner(ctx, messages) if takes_two(self.inner) else self.inner(messages)


class WorkerTurn(NamedTuple):
    """The result of a worker that the supervisor called or transferred to.

    Attributes:
        worker: The name of the worker.
        result: The text of its last message.
    """

    worker: str
    result: str


def worker_turns(entries: Sequence[Entry], me: str, workers: Sequence[str]) -> list[WorkerTurn]:
    """Return the turns of the workers that `me` has called since the user's last input.

    A worker that is a tool answers in the result of its call; after a transfer, the messages of the
    worker follow the result of the transfer, until the next message of `me`.
    """
    turns: list[WorkerTurn] = []
    handed_over = False
    for entry in entries:
        message = entry.message
        if entry.agent_name is None:
            turns.clear()
        elif entry.agent_name == me:
            to = message.additional_kwargs.get(TRANSFERRED)
            name = to or message.name or ""
            named = isinstance(message, ToolMessage) and name in workers
            handed_over = named and to is not None
            if named:
                turns.append(WorkerTurn(name, "" if handed_over else str(message.text)))
        elif handed_over:
            turns[-1] = turns[-1]._replace(result=str(message.text))
        handed_over = handed_over and bool(turns)
    return turns


def _reminder(turns: Sequence[WorkerTurn]) -> str:
    last = turns[-1]
    count = next((i for i, turn in enumerate(reversed(turns)) if turn != last), len(turns))
    return (
        f"{last.worker} was named {count} times in a row and said the same each time. Ask for "
        "something else, name another one, or answer yourself."
    )
