"""Files that agentgraph opens: a stranger's runs no code; objects of types that are named are read."""

import asyncio
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from uuid import uuid4

import ormsgpack
import pytest
from helpers import Drive, asks, foreign, fresh, gives, says, scripted
from helpers.fuzzed import CALLS, call_on, rewrite
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.managed import RemainingSteps
from langgraph.types import Interrupt, Send
from pydantic import BaseModel, SecretStr
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.graph.named_types import allowed_types, named_types
from agentgraph.graph.strict_serializer import (
    StrictSerializer,
    UnreadableError,
    UnreadSnapshot,
    key_of,
    listing,
)
from agentgraph.testing import call, calls

TREE = ag.sequential("s", [says("a"), ag.parallel("p", [asks("h"), says("b")])])
MSGPACK = ormsgpack.OPT_NON_STR_KEYS


class Colour(Enum):
    RED = "red"


class Size(NamedTuple):
    width: int


class Shape(BaseModel):
    colour: Colour
    size: Size | None = None


class Circle(Shape):
    radius: int = 1


@dataclass
class Page:
    shapes: list[Shape]


@dataclass
class Counted:
    """A class whose objects cannot be made again from their fields."""

    number: int = field(default=0, init=False)


class State(TypedDict):
    page: Annotated[Page | None, "the page"]


PAGE = Page([Shape(colour=Colour.RED, size=Size(3))])


# A stranger's file.


def payload(code: int, folder: Path) -> ormsgpack.Ext:
    """Return an object that makes a folder if LangGraph's default reads it."""
    given: dict[int, Any] = {0: str(folder), 1: [str(folder)]}
    parts = ("os", "mkdir", given.get(code, {"path": str(folder)}), "model_validate_json")
    return ormsgpack.Ext(code, ormsgpack.packb(parts))


@pytest.mark.parametrize("code", [0, 1, 2, 4, 5])
def test_what_langgraphs_default_runs_is_not_run(tmp_path: Path, code: int) -> None:
    hostile = ("msgpack", ormsgpack.packb([payload(code, tmp_path / "made")]))
    with pytest.raises(UnreadableError, match=r"objects of os\.mkdir are not read from files"):
        StrictSerializer({}).loads_typed(hostile)
    assert not (tmp_path / "made").exists()
    JsonPlusSerializer().loads_typed(hostile)
    assert (tmp_path / "made").is_dir()


@pytest.mark.parametrize("kind", ["json", "pickle", "msgpack+aes", None])
def test_older_formats_are_not_read(kind: Any) -> None:
    with pytest.raises(UnreadableError, match="which is not read"):
        StrictSerializer({}).loads_typed((kind, b"{}"))


def with_payload(table: str, folder: Path) -> Callable[[bytes], bytes]:
    def changed(packed: bytes) -> bytes:
        if table == "writes":
            return ormsgpack.packb([payload(0, folder)])
        saved = ormsgpack.unpackb(packed, ext_hook=ormsgpack.Ext, option=MSGPACK)
        saved["channel_values"]["values"] = {"more": [payload(0, folder)]}
        return ormsgpack.packb(saved, option=MSGPACK)

    return changed


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("table", ["checkpoints", "writes"])
def test_no_call_on_a_strangers_file_runs_its_code(
    drive: Drive, tmp_path: Path, table: str, name: str
) -> None:
    path, made = tmp_path / "x.db", tmp_path / "made"
    fresh(drive, path, TREE, "run", "Go.", thread_id="t")
    rewrite(path, table, with_payload(table, made))
    if name == "delete":
        call_on(drive, path, TREE, name)
    elif name == "threads":
        [summary] = call_on(drive, path, TREE, name)
        assert summary.status == "unreadable"
        assert "objects of os.mkdir are not read" in summary.error
    else:
        with pytest.raises(ag.SaverError, match=r"objects of os\.mkdir are not read") as caught:
            call_on(drive, path, TREE, name)
        assert caught.value.path == str(path)
    assert not made.exists()


def test_both_sqlite_savers_read_strictly(drive: Drive, tmp_path: Path) -> None:
    path, made = tmp_path / "x.db", tmp_path / "made"
    fresh(drive, path, TREE, "run", "Go.", thread_id="t")
    rewrite(path, "checkpoints", with_payload("checkpoints", made))
    for method in ("events", "resume"):
        with pytest.raises(ag.SaverError, match="nothing in it was run"):
            fresh(drive, path, TREE, method, "t")
    assert not made.exists()


# Values of types of one's own.


def told(drive: Drive, path: Path, value: Any, **options: Any) -> Any:
    """Return a value after it was saved in one process and read in another."""
    tree = ag.sequential("s", [gives("a", ag.SetValues(page=value)), asks("h")])
    call_on(drive, path, tree, "run", **options)
    return call_on(drive, path, tree, "thread", **options).values["page"]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"values": State}, id="declared"),
        pytest.param({"allow": [Page]}, id="allowed"),
        pytest.param({"allow": (f"{__name__}:Page",)}, id="allowed by name"),
    ],
)
def test_named_types_are_read_with_those_of_their_fields(
    drive: Drive, tmp_path: Path, options: Any
) -> None:
    assert told(drive, tmp_path / "x.db", PAGE, **options) == PAGE


