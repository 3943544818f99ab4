"""Items that need the results of others: `depends_on` of an `EachAgent`, which `plan_execute` sets."""

from typing import Any

import pytest
from helpers import Drive, says

import agentgraph as ag

RAN: list[str] = []


def items(depends_on: Any) -> ag.Agent:
    def work(ctx: ag.Context) -> str:
        RAN.append(ctx.address)
        return "done"

    each = ag.EachAgent(
        name="e", agent=ag.function_agent("w", work), over="xs", depends_on=depends_on, output_key="o"
    )
    return ag.sequential("s", [each, says("z")])


def needing(**needs: list[Any]) -> Any:
    return lambda ctx: needs.get(str(ctx.item.key), [])


KEYED, PLAIN = {"a": 1, "b": 2, "c": 3}, [1, 2]
WRONG: dict[str, tuple[Any, Any, str]] = {
    "no keys": (
        PLAIN,
        lambda ctx: ["a"],
        "s/e: depends_on of item 0 names 'a', which is not the key of an item; the items have none: "
        "pass key=, or a mapping as over=",
    ),
    "an unknown key": (
        KEYED,
        needing(b=["a", "x"]),
        "s/e: depends_on of item 1 names 'x', which is not the key of an item; choose one of: 'a', "
        "'b', 'c'",
    ),
    "a text": (
        KEYED,
        lambda ctx: "a",
        "s/e: depends_on of item 0 returned 'a'; return a list of keys of items",
    ),
    "nothing": (
        KEYED,
        lambda ctx: None,
        "s/e: depends_on of item 0 returned None; return a list of keys of items",
    ),
    "a circle": (
        KEYED,
        needing(a=["c"], c=["a"]),
        "s/e: the items 'a' -> 'c' -> 'a' wait for each other; have depends_on leave one of these out",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_dependencies_that_cannot_be_are_refused_before_an_item_runs(drive: Drive, name: str) -> None:
    over, depends_on, message = WRONG[name]
    RAN.clear()
    with ag.Runner(items(depends_on)) as runner:
        with pytest.raises(ag.InvalidOutputError) as caught:
            list(drive.run(runner, "Go.", thread_id="t", values={"xs": over}))
        assert str(caught.value).splitlines()[0] == message
        assert (RAN, runner.thread("t").status) == ([], "failed")
        with ag.Runner(items(needing(a=["b"])), checkpointer=runner.saver) as mended:
            list(drive.resume(mended, "t"))
            assert mended.thread("t").status == "done"
    assert len(RAN) == len(over)


def test_keys_that_are_numbers_are_named_as_such_or_as_texts(drive: Drive) -> None:
    RAN.clear()
    tree = items(lambda ctx: [2, "3"] if ctx.item.key == 1 else [])
    with ag.Runner(tree) as runner:
        list(drive.run(runner, "Go.", thread_id="t", values={"xs": {1: "x", 2: "y", 3: "z"}}))
        assert runner.thread("t").status == "done"
    assert [len(RAN), RAN[-1]] == [3, "s/e/w(0:1)"]


def test_dependencies_that_are_no_function_are_a_fault() -> None:
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.Runner(items(["a"]))
    fault = "s/e: depends_on=['a'] cannot be used; pass a function of the context"
    assert caught.value.faults == (fault,)
