"""Decides whether LangGraph runs a leaf again that failed.

LangGraph asks `retry_on` of a policy for each failure, and cannot await what a function returns: a
coroutine would count as yes. So the node asks the functions itself when it fails, in the order of the
policies, and writes the answers on the exception; LangGraph then finds them there. Only a failure that
does not pass the node, such as LangGraph's idle timeout, has none: then the function is called there.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from langgraph.errors import GraphBubbleUp
from langgraph.types import RetryPolicy

from agentgraph.agents.functions import is_awaitable, raise_unawaitable
from agentgraph.graph.failures import arose_at_boundary, attach_answer, is_fatal, take_answer
from agentgraph.graph.nodes.asking import asked


class Retries:
    """The retry policies of a leaf.

    Attributes:
        policies: LangGraph's policies, which retry nothing that is not the leaf's own failure.
        asks: Whether any of them asks a function.
    """

    def __init__(self, policies: Sequence[RetryPolicy], where: str) -> None:
        """Make them.

        Args:
            policies: The policies as given.
            where: The name of the leaf in errors where its address is not known.
        """
        self._given, self._where = policies, where
        self.policies = [each._replace(retry_on=self._retry_on(each)) for each in policies]
        self.asks = any(map(_is_function, policies))

    async def ask(self, error: Exception, where: str) -> None:
        """Ask for a failure whether it is retried, up to the first policy that says so."""
        if isinstance(error, GraphBubbleUp) or _is_not_of_leaf(error):
            return
        for policy in self._given:
            if _is_function(policy):
                answer = await asked(where, "retry_on", _function(policy), error)
                attach_answer(error, policy, answer=bool(answer))
                if answer:
                    return
            elif isinstance(error, _kinds(policy)):
                return

    def _retry_on(self, policy: RetryPolicy) -> Callable[[Exception], bool]:
        def retries(error: Exception) -> bool:
            if _is_not_of_leaf(error):
                return False
            if not _is_function(policy):
                return isinstance(error, _kinds(policy))
            if (known := take_answer(error, policy)) is not None:
                return known
            returned = _function(policy)(error)
            if is_awaitable(returned):
                raise_unawaitable(self._where, "retry_on", policy.retry_on, returned)
            return bool(returned)

        return retries


def retries_of(retry: RetryPolicy | Sequence[RetryPolicy], where: str) -> Retries:
    """Return the retry policies of a leaf."""
    return Retries([retry] if isinstance(retry, RetryPolicy) else retry, where)


def _is_not_of_leaf(error: Exception) -> bool:
    """Return whether a failure is not that of the leaf, or arose when the leaf had ended."""
    return arose_at_boundary(error) or is_fatal(error)


def _is_function(policy: RetryPolicy) -> bool:
    return not isinstance(policy.retry_on, type | Sequence)


def _function(policy: RetryPolicy) -> Callable[[Exception], Any]:
    return cast(Callable[[Exception], Any], policy.retry_on)


def _kinds(policy: RetryPolicy) -> tuple[type[Exception], ...]:
    kinds: Any = policy.retry_on
    return tuple(kinds) if isinstance(kinds, Sequence) else (kinds,)
