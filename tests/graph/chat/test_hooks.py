"""Hooks of LangChain's middleware, nodes of the lane, side by side with `create_agent`."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NotRequired

import pytest
from helpers import Async, Drive, fresh, scripted, shapes, standing
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
    before_model,
    hook_config,
)
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls, transcript

CONFIG: Any = {"configurable": {"thread_id": "t"}}


@tool
def look(topic: str) -> str:
    """Look something up."""
    return f"{topic}!"


@tool
def mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def theirs(drive: Drive, made: Any, inputs: Sequence[Any]) -> list[Any]:
    model, tools, middleware = made()
    agent: Any = create_agent(model, tools, middleware=middleware, checkpointer=InMemorySaver())
    told: list[Any] = []
    for given in inputs:
        is_turn = isinstance(given, str)
        value = {"messages": [HumanMessage(given)]} if is_turn else Command(resume=given[0])
        if drive is Async:
            ended = asyncio.run(agent.ainvoke(value, CONFIG))
        else:
            ended = agent.invoke(value, CONFIG)
        told.append([each.value for each in ended.get("__interrupt__", ())])
    return [*told, shapes(ended["messages"])]


def ours(drive: Drive, made: Any, inputs: Sequence[Any]) -> list[Any]:
    model, tools, middleware = made()
    agent = ag.chat_agent("writer", model, tools=tools, middleware=middleware)
    runner = ag.Runner(ag.sequential("s", [agent]))
    told: list[Any] = []
    events: list[ag.AgentEvent] = []
    for given in inputs:
        if isinstance(given, str):
            new = list(drive.run(runner, given, thread_id="t"))
        else:
            new = list(drive.resume(runner, "t", given[0]))
        told.append([e.action.interrupted.value for e in new if e.kind == "interrupted"])
        events += new
    assert sorted(runner.events("t"), key=events.index) == standing(events)
    state = runner.graph.get_state(CONFIG).values
    return [*told, shapes(state["messages"])]


class Jumping(AgentMiddleware[Any, Any, Any]):
    """Ends before the second call of the model, and adds a word after the first."""

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> Any:
        if len(state["messages"]) > 2:
            return {"jump_to": "end", "messages": [AIMessage("Stopped.")]}
        return None

    def after_agent(self, state: Any, runtime: Any) -> Any:
        return {"messages": [AIMessage(f"After {len(state['messages'])}.")]}


class Again(AgentMiddleware[Any, Any, Any]):
    """Asks the model again until it says something long."""

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> Any:
        if len(state["messages"][-1].text) < 6:
            return {"jump_to": "model"}
        return None


class Counting(AgentState[Any]):
    rounds: NotRequired[int]


class Rounds(AgentMiddleware[Any, Any, Any]):
    """Counts the rounds of all turns in a state of its own."""

    state_schema = Counting

    def before_agent(self, state: Any, runtime: Any) -> Any:
        return {"rounds": state.get("rounds", 0) + 100}

    async def abefore_model(self, state: Any, runtime: Any) -> Any:
        return self.before_model(state, runtime)

    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"rounds": state.get("rounds", 0) + 1}

    def after_agent(self, state: Any, runtime: Any) -> Any:
        return {"messages": [AIMessage(f"{state['rounds']} rounds.")]}


class Loud(AgentMiddleware[Any, Any, Any]):
    """Rewrites what the model said."""

    def after_model(self, state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        return {"messages": [last.model_copy(update={"content": last.text.upper()})]}


class Echo(AgentMiddleware[Any, Any, Any]):
    """Hands all messages back as they are, and asks before the agent begins."""

    def before_agent(self, state: Any, runtime: Any) -> Any:
        return {"messages": [*state["messages"], AIMessage(f"Hello {interrupt('Who?')}.")]}

    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"messages": list(state["messages"])}


ONE = calls(call("look", topic="bees"))
TWO = calls(call("look", "1", topic="a"), call("mail", "2", to="b"))
TODO = calls(call("write_todos", todos=[{"content": "Look.", "status": "pending"}]))
APPROVED = {"decisions": [{"type": "approve"}]}
EDITED = {
    "decisions": [{"type": "edit", "edited_action": {"name": "mail", "args": {"to": "c"}}}],
}
REJECTED = {"decisions": [{"type": "reject", "message": "no"}]}

STACKS: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "jump before": (lambda: (scripted(ONE, "Done."), [look], [Jumping()]), ["Go."]),
    "jump after": (lambda: (scripted("No.", "Short", "Long enough."), [], [Again()]), ["Go."]),
    "own state": (lambda: (scripted(ONE, "a", "b"), [look], [Rounds()]), ["Go.", "On."]),
    "rewritten": (lambda: (scripted(ONE, "done"), [look], [Loud()]), ["Go."]),
    "asks before": (lambda: (scripted(ONE, "Done."), [look], [Echo()]), ["Go.", ["Ada"]]),
    "model limit": (
        lambda: (scripted(ONE, ONE, "x"), [look], [ModelCallLimitMiddleware(run_limit=1)]),
        ["Go."],
    ),
    "tool limit": (
        lambda: (scripted(TWO, ONE, "x"), [look, mail], [ToolCallLimitMiddleware(run_limit=1)]),
        ["Go."],
    ),
    "thread limit": (
        lambda: (scripted("a", "b"), [look], [ModelCallLimitMiddleware(thread_limit=1)]),
        ["Go.", "On."],
    ),
    "to-do list": (lambda: (scripted(TODO, ONE, "x"), [look], [TodoListMiddleware()]), ["Go."]),
    "redaction": (
        lambda: (
            ScriptedChatModel(responses=lambda sent: sent[-1].text),
            [],
            [PIIMiddleware("email", apply_to_output=True)],
        ),
        ["Write to a@b.com.", "And to c@d.com."],
    ),
    "approved": (
        lambda: (scripted(TWO, "x"), [look, mail], [HumanInTheLoopMiddleware({"mail": True})]),
        ["Go.", [APPROVED]],
    ),
    "edited": (
        lambda: (scripted(TWO, "x"), [look, mail], [HumanInTheLoopMiddleware({"mail": True})]),
        ["Go.", [EDITED]],
    ),
    "rejected": (
        lambda: (scripted(TWO, "x"), [look, mail], [HumanInTheLoopMiddleware({"mail": True})]),
        ["Go.", [REJECTED]],
    ),
    "several": (
        lambda: (
            scripted(TODO, TWO, "x"),
            [look, mail],
            [
                TodoListMiddleware(),
                PIIMiddleware("email"),
                ModelCallLimitMiddleware(run_limit=5),
                ToolRetryMiddleware(initial_delay=0),
                HumanInTheLoopMiddleware({"mail": True}),
                Rounds(),
            ],
        ),
        ["Write to a@b.com.", [APPROVED]],
    ),
}


@pytest.mark.parametrize("stack", list(STACKS))
def test_a_chat_agent_says_and_asks_what_create_agent_does(drive: Drive, stack: str) -> None:
    made, inputs = STACKS[stack]
    assert ours(drive, made, inputs) == theirs(drive, made, inputs)


def test_hooks_are_nodes_and_only_what_can_happen_is_drawn() -> None:
    agent = ag.chat_agent("writer", scripted(), tools=[look], middleware=[Jumping(), Again()])
    graph = ag.compile_agent(ag.sequential("s", [agent, ag.function_agent("last", lambda ctx: "x")]))
    edges = {(e.source, e.target) for e in graph.get_graph().edges if e.source.startswith("writer")}
    assert edges == {
        ("writer.Jumping.before_model", "writer"),
        ("writer.Jumping.before_model", "writer.Jumping.after_agent"),
        ("writer", "writer.Again.after_model"),
        ("writer.Again.after_model", "writer.tools"),
        ("writer.Again.after_model", "writer.Jumping.after_agent"),
        ("writer.Again.after_model", "writer.Jumping.before_model"),
        ("writer.tools", "writer.Jumping.before_model"),
        ("writer.tools", "writer.Jumping.after_agent"),
        ("writer.Jumping.after_agent", "last"),
    }


def test_hooks_that_come_last_run_on_exit_and_on_a_transfer_too(drive: Drive) -> None:
    class Last(AgentMiddleware[Any, Any, Any]):
        def after_agent(self, state: Any, runtime: Any) -> Any:
            return {"messages": [AIMessage("Bye.")]}

    helper = ag.chat_agent(
        "helper",
        scripted(calls(call("exit", final_result="End."))),
        exit_tool=True,
        middleware=[Last()],
    )
    boss = ag.chat_agent(
        "boss", scripted(calls(call("transfer_to_helper"))), sub_agents=[helper], middleware=[Last()]
    )
    runner = ag.Runner(ag.sequential("s", [boss, ag.function_agent("never", lambda ctx: "x")]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(events) == [
        "s/boss: [calls] transfer_to_helper({})",
        "s/boss: Transferred to helper.",
        "s/boss: Bye.",
        "s/boss: [transfer_to] helper",
        's/boss/helper: [calls] exit({"final_result": "End."})',
        "s/boss/helper: End.",
        "s/boss/helper: Bye.",
        "s/boss/helper: [exit]",
    ]
    assert list(runner.events("t")) == events


def test_the_last_word_of_the_hooks_becomes_the_agents_value(drive: Drive) -> None:
    agent = ag.chat_agent("writer", scripted("one"), middleware=[Rounds()], output_key="said")
    runner = ag.Runner(ag.loop("l", [agent], max_iterations=2))
    with pytest.raises(Exception, match="the script has 1 responses"):
        list(drive.run(runner, "Go.", thread_id="t"))
    state = runner.graph.get_state(CONFIG).values
    assert state["values"] == {"said": "101 rounds."}
    assert state["middleware"] == {"writer": {"state": {"rounds": 202}}}


@pytest.mark.parametrize("responses", [["short!"], [calls(call("look", topic="b"))]])
def test_a_value_is_written_with_hooks_after_the_model_too(drive: Drive, responses: Any) -> None:
    agent = ag.chat_agent(
        "writer",
        scripted(*responses),
        tools=[look],
        middleware=[Loud()],
        output_key="said",
        return_directly=["look"],
    )
    runner = ag.Runner(agent)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert runner.graph.get_state(CONFIG).values["values"] == {"said": events[-1].text}


def test_an_agent_that_a_jump_ends_with_open_calls_has_no_value(drive: Drive) -> None:
    class Ending(AgentMiddleware[Any, Any, Any]):
        @hook_config(can_jump_to=["end"])
        def after_model(self, state: Any, runtime: Any) -> Any:
            return {"jump_to": "end"}

    model = scripted(ONE, lambda sent: sent[-2].text)
    agent = ag.chat_agent("writer", model, tools=[look], middleware=[Ending()], output_key="said")
    runner = ag.Runner(agent)
    list(drive.run(runner, "Go.", thread_id="t"))
    assert runner.graph.get_state(CONFIG).values["values"] == {}
    events = list(drive.run(runner, "On.", thread_id="t"))
    assert events[-1].text == "No result of this call was kept."


def test_the_state_of_an_agent_as_a_tool_begins_anew_with_each_call(drive: Drive) -> None:
    helper = ag.chat_agent("helper", scripted("a", "b"), middleware=[Rounds()])
    model = scripted(calls(call("helper", request="x")), calls(call("helper", request="y")), "Done.")
    runner = ag.Runner(ag.chat_agent("boss", model, tools=[ag.agent_tool(helper)]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert [each.text for each in events if each.agent_name == "helper"] == [
        "a",
        "101 rounds.",
        "b",
        "101 rounds.",
    ]
    assert list(runner.events("t")) == events


def test_a_summary_is_what_the_model_sees_and_the_history_keeps_everything(drive: Drive) -> None:
    def sent(run: Callable[..., Any]) -> list[Any]:
        made: list[ScriptedChatModel] = []

        def stack() -> Any:
            summarize = SummarizationMiddleware(
                ScriptedChatModel(responses=lambda sent: "Sum."),
                trigger=("messages", 4),
                keep=("messages", 2),
            )
            made.append(scripted(ONE, "a", calls(call("look", "2", topic="b")), "b", "c"))
            return made[0], [look], [summarize]

        run(drive, stack, ["Go.", "On.", "And?"])
        return [shapes(each) for each in made[0].inputs]

    assert sent(ours) == sent(theirs)
    assert all("Sum." in each[0][1] for each in sent(ours)[2:])


def test_one_agents_summary_changes_nothing_for_the_others(drive: Drive) -> None:
    summarize = SummarizationMiddleware(scripted("Sum."), trigger=("messages", 2), keep=("messages", 1))
    writer = ag.chat_agent("writer", scripted(ONE, "x"), tools=[look], middleware=[summarize])
    critic = scripted("y")
    tree = ag.sequential("s", [writer, ag.chat_agent("critic", critic)])
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert [each.text for each in critic.inputs[0]] == [
        "Go.",
        '[writer] called look({"topic": "bees"})',
        "[writer] look returned: bees!",
        "[writer] said: x",
    ]
    assert list(runner.events("t")) == events


@before_model
def redact(state: Any, runtime: Any) -> Any:
    last = state["messages"][-1]
    hidden = last.model_copy(update={"content": last.text.replace("bees", "*")})
    return {"messages": [hidden]} if last.type == "human" else None


def redacting(name: str, model: Any) -> ag.Agent:
    return ag.chat_agent(name, model, middleware=[redact])


def test_what_others_said_is_redacted_for_the_agent_alone(drive: Drive) -> None:
    writer, critic, last = scripted("On bees.", "x"), scripted("a", "b"), scripted("y", "z")
    tree = ag.sequential(
        "s",
        [ag.chat_agent("writer", writer), redacting("critic", critic), ag.chat_agent("last", last)],
    )
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    events += drive.run(runner, "On.", thread_id="t")
    assert [each.text for each in critic.inputs[0]] == ["Go.", "[writer] said: On *."]
    assert [each.text for each in critic.inputs[1]][:2] == ["Go.", "[writer] said: On *."]
    assert [each.text for each in last.inputs[0]][1] == "[writer] said: On bees."
    assert list(runner.events("t")) == events


@pytest.mark.parametrize("place", ["branch", "tool"])
def test_a_users_word_is_redacted_in_lanes_too(drive: Drive, place: str) -> None:
    model = scripted("a")
    if place == "branch":
        tree: Any = ag.parallel(
            "p", [redacting("writer", model), ag.function_agent("b", lambda c: "b")]
        )
    else:
        asked = scripted(calls(call("writer", request="On bees.")), "Done.")
        tree = ag.chat_agent("boss", asked, tools=[ag.agent_tool(redacting("writer", model))])
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "On bees.", thread_id="t"))
    assert [each.text for each in model.inputs[0]] == ["On *."]
    assert sorted(runner.events("t"), key=events.index) == events


def test_a_message_that_is_forgotten_stays_in_the_history(drive: Drive) -> None:
    @before_model
    def forget(state: Any, runtime: Any) -> Any:
        return {"messages": [RemoveMessage(id=state["messages"][0].id)]}

    model = scripted("x", "y")
    runner = ag.Runner(ag.chat_agent("writer", model, middleware=[forget]))
    for text in ("One.", "Two."):
        list(drive.run(runner, text, thread_id="t"))
    state = runner.graph.get_state(CONFIG).values["messages"]
    assert [each.text for each in state] == ["One.", "x", "Two.", "y"]
    assert [[each.text for each in sent] for sent in model.inputs] == [[], ["Two."]]


def test_edits_last_for_an_activation_where_the_agent_sees_its_input_only(drive: Drive) -> None:
    @before_model
    def remind(state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage("Mind the bees.")]}

    model = scripted(ONE, "x", "y")
    agent = ag.chat_agent("writer", model, tools=[look], middleware=[remind], history="input")
    runner = ag.Runner(agent)
    for text in ("One.", "Two."):
        list(drive.run(runner, text, thread_id="t"))
    assert [[each.text for each in sent] for sent in model.inputs] == [
        ["One.", "Mind the bees."],
        ["One.", "Mind the bees.", "", "bees!", "Mind the bees."],
        ["Two.", "Mind the bees."],
    ]


def test_a_given_up_turn_answers_the_calls_about_which_a_hook_asked(drive: Drive) -> None:
    model = scripted(TWO, lambda sent: str([each.text for each in sent if each.type == "tool"]))
    ask = HumanInTheLoopMiddleware({"mail": True})
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[look, mail], middleware=[ask]))
    list(drive.run(runner, "Go.", thread_id="t"))
    events = list(drive.run(runner, "Well?", thread_id="t", drop_pending=True))
    assert events[-1].text == "['The call was not finished.', 'The call was not finished.']"


@pytest.mark.parametrize("hook", ["before_agent", "before_model", "after_model", "after_agent"])
def test_a_hook_that_fails_is_tried_again_alone(drive: Drive, hook: str) -> None:
    begun: list[str] = []

    def fails_once(self: Any, state: Any, runtime: Any) -> None:
        begun.append(hook)
        if len(begun) == 1:
            raise OSError("no line")

    failing = type("Failing", (AgentMiddleware,), {hook: fails_once})()
    model = scripted("Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, middleware=[failing]))
    events: list[ag.AgentEvent] = []
    with pytest.raises(OSError, match="no line"):
        events.extend(drive.run(runner, "Go.", thread_id="t"))
    events += drive.resume(runner, "t")
    assert [each.text for each in events if each.kind == "message"][-1] == "Done."
    assert (len(begun), len(model.inputs)) == (2, 1)


def test_state_edits_and_questions_are_there_in_another_process(drive: Drive, tmp_path: Path) -> None:
    def tree(*responses: Any) -> ag.Agent:
        summarize = SummarizationMiddleware(
            ScriptedChatModel(responses=lambda sent: "Sum."),
            trigger=("messages", 3),
            keep=("messages", 1),
        )
        middleware = [Rounds(), summarize, HumanInTheLoopMiddleware({"mail": True})]
        return ag.chat_agent("writer", scripted(*responses), tools=[mail, look], middleware=middleware)

    path = tmp_path / "threads.db"
    fresh(drive, path, tree(ONE, calls(call("mail", "2", to="b"))), "run", "Go.", thread_id="t")
    told = fresh(drive, path, tree(lambda sent: sent[0].text), "resume", "t", APPROVED)
    assert [each.text for each in told][-3:] == ["sent to b", told[-2].text, "103 rounds."]
    assert "Sum." in told[-2].text
    told = fresh(drive, path, tree(lambda sent: sent[0].text), "run", "On.", thread_id="t")
    assert [told[0].text[-4:], told[-1].text] == ["Sum.", "204 rounds."]
