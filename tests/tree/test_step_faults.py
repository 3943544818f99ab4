"""The faults of workflows, of `retry=` and of `timeout=` are found before the run, all at once."""

from datetime import timedelta
from typing import Any

import pytest
from helpers import chat, lines, says

import agentgraph as ag


def faults(agent: ag.Agent) -> tuple[str, ...]:
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.compile_agent(agent)
    return caught.value.faults


def with_input(text: str, depends_on: Any = ("find",)) -> ag.Agent:
    """Return a workflow of the steps `find`, `write`, which has an input, and `post` after it."""
    write = ag.function_agent("write", lambda ctx: ctx.messages[-1].text)
    steps = [
        ag.step(write, depends_on=depends_on, input=text),
        ag.step(says("post"), depends_on=["write"]),
    ]
    return ag.workflow("wf", [says("find"), *steps])


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


@pytest.mark.parametrize("odd", [[1], int], ids=str)
def test_a_step_that_depends_on_what_is_not_a_text_is_a_fault(odd: Any) -> None:
    (fault,) = faults(ag.workflow("wf", [ag.step(says("a"), depends_on=[odd], input="${results.a}")]))[
        :1
    ]
    assert fault == f"wf: the step 'a' depends on {odd!r}, which is not a step; there are: 'a'"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("zz", "is not a step; there are: 'find', 'post'"),
        ("write", "runs after it; take it out"),
        ("post", "runs after it; take it out"),
        ("find", "does not come before it; add 'find' to its depends_on, or take it out"),
    ],
)
def test_a_result_that_does_not_come_before_a_step_is_a_fault(name: str, why: str) -> None:
    fault = f"wf: the input of the step 'write' names ${{results.{name}}}, which {why}"
    assert faults(with_input(f"${{results.{name}}}", depends_on=())) == (fault,)


def test_a_step_alone_has_no_result_to_name() -> None:
    (fault,) = faults(ag.workflow("wf", [ag.step(says("write"), input="${results.zz}")]))
    assert fault.endswith("is not a step; there are: none but itself")


@pytest.mark.parametrize("text", ["${result.a}", "${results.}", "${a.b}", "${ topic }"])
def test_a_reference_that_cannot_be_read_is_a_fault(text: str) -> None:
    assert faults(with_input(text)) == (
        f"wf: the input of the step 'write' names {text}, which cannot be read; use "
        "${results.STEP} for what a step said, or ${VALUE} for a value of the run",
    )


@pytest.mark.parametrize(
    "text", ["{results.find}", "{ results.find }", "{results.zz}", "{values.topic}"]
)
def test_a_reference_without_a_dollar_sign_is_a_fault(text: str) -> None:
    inside = text.strip("{ }")
    assert faults(with_input(f"Use {text}, and again {text}.")) == (
        f"wf: the input of the step 'write' has {text}, which is sent unchanged; write ${{{inside}}} "
        f"for the value, or {{{{{inside}}}}} for the braces",
    )


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("${results.find} ${values.topic} ${topic} {topic} {none?}", "found bees bees bees "),
        ("{{results.find}}: ${results.find}", "{results.find}: found"),
        ('{"results": {"find": 1}, "values.topic": []}', None),
        (r"\ref{results.find} \input[draft]{results.tex} \frac{1}{results.b} $x_{i.j}$", None),
        ("{other.find} {results.find.more} {results.}", None),
    ],
)
def test_other_braces_are_sent_as_they_are(text: str, sent: str | None) -> None:
    runner = ag.Runner(ag.workflow("wf", [says("find", "found"), *with_input(text).steps[1:]]))  # type: ignore[attr-defined]
    assert lines(runner.run("Go.", values={"topic": "bees"}))[1] == f"wf/write: {sent or text}"


@pytest.mark.parametrize("timeout", [0, -1, "soon", True, timedelta()], ids=repr)
def test_a_timeout_must_be_a_time(timeout: Any) -> None:
    way_out = "pass seconds above 0, a timedelta, or a TimeoutPolicy"
    fault = f"w: timeout={timeout!r} is not a timeout; {way_out}"
    assert faults(chat("w", timeout=timeout)) == (fault,)
    assert faults(ag.function_agent("w", lambda ctx: "w", timeout=timeout)) == (fault,)


@pytest.mark.parametrize("retry", [3, "often", [3]], ids=repr)
def test_a_retry_must_be_a_policy_or_several(retry: Any) -> None:
    fault = (
        f"w: retry={retry!r} is not a retry policy; pass langgraph.types.RetryPolicy(...), or several"
    )
    assert faults(chat("w", retry=retry)) == (fault,)
    assert faults(ag.function_agent("w", lambda ctx: "w", retry=retry)) == (fault,)
