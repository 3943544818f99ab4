"""The reads and writes of users' functions are known by their source, as far as it says them."""

import functools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.prebuilt import InjectedState
from langgraph.types import Command

import agentgraph as ag
from agentgraph.agents.tools import function_of
from agentgraph.tree.lint.code import Code, code_of
from agentgraph.tree.lint.results import results_of

NAMES = ("one", "two")
TABLE = {"go": lambda ctx: ag.SetValues(far=1)}
SIGNALS = [ag.Exit(), ag.BreakLoop()]
NOTE = "note"


def effects(fn: Any, **options: Any) -> tuple[dict[str, str], set[str]]:
    """Return the reads and writes of a function whose source says all of them."""
    code = code_of(fn, **options)
    assert (code.reads_all, code.writes_all) == (False, False)
    return dict(code.reads), code.writes


def helper(ctx: Any) -> str:
    return str(ctx.values["topic"])


def noted(text: str) -> list[Any]:
    return [text, ag.SetValues(note=text)]


def straight(ctx: Any) -> Any:
    first, second = ctx.values["a"], ctx.values["b"]
    with open("file") as file:
        third = ctx.values["c"]
    for each in ctx.values["d"]:
        print(each, ctx.values["e"], file)
    return first, second, third


def branching(ctx: Any) -> Any:
    if ctx.values["a"]:
        return ctx.values["b"]
    return ctx.values["c"]


def guarded(ctx: Any) -> Any:
    try:
        return ctx.values["a"]
    except KeyError:
        return ctx.values.get("b", ctx.values["c"])


def present(ctx: Any) -> Any:
    return "a" in ctx.values and ctx.values["a"]


def aliased(ctx: Any) -> Any:
    values, again = ctx.values, ctx
    state = ctx.values
    return state["a"], again.values["b"], values


def simple_alias(ctx: Any) -> Any:
    state = ctx.values
    same = ctx
    return state["a"], same.values["b"]


def looped(ctx: Any) -> Any:
    texts = [ctx.values[name] for name in NAMES]
    known = {name: ctx.values[name] for name in ("three",) if name in ctx.values}
    return texts, known, ctx.values[NOTE]


def calls_others(ctx: Any) -> Any:
    return [helper(ctx), *noted("Hi."), (lambda: ctx.values["inner"])()]


def builds(ctx: Any) -> ag.SetValues:
    known = {"a": 1, "b": 2}
    missing = {name: value for name, value in known.items() if name not in ctx.values}
    return ag.SetValues(**missing, **{f"{NOTE}_x": 1}, c=3)


def literal(way: Literal["out", "back"], ctx: ag.Context) -> ag.SetValues:
    return ag.SetValues(**{f"flight_{way}": ctx.values[f"old_{way}"]})


def commands(
    state: Annotated[dict, InjectedState], topic: Annotated[str, InjectedState("topic")]
) -> Any:
    return Command(update={"messages": [], "seen": state["files"]})


def of_runtime(runtime: ToolRuntime) -> str:
    return str(runtime.state["files"]) + str(runtime.context)


def plain(rows: Any) -> Any:
    return rows.values["x"], {"a": 1}.values(), json.dumps(rows)


def yields(ctx: Any) -> Iterator[Any]:
    yield ag.SetValues(a=1)
    yield ctx.values["b"]


async def awaits(ctx: Any) -> AsyncIterator[Any]:
    yield helper(ctx)
    yield ag.SetValues(a=1)


def recursive(ctx: Any, depth: int = 0) -> Any:
    return ctx.values["a"] if depth > 3 else recursive(ctx, depth + 1)


def asks_agents(ctx: Any) -> Any:
    return ctx.run("find", "Bees?").values["found"]


class Called:
    name = "mine"

    def __call__(self, ctx: Any) -> Any:
        return self.read(ctx), self.name

    def read(self, context: Any) -> Any:
        return context.values["mine"]


@dataclass(frozen=True, slots=True)
class ValueIs:
    value: str

    def __call__(self, ctx: Any) -> bool:
        return bool(ctx.values[self.value])


