"""Faults of derived agents: what `compile_agent` says of each."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from helpers import does, is_yes, says, scripted

import agentgraph as ag
from agentgraph.safe_repr import shown

ROLES: Any = {"planner": says("p"), "executor": does("e"), "replanner": says("r")}


async def streamed(*given: Any) -> AsyncIterator[None]:
    """An async generator, which returns no value."""
    yield


def plans(name: str = "pe", **options: Any) -> Any:
    return ag.plan_execute(name, **(ROLES | options))


def boss(*workers: Any, **options: Any) -> Any:
    return ag.supervisor("S", scripted(), workers or [says("a")], **options)


def checked(agent: Any = None, check: Any = is_yes, **options: Any) -> Any:
    return ag.validated(agent or says("w"), check, **options)


def helped(*helpers: Any, main: Any = None) -> Any:
    return ag.with_helpers(main or says("w"), helpers)


def keeps(name: str) -> ag.Agent:
    return ag.chat_agent(name, scripted(), output_key="found")


NO_AGENT = "is not an agent; build one with ag.chat_agent, ag.human, ag.sequential, ..."
NO_LIMIT = "is not a limit; pass a whole number from 1"
OR_NONE = f"{NO_LIMIT}, or None for no bound"
TWO_CHECKS = "it has two validated(...) checks; combine them into one"
NO_CHECK = (
    "cannot be used; pass a type, a JSON schema, or a function of a text, or of a context and a text"
)
NO_INPUT = "cannot be used; pass a function of the messages, or of a context and the messages"
NONE: Any = lambda: None  # noqa: E731
SEVERAL: Any = lambda a, b, c: None  # noqa: E731
SCHEMA = {"type": "object", "not": 5}

ALL_OF_A_SUPERVISOR = f"""S: max_iterations=0 {OR_NONE}
S: 2 tools are named '%s'; a name means one tool, rename the others
S: approve names 'x', which is not one of its tools: %s, %s
S/a: two agents are named 'a'; a name means one agent, rename one
S: 3 {NO_AGENT}"""


@pytest.mark.parametrize(
    ("tree", "faults"),
    [
        *(
            (plans(max_iterations=n), f"pe/execute: max_iterations={n!r} {OR_NONE}")
            for n in (0, "x", True)
        ),
        (plans(planner=checked(says("p"))), f"pe/p: {TWO_CHECKS}"),
        (
            ag.sequential("s", [plans(name, planner=scripted(name)) for name in ("one", "two")]),
            "s/two/planner: two agents are named 'planner'; a name means one agent, rename one",
        ),
        *(
            (
                boss(says("a"), says("a", "b"), 3, mode=mode, max_iterations=0, approve=["x"]),
                ALL_OF_A_SUPERVISOR % ((tool,) * 3),
            )
            for mode, tool in (("tools", "a"), ("handoff", "transfer_to_a"))
        ),
        (ag.supervisor("S", scripted(), []), "S: a supervisor needs at least one worker"),
        (
            boss(output_mode="x", mode="handoff"),
            "S: output_mode='x' is not known; choose one of: 'full', 'last'",
        ),
        (
            boss(output_mode="last"),
            "S: output_mode='last' needs mode='handoff', because others do not see a worker as a tool",
        ),
        (
            boss(ag.handoff(says("a"))),
            "S: a handoff as a worker needs mode='handoff'; pass the agent itself",
        ),
        (boss(mode="x"), "S: mode='x' is not known; choose one of: 'tools', 'handoff'"),
        (
            boss(worker_history="x", mode="handoff"),
            "S: worker_history='x' is not known; choose one of: 'input', 'shared'",
        ),
        (boss(model_input=streamed), f"S: model_input={shown(streamed)} {NO_INPUT}"),
        *(
            (checked(check=check), f"w: the check {shown(check)} {NO_CHECK}")
            for check in ("yes", NONE, SEVERAL, streamed)
        ),
        (ag.validated(says("w"), None), f"w: the check None {NO_CHECK}"),
        (
            checked(check=SCHEMA),
            f"w: the check {SCHEMA} is neither a type nor a JSON schema (not: Input should be an "
            "object or a valid boolean)",
        ),
        *(
            (checked(max_attempts=limit), f"w: max_attempts={limit!r} {NO_LIMIT}")
            for limit in (None, 0, -1, "x", True, 1.5)
        ),
        (checked(3), f"the root: 3 {NO_AGENT}"),
        (checked(checked()), f"w: {TWO_CHECKS}"),
        (
            checked(ag.sequential("q", []), max_attempts=None),
            f"q: max_attempts=None {NO_LIMIT}\nq: a sequential needs at least one sub-agent",
        ),
        (helped(), "w_with_helpers/w_helpers: a parallel needs at least one sub-agent"),
        (
            helped("x", main="w"),
            f"w_with_helpers/w_helpers: 'x' {NO_AGENT}\nw_with_helpers: 'w' {NO_AGENT}",
        ),
        (
            helped(keeps("a"), keeps("b")),
            "w_with_helpers/w_helpers: the branches 'a' and 'b' write the same output_key 'found'; "
            "give each its own key, declare a reducer for 'found' in values=, or keep it in each by "
            "Annotated[..., ag.LOCAL]",
        ),
    ],
    ids=lambda given: given.splitlines()[0] if isinstance(given, str) else "",
)
def test_a_derived_agent_with_faults_is_refused(tree: ag.Agent, faults: str) -> None:
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.compile_agent(tree)
    assert "\n".join(caught.value.faults) == faults
