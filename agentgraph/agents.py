"""The agents: frozen values that say what runs, and the builders that make them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, overload

from langchain_core.language_models import LanguageModelLike
from langchain_core.messages import BaseMessage

HistoryPolicy = (
    Literal["shared", "path", "own", "last", "input"] | Callable[[list[Any]], list[BaseMessage]]
)
"""Which messages an agent sees: one of five words, or a function from `Entry`s to messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAgent:
    """A leaf that asks a chat model and says its reply."""

    name: str
    """The agent's name, and that of its node."""
    model: LanguageModelLike
    """The LangChain chat model, or a runnable around one (`with_retry`, `with_fallbacks`)."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""
    instruction: str = ""
    """The template of the system message."""
    output_key: str | None = None
    """The value that the text of its reply becomes."""
    history: HistoryPolicy = "shared"
    """Which messages it sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionAgent:
    """A leaf that calls a function."""

    name: str
    """The agent's name, and that of its node."""
    fn: Callable[[Any], Any]
    """Called with a `Context`; sync or async, plain or generator."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""
    output_key: str | None = None
    """The value that the text of its last message becomes."""
    history: HistoryPolicy = "shared"
    """Which messages it sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanAgent:
    """A leaf that asks a person and says the answer."""

    name: str
    """The agent's name, and that of its node."""
    prompt: Any
    """What is asked: a template, or plain data that is asked as it is."""
    response_schema: type | dict[str, Any] | None = None
    """What an answer must fit: a type that pydantic knows, or a JSON schema."""
    output_key: str | None = None
    """The value that the answer becomes."""
    description: str = ""
    """What the person is asked for, in a sentence that other agents read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialAgent:
    """A composite that runs its sub-agents one after the other."""

    name: str
    """The agent's name."""
    sub_agents: tuple["Agent", ...]
    """Its sub-agents, in the order in which they run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelAgent:
    """A composite that runs its sub-agents at the same time, each in a lane of its own."""

    name: str
    """The agent's name, and that of the node that runs the lanes."""
    sub_agents: tuple["Agent", ...]
    """Its branches, in the order in which their results are joined."""
    max_concurrency: int | None = None
    """How many branches run at once; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopAgent:
    """A composite that runs its sub-agents in turn, again and again."""

    name: str
    """The agent's name."""
    sub_agents: tuple["Agent", ...]
    """The body of the loop."""
    max_iterations: int | None
    """After how many iterations it ends; None for no bound."""
    until: Callable[[Any], bool] | None = None
    """Asked with a `Context` after each iteration: whether the loop ends."""


Leaf = ChatAgent | FunctionAgent | HumanAgent
Composite = SequentialAgent | ParallelAgent | LoopAgent
Agent = Leaf | Composite

LEAVES = (ChatAgent, FunctionAgent, HumanAgent)
COMPOSITES = (SequentialAgent, ParallelAgent, LoopAgent)


def chat_agent(
    name: str,
    model: LanguageModelLike,
    *,
    description: str = "",
    instruction: str = "",
    output_key: str | None = None,
    history: HistoryPolicy = "shared",
) -> ChatAgent:
    """Make an agent that asks a chat model and says its reply.

    Args:
        name: The agent's name: letters, digits, `_` and `-`.
        model: A LangChain chat model, or a runnable around one.
        description: What the agent is for.
        instruction: The system message, a template: `{topic}` is filled from the values of the
            run, `{topic?}` with nothing where there is none, `{{` and `}}` are braces, and any
            other text in braces stays as it is.
        output_key: The value that the text of the reply becomes.
        history: Which messages the model is sent: "shared" (all), "path" (those on the way to
            this agent), "own", "last" (the user's input and the last answer), "input" (the
            user's input), or a function from entries to messages.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    return ChatAgent(
        name=name,
        model=model,
        description=description,
        instruction=instruction,
        output_key=output_key,
        history=history,
    )


def function_agent(
    name: str,
    fn: Callable[[Any], Any],
    *,
    description: str = "",
    output_key: str | None = None,
    history: HistoryPolicy = "shared",
) -> FunctionAgent:
    """Make an agent that calls `fn(ctx)`, sync or async, plain or generator.

    `fn` returns, or yields one by one, `str` (said as an assistant message), a LangChain
    message, `Exit()`, `BreakLoop()`, `Ask(...)`, `Custom(data)`, `SetValues(...)`, or nothing.
    Its return annotation says what it may do, and so what is drawn: `-> str` only speaks,
    `-> str | Exit` may end the run, `-> Iterator[str | Ask]` may ask; without one it may do all.

    Args:
        name: The agent's name: letters, digits, `_` and `-`.
        fn: Called with a `Context`.
        description: What the agent is for.
        output_key: The value that the text of its last message becomes.
        history: Which messages `ctx.messages` holds; see `chat_agent`.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    return FunctionAgent(
        name=name, fn=fn, description=description, output_key=output_key, history=history
    )


