"""Middleware that runs the call of an agent as a tool again: each attempt is a lane of its own."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Disk, Drive, standing
from langchain.agents.middleware import AgentMiddleware, ToolRetryMiddleware
from langchain_core.messages import BaseMessage, ToolMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls, transcript
from agentgraph.tree.addresses import address, parse_address
from agentgraph.tree.places import lay_out

DONE: Counter[str] = Counter()
"""The effects, by name: trees that stand for other processes share them."""


@pytest.fixture(autouse=True)
def no_effects() -> None:
    DONE.clear()


class UpstreamError(ConnectionError):
    """What a helper fails with."""


def retrying(**options: Any) -> ToolRetryMiddleware:
    given = {"max_retries": 3, "retry_on": (ConnectionError,), **options}
    return ToolRetryMiddleware(initial_delay=0.0, jitter=False, **given)


def helper(name: str = "helper", failures: int = 2, asks_in: int | None = None) -> ag.Agent:
    """Return an agent of three steps: one says something, one may ask, and one fails so often."""

    def begin(ctx: ag.Context) -> Any:
        DONE[f"{name} begins"] += 1
        return [f"attempt {DONE[f'{name} begins'] - 1}", ag.Custom({"tries": name})]

    def ask(ctx: ag.Context) -> Any:
        if ctx.answered:
            return f"heard {ctx.answer}"
        return ag.Ask("Go on?") if DONE[f"{name} begins"] - 1 == asks_in else "nothing to ask"

    def work(ctx: ag.Context) -> str:
        DONE[f"{name} works"] += 1
        if DONE[f"{name} works"] <= failures:
            raise UpstreamError(f"down {DONE[f'{name} works']}")
        return f"{name} found it"

    steps = [("begin", begin), ("ask", ask), ("work", work)]
    inner = [ag.function_agent(f"{name}_{step}", fn) for step, fn in steps]
    return ag.sequential(name, inner)


def boss(*middleware: Any, agents: Any = None, **options: Any) -> ag.Agent:
    agents = agents or [helper(**options)]
    tools = [ag.agent_tool(agent, description="Looks.") for agent in agents]
    return ag.chat_agent("boss", calling(*agents), tools=tools, middleware=list(middleware))


def calling(*agents: ag.Agent) -> ScriptedChatModel:
    """Return a model that calls agents at once, and is done when they have answered."""

    def reply(messages: list[BaseMessage]) -> Any:
        if isinstance(messages[-1], ToolMessage):
            return "Done."
        return calls(*(call(agent.name, request="Look.") for agent in agents))

    return ScriptedChatModel(responses=reply)


def addresses(events: list[ag.AgentEvent]) -> list[str]:
    return list(dict.fromkeys(e.address for e in events if e.kind != "discarded"))


def told(events: list[ag.AgentEvent]) -> list[tuple[str, str, str]]:
    return [(each.id, each.address, each.kind) for each in standing(events)]


SAID = [
    "boss/helper/helper_begin: attempt 2",
    'boss/helper/helper_begin: [custom] {"tries": "helper"}',
    "boss/helper/helper_begin/helper_ask: nothing to ask",
    "boss/helper/helper_begin/helper_ask/helper_work: helper found it",
]


def test_an_agent_that_fails_is_retried_until_it_succeeds(drive: Drive) -> None:
    runner = ag.Runner(boss(retrying()))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert DONE == {"helper begins": 3, "helper works": 3}
    kept = standing(events)
    assert [line for line in transcript(kept) if "helper_" in line.partition(": ")[0]] == SAID
    assert [e.text for e in kept][-2:] == ["helper found it", "Done."]
    assert [each.kind for each in kept].count("error") == 0
    assert told(list(runner.events("t"))) == told(events)


def test_each_attempt_has_an_address_that_can_be_read_again(drive: Drive) -> None:
    tree = boss(retrying())
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    inner = [at for at in addresses(events) if at.endswith("helper_begin")]
    assert inner == [f"boss/helper({n})/helper_begin" for n in ("0", "0.1", "0.2")]
    paths = {str(each.run_path) for each in events if each.address in inner}
    assert paths == {"boss/helper/helper_begin"}


def test_what_an_attempt_said_is_void_before_the_next_one_speaks(drive: Drive) -> None:
    events = list(drive.run(ag.Runner(boss(retrying())), "Go.", thread_id="t"))
    for before, after in (("(0)", "(0.1)"), ("(0.1)", "(0.2)")):
        mine = [e for e in events if before in e.address and e.kind != "discarded"]
        voids = [i for i, e in enumerate(events) if e.kind == "discarded" and before in e.address]
        begun = next(i for i, e in enumerate(events) if after in e.address)
        assert len(voids) == 1
        assert voids[0] < begun
        action = events[voids[0]].action
        assert action is not None
        assert set(action.discarded) == {each.id for each in mine}


def test_a_question_in_the_second_attempt_is_answered_in_another_process(
    drive: Drive, tmp_path: Path
) -> None:
    disk = Disk(drive, tmp_path / "t.db")
    asked = disk.run(boss(retrying(), failures=1, asks_in=1))
    assert asked[-1].address == "boss/helper(0.1)/helper_ask"
    assert DONE == {"helper begins": 2, "helper works": 1}
    waiting = list(pending_in(tmp_path / "t.db"))
    assert [each.address for each in waiting] == ["boss/helper(0.1)/helper_ask"]
    disk.resume(boss(retrying(), failures=1, asks_in=1), {waiting[0].address: "yes"})
    assert DONE == {"helper begins": 2, "helper works": 2}
    assert disk.told[-1].text == "Done."
    assert "heard yes" in [each.text for each in standing(disk.told)]
    assert told(disk.events(boss(retrying()))) == told(disk.told)


def pending_in(path: Path) -> list[ag.Interrupt]:
    with ag.sqlite_saver(path) as saver:
        return ag.Runner(boss(retrying()), checkpointer=saver).pending("t")


def test_what_the_first_attempt_said_before_a_question_is_void_where_the_resume_fails_it(
    drive: Drive, tmp_path: Path
) -> None:
    disk = Disk(drive, tmp_path / "t.db")
    disk.run(boss(retrying(), failures=1, asks_in=0))
    disk.resume(boss(retrying(), failures=1, asks_in=0), "yes")
    assert DONE == {"helper begins": 2, "helper works": 2}
    kept = [each.address for each in standing(disk.told)]
    assert not [at for at in kept if "(0)" in at]
    assert told(disk.events(boss(retrying()))) == told(disk.told)


def test_a_retry_that_gives_up_fails_the_agent_and_a_resume_tries_the_last_attempt_again(
    drive: Drive, tmp_path: Path
) -> None:
    disk = Disk(drive, tmp_path / "t.db")

    def tree() -> ag.Agent:
        return ag.chat_agent(
            "boss",
            calling(inner := helper(failures=3)),
            tools=[ag.agent_tool(inner, description="Looks.")],
            middleware=[retrying(max_retries=1, on_failure="error")],
            on_tool_error="raise",
        )

    first = disk.fail(tree(), "run", UpstreamError)
    assert DONE == {"helper begins": 2, "helper works": 2}
    again = disk.fail(tree(), "resume", UpstreamError)
    assert DONE == {"helper begins": 2, "helper works": 3}
    last = disk.resume(tree())
    assert DONE == {"helper begins": 2, "helper works": 4}
    assert last[-1].text == "Done."
    ended = [e for e in told([*first, *again, *last]) if e[2] != "error"]
    assert ended == [e for e in told(disk.events(tree())) if e[2] != "error"]


def test_calls_of_one_message_are_retried_side_by_side(drive: Drive, tmp_path: Path) -> None:
    def tree() -> ag.Agent:
        agents = [helper("left", 2), helper("right", 1, asks_in=1)]
        return boss(retrying(), agents=agents)

    disk = Disk(drive, tmp_path / "t.db")
    disk.run(tree())
    assert DONE == {"left begins": 3, "left works": 3, "right begins": 2, "right works": 1}
    disk.resume(tree(), {"boss/right(1.1)/right_ask": "yes"})
    assert DONE == {"left begins": 3, "left works": 3, "right begins": 2, "right works": 2}
    kept = [each.address for each in standing(disk.told) if "_work" in each.address]
    assert sorted(kept) == ["boss/left(0.2)/left_work", "boss/right(1.1)/right_work"]
    streamed, again = told(disk.told), told(disk.events(tree()))
    assert sorted(again) == sorted(streamed)
    for lane in ("boss/left", "boss/right"):
        assert [e for e in again if e[1].startswith(lane)] == [
            e for e in streamed if e[1].startswith(lane)
        ]


class Twice(AgentMiddleware[Any, Any]):
    """Runs each call twice, and keeps what the runs gave."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[str] = []

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self.given.append(handler(request).text)
        self.given.append((last := handler(request)).text)
        return last

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self.given.append((await handler(request)).text)
        self.given.append((last := await handler(request)).text)
        return last


