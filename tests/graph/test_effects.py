"""What a message under an id does to the history: the table, and the rules beside it."""

from typing import Any, get_args

import pytest
from helpers import removal
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agentgraph.graph.effects import Giver, Owner, answered_in, change_by, effect_of
from agentgraph.graph.stamps import address_of, stamped
from agentgraph.testing import call, calls

THERE: dict[Owner, BaseMessage | None] = {
    "none": None,
    "user": HumanMessage("Go.", id="1"),
    "here": stamped(AIMessage("Hm.", id="1"), "loop[1]/w"),
    "earlier": stamped(AIMessage("Hm.", id="1"), "loop[0]/w"),
    "other": stamped(AIMessage("Hm.", id="1"), "loop[1]/a"),
}
GIVEN = [removal("1"), HumanMessage("*", id="1"), AIMessage("*", id="1")]
GIVERS: list[Giver] = ["hook", "tool", "function"]
TABLE = """
         hook                            tool                            function
none     nothing    context   said      | nothing    said      said     | nothing    said      said
user     context    rewritten context   | context    rewritten context  | taken back rewritten said
here     taken back context   replaced  | taken back said      replaced | taken back said      replaced
earlier  context    context   replaced  | context    said      replaced | taken back said      replaced
other    context    context   context   | context    context   context  | taken back context   said
"""


def test_the_table() -> None:
    """For each owner: the effects of a removal, a human message and a model's, by who gives them."""
    rows = []
    for owner in get_args(Owner):
        of = [[effect_of(m, THERE[owner], owner, giver) for m in GIVEN] for giver in GIVERS]
        rows.append(f"{owner:8} " + " | ".join(f"{a:10} {b:9} {c:8}" for a, b, c in of))
    head, *table = TABLE.strip("\n").splitlines()
    assert head.split() == GIVERS
    assert [" ".join(row.split()) for row in rows] == [" ".join(row.split()) for row in table]


every_giver = pytest.mark.parametrize("giver", get_args(Giver))


@every_giver
@pytest.mark.parametrize(
    "ran",
    [calls(call("look")), ToolMessage("seen", tool_call_id="1")],
    ids=["a call", "a result"],
)
def test_what_ran_is_never_taken_back(giver: Giver, ran: BaseMessage) -> None:
    assert effect_of(removal("1"), stamped(ran, "w"), "here", giver) == "context"


@every_giver
def test_only_a_human_message_rewrites_one_of_the_user(giver: Giver) -> None:
    user = HumanMessage("Go.", id="1")
    assert effect_of(SystemMessage("*", id="1"), user, "user", giver) == "context"


@every_giver
@pytest.mark.parametrize("owner", ["user", "here", "earlier"])
def test_a_message_that_is_there_already_changes_nothing(giver: Giver, owner: Owner) -> None:
    was: Any = THERE[owner]
    bare = was.model_copy(update={"name": None, "response_metadata": {}})
    assert effect_of(bare, was, owner, giver) == "nothing"
    assert change_by(bare, was, owner, giver, "loop[1]/w", "w") == ("nothing", [], [])


@every_giver
def test_a_new_answer_of_a_person_is_said(giver: Giver) -> None:
    assert effect_of(stamped(HumanMessage("Yes."), "boss"), None, "none", giver) == "said"


@pytest.mark.parametrize(("owner", "address"), [("here", "loop[1]/w"), ("earlier", "loop[0]/w")])
def test_an_own_message_that_is_replaced_keeps_its_address(owner: Owner, address: str) -> None:
    change = change_by(AIMessage("*", id="1"), THERE[owner], owner, "function", "loop[1]/w", "w")
    assert change.discarded == ["1"]
    assert [(each.text, address_of(each)) for each in change.messages] == [("*", address)]


@pytest.mark.parametrize("owner", ["user", "other"])
def test_a_message_under_the_id_of_another_author_gets_one_of_its_own(owner: Owner) -> None:
    change = change_by(AIMessage("*", id="1"), THERE[owner], owner, "function", "loop[1]/w", "w")
    (said,) = change.messages
    assert (change.effect, change.discarded, said.text) == ("said", [], "*")
    assert said.id != "1"
    assert said.response_metadata["provider_message_id"] == "1"


@pytest.mark.parametrize("owner", ["here", "earlier"])
def test_neither_another_type_nor_a_reply_of_a_model_takes_the_place_of_a_message(
    owner: Owner,
) -> None:
    result = ToolMessage("seen", tool_call_id="1", id="1")
    assert effect_of(result, THERE[owner], owner, "function") == "said"
    assert effect_of(AIMessage("Hm.", id="1"), THERE[owner], owner, "function", is_reply=True) == "said"


def test_a_call_that_a_result_answers_stays() -> None:
    was = stamped(calls(call("look"), call("see")).model_copy(update={"id": "1"}), "loop[1]/w")
    first = was.tool_calls[0]["id"] if isinstance(was, AIMessage) else None
    answered = answered_in(was, [was, ToolMessage("seen", tool_call_id=str(first))])
    assert answered == {first}
    for given, effect in ((AIMessage("*", id="1"), "said"), (was.model_copy(), "nothing")):
        assert effect_of(given, was, "here", "hook", answered=answered) == effect
    assert effect_of(AIMessage("*", id="1"), was, "here", "hook") == "replaced"


@pytest.mark.parametrize("given", GIVEN[:2])
def test_what_a_user_said_is_no_event_that_could_be_void(given: BaseMessage) -> None:
    change = change_by(given, THERE["user"], "user", "function", "w", "w")
    assert (change.discarded, [each.id for each in change.messages]) == ([], ["1"])