@overload
def agent(fn: Callable[[Any], Any], /) -> FunctionAgent: ...


@overload
def agent(
    *,
    name: str | None = None,
    description: str | None = None,
    output_key: str | None = None,
    history: HistoryPolicy = "shared",
) -> Callable[[Callable[[Any], Any]], FunctionAgent]: ...


def agent(
    fn: Callable[[Any], Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    output_key: str | None = None,
    history: HistoryPolicy = "shared",
) -> FunctionAgent | Callable[[Callable[[Any], Any]], FunctionAgent]:
    """Make a function an agent: `function_agent` as a decorator, bare or with arguments.

    The name is the function's, the description the first line of its docstring.

    >>> @agent
    ... def greeter(ctx):
    ...     "Says hello."
    ...     return "hello"
    >>> greeter.name, greeter.description
    ('greeter', 'Says hello.')
    """

    def decorate(fn: Callable[[Any], Any]) -> FunctionAgent:
        return function_agent(
            name or str(getattr(fn, "__name__", type(fn).__name__)),
            fn,
            description=_first_line(fn) if description is None else description,
            output_key=output_key,
            history=history,
        )

    return decorate if fn is None else decorate(fn)


def human(
    name: str,
    prompt: Any,
    *,
    response_schema: type | dict[str, Any] | None = None,
    output_key: str | None = None,
    description: str = "",
) -> HumanAgent:
    """Make an agent that asks a person, and says the answer.

    Args:
        name: The agent's name: letters, digits, `_` and `-`.
        prompt: What is asked: a template as in `chat_agent`, or plain data.
        response_schema: What an answer must fit: a type that pydantic knows, or a JSON schema.
        output_key: The value that the answer becomes, as plain data.
        description: What the person is asked for.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    return HumanAgent(
        name=name,
        prompt=prompt,
        response_schema=response_schema,
        output_key=output_key,
        description=description,
    )


def sequential(name: str, sub_agents: Iterable[Agent]) -> SequentialAgent:
    """Make an agent that runs its sub-agents one after the other."""
    return SequentialAgent(name=name, sub_agents=_tuple(sub_agents))


def parallel(
    name: str, sub_agents: Iterable[Agent], *, max_concurrency: int | None = None
) -> ParallelAgent:
    """Make an agent that runs its sub-agents at the same time.

    Each branch sees what was there before the fork and what it adds itself; behind the join
    everyone sees all, branches in declared order. When a branch fails, the others stop behind
    the step that they are in, and the error is raised.

    Args:
        name: The agent's name.
        sub_agents: The branches.
        max_concurrency: How many run at once; None for all.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    return ParallelAgent(name=name, sub_agents=_tuple(sub_agents), max_concurrency=max_concurrency)


def loop(
    name: str,
    sub_agents: Iterable[Agent],
    *,
    max_iterations: int | None,
    until: Callable[[Any], bool] | None = None,
) -> LoopAgent:
    """Make an agent that runs its sub-agents in turn, again and again.

    Args:
        name: The agent's name.
        sub_agents: The body.
        max_iterations: After how many iterations the loop just ends; None for no bound, which
            is allowed only where `until` or something inside can end it.
        until: Asked with a `Context` after each iteration; the loop ends when it says yes.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    return LoopAgent(
        name=name, sub_agents=_tuple(sub_agents), max_iterations=max_iterations, until=until
    )


def _tuple(sub_agents: Any) -> tuple[Any, ...]:
    if isinstance(sub_agents, Iterable) and not isinstance(sub_agents, str):
        return tuple(sub_agents)
    return (sub_agents,)


def _first_line(fn: Callable[[Any], Any]) -> str:
    return (getattr(fn, "__doc__", None) or "").strip().partition("\n")[0]
