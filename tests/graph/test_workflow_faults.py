"""Faults of workflows, `retry=` and `timeout=` are found before the run, all at once."""

from datetime import timedelta
from typing import Any

import pytest
from helpers import chat, says

import agentgraph as ag


def faults(agent: ag.Agent) -> tuple[str, ...]:
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.compile_agent(agent)
    return caught.value.faults


def test_all_faults_are_listed() -> None:
    wrong: Any = 3
    steps = [
        ag.step(says("a"), depends_on=["x"], retry=wrong, timeout=0),
        ag.step(says("b"), depends_on=["b"], input="${results.a} ${results.x}"),
        ag.step(says("c"), input=wrong),
    ]
    assert faults(ag.workflow("wf", steps, on_error=wrong)) == (
        "wf: on_error=3 is not known; use 'fail' or 'wait'",
        "wf: the step 'a' depends on 'x', which is not a step; there are: 'a', 'b', 'c'",
        "wf: the steps 'b' -> 'b' wait for each other; take one 'depends_on' out",
        "wf: the step 'a': retry=3 is not a retry policy; pass langgraph.types.RetryPolicy(...), or "
        "several",
        "wf: the step 'a': timeout=0 is not a timeout; pass seconds above 0, a timedelta, or a "
        "TimeoutPolicy",
        "wf: the input of the step 'b' names ${results.a}, which does not come before it; add 'a' to "
        "its depends_on, or take it out",
        "wf: the input of the step 'b' names ${results.x}, which is not a step; there are: 'a', 'c'",
        "wf: the input 3 of the step 'c' is not a string; pass a template",
    )


@pytest.mark.parametrize("text", ["${result.a}", "${results.}", "${a.b}", "${ topic }"])
def test_a_reference_that_cannot_be_read_is_a_fault(text: str) -> None:
    assert faults(ag.workflow("wf", [says("a"), ag.step(says("b"), input=text)])) == (
        f"wf: the input of the step 'b' names {text}, which cannot be read; use ${{results.STEP}} for "
        "what a step said, or ${VALUE} for a value of the run",
    )


@pytest.mark.parametrize("timeout", [0, -1, "soon", True, timedelta()], ids=repr)
def test_a_timeout_must_be_a_time(timeout: Any) -> None:
    fault = (
        f"w: timeout={timeout!r} is not a timeout; pass seconds above 0, a timedelta, or a "
        "TimeoutPolicy"
    )
    assert faults(chat("w", timeout=timeout)) == (fault,)
    assert faults(ag.function_agent("w", lambda ctx: "w", timeout=timeout)) == (fault,)


@pytest.mark.parametrize("retry", [3, "often", [3]], ids=repr)
def test_a_retry_must_be_a_policy_or_several(retry: Any) -> None:
    fault = (
        f"w: retry={retry!r} is not a retry policy; pass langgraph.types.RetryPolicy(...), or several"
    )
    assert faults(chat("w", retry=retry)) == (fault,)
    assert faults(ag.function_agent("w", lambda ctx: "w", retry=retry)) == (fault,)
