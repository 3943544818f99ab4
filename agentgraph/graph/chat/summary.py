"""LangChain's summarization, for a chat agent with `history=summarized(...)`.

Ours is what it lacks, or does otherwise than a history may:

- It makes a model of a name at once. Here that waits until it is needed.
- By default it sends the summarising model the last 4,000 tokens of what is summed up, and the rest is
  lost without a word. Here all of it is sent.
- It takes an empty reply for a summary, and all that it stands for is lost. Here that is an error.
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
from langchain_core.runnables import RunnableBinding

from agentgraph.agents.budgets import Summarized
from agentgraph.agents.middleware import SUMMARY
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.chat.models import core_of, model_named
from agentgraph.safe_repr import shown

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
        policy = self._policy
        return _is_estimate(policy) or policy.token_counter(state["messages"]) >= policy.max_tokens

    def _made(self) -> SummarizationMiddleware[Any, Any]:
        if self._summing is None:
            self._summing = summarization(self._agent, self._policy)
        return self._summing


def summarization(agent: str, policy: Summarized) -> SummarizationMiddleware[Any, Any]:
    """Return LangChain's middleware as the policy of an agent says.

    Raises:
        AgentGraphError: The name of the model does not become one.
    """
    model: Any = policy.model
    if isinstance(model, str):
        model = model_named(model, f"{agent}, in summarized(...)")
    counter: Any = policy.token_counter
    given = {} if policy.instruction is None else {"summary_prompt": _prompt(policy.instruction)}
    return SummarizationMiddleware(
        _Checked(bound=model, agent=agent),  # type: ignore[arg-type]
        trigger=("tokens", policy.max_tokens),
        keep=("tokens", max(policy.max_tokens // 2, 1)),
        token_counter=counter if _is_estimate(policy) else partial(counter),
        trim_tokens_to_summarize=None,
        **given,
    )


class _Checked(RunnableBinding[Any, Any]):
    """A summarising model whose replies are checked; its attributes are those of the model."""

    agent: str

    def invoke(self, *args: Any, **kwargs: Any) -> AIMessage:
        return self._summary(super().invoke(*args, **kwargs))

    async def ainvoke(self, *args: Any, **kwargs: Any) -> AIMessage:
        return self._summary(await super().ainvoke(*args, **kwargs))

    def with_retry(self, **kwargs: Any) -> "_Checked":
        return _Checked(bound=self.bound.with_retry(**kwargs), agent=self.agent)

    def _summary(self, reply: Any) -> AIMessage:
        message = AIMessage(reply) if isinstance(reply, str) else reply
        if not isinstance(message, AIMessage) or not message.text.strip():
            raise InvalidOutputError(
                f"{self.agent}: the model of summarized(...) gave {shown(reply)}, which is no summary; "
                "nothing was left out for it. Resume to ask it again, or use another model"
            )
        return message


def _is_estimate(policy: Summarized) -> bool:
    """Return whether the counter is LangChain's own, which asks the model what it is of."""
    is_chat_model = isinstance(policy.model, str) or isinstance(core_of(policy.model), BaseChatModel)
    return policy.token_counter is count_tokens_approximately and is_chat_model


def _prompt(instruction: str) -> str:
    """Return an instruction as LangChain's template, in which all other braces are doubled."""
    text = instruction if _MESSAGES in instruction else instruction + _AFTER
    literal = text.replace("{", "{{").replace("}", "}}")
    return literal.replace(f"{{{_MESSAGES}}}", _MESSAGES)