def test_a_class_inside_a_function_is_read_if_it_is_declared(drive: Drive, tmp_path: Path) -> None:
    class Local(BaseModel):
        n: int

    class Declared(TypedDict):
        page: Local

    assert told(drive, tmp_path / "x.db", Local(n=1), values=Declared) == Local(n=1)


@pytest.mark.parametrize(
    ("value", "name", "options"),
    [
        pytest.param(PAGE, "Page", {}, id="an object"),
        pytest.param({"pages": [PAGE]}, "Page", {}, id="one inside"),
        pytest.param(Circle(colour=Colour.RED), "Circle", {"allow": [Shape]}, id="of a subclass"),
    ],
)
def test_what_could_not_be_read_back_is_refused_where_it_is_written(
    drive: Drive, tmp_path: Path, value: Any, name: str, options: Any
) -> None:
    path = tmp_path / "x.db"
    wanted = rf"^s/a: the value 'page' cannot be saved \(objects of {__name__}\.{name} are not read "
    with pytest.raises(ag.InvalidOutputError, match=wanted):
        told(drive, path, value, **options)
    assert call_on(drive, path, ag.sequential("s", [says("a"), asks("h")]), "thread").status == "failed"


def test_an_object_that_cannot_be_made_again_is_refused_too(drive: Drive, tmp_path: Path) -> None:
    with pytest.raises(ag.InvalidOutputError, match="cannot be rebuilt from what is stored"):
        told(drive, tmp_path / "x.db", Counted(), allow=[Counted])


def test_input_and_messages_with_such_objects_are_refused_before_anything_runs(
    drive: Drive, tmp_path: Path
) -> None:
    for given in ("values", "message"):
        values = {"page": PAGE} if given == "values" else {}
        messages = [HumanMessage("Go.", additional_kwargs={"colour": Colour.RED})]
        with pytest.raises(ag.AgentGraphError, match="are not read from files unless"):
            fresh(drive, tmp_path / "x.db", TREE, "run", messages, thread_id="t", values=values)
    assert call_on(drive, tmp_path / "x.db", TREE, "threads") == []


