#!/usr/bin/env bash
# Package: langgraph 1.2.24 (with langgraph-checkpoint 4.3.2).
#
# Behaviour: a node asks twice by interrupt(). The saver keeps both answers, but a question only until the
# next one of that task: get_state_history shows 'Who pays?' and nowhere 'Which amount?', of which the
# checkpoint has the answer 5.
#
# Output seen:
#   asked: ['Which amount?'], then ['Who pays?']
#   questions in the history: ['Who pays?']
#   answers in the checkpoint: ['5', 'bob']
#
# Why a good guess is wrong: the history is the record of a thread, each question was in it while it
# waited, and the list of answers has one for each. Who looks up later what a person agreed to finds an
# answer without its question, and one answer more than there are questions.
#
# Exits with 1 if the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  langgraph==1.2.24 langgraph-prebuilt==1.1.3 langgraph-checkpoint==4.3.2 langchain-core==1.8.3
cat > "$folder/twice.py" <<'PY'
from typing import Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict, total=False):
    payment: str


def pay(state: State) -> State:
    amount = interrupt("Which amount?")
    return {"payment": f"{amount} from {interrupt('Who pays?')}"}


builder = StateGraph(State)
builder.add_node(pay)
builder.add_edge(START, "pay")
graph = builder.compile(checkpointer=InMemorySaver())
config: Any = {"configurable": {"thread_id": "order"}}


def in_history() -> list[str]:
    states = graph.get_state_history(config)
    return [each.value for state in states for task in state.tasks for each in task.interrupts]


graph.invoke({"payment": ""}, config)
first = in_history()
graph.invoke(Command(resume="5"), config)
second = in_history()
print(f"asked: {first}, then {second}")
graph.invoke(Command(resume="bob"), config)
left = in_history()
print("questions in the history:", left)
writes = [write for saved in graph.checkpointer.list(config) for write in saved.pending_writes]
answers = [value for _, channel, value in writes if channel == "__resume__" and type(value) is list]
print("answers in the checkpoint:", *answers)
known = (first, second, left) == (["Which amount?"], ["Who pays?"], ["Who pays?"])
raise SystemExit(0 if known and answers == [["5", "bob"]] else "the behaviour has changed")
PY
"$folder/venv/bin/python" "$folder/twice.py"
