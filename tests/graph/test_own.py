"""Copies of values: they may be changed without an effect, and behave as lists and dicts do."""

import copy
import json
import operator
import pickle
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest
from helpers.sampling import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel, PrivateAttr, TypeAdapter

from agentgraph.graph.copied_values import OwnDict, OwnList, detached, own, own_list, private

Pair = namedtuple("Pair", "first second")


class Colour(Enum):
    RED = "red"


class Note(BaseModel):
    text: str = ""
    lines: list[Any] = []
    _seen: list[int] = PrivateAttr(default_factory=list)


@dataclass
class Plan:
    steps: list[Any]
    by_name: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Frozen:
    steps: list[Any]


def large() -> list[Any]:
    """Return data that is too large to be copied at once."""
    return [{"id": n, "tags": ["a"], "more": {"deep": [n]}} for n in range(200)]


def large_dict() -> dict[str, Any]:
    return {f"k{n}": {"id": n, "tags": ["a"]} for n in range(200)}


_LEAF = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
_DATA = st.recursive(
    _LEAF,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
    max_leaves=12,
)
_INDEX = st.integers(-6, 6)
_SLICE = st.builds(slice, st.none() | _INDEX, st.none() | _INDEX, st.none() | st.integers(1, 3))


def _changed(value: Any) -> Any:
    """Change a list or dict in place, and return it."""
    if isinstance(value, list):
        value.append("changed")
    elif isinstance(value, dict):
        value["changed"] = True
    return value


def _sorted(values: list[Any]) -> None:
    values.sort(key=lambda each: repr(_changed(each)))


_LIST_CALLS: list[Any] = [
    lambda v, i, s, x: _changed(v[i]),
    lambda v, i, s, x: [_changed(each) for each in v[s]],
    lambda v, i, s, x: [_changed(each) for each in v],
    lambda v, i, s, x: [_changed(each) for each in reversed(v)],
    lambda v, i, s, x: _changed(next(iter(v), None)),
    lambda v, i, s, x: operator.setitem(v, i, x),
    lambda v, i, s, x: operator.setitem(v, slice(s.start, s.stop), [x, x]),
    lambda v, i, s, x: operator.delitem(v, i),
    lambda v, i, s, x: operator.delitem(v, s),
    lambda v, i, s, x: _changed(v.pop(i)),
    lambda v, i, s, x: _changed(v.pop()),
    lambda v, i, s, x: v.append(x),
    lambda v, i, s, x: v.extend([x, x]),
    lambda v, i, s, x: v.insert(i, x),
    lambda v, i, s, x: v.remove(x),
    lambda v, i, s, x: v.reverse(),
    lambda v, i, s, x: _sorted(v),
    lambda v, i, s, x: v.clear(),
    lambda v, i, s, x: [_changed(each) for each in v.copy()],
    lambda v, i, s, x: _changed(copy.copy(v)),
    lambda v, i, s, x: [_changed(each) for each in copy.deepcopy(v)],
    lambda v, i, s, x: [_changed(each) for each in operator.add(v, [x])],
    lambda v, i, s, x: [_changed(each) for each in operator.add([x], v)],
    lambda v, i, s, x: [_changed(each) for each in v * 2],
    lambda v, i, s, x: operator.imul(v, 2),
    lambda v, i, s, x: (x in v, v.count(x), v == [x], repr(v), json.dumps(v), len(v), bool(v)),
    lambda v, i, s, x: v.index(x),
    lambda v, i, s, x: pickle.loads(pickle.dumps(v)),
    lambda v, i, s, x: sorted(v, key=repr),
    lambda v, i, s, x: [*v, *tuple(v)],
]
_DICT_CALLS: list[Any] = [
    lambda v, k, x: _changed(v[k]),
    lambda v, k, x: _changed(v.get(k)),
    lambda v, k, x: v.get(k, x),
    lambda v, k, x: operator.setitem(v, k, x),
    lambda v, k, x: operator.delitem(v, k),
    lambda v, k, x: _changed(v.pop(k)),
    lambda v, k, x: v.pop(k, None),
    lambda v, k, x: (lambda pair: (pair[0], _changed(pair[1])))(v.popitem()),
    lambda v, k, x: _changed(v.setdefault(k, x)),
    lambda v, k, x: v.update({k: x}),
    lambda v, k, x: [_changed(each) for each in v.values()],
    lambda v, k, x: [(name, _changed(each)) for name, each in v.items()],
    lambda v, k, x: [*v, *v.keys(), *reversed(v)],
    lambda v, k, x: [_changed(each) for each in {**v}.values()],
    lambda v, k, x: [_changed(each) for each in dict(v).values()],
    lambda v, k, x: [_changed(each) for each in (v | {k: x}).values()],
    lambda v, k, x: [_changed(each) for each in ({k: x} | v).values()],
    lambda v, k, x: operator.ior(v, {k: x}),
    lambda v, k, x: [_changed(each) for each in v.copy().values()],
    lambda v, k, x: [_changed(each) for each in copy.copy(v).values()],
    lambda v, k, x: [_changed(each) for each in copy.deepcopy(v).values()],
    lambda v, k, x: (k in v, v == {k: x}, repr(v), json.dumps(v), len(v), bool(v)),
    lambda v, k, x: v.clear(),
    lambda v, k, x: pickle.loads(pickle.dumps(v)),
    lambda v, k, x: list(v.items()) == [(name, v[name]) for name in v],
]


