"""A graph laid flat in small trees, which asks and fails in its visits: what the reference does."""

import pytest
import specs
from comparison import check
from conversations import Case, Thread, hold
from helpers import Async, Drive, Sync

NAME = "flat_graph_1"
FAILS = specs.Call((("error", "@ fails"),))


def _call(text: str | None, ask: int | None = None) -> specs.Call:
    said = [] if text is None else [("message", ("ai", text, NAME))]
    asked = [] if ask is None else [("interrupted", {"ask": ask, "of": ["@"]})]
    return specs.Call((*said, *asked))


SCRIPTS = {
    "says at each visit": (_call("one", 0), FAILS, _call("two", 1), _call(None)),
    "says in the end": (FAILS, _call(None, 0), FAILS, _call(None, 1), _call("three")),
}
Z = specs.Function("z", "function", ((specs.Call((("message", ("ai", "@", "z")),)),),), "path")


def _around(leaf: specs.Function) -> dict[str, specs.Spec]:
    checked, collecting = specs.Checked(leaf, 1), specs.Sequential("q", (leaf, Z))
    return {
        "a sequence": specs.Sequential("s", (leaf, Z)),
        "a branch": specs.Parallel("p", (leaf, Z)),
        "a loop": specs.Loop("l", (checked, Z), 2),
        "a branch that may fail": specs.Parallel("collect_1", (collecting, Z), None, "collect"),
    }


@pytest.mark.parametrize("drive", [Sync, Async])
@pytest.mark.parametrize("has_output", [False, True])
@pytest.mark.parametrize("where", list(_around(Z)))
def test_in_each_lane_it_does_what_the_reference_does(
    where: str, has_output: bool, drive: Drive
) -> None:
    script = SCRIPTS["says in the end" if has_output else "says at each visit"]
    leaf = specs.Function(NAME, "flat graph", (script,), "path", "said", has_output)
    thread = Thread(Case(_around(leaf)[where], {}, 0, texts=("hello", "and again")), drive)
    hold(thread)
    check(thread)
