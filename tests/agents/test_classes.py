"""A class is not the function of an agent: `@agent` rejects it at once."""

from typing import Any

import pytest
from helpers import lines, says

import agentgraph as ag


class Critic:
    def __call__(self, ctx: ag.Context) -> str:
        return "Too short."


def decorated() -> None:
    @ag.agent  # type: ignore[arg-type]
    class Judge:
        """Judges."""


def decorated_with_options() -> None:
    @ag.agent(name="j")  # type: ignore[arg-type]
    class Judge:
        """Judges."""


@pytest.mark.parametrize("decorate", [decorated, decorated_with_options])
def test_the_decorator_refuses_a_class_and_says_what_to_do(decorate: Any) -> None:
    with pytest.raises(ag.InvalidAgentError) as caught:
        decorate()
    assert str(caught.value) == (
        "Judge: it is a class, and an agent calls a function; decorate a function, or pass a "
        'callable instance: ag.function_agent("judge", Judge())'
    )


def test_a_function_agent_of_a_class_is_a_fault() -> None:
    made: Any = Critic
    steps = [ag.step(says("a"), compensate=made)]
    for tree in (ag.function_agent("c", made), ag.workflow("w", steps)):
        with pytest.raises(ag.InvalidAgentError) as caught:
            ag.Runner(tree)
        assert str(caught.value).endswith(
            f": {Critic!r} is a class; pass a function that takes a context, or an instance that can "
            "be called: Critic()"
        )


def test_an_instance_is_a_function() -> None:
    assert lines(ag.Runner(ag.function_agent("c", Critic())).run("Go.", thread_id="t")) == [
        "c: Too short."
    ]
