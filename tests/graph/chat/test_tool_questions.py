"""Questions that tools ask: answered in any order, by new runners, and never asked again."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from helpers import Disk, ask_person, chat, check_heard, lines, results, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

import agentgraph as ag
from agentgraph.testing import call, calls


def asked_in(events: Iterable[ag.AgentEvent]) -> list[str]:
    """Return the ids of the questions in events."""
    return [event.id for event in events if event.kind == "interrupted"]


ORDERS = ["0 1 2", "0 2 1", "1 0 2", "2 1 0", "0+1+2", "2+0 1", "1 2+0"]
ANSWERS = [None, "", "C"]


@pytest.mark.parametrize("order", ORDERS)
def test_questions_of_tools_are_answered_in_any_order_and_nothing_runs_twice(
    disk: Disk, order: str
) -> None:
    """The calls are equal, even in their ids, and some of the answers are falsy."""
    ran: Counter[str] = Counter()

    def decide() -> str:
        """Ask a person."""
        answer = interrupt("Well?")
        ran["decide"] += 1
        return str(answer)

    def count() -> str:
        """Count."""
        ran["count"] += 1
        return "counted"

    made = calls(call("decide", "1"), call("count", "2"), call("decide", "1"), call("decide", "1"))
    writer = chat(
        "writer", made, lambda messages: " | ".join(m.text for m in messages[2:]), tools=[decide, count]
    )
    tree = ag.loop("rounds", [ag.sequential("s", [writer])], max_iterations=1)

    ids = asked_in(disk.run(tree))
    with ag.Runner(tree, checkpointer=disk.path) as runner:
        asked = [each.id for each in runner.pending("t")]  # in the order of the calls
    assert sorted(ids) == sorted({*asked})
    left = dict(zip(asked, ANSWERS, strict=True))
    for part in order.split():
        answers = {asked[int(n)]: left.pop(asked[int(n)]) for n in part.split("+")}
        assert sorted(asked_in(disk.resume(tree, answers))) == sorted(left)

    assert disk.heard[-1].text == "None | counted |  | C"
    assert ran == {"decide": 3, "count": 1}
    check_heard(disk.heard, disk.events(tree))


def test_a_question_beside_a_failure_is_asked_when_the_failure_is_over(disk: Disk) -> None:
    made = calls(call("ask_person", "1", what="Well?"), call("flaky", "2"))
    tools = [ask_person, tool("flaky", ConnectionError("down"), "up", "again")]
    tree = chat("writer", made, results, tools=tools, on_tool_error="raise")
    disk.fail(tree, "run", ConnectionError)
    assert {"writer: [asks] Well?", "writer: up"} <= {*lines(disk.resume(tree))}
    assert lines(disk.resume(tree, "yes")) == [
        "writer: yes",
        "writer: 1 ask_person success: yes | 2 flaky success: up",
    ]


def test_langgraph_alone_resumes_a_compiled_agent() -> None:
    made = calls(call("ask_person", "1", what="a"), call("ask_person", "2", what="b"))
    graph = ag.compile_agent(
        chat("writer", made, "Done.", tools=[ask_person]), checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    a, b = graph.invoke({"messages": ["Go."]}, config)["__interrupt__"]
    done = graph.invoke(Command(resume={b.id: "B", a.id: "A"}), config)
    assert [message.text for message in done["messages"]] == ["Go.", "", "A", "B", "Done."]
