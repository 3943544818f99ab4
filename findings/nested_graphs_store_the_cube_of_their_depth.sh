#!/usr/bin/env bash
# Package: langgraph 1.2.24 (with langgraph-checkpoint-sqlite 3.1.2).
#
# Behaviour: the metadata of each checkpoint of a nested graph has `parents`, a mapping with the whole
# namespace of every graph around it. A namespace names all graphs around, so one checkpoint at depth d
# stores about d * d names, and a nest of depth d about d * d * d. States and namespaces stay small.
#
# Output seen (depth, checkpoints, bytes of metadata, bytes of states):
#   8 24 12055 10004
#   16 48 92927 20103
#   32 96 737527 40193
#
# Why a good guess is wrong: one more level of teams in a team looks like three more checkpoints. Twice
# as deep stores eight times as much, nearly all of it names, and none of it is what the agents said.
#
# Exits with 1 if the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  langgraph==1.2.24 langgraph-checkpoint==4.3.2 langgraph-checkpoint-sqlite==3.1.2
cat > "$folder/nest.py" <<'PY'
import sqlite3
import sys
from pathlib import Path
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph


class State(TypedDict, total=False):
    number: int


def nested(depth: int) -> Any:
    graph = StateGraph(State)
    name = f"team_{depth}"
    graph.add_node(name, nested(depth - 1).compile() if depth > 1 else lambda state: {"number": 1})
    graph.add_edge(START, name)
    return graph


QUERY = "SELECT count(*), sum(length(metadata)), sum(length(checkpoint)) FROM checkpoints"
stored = []
for depth in (8, 16, 32):
    file = Path(sys.argv[1]) / f"{depth}.db"
    with SqliteSaver.from_conn_string(str(file)) as saver:
        config: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 100}
        nested(depth).compile(checkpointer=saver).invoke({"number": 0}, config)
    stored.append(sqlite3.connect(file).execute(QUERY).fetchone())
    print(depth, *stored[-1])
growths = [after[1] / before[1] for before, after in zip(stored, stored[1:])]
sys.exit(not all(7 < growth < 9 for growth in growths))
PY
"$folder/venv/bin/python" -W ignore "$folder/nest.py" "$folder"
