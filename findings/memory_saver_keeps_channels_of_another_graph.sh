#!/usr/bin/env bash
# Package: langgraph-checkpoint 4.3.2 (with langgraph 1.2.24, langgraph-checkpoint-sqlite 3.1.2).
#
# Behaviour: a thread pauses in one graph, and then another graph, deployed in its place, runs a turn on
# it. The checkpoint of that turn has the other graph's channels only. InMemorySaver stores values by
# channel and version, and returns all versions that the checkpoint still names: also those of channels
# that the new graph does not have, among them the trigger of the node that had paused. SqliteSaver
# returns the channels that were saved. So the old graph finds the thread waiting at its node in memory,
# and at its end on SQLite, and a value that the new graph never wrote is back.
#
# Output seen (saver, next nodes and values for the old graph after the new one's turn):
#   InMemorySaver ('approve',) {'text': 'new', 'plan': 'p'}
#   SqliteSaver () {'text': 'new'}
#
# Why a good guess is wrong: the savers are said to be interchangeable, the one in memory for tests. A
# test of a deployment that changes a graph passes or fails by the saver alone.
#
# Exits with 1 if the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  langgraph==1.2.24 langgraph-checkpoint==4.3.2 langgraph-checkpoint-sqlite==3.1.2
cat > "$folder/two_graphs.py" <<'PY'
import sys
from typing import Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt


class Old(TypedDict, total=False):
    text: str
    plan: str


class New(TypedDict, total=False):
    text: str


CONFIG: Any = {"configurable": {"thread_id": "t"}}
old = StateGraph(Old)
old.add_node("draft", lambda state: {"text": "old", "plan": "p"})
old.add_node("approve", lambda state: {"plan": interrupt("Go on?")})
old.add_edge(START, "draft")
old.add_edge("draft", "approve")
new = StateGraph(New)
new.add_node("write", lambda state: {"text": "new"})
new.add_edge(START, "write")
seen = []
with SqliteSaver.from_conn_string(":memory:") as file:
    for saver in (InMemorySaver(), file):
        before, after = old.compile(checkpointer=saver), new.compile(checkpointer=saver)
        before.invoke({"text": "a"}, CONFIG)
        after.invoke({"text": "b"}, CONFIG)
        state = before.get_state(CONFIG)
        seen.append((state.next, state.values))
        print(type(saver).__name__, *seen[-1])
sys.exit(seen != [(("approve",), {"text": "new", "plan": "p"}), ((), {"text": "new"})])
PY
"$folder/venv/bin/python" -W ignore "$folder/two_graphs.py"
