"""`lint` finds hidden histories, unreachable agents and tools, endless loops and impossible limits."""

from typing import Any, Literal

import pytest
from helpers.linted import chat, function, seq

import agentgraph as ag


def found(tree: ag.Agent) -> list[str]:
    return [f"{each.kind} {each.address} {each.name}: {' '.join(each.way)}" for each in ag.lint(tree)]


ASKS = "Do what the critic wants."
CRITIC = chat("critic")


@pytest.mark.parametrize(
    "tree",
    [
        seq(CRITIC, chat("w", ASKS, history="input")),
        seq(CRITIC, chat("w", ASKS, history="own")),
        seq(CRITIC, chat("w", ASKS, history=ag.trimmed(100, history="input"))),
        seq(CRITIC, chat("e"), chat("w", ASKS, history="last")),
        seq(ag.parallel("p", [CRITIC, chat("e")]), chat("w", ASKS, history="path")),
        seq(CRITIC, chat("w", "Mind `critic`.", history="input")),
        seq(CRITIC, chat("w", "Use what critic says.", history="input")),
        seq(CRITIC, chat("w", "Mind the critic's remarks.", history="input")),
        seq(CRITIC, ag.each("e", chat("w", ASKS), "xs", input="{item}")),
        ag.workflow("s", [CRITIC, ag.step(chat("w", ASKS), depends_on=["critic"], input="Go.")]),
    ],
    ids=lambda each: str(each.sub_agents[-1]),
)
def test_an_instruction_that_names_an_agent_whose_messages_are_hidden_is_found(tree: ag.Agent) -> None:
    [finding] = [each for each in ag.lint(tree) if each.kind == "hidden_history"]
    assert (finding.name, finding.way[-1]) == ("critic", finding.address)


@pytest.mark.parametrize(
    "tree",
    [
        seq(CRITIC, chat("w", ASKS)),
        seq(CRITIC, chat("w", ASKS, history="path")),
        seq(CRITIC, chat("w", ASKS, history="last")),
        seq(CRITIC, chat("w", ASKS, history=lambda entries: [])),
        seq(chat("critic", output_key="wants"), chat("w", f"{ASKS}: {{wants}}", history="input")),
        seq(chat("write"), chat("w", "Write a better text.", history="input")),
        ag.workflow(
            "s", [CRITIC, ag.step(chat("w", ASKS), depends_on=["critic"], input="${results.critic}")]
        ),
        seq(CRITIC, ag.each("e", chat("w", ASKS), "xs", input=lambda ctx: ctx.messages[-1].text)),
        seq(chat("critic", output_key="xs"), ag.each("e", chat("w", ASKS), "xs", input="{item}")),
        chat("w", "Ask the critic.", history="own", tools=[ag.agent_tool(CRITIC)]),
        chat("w", "Transfer to the critic.", history="own", sub_agents=[CRITIC]),
        seq(chat("w", "The critic reads this.", history="input"), CRITIC),
    ],
    ids=lambda each: str(each),
)
def test_messages_that_are_seen_or_not_asked_for_are_none(tree: ag.Agent) -> None:
    assert found(tree) == []


def ends(ctx: Any) -> ag.Exit:
    return ag.Exit()


def route(ctx: Any) -> Literal["a", "b"]:
    return "a"


def two(ctx: Any) -> str:
    if ctx.messages:
        return "a"
    return "b"


CASES = {"a": chat("a"), "b": chat("b"), "c": chat("c")}
YES = ag.human("h", "Well?", response_schema={"enum": ["a", "b"]}, output_key="yes")


@pytest.mark.parametrize(
    ("tree", "address"),
    [
        (seq(function("f", ends), chat("c")), "s/c"),
        (
            seq(function("f", lambda ctx: [ag.SetValues(x=1), ag.Exit()]), chat("c"), chat("d")),
            "s/c s/d",
        ),
        (ag.loop("s", [function("f", lambda ctx: ag.BreakLoop()), chat("c")], max_iterations=2), "s/c"),
        (ag.swarm("s", CASES.values(), handoffs={"a": ["b"], "b": ["a"]}), "s/c"),
        (
            ag.swarm(
                "s",
                [function("a", lambda ctx: ag.TransferTo("b")), chat("b"), chat("c")],
                handoffs={"a": ["b", "c"]},
            ),
            "s/c",
        ),
        (ag.switch("s", route, CASES), "s/c"),
        (ag.switch("s", two, CASES), "s/c"),
        (ag.switch("s", lambda ctx: "a" if ctx.messages else "b", CASES), "s/c"),
        (ag.switch("s", lambda ctx: len(ctx.messages) > 1, {True: chat("a"), "yes": chat("c")}), "s/c"),
        (seq(YES, ag.switch("w", "yes", CASES)), "s/w/c"),
        (function("s", lambda ctx: ctx.run("a", "Go."), agents=[chat("a"), chat("c")]), "s/c"),
        (chat("s", tools=[ag.agent_tool(chat("c"), enabled=False)]), "s/c"),
    ],
    ids=lambda each: str(each).partition("\n")[0],
)
def test_an_agent_or_a_tool_that_nothing_can_reach_is_found(tree: ag.Agent, address: str) -> None:
    findings = [each for each in ag.lint(tree) if each.kind == "unreachable"]
    assert " ".join(each.address for each in findings) == address
    assert all(each.name == each.address.rpartition("/")[2] for each in findings)


def names(ctx: Any) -> Any:
    return [ctx.run(name, "Go.") for name in ("a", "c")]


