"""What is special to middleware of a chat agent in a tree: values, streams, voided and repeated calls.

What it does in a run is in `tests/transcripts/middleware.txt`, too.
"""

from typing import Any

import pytest
from helpers import (
    THREAD,
    Async,
    Drive,
    Selecting,
    chat,
    failing,
    lines,
    look,
    middleware,
    scripted,
    sees,
)
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    LLMToolSelectorMiddleware,
    ModelFallbackMiddleware,
    SummarizationMiddleware,
    before_model,
    wrap_model_call,
)
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

import agentgraph as ag
from agentgraph.testing import call, calls

LOOK = calls(call("look", topic="bees"))


@wrap_model_call
def for_sync_runs(request: Any, handler: Any) -> Any:
    return handler(request)


@wrap_model_call
async def for_async_runs(request: Any, handler: Any) -> Any:
    return await handler(request)


@pytest.mark.parametrize("wrap", [for_sync_runs, for_async_runs], ids=["sync", "async"])
def test_a_wrap_for_runs_of_one_kind_is_named_in_those_of_the_other(drive: Drive, wrap: Any) -> None:
    is_async = wrap is for_async_runs
    runner = ag.Runner(chat("writer", "Done.", middleware=[wrap]))
    if (drive is Async) == is_async:
        assert lines(drive.run(runner, "Go.")) == ["writer: Done."]
        return
    missing = (
        "'for_async_runs' has awrap_model_call, but no wrap_model_call, which sync runs need; define "
        "wrap_model_call, or run the async methods: arun(), aresume(), ainvoke()"
        if is_async
        else "'for_sync_runs' has wrap_model_call, but no awrap_model_call, which async runs need; "
        "define awrap_model_call, or run the sync methods: run(), resume(), invoke()"
    )
    with pytest.raises(ag.AgentGraphError) as caught:
        list(drive.run(runner, "Go.", thread_id="t"))
    assert str(caught.value) == f"writer: the middleware {missing}"
    assert runner.saver.get(THREAD) is None


def test_a_graph_without_a_runner_names_such_a_wrap_too() -> None:
    graph = ag.compile_agent(chat("writer", "Done.", middleware=[for_async_runs]))
    with pytest.raises(ag.AgentGraphError, match="'for_async_runs' has awrap_model_call, but no"):
        graph.invoke({"messages": ["Go."]})


def test_wraps_see_the_filled_template_and_the_values_of_the_run(drive: Drive) -> None:
    seen: list[Any] = []

    def note_model(request: Any) -> Any:
        seen.append((request.system_prompt, request.state["topic"], request.state["values"]))
        return (yield request)

    def note_tool(request: Any) -> Any:
        seen.append((request.state["topic"], request.runtime.state["values"]))
        return (yield request)

    noting = middleware(wrap_model_call=note_model, wrap_tool_call=note_tool)
    model = scripted(LOOK, "One.", "Two.")
    runner = ag.Runner(
        ag.chat_agent("writer", model, instruction="On {topic}.", tools=[look], middleware=[noting])
    )
    for topic in ("bees", "wasps"):
        list(drive.run(runner, "Go.", thread_id="t", values={"topic": topic}))
    bees = {"topic": "bees"}
    assert seen == [
        ("On bees.", "bees", bees),
        ("bees", bees),
        ("On bees.", "bees", bees),
        ("On wasps.", "wasps", {"topic": "wasps"}),
    ]
    assert [sent[0].text for sent in model.inputs] == ["On bees.", "On bees.", "On wasps."]


def test_only_the_agents_own_model_is_streamed(drive: Drive) -> None:
    stack = [
        LLMToolSelectorMiddleware(model=Selecting(responses=["no", "no"])),
        ModelFallbackMiddleware(scripted("From b.")),
    ]
    runner = ag.Runner(chat("writer", OSError("no line"), tools=[look], middleware=stack))
    events = list(drive.run(runner, "Go.", stream=True))
    assert [event.text for event in events if event.partial and event.text] == ["From ", "b."]
    assert lines(events) == ["writer: From b."]


def test_the_chunks_of_a_reply_that_a_wrap_throws_away_are_discarded(drive: Drive) -> None:
    again = middleware(wrap_model_call=lambda request: [(yield request), (yield request)][-1])
    runner = ag.Runner(chat("writer", "First.", "Second.", middleware=[again]))
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    assert lines(events) == ["writer: [discarded]", "writer: Second."]
    [voided] = [event.action.discarded for event in events if event.kind == "discarded"]
    assert set(voided) == {event.id for event in events if event.partial and event.text == "First."}


def test_model_input_comes_after_middleware(drive: Drive) -> None:
    more = middleware(
        wrap_model_call=lambda r: (yield r.override(messages=[*r.messages, HumanMessage("More.")]))
    )
    model = scripted("Done.")
    agent = ag.chat_agent(
        "writer",
        model,
        middleware=[more],
        instruction="Be brief.",
        model_input=lambda messages: [*messages, HumanMessage("Last.")],
    )
    list(drive.run(ag.Runner(agent), "Go."))
    assert [each.text for each in model.inputs[0]] == ["Be brief.", "Go.", "More.", "Last."]


