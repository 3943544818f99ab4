"""History policies with a token budget: trimmed or summarized.

Trimming is a function of messages in this module. LangChain's middleware writes the summaries.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from langchain_core.messages import BaseMessage, ToolMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately

from agentgraph.agents.entries import Entry
from agentgraph.agents.functions import discard, is_awaitable
from agentgraph.agents.habits.options import hints_options
from agentgraph.errors import InvalidOutputError
from agentgraph.safe_repr import shown

if TYPE_CHECKING:
    from langchain_core.language_models import LanguageModelLike

PolicyWord = Literal["shared", "path", "own", "last", "input"]
"""The history policies that have a name."""
Selected: TypeAlias = Sequence[BaseMessage] | Awaitable[Sequence[BaseMessage]]
ChosenBy = PolicyWord | Callable[[list[Entry]], Selected]
"""The selection of messages before the budget applies: a word, or a function from `Entry` objects, sync
or async."""
TokenCounter = Callable[[list[BaseMessage]], int]
"""Counts the tokens of messages; with `len` the budget is a number of messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """A history policy that shows the newest messages, as many as fit.

    Its fields are the options of `trimmed`.
    """

    max_tokens: int
    history: ChosenBy = "shared"
    token_counter: TokenCounter = count_tokens_approximately


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarized:
    """A history policy by which a model summarizes the older messages when there are too many.

    Its fields are the options of `summarized`.
    """

    model: "LanguageModelLike | str"
    max_tokens: int
    history: ChosenBy = "shared"
    token_counter: TokenCounter = count_tokens_approximately
    instruction: str | None = None


_OURS = (count_tokens_approximately, len)
"""Counters known to be sync."""

HistoryFunction = Callable[[list[Entry]], object]


def history_function(policy: object) -> HistoryFunction | None:
    """Return the function that selects the messages of a policy, or None for a word."""
    while isinstance(policy, Trimmed | Summarized):
        policy = policy.history
    return policy if callable(policy) else None


def with_function(policy: Any, fn: Callable[[list[Entry]], Sequence[BaseMessage]]) -> Any:
    """Replace the function of a policy."""
    if isinstance(policy, Trimmed | Summarized):
        return replace(policy, history=with_function(policy.history, fn))
    return fn


@hints_options
def trimmed(
    max_tokens: int,
    *,
    history: ChosenBy = "shared",
    token_counter: TokenCounter = count_tokens_approximately,
) -> Trimmed:
    """Make a history policy that shows the newest messages, as many as fit `max_tokens`.

    It always shows the last message, and never a tool call without its results.

    >>> newest = trimmed(2, token_counter=len)
    >>> said = lambda ctx: " and ".join(message.text for message in ctx.messages)
    >>> echo = function_agent("echo", said, history=newest)
    >>> [event.text for event in Runner(echo).run(["one", "two", "three"])]
    ['two and three']

    Args:
        max_tokens: The maximum number of tokens of the messages, at least 1; the instruction and the
            tools are not counted.
        history: The policy that selects the messages first, as in `chat_agent`.
        token_counter: Counts the tokens of a list of messages; by default LangChain's
            `count_tokens_approximately`: about four characters a token. `len` counts messages.

    Returns:
        The policy, for the `history=` of a leaf.
    """
    return Trimmed(**locals())


@hints_options
def summarized(
    model: "LanguageModelLike | str",
    max_tokens: int,
    *,
    history: ChosenBy = "shared",
    token_counter: TokenCounter = count_tokens_approximately,
    instruction: str | None = None,
) -> Summarized:
    r"""Make a history policy by which `model` summarizes older messages when they reach `max_tokens`.

    This is LangChain's `SummarizationMiddleware`, the innermost of the agent's middleware: it runs
    before the model call, in its own node, after all other middleware that runs before the model. The
    newest messages, about half the budget and at least the last one, are not summarized, and tool calls
    stay with their results. Only this agent sees the summary; the history is unchanged. The summary is
    saved with the thread until the messages reach `max_tokens` again; with a `history` of "last",
    "input" or a function it is saved until the agent has answered.

    If the summary model fails, it is called up to three times; then the agent fails with its error, and
    a resume calls it again. If it rejects the messages as too long, it is called once more without the
    middle ones, with a note about that. For other settings of LangChain pass its middleware in
    `middleware=`.

    >>> from agentgraph.testing import ScriptedChatModel
    >>> asked = ScriptedChatModel(responses=["They hum."])
    >>> policy = summarized(ScriptedChatModel(responses=["Of bees."]), 2, token_counter=len)
    >>> _ = list(Runner(chat_agent("writer", asked, history=policy)).run(["one", "two", "three"]))
    >>> [message.text for message in asked.inputs[0]]
    ['Here is a summary of the conversation to date:\n\nOf bees.', 'three']

    Args:
        model: The LangChain chat model that writes the summary, or its name for LangChain's
            `init_chat_model`, such as `"openai:gpt-5-mini"`.
        max_tokens: The number of tokens, at least 1, at which the older messages are summarized; the
            instruction and the tools are not counted.
        history: The policy that selects the messages first, as in `chat_agent`.
        token_counter: Counts the tokens of a list of messages. By default LangChain's
            `count_tokens_approximately`: about four characters a token. With the default, LangChain
            also uses the token count of the last call, with instruction and tools, if the provider
            reports it and `model` has the same provider. `len` counts messages.
        instruction: The prompt of `model`; by default LangChain's. The messages replace `{messages}`,
            or follow the prompt if it has none; other braces are unchanged.

    Returns:
        The policy, for the `history=` of a chat agent; functions and graphs take `trimmed` only.
    """
    return Summarized(**locals())


def checked(counter: TokenCounter) -> TokenCounter:
    """Make a counter that rejects awaitables, because LangChain calls counters synchronously."""

    def count(messages: list[BaseMessage]) -> int:
        tokens: object = counter(messages)
        if is_awaitable(tokens):
            discard(tokens)
            raise InvalidOutputError(
                f"token_counter={shown(counter)} is async, and LangChain calls it synchronously; pass "
                "a sync function"
            )
        return cast(int, tokens)

    return count


def fitting(
    messages: Sequence[BaseMessage], max_tokens: int, token_counter: TokenCounter
) -> list[BaseMessage]:
    """Return the newest of `messages` that together have at most `max_tokens`.

    A cut list starts with a message of a person or a model, so that no tool result appears without
    its call; the last message, with its call if it is a result, is included whatever its size. Each
    call in `messages` must be followed by its results, as `history.paired` ensures.

    >>> from langchain_core.messages import HumanMessage
    >>> said = [HumanMessage("one"), HumanMessage("two"), HumanMessage("three")]
    >>> [message.text for message in fitting(said, 2, len)]
    ['two', 'three']
    """
    everything = list(messages)
    if token_counter not in _OURS:
        token_counter = checked(token_counter)
    if token_counter(everything) <= max_tokens:
        return everything
    kept = trim_messages(
        everything,
        max_tokens=max_tokens,
        token_counter=token_counter,
        strategy="last",
        start_on=("human", "ai"),
    )
    return kept or everything[_last_start(everything) :]


def _last_start(messages: list[BaseMessage]) -> int:
    """Return the index of the last message, or of its call if it is a tool result."""
    return next((i for i in reversed(range(len(messages))) if not _is_result(messages[i])), 0)


def _is_result(message: BaseMessage) -> bool:
    return isinstance(message, ToolMessage)
