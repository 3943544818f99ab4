"""A kind of agent is a row in each `kinds.py`, and no other file asks of which kind an agent is."""

from pathlib import Path
from typing import get_args

import pytest
from helpers.kinds import FOLDERS, members, missing_rows, questions, words

import agentgraph
from agentgraph.agents.agents import Agent, CheckedAgent, Composite, Leaf
from agentgraph.agents.kinds import KINDS, AgentKind

PACKAGE = Path(agentgraph.__file__).parent


def test_each_file_of_kinds_has_a_row_for_each_member_of_the_union_of_agents() -> None:
    assert missing_rows(PACKAGE) == []


def test_the_source_says_which_kinds_there_are() -> None:
    kinds = [*get_args(Leaf), *get_args(Composite)]
    assert {each.__name__ for each in kinds} == {*members(PACKAGE)}
    assert {*get_args(Agent)} == {*kinds, CheckedAgent}  # a check around an agent, and no kind
    assert sorted(words(PACKAGE)) == sorted(get_args(AgentKind))


def test_each_word_has_the_row_of_its_kind() -> None:
    assert {word: row.name for word, row in KINDS.items()} == {w: w for w in get_args(AgentKind)}
    assert len(KINDS) == len(members(PACKAGE))


def test_nowhere_else_is_it_asked_of_which_kind_an_agent_is() -> None:
    rows = {f"{folder}/kinds.py" for folder in FOLDERS}
    found = {each for each in questions(PACKAGE) if each.partition(":")[0] not in rows}
    assert found == {
        # whether something is an agent at all, and the checks around one
        "agents/agents.py: isinstance(inner, Leaf | Composite)",
        "agents/agents.py: isinstance(thing, Leaf | Composite)",
        "agents/agents.py: isinstance(thing, CheckedAgent)",
        "agents/agents.py: isinstance(agent, CheckedAgent)",
    }


@pytest.mark.parametrize(
    "question",
    [
        "isinstance(agent, agents.ChatAgent)",
        "isinstance(agent, (int, LoopAgent | EachAgent))",
        "issubclass(kind, SwarmAgent)",
        "type(agent) is ChatAgent",
        "agent.__class__ in (HumanAgent, ChatAgent)",
        "{ChatAgent: 1, LoopAgent: 2}",
        "{'chat': 1, 'loop': 2}",
        "place.kind.name == 'chat'",
        "outline['kind'] in ('loop', 'sequential')",
        "match agent:\n    case LoopAgent(until=None):\n        pass",
        "match place.kind.name:\n    case 'loop':\n        pass",
    ],
)
def test_each_way_to_ask_for_a_kind_is_found(question: str, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    for file in ("agents/agents.py", "agents/kinds.py"):
        (tmp_path / file).write_text((PACKAGE / file).read_text())
    (tmp_path / "odd.py").write_text(question)
    assert [each for each in questions(tmp_path) if each.startswith("odd.py")] != []