def test_of_two_attempts_that_succeed_the_last_one_counts(drive: Drive, tmp_path: Path) -> None:
    def noting() -> ag.Agent:
        def note(ctx: ag.Context) -> Any:
            DONE["notes"] += 1
            ask = ag.Ask("Go on?") if DONE["notes"] == 2 and not ctx.answered else None
            return ask or [ag.SetValues(**{f"note {DONE['notes']}": True}), f"note {DONE['notes']}"]

        return ag.function_agent("helper", note)

    disk = Disk(drive, tmp_path / "t.db")
    disk.run(boss(Twice(), agents=[noting()]))
    twice = Twice()
    disk.resume(boss(twice, agents=[noting()]), "yes")
    assert DONE["notes"] == 3
    assert twice.given == ["note 1", "note 3"]
    kept = standing(disk.told)
    assert [e.text for e in kept if "helper" in e.address and e.text] == ["note 3"]
    assert next(e.text for e in kept if isinstance(e.message, ToolMessage)) == "note 3"
    assert told(disk.events(boss(Twice(), agents=[noting()]))) == told(disk.told)
    with ag.sqlite_saver(tmp_path / "t.db") as saver:
        state = ag.Runner(boss(), checkpointer=saver).saver.get_tuple(
            {"configurable": {"thread_id": "t"}}
        )
    assert state is not None
    assert set(state.checkpoint["channel_values"]["values"]) == {"note 3"}


