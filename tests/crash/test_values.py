"""Values that nobody wishes for, at every entrance.

Each either works and comes back, or is refused by an error of ours that names the agent or the key;
the thread is intact in both cases, and what had finished does not run again.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from campaign import Heard, Ledger, Way, check_told_again, ended, in_turn, shown, slug
from entrances import ENTRANCES, Giver, comes_in, custom_of
from helpers import scripted
from hostile import VALUES, comes_back
from langchain_core.messages import HumanMessage
from sites import BAD, chain, leaf

import agentgraph as ag


@pytest.mark.parametrize(("entrance", "value", "way"), in_turn(ENTRANCES, VALUES, every=3))
def test_what_an_agent_gives_comes_back_or_is_refused(
    entrance: str, value: str, way: str, tmp_path: Path
) -> None:
    at, ledger, driven = ENTRANCES[entrance], Ledger(), Way(way, tmp_path)
    give = Giver(VALUES[value]())
    tree = at.build(give, ledger)
    parts = [driven.run(tree)]
    assert give.given, "the entrance is not reached"
    if parts[0].error is not None:
        if not (at.raises and in_repr(parts[0].error)):
            check_refused(parts[0].error, at.named)
        driven.state(tree)
        parts.append(driven.resume(tree))
    elif at.back is not None and not has_failed(parts[0]):
        for told in (parts[0].events, driven.events(tree)):
            back = at.back(driven, tree, told)
            assert comes_back(VALUES[value], back), f"{back!r:.80} comes back"
    if comes_in(parts[-1]):
        parts.append(driven.resume(tree, "yes"))
    assert parts[-1].error is None, f"it does not go on: {shown(parts[-1].error)}"
    assert set(ledger.done.values()) == {1}, ledger.done
    assert {"first", "last"} <= set(ledger.done), "it does not come to its end"
    check_told([event for part in parts for event in part.events], driven.events(tree))
    told, again = [part.events for part in parts], driven.events(tree)
    if at.tells_first and parts[0].error is not None:
        told[0] = [event for event in told[0] if event.agent_name != BAD or event.kind == "error"]
    if at.live_as_given:
        told, again = [in_json(part) for part in told], in_json(again)
    check_told_again(told, again)


def in_json(told: list[ag.AgentEvent]) -> list[ag.AgentEvent]:
    """Return events as a client has them, who is sent them as JSON."""
    return [ag.AgentEvent.from_dict(event.to_dict()) for event in told]


def in_repr(error: BaseException) -> bool:
    """Tell whether the `repr` of a value failed, in a tool of the agent that the notes name."""
    named = any(f"the agent {BAD!r}" in note for note in getattr(error, "__notes__", []))
    return named and "repr" in str(error)


def has_failed(heard: Heard) -> bool:
    """Tell whether a tool failed, and the model was told of it."""
    return any(getattr(event.message, "status", "") == "error" for event in heard.events)


def check_refused(error: BaseException, named: tuple[str, ...]) -> None:
    assert isinstance(error, ag.AgentGraphError), f"{shown(error):.300} comes out"
    assert any(name in str(error) for name in named), f"it names none of {named}: {error}"


def check_told(*tellings: list[ag.AgentEvent]) -> None:
    """Check that all events have a JSON form."""
    for told in tellings:
        for event in told:
            assert ag.AgentEvent.from_dict(json.loads(json.dumps(event.to_dict()))).id == event.id
            event.to_sse().encode()


def plain_tree(ledger: Ledger) -> ag.Agent:
    return chain(ledger, ag.human("boss", "Go on?"))


def given_values(value: Any) -> Any:
    return (("Go.",), {"values": {"v": value}})


CALLS: dict[str, Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "values": given_values,
    "messages": lambda value: ((value,), {}),
    "kwargs": lambda value: (([HumanMessage("Go.", additional_kwargs={"v": value})],), {}),
    "metadata": lambda value: (([HumanMessage("Go.", response_metadata={"v": value})],), {}),
    "names of values": lambda value: (("Go.",), {"values": {_key(value): 1}}),
}


def _key(value: Any) -> Any:
    try:
        hash(value)
    except Exception:
        return 1
    return value


@pytest.mark.parametrize(("entrance", "value", "way"), in_turn(CALLS, VALUES))
def test_what_a_run_is_given_comes_back_or_is_refused(
    entrance: str, value: str, way: str, tmp_path: Path
) -> None:
    ledger, driven, given = Ledger(), Way(way, tmp_path), VALUES[value]()
    tree = plain_tree(ledger)
    args, options = CALLS[entrance](given)
    first = driven.hear(tree, "run", *args, thread_id="t", **options)
    if first.error is not None:
        check_refused(first.error, ("'v'", "messages", "values", "message"))
        assert first.events == []
        assert ledger.done == {}, "it is refused when something has run"
        first = driven.run(tree)
    elif entrance == "values":
        back = driven.values(tree)["v"]
        assert comes_back(VALUES[value], back), f"{back!r:.80} comes back"
    assert first.error is None, shown(first.error)
    second = driven.resume(tree, "yes")
    assert second.error is None, shown(second.error)
    assert ledger.done == {"first": 1, "last": 1}
    check_told([*first.events, *second.events], driven.events(tree))
    check_told_again([first.events, second.events], driven.events(tree))


RESUMES: dict[str, Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "answer": lambda value: ((value,), {}),
    "answer by address": lambda value: (({"s/boss": value},), {}),
    "values": lambda value: (("yes",), {"values": {"v": value}}),
}


@pytest.mark.parametrize(("entrance", "value", "way"), in_turn(RESUMES, VALUES))
def test_what_a_resume_is_given_comes_back_or_is_refused(
    entrance: str, value: str, way: str, tmp_path: Path
) -> None:
    ledger, driven, given = Ledger(), Way(way, tmp_path), VALUES[value]()
    tree = plain_tree(ledger)
    first = driven.run(tree)
    assert ledger.done == {"first": 1}
    args, options = RESUMES[entrance](given)
    second = driven.resume(tree, *args, **options)
    if second.error is not None:
        check_refused(second.error, ("'v'", "boss", "answer", "values"))
        assert second.events == []
        assert ledger.done == {"first": 1}, "it is refused when something has run"
        second = driven.resume(tree, "yes")
    elif entrance == "values":
        back = driven.values(tree)["v"]
        assert comes_back(VALUES[value], back), f"{back!r:.80} comes back"
    assert second.error is None, shown(second.error)
    assert ledger.done == {"first": 1, "last": 1}
    check_told([*first.events, *second.events], driven.events(tree))
    check_told_again([first.events, second.events], driven.events(tree))


@pytest.mark.parametrize(("method", "value", "way"), in_turn(("run", "resume", "events"), VALUES))
def test_a_thread_has_any_id_that_is_a_text(method: str, value: str, way: str, tmp_path: Path) -> None:
    ledger, driven, given = Ledger(), Way(way, tmp_path), VALUES[value]()
    tree = ag.sequential("s", [leaf("first", ledger), leaf("last", ledger)])
    args = {"run": ("Go.",), "resume": (given,), "events": (given,)}[method]
    heard = driven.hear(tree, method, *args, **({"thread_id": given} if method == "run" else {}))
    if heard.error is not None:
        assert isinstance(heard.error, ag.AgentGraphError), f"{shown(heard.error):.300} comes out"
        assert ledger.done == {}
    elif method == "run" and given:
        again, error = driven.hear(tree, "events", given)
        assert error is None, shown(error)
        check_told_again([heard.events], again)
    assert driven.run(tree).error is None


def _noop(ctx: ag.Context) -> str:
    return "done"


def _agent(name: str = "a") -> ag.Agent:
    return ag.function_agent(name, _noop)


BUILDERS: dict[str, Callable[[Any], ag.Agent]] = {
    "name": lambda value: ag.function_agent(value, _noop),
    "fn": lambda value: ag.function_agent("a", value),
    "description": lambda value: ag.function_agent("a", _noop, description=value),
    "output_key": lambda value: ag.function_agent("a", _noop, output_key=value),
    "history": lambda value: ag.function_agent("a", _noop, history=value),
    "retry": lambda value: ag.function_agent("a", _noop, retry=value),
    "timeout": lambda value: ag.function_agent("a", _noop, timeout=value),
    "prompt": lambda value: ag.human("a", value),
    "response_schema": lambda value: ag.human("a", "Go on?", response_schema=value),
    "sub_agents": lambda value: ag.sequential("s", value),
    "branches": lambda value: ag.parallel("s", value),
    "a branch": lambda value: ag.parallel("s", [_agent(), value]),
    "on_error": lambda value: ag.parallel("s", [_agent()], on_error=value),
    "max_concurrency": lambda value: ag.parallel("s", [_agent()], max_concurrency=value),
    "max_iterations": lambda value: ag.loop("s", [_agent()], max_iterations=value),
    "until": lambda value: ag.loop("s", [_agent()], max_iterations=1, until=value),
    "steps": lambda value: ag.workflow("s", value),
    "depends_on": lambda value: ag.workflow("s", [ag.step(_agent(), depends_on=value)]),
    "input": lambda value: ag.workflow("s", [ag.step(_agent(), input=value)]),
    "compensate": lambda value: ag.workflow("s", [ag.step(_agent(), compensate=value)]),
    "check": lambda value: ag.validated(_agent(), value),
    "max_attempts": lambda value: ag.validated(_agent(), lambda text: None, max_attempts=value),
    "graph": lambda value: ag.graph_agent("a", value),
    "model": lambda value: ag.chat_agent("a", value),
    "agent of a tool": lambda value: ag.agent_tool(value),  # type: ignore[return-value]
    "agent": lambda value: value,
}


@pytest.mark.parametrize("value", VALUES, ids=slug)
@pytest.mark.parametrize("builder", BUILDERS, ids=slug)
def test_a_builder_takes_anything_and_a_runner_refuses_it(builder: str, value: str) -> None:
    given = VALUES[value]()

    def make() -> None:
        made = BUILDERS[builder](given)
        if isinstance(made, ag.Agent) or builder == "agent":
            ag.Runner(made)

    error = ended(make)
    if error is not None:
        assert isinstance(error, ag.InvalidAgentError), f"{shown(error):.300} comes out"
        assert str(error)


NUMBERS: dict[str, Callable[[Any], ag.Agent]] = {
    "max_concurrency": BUILDERS["max_concurrency"],
    "max_iterations": BUILDERS["max_iterations"],
    "max_attempts": BUILDERS["max_attempts"],
    "model calls": lambda value: ag.chat_agent("a", scripted(), max_iterations=value),
}


@pytest.mark.parametrize("number", [0, -1, 1.5, "3", math.nan, math.inf, [], 1j], ids=str)
@pytest.mark.parametrize("builder", NUMBERS)
def test_a_bound_that_is_no_number_from_one_is_refused(builder: str, number: Any) -> None:
    with pytest.raises(ag.InvalidAgentError):
        ag.Runner(NUMBERS[builder](number))


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "a:b", "a|b", "a[0]", "a(1)", "a#1", "a{1}"])
def test_a_name_that_an_address_cannot_hold_is_refused(name: str) -> None:
    for made in (_agent(name), ag.sequential(name, [_agent()]), ag.human(name, "Go on?")):
        with pytest.raises(ag.InvalidAgentError):
            ag.Runner(made)


@pytest.mark.parametrize("name", [1, None, b"a", ["a"], object()], ids=lambda name: type(name).__name__)
def test_a_name_that_is_no_text_is_refused(name: Any) -> None:
    for made in (_agent(name), ag.sequential(name, [_agent()]), ag.human(name, "Go on?")):
        with pytest.raises(ag.InvalidAgentError):
            ag.Runner(made)


def test_custom_data_comes_back_from_the_thread_as_it_was_told(tmp_path: Path) -> None:
    """What the entrances compare is not empty."""
    ledger, driven = Ledger(), Way("sync-memory", tmp_path)
    tree = ENTRANCES["Custom"].build(Giver({"n": 1}), ledger)
    assert custom_of(driven, tree, driven.run(tree).events) == {"n": 1}
    assert not comes_back(lambda: {"n": 1}, {"n": 2})