@pytest.mark.parametrize(
    "tree",
    [
        seq(function("f", lambda ctx: ag.Exit() if ctx.messages else "Hi."), chat("c")),
        ag.swarm("s", CASES.values()),
        ag.swarm("s", CASES.values(), handoffs={"a": ["b"], "b": ["c"]}),
        ag.switch("s", lambda ctx: ctx.messages[-1].text, CASES),
        ag.switch("s", two, {"a": chat("a"), "b": chat("b")}, otherwise=chat("c")),
        ag.switch("s", "kind", CASES),
        function("s", names, agents=[chat("a"), chat("c")]),
        function("s", lambda ctx: ctx.run(ctx.messages[-1].text, "Go."), agents=[chat("a"), chat("c")]),
        chat("s", tools=[ag.agent_tool(chat("c"), enabled="is_open")]),
        ag.workflow("s", [ag.step(chat("a"), compensate=lambda ctx: "Undone.")]),
    ],
    ids=lambda each: str(each).partition("\n")[0],
)
def test_an_agent_that_may_be_reached_is_none(tree: ag.Agent) -> None:
    assert found(tree) == []


def stop(reason: str):  # type: ignore[no-untyped-def]
    """Stop."""
    return ag.BreakLoop()


def look(topic: str):  # type: ignore[no-untyped-def]
    """Look."""
    return topic


def test_a_loop_with_a_model_that_nothing_can_end_is_found() -> None:
    body = [chat("a", tools=[look]), function("f", lambda ctx: "Next.")]
    [finding] = ag.lint(seq(ag.loop("l", body, max_iterations=4)))
    assert (finding.kind, finding.address, finding.name) == ("endless_loop", "s/l", "l")
    assert finding.advice == (
        "it always runs 4 times; pass until=, or let an agent inside return ag.BreakLoop()"
    )
    assert found(
        ag.loop("l", [ag.loop("m", [chat("c", break_tool=True)], max_iterations=2)], max_iterations=9)
    ) == ["endless_loop l l: l/m/c"]


@pytest.mark.parametrize(
    "tree",
    [
        ag.loop("l", [chat("a")], max_iterations=3),
        ag.loop("l", [function("f", lambda ctx: "Next.")], max_iterations=99),
        ag.loop("l", [chat("a")], max_iterations=9, until=lambda ctx: False),
        ag.loop("l", [chat("a", exit_tool=True)], max_iterations=9),
        ag.loop("l", [chat("a", tools=[stop])], max_iterations=9),
        ag.loop(
            "l",
            [chat("a"), function("f", lambda ctx: ag.BreakLoop() if ctx.messages else None)],
            max_iterations=9,
        ),
        ag.loop("l", [chat("a"), function("f", print)], max_iterations=9),
        ag.loop(
            "l", [chat("a"), ag.switch("w", two, {"a": ag.BreakLoop(), "b": ag.SKIP})], max_iterations=9
        ),
        ag.loop("l", [ag.parallel("p", [chat("a", break_tool=True), chat("b")])], max_iterations=9),
    ],
    ids=lambda each: str(each),
)
def test_a_loop_that_may_end_or_is_short_is_none(tree: ag.Agent) -> None:
    assert found(tree) == []


def limited(*agents: ag.Agent, **limits: Any) -> ag.Agent:
    return ag.sequential("s", agents, limits=ag.Limits(**limits))


TWO = [chat("a"), chat("b")]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (limited(*TWO, model_calls=1), "s model_calls needs at least 2; raise it from 1"),
        (limited(*TWO, ag.human("h", "Well?"), steps=2), "s steps needs at least 3; raise it from 2"),
        (limited(ag.loop("l", TWO, max_iterations=3), steps=5), "s steps needs at least 6; raise it"),
        (limited(ag.parallel("p", TWO), model_calls=1), "s model_calls needs at least 2; raise it"),
        (
            limited(chat("a", limits=ag.Limits(tokens=9)), tokens=5),
            "s/a tokens has the limit 5; lower it",
        ),
        (limited(chat("a", timeout=20), seconds=5), "s/a timeout limit of 5 seconds is reached first"),
        (chat("s", tools=[look], max_iterations=1), "s max_iterations after a call of 'look' no call"),
    ],
    ids=lambda each: str(each),
)
def test_a_limit_that_cannot_hold_is_found(tree: ag.Agent, expected: str) -> None:
    [finding] = [each for each in ag.lint(tree) if each.kind == "impossible_limit"]
    address, name, advice = expected.split(" ", 2)
    assert (finding.address, finding.name) == (address, name)
    assert advice in finding.advice


@pytest.mark.parametrize(
    "tree",
    [
        limited(*TWO, model_calls=2, steps=2),
        limited(*TWO, model_calls=1, on_limit="ask"),
        limited(ag.switch("w", two, {"a": chat("a"), "b": ag.SKIP}), chat("b"), model_calls=1),
        limited(ag.parallel("p", TWO, on_error="first"), model_calls=1),
        limited(ag.each("e", chat("a"), "xs"), chat("b"), model_calls=1),
        limited(ag.loop("l", TWO, max_iterations=3, until=lambda ctx: True), steps=2),
        limited(function("f", lambda ctx: ag.Exit() if ctx.messages else None), *TWO, model_calls=1),
        limited(chat("a", limits=ag.Limits(tokens=5)), tokens=9),
        chat("s", tools=[look], max_iterations=1, return_directly=["look"]),
        chat("s", tools=[look], max_iterations=1, on_max_iterations="answer"),
    ],
    ids=lambda each: str(each),
)
def test_a_limit_that_may_hold_is_none(tree: ag.Agent) -> None:
    assert found(tree) == []