def test_middleware_is_given_failures_again_as_they_were(drive: Drive, tmp_path: Path) -> None:
    """The class that it asks for, and the same text, so that it decides as it did."""
    seen: list[BaseException] = []

    def is_passing(error: Exception) -> bool:
        seen.append(error)
        return isinstance(error, UpstreamError)

    def tree() -> ag.Agent:
        return boss(retrying(retry_on=is_passing), failures=2, asks_in=2)

    disk = Disk(drive, tmp_path / "t.db")
    disk.run(tree())
    before = [repr(each) for each in seen]
    seen.clear()
    disk.resume(tree(), "yes")
    assert before == ["UpstreamError('down 1')", "UpstreamError('down 2')"]
    assert [repr(each) for each in seen] == before
    assert DONE == {"helper begins": 3, "helper works": 3}


def test_a_failure_after_retries_is_told_as_that_of_the_last_attempt(drive: Drive) -> None:
    runner = ag.Runner(boss(retrying(max_retries=1, on_failure="continue"), failures=9))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert DONE == {"helper begins": 2, "helper works": 2}
    errors = [(each.address, each.error) for each in events if each.error]
    assert errors == [("boss/helper(0.1)/helper_work", "UpstreamError('down 2')")]
    assert told(list(runner.events("t"))) == told(events)


