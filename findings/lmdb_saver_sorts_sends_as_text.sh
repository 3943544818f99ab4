#!/usr/bin/env bash
# Package: langgraph-checkpoint-lmdb 0.3.1 (with langgraph 1.2.24).
#
# Behaviour: a node sends twelve items while a node next to it waits for a person. On the resume the saver
# returns what the first node wrote in the order of its keys as text, so the items run, and their results
# are added up, as 0, 1, 10, 11, 2, and so on. LangGraph's saver in memory keeps the order of the sends.
#
# Output seen:
#   memory 0 1 2 3 4 5 6 7 8 9 10 11
#   lmdb 0 1 10 11 2 3 4 5 6 7 8 9
#
# Why a good guess is wrong: without a pause, and with up to ten items, both give the same list, and
# LangGraph says that results of sends come in their order. A list of results by position is wrong only
# after somebody was asked, and no error says so: keep the number of an item in its result.
#
# Exits with 1 if the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  langgraph==1.2.24 langgraph-checkpoint-lmdb==0.3.1 2>/dev/null
cat > "$folder/order.py" <<'PY'
import operator
import sys
from typing import Annotated, Any, TypedDict

import lmdb
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from langgraph_checkpoint_lmdb import LMDBSaver


class State(TypedDict):
    results: Annotated[list[int], operator.add]


def fan_out(state: State) -> Command[str]:
    return Command(goto=[Send("work", {"number": number}) for number in range(12)])


def ask(state: State) -> dict[str, Any]:
    interrupt("Is it right?")
    return {}


def work(item: dict[str, int]) -> dict[str, Any]:
    return {"results": [item["number"]]}


builder = StateGraph(State)
builder.add_node("fan_out", fan_out, destinations=("work",))
builder.add_node("ask", ask)
builder.add_node("work", work)
builder.add_edge(START, "fan_out")
builder.add_edge(START, "ask")


def order(saver: Any) -> list[int]:
    graph = builder.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({"results": []}, config)
    return graph.invoke(Command(resume="yes"), config)["results"]


found = {"memory": order(InMemorySaver())}
with lmdb.open(sys.argv[1], max_dbs=8) as environment:
    found["lmdb"] = order(LMDBSaver(environment))
for name, numbers in found.items():
    print(name, *numbers)
if found != {"memory": [*range(12)], "lmdb": sorted(range(12), key=str)}:
    sys.exit("the sends of a task that ended before a pause come in another order")
PY
"$folder/venv/bin/python" -W ignore "$folder/order.py" "$folder/lmdb"