def _result(call: Any, *arguments: Any) -> Any:
    """Return what a call returns, or the type of its error."""
    try:
        return call(*arguments)
    except (IndexError, KeyError, ValueError, TypeError) as error:
        return type(error)


@pytest.mark.by_turns  # so that `make properties` tries more
@settings(max_examples=examples(80), deadline=None)
@given(
    st.lists(_DATA, max_size=6),
    st.lists(st.tuples(st.integers(0, len(_LIST_CALLS) - 1), _INDEX, _SLICE, _DATA), max_size=8),
)
def test_an_own_list_does_what_a_list_does(data: list[Any], calls: list[Any]) -> None:
    before, expected, seen = copy.deepcopy(data), copy.deepcopy(data), own_list(data)
    for number, index, part, value in calls:
        call = _LIST_CALLS[number]
        mine, theirs = copy.deepcopy(value), copy.deepcopy(value)
        assert _result(call, seen, index, part, mine) == _result(call, expected, index, part, theirs)
        assert (seen if seen._copies is None else [*seen]) == expected
    assert data == before
    written = detached(seen)
    assert written == expected
    assert type(written) is list


@pytest.mark.by_turns  # so that `make properties` tries more
@settings(max_examples=examples(80), deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdef"), _DATA, max_size=6),
    st.lists(
        st.tuples(st.integers(0, len(_DICT_CALLS) - 1), st.sampled_from("abcdefg"), _DATA), max_size=8
    ),
)
def test_an_own_dict_does_what_a_dict_does(data: dict[str, Any], calls: list[Any]) -> None:
    before, expected, seen = copy.deepcopy(data), copy.deepcopy(data), OwnDict(data)
    seen._shared, seen._copies = data, None
    for number, key, value in calls:
        call = _DICT_CALLS[number]
        mine, theirs = copy.deepcopy(value), copy.deepcopy(value)
        assert _result(call, seen, key, mine) == _result(call, expected, key, theirs)
        assert (seen if seen._copies is None else {**seen}) == expected
        assert [*seen] == [*expected]
    assert data == before
    written = detached(seen)
    assert written == expected
    assert type(written) is dict


@pytest.mark.parametrize("made", [large, large_dict])
def test_large_data_is_a_list_or_dict_for_all_that_reads_it(made: Any) -> None:
    data = made()
    seen = own(data)
    assert isinstance(seen, type(data))
    assert type(seen) in (OwnList, OwnDict)
    assert json.dumps(seen) == json.dumps(data)
    assert pickle.loads(pickle.dumps(seen)) == data
    assert type(pickle.loads(pickle.dumps(seen))) is type(data)
    assert type(copy.deepcopy(seen)) is type(data)
    assert TypeAdapter(type(data)).validate_python(seen, strict=True) == data
    assert TypeAdapter(Any).dump_json(seen) == TypeAdapter(Any).dump_json(data)
    serializer = JsonPlusSerializer()
    assert serializer.dumps_typed(seen) == serializer.dumps_typed(data)


