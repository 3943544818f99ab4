#!/usr/bin/env bash
# Package: langgraph-checkpoint 4.3.2 (with langgraph 1.2.24), any checkpointer with its serializer.
#
# Behaviour: a state with a set of tuples is a set until the run pauses, fails or begins another turn.
# Read from the checkpoint it is a list of lists, with one line in the log and no error: tuples inside
# become lists, a set of lists cannot be made, and the serializer then returns its own intermediate
# form. A frozenset of tuples does so too; a set of texts comes back as a set.
#
# Output seen:
#   before the pause: {('ann', 1)} {'ann'}
#   after the pause: [['ann', 1]] {'ann'}
#
# Why a good guess is wrong: sets are among the types that the serializer restores, and a test with
# texts or numbers, or without a pause, passes. The declared type of the channel, set[tuple[str, int]],
# is not used when the value is read. The node that fails is another one, after a person's answer:
# `("ann", 1) in state["seen"]` is False then, so what was done is done again.
#
# Exits with 1 if the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  langgraph==1.2.24 langgraph-checkpoint==4.3.2 langchain-core==1.8.3
cat > "$folder/sets.py" <<'PY'
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict


class State(TypedDict, total=False):
    seen: set[tuple[str, int]]
    names: set[str]


read: list[tuple[object, object]] = []


def collect(state: State) -> State:
    return {"seen": {("ann", 1)}, "names": {"ann"}}


def ask(state: State) -> State:
    read.append((state["seen"], state["names"]))
    interrupt("Go on?")
    return {}


builder = StateGraph(State)
builder.add_node("collect", collect)
builder.add_node("ask", ask)
builder.add_edge(START, "collect")
builder.add_edge("collect", "ask")
graph = builder.compile(checkpointer=InMemorySaver())
config = {"configurable": {"thread_id": "1"}}
graph.invoke({}, config)
graph.invoke(Command(resume="yes"), config)
before, after = read
print("before the pause:", *before)
print("after the pause:", *after)
is_same = before == ({("ann", 1)}, {"ann"}) and after == ([["ann", 1]], {"ann"})
raise SystemExit(0 if is_same else "the behaviour has changed")
PY
"$folder/venv/bin/python" "$folder/sets.py"