def wrapping(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def inner(ctx: Any) -> Any:
        return fn(ctx)

    return inner


def hiding(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda ctx: fn(ctx)


def filled(name: str, ctx: Any, out: str) -> Any:
    return ag.SetValues(**{out: [ctx.values[name], ctx.values["fixed"]]})


def changed(name: str, ctx: Any) -> Any:
    name = "b"
    return ctx.values[name]


ALWAYS, SOMETIMES, OPTIONAL = "always", "sometimes", "optional"


@pytest.mark.parametrize(
    ("fn", "reads", "writes"),
    [
        (lambda ctx: ctx.values["a"], {"a": ALWAYS}, set()),
        (lambda ctx: ctx.values.get("a"), {"a": OPTIONAL}, set()),
        (lambda ctx: ctx.messages and ctx.values["a"], {"a": SOMETIMES}, set()),
        (lambda ctx: [ctx.values["a"] for _ in ctx.values["b"]], {"a": SOMETIMES, "b": ALWAYS}, set()),
        (straight, {"a": ALWAYS, "b": ALWAYS, "c": ALWAYS, "d": ALWAYS, "e": SOMETIMES}, set()),
        (branching, {"a": ALWAYS, "b": SOMETIMES, "c": SOMETIMES}, set()),
        (guarded, {"a": OPTIONAL, "b": OPTIONAL, "c": SOMETIMES}, set()),
        (present, {"a": OPTIONAL}, set()),
        (simple_alias, {"a": ALWAYS, "b": ALWAYS}, set()),
        (looped, {"one": SOMETIMES, "two": SOMETIMES, "three": OPTIONAL, "note": ALWAYS}, set()),
        (calls_others, {"topic": ALWAYS, "inner": SOMETIMES}, {"note"}),
        (builds, {"a": OPTIONAL, "b": OPTIONAL}, {"a", "b", "c", "note_x"}),
        (yields, {"b": ALWAYS}, {"a"}),
        (awaits, {"topic": ALWAYS}, {"a"}),
        (recursive, {"a": SOMETIMES}, set()),
        (asks_agents, {"found": OPTIONAL}, set()),
        (Called(), {"mine": ALWAYS}, set()),
        (Called().read, {"mine": ALWAYS}, set()),
        (ValueIs("done"), {"done": ALWAYS}, set()),
        (wrapping(helper), {"topic": ALWAYS}, set()),
        (hiding(helper), {"topic": ALWAYS}, set()),
        (functools.partial(helper), {"topic": ALWAYS}, set()),
        (functools.partial(filled, "a", out="b"), {"a": ALWAYS, "fixed": ALWAYS}, {"b"}),
    ],
)
def test_a_function_of_a_context_is_read(fn: Any, reads: dict[str, str], writes: set[str]) -> None:
    assert effects(fn) == (reads, writes)


one, two = (lambda ctx: ctx.values["one"]), (lambda ctx: (lambda: ctx.values["two"])())


def test_functions_of_one_line_are_told_apart() -> None:
    assert [effects(one)[0], effects(two)[0]] == [{"one": ALWAYS}, {"two": SOMETIMES}]


class Tool(BaseTool):
    name: str = "own"
    description: str = "Own."

    def _run(self, ctx: ag.Context) -> Any:
        return [ctx.values["a"], ag.SetValues(b=1)]


@pytest.mark.parametrize(
    ("fn", "reads", "writes"),
    [
        (literal, {"old_out": SOMETIMES, "old_back": SOMETIMES}, {"flight_out", "flight_back"}),
        (commands, {"files": ALWAYS, "topic": ALWAYS}, {"seen"}),
        (of_runtime, {"files": ALWAYS}, set()),
        (plain, {}, set()),
        (
            function_of(StructuredTool.from_function(of_runtime, description="Files.")),
            {"files": ALWAYS},
            set(),
        ),
        (function_of(tool(plain, description="Rows.")), {}, set()),
        (function_of(Tool()), {"a": ALWAYS}, {"b"}),
    ],
)
def test_a_tool_is_read_by_the_parameters_that_provide_values(
    fn: Any, reads: dict[str, str], writes: set[str]
) -> None:
    assert effects(fn, takes_context=False) == (reads, writes)


def too_deep(ctx: Any) -> Any:
    return len(str([(name, value) for name, value in ctx.values.items() if value]))


@pytest.mark.parametrize(
    "fn",
    [
        print,
        functools.partial(print),
        functools.partial(changed, "a"),
        eval("lambda ctx: 'Hi.'"),
        lambda ctx: print(ctx),
        lambda ctx: TABLE["go"](ctx),
        lambda ctx: ctx.values[ctx.name],
        lambda ctx: dict(ctx.values),
        lambda ctx: "{a}".format(**ctx.values),
        lambda ctx: [ctx],
        aliased,
        too_deep,
    ],
)
def test_a_function_that_cannot_be_followed_reads_everything(fn: Any) -> None:
    assert code_of(fn).reads_all


@pytest.mark.parametrize(
    "fn",
    [
        print,
        lambda ctx: ag.SetValues(**ctx.values["all"]),
        lambda ctx: map(ag.SetValues, []),
        lambda ctx: Command(update=ctx.values["all"]),
        lambda ctx: TABLE["go"](1),
    ],
)
def test_a_function_that_cannot_be_followed_writes_everything(fn: Any) -> None:
    assert code_of(fn).writes_all


def test_the_signals_the_agents_that_run_and_the_counters_of_a_function_are_known() -> None:
    assert code_of(lambda ctx: SIGNALS[0]).signals == {"exit", "break_loop"}
    assert code_of(lambda ctx: ag.TransferTo("bob")).targets == {"bob"}
    assert code_of(lambda ctx: ag.TransferTo(ctx.name)).targets_all
    assert code_of(lambda ctx: [ctx.run(name, "Go.") for name in NAMES]).runs == {*NAMES}
    assert code_of(lambda ctx: ctx.run(ctx.name, "Go.")).runs_all
    assert code_of(lambda ctx: ctx.iteration).counts
    assert code_of(lambda ctx: helper(ctx)) == Code(reads={"topic": "always"})


def either(ctx: Any) -> Any:
    kind = "a" if ctx.messages else "b"
    if ctx.item:
        return kind
    return "c"


def open_end(ctx: Any) -> Any:  # noqa: RET503
    if ctx.messages:
        return "a"


@pytest.mark.parametrize(
    ("fn", "results"),
    [
        (either, {"a", "b", "c"}),
        (open_end, None),
        (lambda ctx: not ctx.messages, {True, False}),
        (lambda ctx: ctx.messages[-1].text == "a" or False, {True, False}),
        (lambda ctx: ctx.messages[-1].text, None),
        (literal, None),
    ],
)
def test_the_results_of_a_function_are_known_if_they_are_constants(fn: Any, results: Any) -> None:
    assert results_of(fn) == results
