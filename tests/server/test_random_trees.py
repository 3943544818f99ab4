"""Random trees on a LangGraph server: its streams tell what the reference tells."""

from typing import Any

import specs
from building import build
from comparison import check_told, expected_events
from hypothesis import given
from hypothesis import strategies as st
from lanes import Lane
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk import get_sync_client
from random_graph import described, hasty
from record import Record
from test_spine import share
from trees import trees

import agentgraph as ag

HELLO: Any = {"messages": [{"role": "user", "content": "hello"}]}


@share(0.2)
@given(tree=trees(calm=True).map(hasty), by_sdk=st.booleans())
def test_a_tree_on_a_server_tells_what_the_reference_tells(
    server: str, tree: specs.Spec, by_sdk: bool
) -> None:
    config: Any = {"configurable": {"tree": described(tree)}}
    with get_sync_client(url=server) as client:
        if by_sdk:
            modes: Any = ["updates", "custom", "messages-tuple"]
            how: Any = {"stream_mode": modes, "stream_subgraphs": True, "config": config}
            parts: Any = client.runs.stream(None, "random", input=HELLO, **how)
        else:
            graph = RemoteGraph("random", sync_client=client)
            parts = graph.stream(HELLO, config, stream_mode=ag.STREAM_MODES, subgraphs=True)
        told = list(ag.translate(build(tree, Record()), parts))
    check_told(told, expected_events(tree, Lane(), "hello"))