def test_of_a_tool_that_a_wrap_calls_twice_the_last_call_counts(drive: Drive) -> None:
    runs: list[int] = []

    def note() -> Any:
        """Note."""
        runs.append(len(runs))
        return [ag.SetValues(**{f"n{len(runs)}": True}), ag.Custom(len(runs))]

    twice = middleware(wrap_tool_call=lambda request: [(yield request), (yield request)][-1])
    runner = ag.Runner(chat("writer", calls(call("note")), "Done.", tools=[note], middleware=[twice]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert lines(events)[1:] == [
        *["writer: [values] n2", "writer: [custom] 2", "writer: Done.", "writer: Done."]
    ]
    assert runner.graph.get_state(THREAD).values["values"] == {"n2": True}
    assert list(runner.events("t")) == events


def test_one_agents_summary_changes_nothing_for_the_others(drive: Drive) -> None:
    summarize = SummarizationMiddleware(scripted("Sum."), trigger=("messages", 2), keep=("messages", 1))
    writer = chat("writer", LOOK, "x", tools=[look], middleware=[summarize])
    runner = ag.Runner(ag.sequential("s", [writer, sees("critic")]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert lines(events)[-1] == (
        's/critic: saw Go. | [writer] called look({"topic": "bees"}) | [writer] look returned: bees! | '
        "[writer] said: x"
    )
    assert list(runner.events("t")) == events


def test_a_message_that_is_forgotten_stays_in_the_history(drive: Drive) -> None:
    @before_model
    def forget(state: Any, runtime: Any) -> Any:
        return {"messages": [RemoveMessage(id=state["messages"][0].id)]}

    model = scripted("x", "y")
    runner = ag.Runner(ag.chat_agent("writer", model, middleware=[forget]))
    for text in ("One.", "Two."):
        list(drive.run(runner, text, thread_id="t"))
    state = runner.graph.get_state(THREAD).values["messages"]
    assert [each.text for each in state] == ["One.", "x", "Two.", "y"]
    assert [[each.text for each in sent] for sent in model.inputs] == [[], ["Two."]]


def test_a_turn_that_is_given_up_answers_the_calls_about_which_a_hook_asked(drive: Drive) -> None:
    ask = HumanInTheLoopMiddleware({"look": True})
    last = lambda sent: f"{sent[-2].type}: {sent[-2].text}"  # noqa: E731
    runner = ag.Runner(chat("writer", LOOK, last, tools=[look], middleware=[ask]))
    list(drive.run(runner, "Go.", thread_id="t"))
    assert lines(drive.run(runner, "Well?", thread_id="t", drop_pending=True)) == [
        "writer: [discarded]",
        "writer: tool: The call was not finished.",
    ]


@pytest.mark.parametrize("hook", ["before_agent", "before_model", "after_model", "after_agent"])
def test_a_hook_that_fails_is_tried_again_alone(drive: Drive, hook: str) -> None:
    failures = [OSError("no line")]

    def fails_once(state: Any) -> None:
        if failures:
            raise failures.pop()

    runner = ag.Runner(chat("writer", "Done.", middleware=[middleware(**{hook: fails_once})]))
    heard, _ = failing(drive.run(runner, "Go.", thread_id="t"), OSError)
    heard += drive.resume(runner, "t")
    failed, done = "writer: [error] OSError('no line')", "writer: Done."
    assert lines(heard) == ([failed, done] if hook.startswith("before") else [done, failed])


REMOVED: dict[str, tuple[Any, list[str]]] = {
    "a result": (
        lambda seen: [RemoveMessage(id=each.id) for each in seen if each.type == "tool"],
        ["Go.", "", "No result of this call was kept."],
    ),
    "a call and its result": (
        lambda seen: [RemoveMessage(id=each.id) for each in seen[1:]],
        ["Go."],
    ),
    "everything": (
        lambda seen: [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("Again.")],
        ["Again."],
    ),
}


@pytest.mark.parametrize("removed", list(REMOVED))
def test_what_ran_stays_in_the_history_when_a_hook_removes(drive: Drive, removed: str) -> None:
    changes, seen = REMOVED[removed]
    hook = middleware(
        before_model=lambda state: (
            {"messages": changes(state["messages"])} if len(state["messages"]) > 1 else None
        )
    )
    model = scripted(LOOK, "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[look], middleware=[hook]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert [each.text for each in model.inputs[1]] == seen
    assert lines(events)[1:] == ["writer: bees!", "writer: Done."]
    assert list(runner.events("t")) == events


@pytest.mark.parametrize(("whole", "is_discarded"), [(True, False), (False, True)])
def test_a_reply_is_discarded_where_a_hook_removes_it_and_not_with_all_messages(
    drive: Drive, whole: bool, is_discarded: bool
) -> None:
    def remove(state: Any) -> Any:
        *_, last = state["messages"]
        if last.type == "human":
            return None
        removed = RemoveMessage(id=REMOVE_ALL_MESSAGES if whole else last.id)
        return {"messages": [removed, HumanMessage("?")]}

    again = middleware(
        jumps=["model"],
        before_model=remove,
        after_model=lambda state: {"jump_to": "model"} if state["messages"][-1].text == "No." else None,
    )
    runner = ag.Runner(chat("writer", "No.", "Yes.", middleware=[again]))
    discarded = ["writer: [discarded]"] if is_discarded else []
    heard = lines(drive.run(runner, "Go.", thread_id="t"))
    assert heard == ["writer: No.", *discarded, "writer: Yes."]


def test_edits_end_with_the_activation_where_the_agent_sees_its_input_only(drive: Drive) -> None:
    def put_first(state: Any) -> Any:
        if state["messages"][0].text != "One.":
            return None
        everything = RemoveMessage(id=REMOVE_ALL_MESSAGES)
        return {"messages": [everything, HumanMessage("Mind."), *state["messages"]]}

    model = scripted("x", "y")
    first = middleware(before_model=put_first)
    runner = ag.Runner(ag.chat_agent("writer", model, history="input", middleware=[first]))
    for text in ("One.", "Two."):
        list(drive.run(runner, text, thread_id="t"))
    assert [[each.text for each in sent] for sent in model.inputs] == [["Mind.", "One."], ["Two."]]
