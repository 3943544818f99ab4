"""Budgets: histories that keep within a number of tokens, by trimming or by a summary.

Trimming is a function of messages, and done here. Summing up is left to LangChain's middleware.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.language_models import LanguageModelLike
from langchain_core.messages import BaseMessage, ToolMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately

PolicyWord = Literal["shared", "path", "own", "last", "input"]
"""The policies that have a name."""
ChosenBy = PolicyWord | Callable[[list[Any]], list[BaseMessage]]
"""What chooses the messages that a budget is then held to: a word, or a function from `Entry`s."""
TokenCounter = Callable[[list[BaseMessage]], int]
"""Counts the tokens of messages; `len` makes a budget one of messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """A history of which only the newest messages are seen, as many as fit."""

    max_tokens: int
    """How many tokens the messages may have; the instruction and the tools are not counted."""
    history: ChosenBy = "shared"
    """The policy that chooses the messages."""
    token_counter: TokenCounter = count_tokens_approximately
    """Counts the tokens of messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarized:
    """A history of which a model sums up the older messages when they are too many."""

    model: LanguageModelLike | str
    """The LangChain chat model that writes the summary, or its name."""
    max_tokens: int
    """How many tokens the messages may come to before the older ones are summed up."""
    history: ChosenBy = "shared"
    """The policy that chooses the messages."""
    token_counter: TokenCounter = count_tokens_approximately
    """Counts the tokens of messages."""
    instruction: str | None = None
    """What the summarising model is told to do; None for LangChain's prompt."""


def trimmed(
    max_tokens: int,
    *,
    history: ChosenBy = "shared",
    token_counter: TokenCounter = count_tokens_approximately,
) -> Trimmed:
    """Make a history policy that shows the newest messages, as many as fit `max_tokens`.

    The last message is always shown, and a tool call never without its results.

    >>> newest = trimmed(2, token_counter=len)
    >>> said = lambda ctx: " and ".join(message.text for message in ctx.messages)
    >>> echo = function_agent("echo", said, history=newest)
    >>> [event.text for event in Runner(echo).run(["one", "two", "three"])]
    ['two and three']

    Args:
        max_tokens: How many tokens the messages may have, from 1; the instruction and the tools are
            not counted.
        history: The policy that chooses the messages first, as in `chat_agent`.
        token_counter: Counts the tokens of a list of messages; by default LangChain's
            `count_tokens_approximately`, for which four characters are one. `len` counts messages.

    Returns:
        The policy, for the `history=` of a leaf.
    """
    return Trimmed(**locals())


def summarized(
    model: LanguageModelLike | str,
    max_tokens: int,
    *,
    history: ChosenBy = "shared",
    token_counter: TokenCounter = count_tokens_approximately,
    instruction: str | None = None,
) -> Summarized:
    r"""Make a history policy by which `model` sums up older messages when they reach `max_tokens`.

    This is LangChain's `SummarizationMiddleware`, the innermost of the agent's: it sums up before the
    model is asked, in a node of its own, after all other middleware that runs before the model. The
    newest messages, about half the budget, stay as they are; the last one always does, and no tool call
    is cut from its results. The summary is what this agent sees: the history keeps everything, and no
    other agent sees the summary. It is kept with the thread, and not written again before the messages
    reach `max_tokens` again; with a `history` of "last", "input" or a function it is kept until the
    agent has answered.

    A summarising model that fails is asked up to three times. Then its error is the agent's, and a
    resume asks again. One that refuses the messages as too long is asked once more without the middle
    of them, and told of it. For other settings of LangChain's pass its middleware in `middleware=`.

    >>> from agentgraph.testing import ScriptedChatModel
    >>> asked = ScriptedChatModel(responses=["They hum."])
    >>> policy = summarized(ScriptedChatModel(responses=["Of bees."]), 2, token_counter=len)
    >>> _ = list(Runner(chat_agent("writer", asked, history=policy)).run(["one", "two", "three"]))
    >>> [message.text for message in asked.inputs[0]]
    ['Here is a summary of the conversation to date:\n\nOf bees.', 'three']

    Args:
        model: The LangChain chat model that writes the summary, or its name for LangChain's
            `init_chat_model`, such as `"openai:gpt-5-mini"`.
        max_tokens: How many tokens the messages may come to, from 1, before the older ones are summed
            up; the instruction and the tools are not counted.
        history: The policy that chooses the messages first, as in `chat_agent`.
        token_counter: Counts the tokens of a list of messages. By default LangChain's
            `count_tokens_approximately`, for which four characters are about one; there LangChain also
            goes by the tokens of the last call, instruction and tools included, where the provider
            reports them and `model` is of the same provider. `len` counts messages.
        instruction: What `model` is told to do; by default LangChain's prompt. The messages come in the
            place of `{messages}`, else after it; other braces stay as they are.

    Returns:
        The policy, for the `history=` of a chat agent; functions and graphs take `trimmed` only.
    """
    return Summarized(**locals())


def fitting(
    messages: Sequence[BaseMessage], max_tokens: int, token_counter: TokenCounter
) -> list[BaseMessage]:
    """Return the newest of `messages` that together have at most `max_tokens`.

    Messages that must be cut begin with what a person or a model said, so that no tool result
    stands without its call; the last message, with its call where it is a result, stays whatever
    its size. Each call in `messages` must be followed by its results, as `history.paired` has it.

    >>> from langchain_core.messages import HumanMessage
    >>> said = [HumanMessage("one"), HumanMessage("two"), HumanMessage("three")]
    >>> [message.text for message in fitting(said, 2, len)]
    ['two', 'three']
    """
    everything = list(messages)
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
    """Return where the last message begins: at its call where it is the result of one."""
    return next((i for i in reversed(range(len(messages))) if not _is_result(messages[i])), 0)


def _is_result(message: BaseMessage) -> bool:
    return isinstance(message, ToolMessage)