def test_what_is_written_unchanged_is_not_copied() -> None:
    data = large()
    seen = own(data)
    assert detached(seen) is data
    assert seen[3]["more"]["deep"] == [3]
    seen[5]["tags"].append("b")
    written = detached(seen)
    assert written[7] is data[7]
    assert written[5]["tags"] == ["a", "b"]
    assert data[5]["tags"] == ["a"]
    assert type(written) is list
    assert type(written[5]["tags"]) is list


def test_what_is_written_is_not_what_its_writer_holds() -> None:
    inner = [1]
    written = detached({"plain": [inner], "own": [*own(large()), inner]})
    inner.append(2)
    assert written["plain"] == [[1]]
    assert written["own"][-1] == [1]


def test_a_private_copy_shares_nothing() -> None:
    data = large()
    mine = private(own(data))
    mine[0]["tags"].append("b")
    assert data[0]["tags"] == ["a"]
    assert type(mine) is list


@pytest.mark.parametrize("copied", [own, detached, private])
def test_models_dataclasses_and_messages_are_copied_with_their_fields(copied: Any) -> None:
    note, plan = Note(lines=[[1]]), Plan([[1]], {"a": [1]})
    note._seen.append(1)
    call: Any = {"name": "f", "args": {"rows": [[1]]}, "id": "1", "type": "tool_call"}
    message = AIMessage([{"type": "text", "text": "x", "more": [1]}], tool_calls=[call])
    values = [note, plan, Frozen([[1]]), message, Pair([1], 2), ([1],), [note]]
    before = repr(values)
    mine = copied(values)
    assert mine == values
    assert [*map(type, mine)] == [*map(type, values)]
    mine[0].lines[0].append(2)
    mine[1].by_name["a"].append(2)
    mine[1].steps = []
    mine[2].steps[0].append(2)
    mine[3].content[0]["more"].append(2)
    mine[3].tool_calls[0]["args"]["rows"][0].append(2)
    mine[3].additional_kwargs["x"] = 1
    mine[4].first.append(2)
    mine[5][0].append(2)
    mine[6][0].text = "changed"
    assert repr(values) == before


@pytest.mark.parametrize("copied", [own, detached, private])
@pytest.mark.parametrize(
    "value",
    [
        Counter("aab"),
        OrderedDict(a=[1]),
        defaultdict(list, a=[1]),
        deque([[1]], maxlen=3),
        {1, 2},
        bytearray(b"ab"),
        frozenset([(1,)]),
        Colour.RED,
        HumanMessage("Go."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_containers_keep_their_types(copied: Any, value: Any) -> None:
    mine = copied([value])[0]
    assert mine == value
    assert type(mine) is type(value)
    if isinstance(value, bytearray):
        mine.append(1)
        assert value == b"ab"
    elif isinstance(value, OrderedDict | defaultdict):
        mine["a"].append(2)
        assert value["a"] == [1]
    elif isinstance(value, deque):
        mine[0].append(2)
        assert value[0] == [1]
        assert mine.maxlen == 3


def test_objects_of_other_classes_are_shared() -> None:
    class Client:
        def __init__(self) -> None:
            self.open = True

    client = Client()
    assert own({"c": client})["c"] is client
    assert detached([client])[0] is client


def test_a_class_may_say_how_it_is_copied() -> None:
    class Grid:
        def __init__(self, cells: list[int]) -> None:
            self.cells = cells

        def __deepcopy__(self, memo: Any) -> "Grid":
            return Grid([*self.cells])

    grid = Grid([1])
    own([grid])[0].cells.append(2)
    assert grid.cells == [1]


def test_objects_that_refer_to_each_other_are_copied_once() -> None:
    @dataclass
    class Node:
        parent: Any = None
        children: list[Any] = field(default_factory=list)

    root = Node()
    root.children.append(Node(root))
    mine = detached(root)
    assert mine.children[0].parent is mine is not root
    assert own(root).children[0].parent is not root


@pytest.mark.parametrize("copied", [own, detached, private])
@pytest.mark.parametrize("around", [lambda it: [it, it], lambda it: (it, it), lambda it: {"a": it}])
def test_a_value_that_contains_itself_is_taken_as_it_is(copied: Any, around: Any) -> None:
    value: list[Any] = []
    value.append(around(value))
    both = {"messages": [HumanMessage("Go.")], "v": value}
    for each in (value, both):
        mine = copied(each)
        assert isinstance(mine, list | dict)
    assert private(both)["v"] is value