def test_a_file_from_before_says_what_to_allow(drive: Drive, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    told(drive, path, PAGE, allow=[Page])
    tree = ag.sequential("s", [gives("a", ag.SetValues(page=PAGE)), asks("h")])
    with pytest.raises(ag.SaverError) as caught:
        call_on(drive, path, tree, "thread")
    page = f"{__name__}:Page"
    assert str(caught.value) == (
        f"thread 't': its saver FileSaver, the file {path}, failed with UnreadableError: objects of "
        f"{__name__}.Page are not read from files unless that is allowed: pass allow=['{page}'] where "
        f"the file is opened (Runner, sqlite_saver, or --allow {page}), or declare the type with "
        "values=; do so only if you trust the file; nothing in it was run; what was saved before is "
        "kept"
    )
    assert caught.value.thread_id == "t"
    assert call_on(drive, path, tree, "thread", allow=[Page]).values == {"page": PAGE}


def test_what_a_nested_graph_keeps_is_read_if_its_state_names_it(drive: Drive, tmp_path: Path) -> None:
    class Drawing(TypedDict):
        messages: list[Any]
        page: Page
        left: RemainingSteps  # LangGraph makes no channel of it

    graph = foreign(lambda _: {"page": PAGE}, lambda _: {"messages": ["drawn"]}, state=Drawing)
    tree = ag.sequential("s", [ag.graph_agent("g", graph), asks("h")])
    call_on(drive, tmp_path / "x.db", tree, "run")
    assert call_on(drive, tmp_path / "x.db", tree, "resume")[-1].text == "yes"


def test_the_answer_of_a_nested_create_agent_is_read(drive: Drive, tmp_path: Path) -> None:
    model = scripted(calls(call("Shape", colour="red")))
    tree = ag.graph_agent("g", create_agent(model, response_format=Shape))
    call_on(drive, tmp_path / "x.db", tree, "run")
    assert call_on(drive, tmp_path / "x.db", tree, "thread").status == "done"


def test_what_a_nested_graph_keeps_is_refused_if_nothing_names_it(drive: Drive, tmp_path: Path) -> None:
    class Open(TypedDict):
        messages: Any
        page: Any

    graph = foreign(lambda _: {"page": PAGE}, state=Open)
    with pytest.raises(ag.InvalidOutputError, match=r"^g: .* \(objects of .*\.Page are not read"):
        call_on(drive, tmp_path / "x.db", ag.graph_agent("g", graph), "run")


def test_a_compiled_graph_allows_what_its_values_name(tmp_path: Path) -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        graph = ag.compile_agent(gives("a", ag.SetValues(page=PAGE)), checkpointer=saver, values=State)
        graph.invoke({"messages": ["Go."]}, config)
        assert graph.get_state(config).values["values"] == {"page": PAGE}


# What may be allowed, and where.


@pytest.mark.parametrize(
    ("allow", "fault"),
    [
        (["nowhere:Page"], "allow= names 'nowhere:Page', which cannot be imported"),
        (["os:Page"], "allow= names 'os:Page', which cannot be imported"),
        (["os:mkdir"], "allow= names 'os:mkdir', which is not a class, but <built-in function mkdir>"),
        (["Page"], "allow= must name types, got 'Page'; pass a class, or its name as 'module:Name'"),
        ([5], "allow= must name types, got 5"),
        ("os:Page", "allow= must be a list of types, got 'os:Page'; pass allow="),
    ],
)
def test_only_types_can_be_allowed(tmp_path: Path, allow: Any, fault: str) -> None:
    async def opened() -> None:
        await ag.async_sqlite_saver(tmp_path / "x.db", allow=allow)

    for refused in (
        lambda: ag.sqlite_saver(tmp_path / "x.db", allow=allow),
        lambda: asyncio.run(opened()),
        lambda: ag.Runner(TREE, checkpointer=tmp_path / "x.db", allow=allow),
        lambda: ag.Runner(TREE, allow=allow),
    ):
        with pytest.raises(ag.AgentGraphError, match=fault):
            refused()


def test_a_saver_that_we_opened_may_be_allowed_more_by_a_runner(tmp_path: Path) -> None:
    tree = gives("a", ag.SetValues(page=PAGE))
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        assert ag.Runner(tree, checkpointer=saver, allow=[Page]).invoke("Go.").values["page"] == PAGE


def test_a_saver_of_ones_own_reads_as_it_was_made() -> None:
    tree = gives("a", ag.SetValues(page=PAGE))
    with pytest.raises(ag.AgentGraphError, match="allow= is for files that agentgraph opens; In"):
        ag.Runner(tree, checkpointer=InMemorySaver(), allow=[Page])
    for options in ({"allow": [Page]}, {"checkpointer": InMemorySaver()}):
        assert ag.Runner(tree, **options).invoke("Go.").values == {"page": PAGE}


# The serializer.


def test_values_of_all_other_kinds_are_stored_and_read_as_by_langgraph() -> None:
    strict, theirs = StrictSerializer({}), JsonPlusSerializer()
    values: list[Any] = [
        *(None, b"x", bytearray(b"x"), 1, [1, {"a": b"x", 3: (1, 2)}], "é", uuid4()),
        *(Send("a", {"x": [1]}), Interrupt(value={"x": {1}}, id="3"), ValueError("x")),
        *(AIMessage("é", id="1", usage_metadata=None), HumanMessage([{"type": "text", "text": "x"}])),
        *(Path("/a"), {1}, frozenset([2]), importlib.import_module("re").compile("a+")),
        *map(jsonplus._DeltaSnapshot, ([], [HumanMessage("x"), {1}])),
    ]
    for value in values:
        stored = strict.dumps_typed(value)
        assert stored == theirs.dumps_typed(value)
        assert repr(strict.loads_typed(stored)) == repr(theirs.loads_typed(stored))


def test_an_exception_is_stored_as_its_repr_whatever_its_class() -> None:
    serializer = StrictSerializer({})
    assert serializer.loads_typed(serializer.dumps_typed(ag.AgentGraphError("x"))) == (
        "AgentGraphError('x')"
    )


def test_types_are_found_wherever_a_hint_names_them() -> None:
    class Secret(BaseModel):
        key: SecretStr
        page: "Page"
        inner: "Secret | None"

    hints: list[Any] = [dict[str, list[Secret | int]], Annotated[State, Colour], Size, Path]
    found = {key_of(kind)[1] for kind in named_types(hints).values()}
    assert found == {"Secret", "SecretStr", "Page", "Shape", "Colour", "Size"}
    assert allowed_types([Shape]).keys() == {(__name__, name) for name in ("Shape", "Colour", "Size")}


def test_a_list_of_checkpoints_reads_their_snapshots_when_they_are_asked_for(tmp_path):
    agent = ag.loop("talk", [ag.function_agent("a", lambda ctx: "More.")], max_iterations=150)
    with ag.sqlite_saver(tmp_path / "runs.db") as saver:
        runner = ag.Runner(agent, checkpointer=saver)
        runner.invoke("Go.", thread_id="t")
        with listing():
            every = [*saver.list({"configurable": {"thread_id": "t"}})]
        kept = [each.checkpoint["channel_values"].get("messages") for each in every]
        (snapshot, *_) = [each for each in kept if each is not None]
        assert isinstance(snapshot, UnreadSnapshot)
        assert "value" not in vars(snapshot)
        assert [each.text for each in snapshot.value[:2]] == ["Go.", "More."]


def test_a_thread_with_snapshots_is_copied_and_continues(tmp_path):
    agent = ag.loop("talk", [ag.function_agent("a", lambda ctx: "More.")], max_iterations=150)
    with ag.sqlite_saver(tmp_path / "runs.db") as saver:
        runner = ag.Runner(agent, checkpointer=saver)
        runner.invoke("Go.", thread_id="t")
        runner.copy("t", "copy")
        runner.invoke("On.", thread_id="copy")
        assert [len(runner.thread(each).messages) for each in ("t", "copy")] == [151, 302]
