#!/usr/bin/env bash
# Package: langgraph 1.2.24 (with langgraph-checkpoint 4.3.2).
#
# Behaviour: two nodes run side by side; one asks by interrupt(), the other one still works. The question
# comes in the stream at once, and get_state lists it. But Command(resume=...) on that thread starts a
# second run from the last checkpoint, beside the first: it takes the answer, and runs the node that is
# still working once more. Neither run knows of the other; both end without an error.
#
# Output seen:
#   asked while the payment runs: ['May we ship?']
#   state in the end: ['paid', 'answer yes']
#   payments: 2
#
# Why a good guess is wrong: the question can be seen and answered, and the final state has each result
# once, as if the answer had joined the run. What ran twice is only seen by what it did.
#
# Exits with 1 if the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  langgraph==1.2.24 langgraph-prebuilt==1.1.3 langgraph-checkpoint==4.3.2 langchain-core==1.8.3
cat > "$folder/beside.py" <<'PY'
import threading
from operator import add
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict):
    said: Annotated[list[str], add]


payments: list[str] = []
begun, may_end = threading.Semaphore(0), threading.Event()


def pay(state: State) -> dict[str, list[str]]:
    payments.append("paid")
    begun.release()
    may_end.wait(30)
    return {"said": ["paid"]}


def ask(state: State) -> dict[str, list[str]]:
    return {"said": [f"answer {interrupt('May we ship?')}"]}


builder = StateGraph(State)
for node in (pay, ask):
    builder.add_node(node)
    builder.add_edge(START, node.__name__)
graph = builder.compile(checkpointer=InMemorySaver())
config = {"configurable": {"thread_id": "order"}}


def open_questions() -> list[str]:
    return [each.value for task in graph.get_state(config).tasks for each in task.interrupts]


first = threading.Thread(target=graph.invoke, args=({"said": []}, config))
first.start()
begun.acquire(timeout=30)
while not (asked := open_questions()):
    pass
print("asked while the payment runs:", asked)
second = threading.Thread(target=graph.invoke, args=(Command(resume="yes"), config))
second.start()
begun.acquire(timeout=30)  # the payment begins again
may_end.set()
first.join()
second.join()
said = graph.get_state(config).values["said"]
print("state in the end:", sorted(said, reverse=True))
print("payments:", len(payments))
known = len(payments) == 2 and sorted(said) == ["answer yes", "paid"]
raise SystemExit(0 if known else "the behaviour has changed")
PY
"$folder/venv/bin/python" "$folder/beside.py"
