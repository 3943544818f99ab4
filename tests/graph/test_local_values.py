"""How values are declared `LOCAL`; what becomes of them is in `tests/transcripts/local_values.txt`."""

import json
import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, Required

import pytest
from helpers import Drive, gives, lines, notes
from pydantic import BaseModel
from typing_extensions import TypedDict

import agentgraph as ag


class Typed(TypedDict):
    scratch: NotRequired[Annotated[list[str], operator.add, ag.LOCAL]]
    word: Annotated[Required[str], ag.LOCAL]
    log: Annotated[list[str], operator.add]


@dataclass
class Plain:
    scratch: Annotated[list[str], ag.LOCAL, operator.add] = field(default_factory=list)
    word: Annotated[str, ag.LOCAL] = "?"
    log: Annotated[list[str], operator.add] = field(default_factory=list)


class Model(BaseModel):
    scratch: Annotated[list[str], operator.add, ag.LOCAL] = []
    word: Annotated[str, ag.LOCAL] = "?"
    log: Annotated[list[str], operator.add] = []


@pytest.mark.parametrize("schema", [Typed, Plain, Model])
def test_every_form_of_schema_may_declare_a_value_local_beside_a_reducer(
    drive: Drive, schema: Any
) -> None:
    branches = [
        ag.sequential(
            name,
            [
                gives(f"{name}1", ag.SetValues(scratch=[name], word=name, log=[name])),
                gives(f"{name}2", ag.SetValues(scratch=["2"])),
                notes(f"{name}3", "scratch", "word"),
            ],
        )
        for name in "ab"
    ]
    first = gives("first", ag.SetValues(scratch=["0"]))
    tree = ag.sequential("s", [first, ag.parallel("p", branches), notes("last", "scratch", "word")])
    runner = ag.Runner(tree, values=schema)
    told = lines(drive.run(runner, "Go.", thread_id="t"))
    assert {each for each in told if "[custom]" in each} == {
        's/p/a/a3: [custom] [["0", "a", "2"], "a"]',
        's/p/b/b3: [custom] [["0", "b", "2"], "b"]',
        f"s/last: [custom] {json.dumps([['0'], None if schema is Typed else '?'])}",
    }
    rest = {} if schema is Typed else {"word": "?"}
    assert runner.thread("t").values == {"scratch": ["0"], "log": ["a", "b"], **rest}


def test_what_is_local_is_checked_against_its_type() -> None:
    runner = ag.Runner(gives("a", ag.SetValues(word=3)), values=Model)
    with pytest.raises(ag.InvalidOutputError, match="'word' does not fit its declared type"):
        list(runner.query("Go."))


def test_a_local_value_shows_in_the_schema_as_its_type() -> None:
    properties = ag.compile_agent(gives("a"), values=Typed).get_input_jsonschema()["$defs"]["Values"]
    assert properties["properties"]["word"] == {"title": "Word", "type": "string"}
