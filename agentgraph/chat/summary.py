"""LangChain's summarization, for a chat agent with `history=summarized(...)`.

Ours is what it lacks, or does otherwise than a history may:

- It makes a model of a name at once. Here that waits until it is needed.
- By default it sends the summarising model the last 4,000 tokens of what is summed up, and the rest is
  lost without a word. Here all of it is sent.
- It goes by the tokens that the provider reports as well as by the counter. That is right for its own
  counter, which estimates; a counter that the user gives may count anything, and alone decides.
"""

import asyncio
from functools import partial
from typing import Any

from langchain.agents.middleware import AgentMiddleware, SummarizationMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.runnables import RunnableLambda

from agentgraph.budgets import Summarized
from agentgraph.chat.models import model_named
from agentgraph.middleware import SUMMARY

_MESSAGES = "{messages}"
"""Where LangChain puts the messages into the prompt."""
_AFTER = f"\n\n<messages>\n{_MESSAGES}\n</messages>"
"""How they follow a prompt that does not say where."""


class Summarizing(AgentMiddleware[Any, Any, Any]):
    """Sums up what a chat agent sees before its model is asked, as its `history=` says."""

    transformers = SummarizationMiddleware.transformers

    def __init__(self, agent: str, policy: Summarized) -> None:
        """Make the middleware of an agent.

        Args:
            agent: The agent's name.
            policy: Its `history=`.
        """
        super().__init__()
        self._agent, self._policy = agent, policy
        self._summing: SummarizationMiddleware[Any, Any] | None = None

    @property
    def name(self) -> str:
        """The name of LangChain's middleware, which no other one of the agent has."""
        return SUMMARY

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Sum up what there is too much of."""
        if not self._may_be_due(state):
            return None
        return self._made().before_model(state, runtime)

    async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Sum up on the event loop; the model is made in a thread, for that imports packages."""
        if not self._may_be_due(state):
            return None
        made = await asyncio.to_thread(self._made) if self._summing is None else self._summing
        return await made.abefore_model(state, runtime)

    def _may_be_due(self, state: Any) -> bool:
        counter = self._policy.token_counter
        is_estimate = counter is count_tokens_approximately
        return is_estimate or counter(state["messages"]) >= self._policy.max_tokens

    def _made(self) -> SummarizationMiddleware[Any, Any]:
        if self._summing is None:
            self._summing = summarization(self._agent, self._policy)
        return self._summing


def summarization(agent: str, policy: Summarized) -> SummarizationMiddleware[Any, Any]:
    """Return LangChain's middleware as a policy says.

    Raises:
        AgentGraphError: The name of the model does not become one.
    """
    model: Any = policy.model
    if isinstance(model, str):
        model = model_named(model, f"{agent}, in summarized(...)")
    counter: Any = policy.token_counter
    if not isinstance(model, BaseChatModel):
        model = model | RunnableLambda(_as_message)
        counter = partial(counter) if counter is count_tokens_approximately else counter
    given = {} if policy.instruction is None else {"summary_prompt": _prompt(policy.instruction)}
    return SummarizationMiddleware(
        model,
        trigger=("tokens", policy.max_tokens),
        keep=("tokens", max(policy.max_tokens // 2, 1)),
        token_counter=counter,
        trim_tokens_to_summarize=None,
        **given,
    )


def _prompt(instruction: str) -> str:
    """Return an instruction as LangChain's template, in which all other braces are doubled."""
    text = instruction if _MESSAGES in instruction else instruction + _AFTER
    literal = text.replace("{", "{{").replace("}", "}}")
    return literal.replace(f"{{{_MESSAGES}}}", _MESSAGES)


def _as_message(reply: Any) -> Any:
    """Return a reply as LangChain reads it; a model that is no chat model gives a text."""
    return AIMessage(reply) if isinstance(reply, str) else reply
