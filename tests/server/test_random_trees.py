"""Random trees on a LangGraph server: its streams give what the reference gives."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import scripts
import specs
from building import build
from comparison import check_events, expected_events
from helpers import unvoided
from hypothesis import event, given
from hypothesis import strategies as st
from lanes import Lane
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from passing import Passed
from random_graph import described, hasty
from record import Record
from test_left_runs import calmed
from test_spine import cases, share

import agentgraph as ag

HELLO: Any = {"messages": [{"role": "user", "content": "hello"}]}
MODES: Any = ["updates", "custom", "messages-tuple"]
MOST_RUNS = 100


def _by_sdk(client: SyncLangGraphClient, thread: str, config: Any, answers: Any) -> Iterator[Any]:
    turn: Any = {"input": HELLO} if answers is None else {"command": {"resume": answers}}
    how: Any = {"stream_mode": MODES, "stream_subgraphs": True, "config": config}
    yield from client.runs.stream(thread, "random", **turn, **how)


def _by_graph(client: SyncLangGraphClient, thread: str, config: Any, answers: Any) -> Iterator[Any]:
    graph = RemoteGraph("random", sync_client=client)
    own: Any = {**config, "configurable": {**config["configurable"], "thread_id": thread}}
    given: Any = HELLO if answers is None else Command(resume=answers)
    yield from graph.stream(given, own, stream_mode=ag.STREAM_MODES, subgraphs=True)


def _config(case_of: dict[str, str], number: int) -> dict[str, Any]:
    """Return the config of a run; a server makes the context of the keys that its schema has."""
    passed = Passed(number).options["config"]
    configurable = {**passed["configurable"], **case_of, "number": number}
    return {"tags": passed["tags"], "metadata": passed["metadata"], "configurable": configurable}


@share(0.1)
@given(case=cases().map(calmed), stream=st.sampled_from((_by_sdk, _by_graph)))
def test_a_tree_on_a_server_does_what_the_reference_does(server: str, case: Any, stream: Any) -> None:
    """Each question is answered as soon as a run has stopped for it."""
    tree: specs.Spec = hasty(case.tree)
    agent, heard, answers = build(tree, Record()), list[ag.AgentEvent](), None
    case_of = {"tree": described(tree), "case": str(uuid4())}
    with get_sync_client(url=server) as client:
        thread = client.threads.create()["thread_id"]
        for number in range(MOST_RUNS):
            now = list(ag.translate(agent, stream(client, thread, _config(case_of, number), answers)))
            heard += now
            actions = [each.action for each in unvoided(now) if each.action]
            asked = [action.interrupted for action in actions if action.interrupted]
            if not asked:
                break
            answers = {each.id: scripts.answer(each.address, each.value) for each in asked}
    event(f"{min(sum(each.kind == 'interrupted' for each in heard), 4)} questions")
    check_events(heard, expected_events(tree, Lane(), "hello"))