def test_an_agent_inside_a_retried_one_is_retried_too(drive: Drive) -> None:
    """Its attempts, and what they said, belong to the attempt of the one around it."""
    outer = ag.chat_agent(
        "outer",
        calling(inner := helper(failures=3)),
        description="Looks outside.",
        tools=[ag.agent_tool(inner, description="Looks.")],
        middleware=[retrying(max_retries=1, on_failure="error")],
        on_tool_error="raise",
    )
    runner = ag.Runner(boss(retrying(), agents=[outer]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert DONE == {"helper begins": 4, "helper works": 4}
    kept = standing(events)
    found = {e.address for e in kept if "helper" in e.address}
    steps = ("begin", "ask", "work")
    assert found == {f"boss/outer(0.1)/helper(0.1)/helper_{step}" for step in steps}
    assert told(list(runner.events("t"))) == told(events)


def test_a_tree_without_such_middleware_keeps_as_many_checkpoints_and_asks_for_no_more(
    drive: Drive,
) -> None:
    kept = []
    for middleware in ([], [retrying()]):
        DONE.clear()
        runner = ag.Runner(boss(*middleware, failures=0))
        list(drive.run(runner, "Go.", thread_id="t"))
        saved = list(runner.saver.list({"configurable": {"thread_id": "t"}}))
        kept.append(len(saved))
        channels = {name for each in saved for _, name, _ in each.pending_writes or ()}
        assert "agentgraph_attempt" not in channels
    assert kept[0] == kept[1]


def test_a_run_without_a_saver_retries_too() -> None:
    graph = ag.compile_agent(boss(retrying()))
    said = graph.invoke({"messages": ["Go."]})["messages"]
    assert DONE == {"helper begins": 3, "helper works": 3}
    assert said[-1].text == "Done."


def test_only_an_agent_as_a_tool_has_addresses_of_further_attempts() -> None:
    tree = lay_out(ag.sequential("s", [boss(retrying())]))
    for at in ("s/boss/helper(0)", "s/boss/helper(2.1)/helper_ask"):
        found = parse_address(tree, at)
        assert found is not None
        assert address(*found) == at
    for at in ("s/boss/helper(0.0)", "s/boss/helper(0.1.1)", "s/boss(0.1)", "s(0.1)"):
        assert parse_address(tree, at) is None


def test_chunks_that_an_attempt_told_are_void_too(drive: Drive) -> None:
    def search(topic: str) -> str:
        """Search the library."""
        DONE["searches"] += 1
        if DONE["searches"] < 3:
            raise UpstreamError("down")
        return topic

    def reply(messages: list[BaseMessage]) -> Any:
        if isinstance(messages[-1], ToolMessage):
            return "I have found it now."
        return calls(call("search", topic="bees"), text="I look for bees.")

    model = ScriptedChatModel(responses=reply)
    inner = ag.chat_agent("helper", model, tools=[search], on_tool_error="raise")
    runner = ag.Runner(boss(retrying(), agents=[inner]))
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    voided = {"boss/helper(0)", "boss/helper(0.1)"}
    assert voided <= {each.address for each in events if each.partial}
    assert voided.isdisjoint(each.address for each in standing(events))
    whole = [each for each in events if not each.partial]
    assert told(list(runner.events("t"))) == told(whole)


def test_attempts_in_a_branch_are_kept_with_its_lane(drive: Drive, tmp_path: Path) -> None:
    def tree() -> ag.Agent:
        beside = ag.function_agent("beside", lambda ctx: "beside")
        return ag.parallel("p", [boss(retrying(), failures=2, asks_in=2), beside])

    disk = Disk(drive, tmp_path / "t.db")
    disk.run(tree())
    assert DONE == {"helper begins": 3, "helper works": 2}
    disk.resume(tree(), {"p/boss/helper(0.2)/helper_ask": "yes"})
    assert DONE == {"helper begins": 3, "helper works": 3}
    assert sorted(told(disk.events(tree()))) == sorted(told(disk.told))


class Impatient(AgentMiddleware[Any, Any]):
    """Cancels a call that takes too long, and makes it again."""

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            async with asyncio.timeout(None) as limit:
                DEADLINES.append(limit)
                return await handler(request)
        except TimeoutError:
            return await handler(request)


DEADLINES: list[asyncio.Timeout] = []


def test_an_attempt_that_middleware_cancelled_is_over(tmp_path: Path) -> None:
    async def work(ctx: ag.Context) -> Any:
        DONE["works"] += 1
        if DONE["works"] == 1:
            DEADLINES[-1].reschedule(0)
            await asyncio.Event().wait()
        return f"heard {ctx.answer}" if ctx.answered else ag.Ask("Go on?")

    def tree() -> ag.Agent:
        return boss(Impatient(), agents=[ag.function_agent("helper", work)])

    disk = Disk(Async, tmp_path / "t.db")
    asked = disk.run(tree())
    assert asked[-1].address == "boss/helper(0.1)"
    disk.resume(tree(), "yes")
    assert DONE["works"] == 3
    assert [each.text for each in disk.told][-3:] == ["heard yes", "heard yes", "Done."]
    assert told(disk.events(tree())) == told(disk.told)
