"""Values that nobody wishes for, at every entrance.

Each either works and comes back, or is refused by an error of ours that names the agent or the key;
the thread is intact in both cases, and what had finished does not run again.
"""

import json
import math
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import campaign
import pytest
from campaign import WAYS, Heard, Watched, World, check_again, ended, in_turn, shown, slug
from entrances import ENTRANCES, Giver, custom
from helpers import scripted
from hostile import VALUES, comes_back
from langchain_core.messages import HumanMessage
from sites import BAD

import agentgraph as ag


@pytest.mark.filterwarnings("ignore:.*a marker takes its place:RuntimeWarning")
@pytest.mark.parametrize(("entrance", "value", "way"), in_turn(ENTRANCES, VALUES, WAYS, every=23))
def test_what_an_agent_gives_comes_back_or_is_refused(
    entrance: str, value: str, way: str, tmp_path: Path
) -> None:
    at, world, give = ENTRANCES[entrance], World(), Giver(VALUES[value]())
    driven = Watched(at.build(give, world), way, tmp_path)
    parts = [driven.run()]
    assert give.given, "the entrance is not reached"
    if parts[0].error is not None:
        if not (at.raises and _is_by_repr(parts[0].error)):
            check_refused(parts[0].error, BAD, "'v'")
        driven.state()
        parts.append(driven.resume())
    elif at.back is not None and not _is_shown_to_the_model(parts[0]):
        for events in (parts[0].events, driven.events()):
            back = at.back(driven, events)
            assert comes_back(VALUES[value], back), f"{back!r:.80} comes back"
    if any(event.kind == "interrupted" for event in parts[-1].events):
        parts.append(driven.resume("yes"))
    assert parts[-1].error is None, f"it does not go on: {shown(parts[-1].error)}"
    assert set(world.done.values()) == {1}, world.done
    assert {"first", "last"} <= set(world.done), "it does not come to its end"
    heard, again = [part.events for part in parts], driven.events()
    check_json(*heard, again)
    if at.live_as_given:
        heard, again = [in_json(part) for part in heard], in_json(again)
    check_again(heard, again)


def in_json(events: list[ag.AgentEvent]) -> list[ag.AgentEvent]:
    """Return events as a client has them, who is sent them as JSON."""
    return [ag.AgentEvent.from_dict(event.to_dict()) for event in events]


def _is_by_repr(error: BaseException) -> bool:
    """Return whether the `repr` of a value failed, in a tool of the agent that the notes name."""
    named = any(f"the agent {BAD!r}" in note for note in getattr(error, "__notes__", []))
    return named and "repr" in str(error)


def _is_shown_to_the_model(heard: Heard) -> bool:
    """Return whether a tool failed, and the model was shown that."""
    return any(getattr(event.message, "status", "") == "error" for event in heard.events)


def check_refused(error: BaseException, *named: str) -> None:
    assert isinstance(error, ag.AgentGraphError), f"{shown(error):.300} comes out"
    assert any(name in str(error) for name in named), f"it names none of {named}: {error}"


def check_json(*parts: list[ag.AgentEvent]) -> None:
    """Check that all events have a JSON form."""
    for event in chain.from_iterable(parts):
        assert ag.AgentEvent.from_dict(json.loads(json.dumps(event.to_dict()))).id == event.id
        event.to_sse().encode()


def hashable(value: Any) -> Any:
    try:
        hash(value)
    except Exception:
        return 1
    return value


CALLS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "run: values": lambda value: ("Go.", {"values": {"v": value}}),
    "run: messages": lambda value: (value, {}),
    "run: kwargs": lambda value: ([HumanMessage("Go.", additional_kwargs={"v": value})], {}),
    "run: metadata": lambda value: ([HumanMessage("Go.", response_metadata={"v": value})], {}),
    "run: names of values": lambda value: ("Go.", {"values": {hashable(value): 1}}),
    "resume: answer": lambda value: (value, {}),
    "resume: answer by address": lambda value: ({"s/boss": value}, {}),
    "resume: values": lambda value: ("yes", {"values": {"v": value}}),
}


@pytest.mark.parametrize(("entrance", "value", "way"), in_turn(CALLS, VALUES, WAYS, every=7))
def test_what_a_run_or_a_resume_is_given_comes_back_or_is_refused(
    entrance: str, value: str, way: str, tmp_path: Path
) -> None:
    world = World()
    driven = Watched(campaign.chain(world, ag.human("boss", "Go on?")), way, tmp_path)
    given, options = CALLS[entrance](VALUES[value]())
    is_run = entrance.startswith("run")
    parts = [] if is_run else [driven.run()]
    heard = driven.run(given, **options) if is_run else driven.resume(given, **options)
    if heard.error is not None:
        check_refused(heard.error, "'v'", "messages", "values", "message", "boss", "answer")
        assert heard.events == []
        assert world.done == ({} if is_run else {"first": 1}), "it is refused when something has run"
        heard = driven.run() if is_run else driven.resume("yes")
    elif "values" in entrance and "names" not in entrance:
        back = driven.state()["values"]["v"]
        assert comes_back(VALUES[value], back), f"{back!r:.80} comes back"
    parts += [heard, driven.resume("yes")] if is_run else [heard]
    assert [part.error for part in parts] == [None] * len(parts)
    assert world.done == {"first": 1, "last": 1}
    check_json(*(part.events for part in parts), driven.events())
    check_again([part.events for part in parts], driven.events())


