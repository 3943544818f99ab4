#!/usr/bin/env bash
# Package: langgraph 1.2.24 (with langgraph-checkpoint 4.3.2 and langgraph-checkpoint-sqlite 3.1.2).
#
# Behaviour: what a run's config has under `metadata` is saved with the checkpoints that the run writes,
# and `saver.list(None, filter=...)` finds threads by it. Two things are left out without a word: values
# that are dicts, lists or None; and all metadata of a run that writes no checkpoint, such as a resume
# after which the same node asks again.
#
# Output seen (checkpoints found, by what):
#   user 2
#   team 0
#   tags 0
#   first reviewer 0
#   second reviewer 1
#
# Why a good guess is wrong: tracers show all of it for each run, so lists of "the threads of this team" or
# "the threads that Bob looked at" seem to need only a filter. Such a list lacks threads, and no error says
# so: keep what threads are listed by in texts, numbers and booleans, and give it to the first run.
#
# Exits with 1 if the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  langgraph==1.2.24 langgraph-checkpoint==4.3.2 langgraph-checkpoint-sqlite==3.1.2
cat > "$folder/found.py" <<'PY'
import sys
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt


def review(state: MessagesState) -> dict[str, Any]:
    first, second = interrupt("Is it right?"), interrupt("Is it kind?")
    return {"messages": [("ai", f"{first} {second}")]}


builder = StateGraph(MessagesState)
builder.add_node("review", review)
builder.add_edge(START, "review")
with SqliteSaver.from_conn_string(":memory:") as saver:
    graph = builder.compile(checkpointer=saver)

    def run(given: Any, **metadata: Any) -> None:
        graph.invoke(given, {"configurable": {"thread_id": "t"}, "metadata": metadata})

    run({"messages": ["Go."]}, user="ann", team={"id": 7}, tags=["urgent"])
    run(Command(resume="yes"), first_reviewer="bob")
    run(Command(resume="no"), second_reviewer="eve")
    wanted: dict[str, Any] = {
        "user": "ann",
        "team": {"id": 7},
        "tags": ["urgent"],
        "first_reviewer": "bob",
        "second_reviewer": "eve",
    }
    found = {name: len([*saver.list(None, filter={name: each})]) for name, each in wanted.items()}
for name, count in found.items():
    print(name.replace("_", " "), count)
if [*found.values()] != [2, 0, 0, 0, 1]:
    sys.exit("other checkpoints are found by the metadata of runs")
PY
"$folder/venv/bin/python" -W ignore "$folder/found.py"
