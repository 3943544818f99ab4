#!/usr/bin/env bash
# Package: langgraph 1.2.24 (with langgraph-checkpoint-sqlite 3.1.2).
#
# Behaviour: a channel of type DeltaChannel stores what each step wrote, and the whole value once in
# `snapshot_frequency` updates. With a frequency that does not change, a list that grows by one message a
# step is stored whole n / frequency times, each time longer: what a thread stores, and what
# `saver.list(config)` unpacks, grows with the square of its length, as it does without DeltaChannel, only
# by a smaller factor. At the default frequency the square outweighs the deltas from a few hundred
# messages on.
#
# Output seen (messages in the thread, messages unpacked by list, kB in the file):
#   200 498 401
#   800 4392 2048
#   3200 55968 16527
#
# Why a good guess is wrong: the class is described by what it saves, deltas in place of whole values, so a
# thread that is four times as long is expected to cost four times as much. It is so only between two
# snapshots. Four times the messages are nearly sixteen times the messages in snapshots. A frequency that
# grows with the list (say, a snapshot when it is a quarter longer) makes the sum linear; none is offered.
#
# Exits with 1 if the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  langgraph==1.2.24 langgraph-checkpoint==4.3.2 langgraph-checkpoint-sqlite==3.1.2 langchain-core==1.8.3
cat > "$folder/grown.py" <<'PY'
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

FREQUENCY = 100
LENGTHS = (200, 800, 3200)


def added(messages: list[Any], writes: list[list[Any]]) -> list[Any]:
    return [*messages, *(message for write in writes for message in write)]


class State(TypedDict):
    messages: Annotated[list, DeltaChannel(added, snapshot_frequency=FREQUENCY)]


def grown(length: int) -> tuple[int, int, int]:
    """Return the messages of a thread, those that its list unpacks, and the kB that it takes."""
    graph = StateGraph(State)
    graph.add_node("say", lambda _: {"messages": [AIMessage("Hello.")]})
    graph.add_edge(START, "say")
    graph.add_conditional_edges(
        "say", lambda state: "say" if len(state["messages"]) < length else "__end__"
    )
    config: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": length + 2}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "runs.db"
        with SqliteSaver.from_conn_string(str(file)) as saver:
            run = graph.compile(checkpointer=saver)
            messages = run.invoke({"messages": []}, config, durability="sync")["messages"]
            unpacked = 0
            for saved in saver.list(config):
                snapshot = saved.checkpoint["channel_values"].get("messages")
                unpacked += len(snapshot.value) if snapshot is not None else 0
                written = [each for _, name, each in saved.pending_writes or () if name == "messages"]
                unpacked += sum(map(len, written))
        return len(messages), unpacked, file.stat().st_size // 1000


figures = [grown(length) for length in LENGTHS]
for each in figures:
    print(*each)
least = [after[1] / before[1] for before, after in zip(figures, figures[1:])]
if [each[0] for each in figures] != [*LENGTHS] or min(least) < 8:
    sys.exit("a thread that is four times as long is no longer unpacked more than eight times as much")
PY
"$folder/venv/bin/python" -W ignore "$folder/grown.py"