METHODS = ("run", "resume", "events")


@pytest.mark.parametrize(("method", "value", "way"), in_turn(METHODS, VALUES, WAYS, every=7))
def test_a_thread_has_any_id_that_is_a_text(method: str, value: str, way: str, tmp_path: Path) -> None:
    world, given = World(), VALUES[value]()
    driven = Watched(campaign.chain(world), way, tmp_path)
    if method == "run":
        heard = driven.call("run", "Go.", thread_id=given)
    else:
        heard = driven.call(method, given)
    if heard.error is not None:
        assert isinstance(heard.error, ag.AgentGraphError), f"{shown(heard.error):.300} comes out"
        assert world.done == {}
    elif method == "run" and given:
        again, error = driven.call("events", given)
        assert error is None, shown(error)
        check_again([heard.events], again)
    assert driven.run().error is None


def _noop(ctx: ag.Context) -> str:
    return "done"


def _agent(name: str = "a") -> ag.Agent:
    return ag.function_agent(name, _noop)


EACH_OPTIONS = ("as_", "key", "input", "max_concurrency", "on_error", "output_key")
EACH_OPTIONS += ("errors_key", "output_mode", "description")
BUILDERS: dict[str, Callable[[Any], ag.Agent]] = {
    "name": lambda value: ag.function_agent(value, _noop),
    "fn": lambda value: ag.function_agent("a", value),
    "description": lambda value: ag.function_agent("a", _noop, description=value),
    "output_key": lambda value: ag.function_agent("a", _noop, output_key=value),
    "agents": lambda value: ag.function_agent("a", _noop, agents=value),
    "an agent of a function": lambda value: ag.function_agent("a", _noop, agents=[value]),
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
    "choose": lambda value: ag.switch("s", value, {1: _agent()}),
    "when": lambda value: ag.workflow("s", [ag.step(_agent(), when=value)]),
    "cases": lambda value: ag.switch("s", "x", value),
    "case": lambda value: ag.switch("s", "x", {1: value}),
    "agent of an each": lambda value: ag.each("s", value, "x"),
    "over": lambda value: ag.each("s", _agent(), value),
    **{
        f"each {option}": lambda value, option=option: ag.each("s", _agent(), "x", **{option: value})
        for option in EACH_OPTIONS
    },
    "until": lambda value: ag.loop("s", [_agent()], max_iterations=1, until=value),
    "steps": lambda value: ag.workflow("s", value),
    "depends_on": lambda value: ag.workflow("s", [ag.step(_agent(), depends_on=value)]),
    "input": lambda value: ag.workflow("s", [ag.step(_agent(), input=value)]),
    "compensate": lambda value: ag.workflow("s", [ag.step(_agent(), compensate=value)]),
    "check": lambda value: ag.validated(_agent(), value),
    "max_attempts": lambda value: ag.validated(_agent(), lambda text: None, max_attempts=value),
    "graph": lambda value: ag.graph_agent("a", value),
    "model": lambda value: ag.chat_agent("a", value),
    "agent of a tool": lambda value: ag.agent_tool(value),
    "agent": lambda value: value,
}


@pytest.mark.parametrize("builder", BUILDERS, ids=slug)
def test_a_builder_takes_anything_and_a_runner_refuses_it(builder: str) -> None:
    for value, make_value in VALUES.items():
        given = make_value()

        def make(given: Any = given) -> None:
            made = BUILDERS[builder](given)
            if isinstance(made, ag.Agent) or builder == "agent":
                ag.Runner(made)

        error = ended(make)
        if error is not None:
            assert isinstance(error, ag.InvalidAgentError), f"{value}: {shown(error):.300} comes out"
            assert str(error)


NUMBERS: dict[str, Callable[[Any], ag.Agent]] = {
    **{
        name: BUILDERS[name]
        for name in ("each max_concurrency", "max_concurrency", "max_iterations", "max_attempts")
    },
    "model calls": lambda value: ag.chat_agent("a", scripted(), max_iterations=value),
}


@pytest.mark.parametrize("number", [0, -1, 1.5, "3", math.nan, math.inf, [], 1j], ids=str)
@pytest.mark.parametrize("builder", NUMBERS)
def test_a_bound_that_is_not_a_number_from_one_is_refused(builder: str, number: Any) -> None:
    with pytest.raises(ag.InvalidAgentError):
        ag.Runner(NUMBERS[builder](number))


NAMES = ["", " ", "a b", "a/b", "a:b", "a|b", "a[0]", "a(1)", "a#1", "a{1}", 1, None, b"a", ["a"]]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_name_that_an_address_cannot_hold_is_refused(name: Any) -> None:
    for made in (_agent(name), ag.sequential(name, [_agent()]), ag.human(name, "Go on?")):
        with pytest.raises(ag.InvalidAgentError):
            ag.Runner(made)


def test_custom_data_comes_back_from_the_thread_as_it_was_given(tmp_path: Path) -> None:
    """What the entrances compare is not empty."""
    driven = Watched(ENTRANCES["Custom"].build(Giver({"n": 1}), World()), "sync-memory", tmp_path)
    assert custom(driven, driven.run().events) == {"n": 1}
    assert not comes_back(lambda: {"n": 1}, {"n": 2})
