#!/usr/bin/env bash
# Package: langgraph 1.2.24 (with langgraph-checkpoint 4.3.2).
#
# Behaviour: a node runs a nested graph, with a checkpointer on the outer graph. If the nested graph
# fails in its second node, the outer graph's next invoke(None) goes on at that node. A retry_policy of
# the node that runs it begins the nested graph anew: its first node, which had ended and was saved, runs
# a second time. It is the same for a nested graph that is the node, and for one that a function invokes.
#
# Output seen:
#   node, resume: ['pay', 'mail', 'mail']
#   node, retry: ['pay', 'mail', 'pay', 'mail']
#   function, resume: ['pay', 'mail', 'mail']
#   function, retry: ['pay', 'mail', 'pay', 'mail']
#
# Why a good guess is wrong: both attempts are the same task of the same checkpoint, and the saver has
# what the first one reached, so the gentler of the two ways to go on is expected to lose less. But each
# attempt counts the graphs that it starts from where the one before had stopped. The nested graph of the
# second attempt is "the second graph of the task", with a namespace in which nothing is saved. So a
# policy that was added for a broken line pays twice, where a crash and a resume pay once.
#
# Exits with 1 if the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  langgraph==1.2.24 langgraph-checkpoint==4.3.2 langchain-core==1.8.3
cat > "$folder/retried.py" <<'PY'
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy

POLICY = RetryPolicy(initial_interval=0.01, jitter=False, retry_on=ConnectionError)


def ran(how: str, again: str) -> list[str]:
    """Return which nodes of a nested graph ran, whose second node fails the first time."""
    names: list[str] = []

    def pay(state: MessagesState) -> dict[str, Any]:
        names.append("pay")
        return {}

    def mail(state: MessagesState) -> dict[str, Any]:
        names.append("mail")
        if names.count("mail") == 1:
            raise ConnectionError("The line broke.")
        return {}

    builder = StateGraph(MessagesState)
    builder.add_sequence([("pay", pay), ("mail", mail)])
    nested = builder.add_edge(START, "pay").compile()
    outer = StateGraph(MessagesState)
    node = nested if how == "node" else lambda state: nested.invoke(state)
    outer.add_node("job", node, retry_policy=POLICY if again == "retry" else None)
    graph = outer.add_edge(START, "job").compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    try:
        graph.invoke({"messages": []}, config)
    except ConnectionError:
        graph.invoke(None, config)
    return names


expected = {"resume": ["pay", "mail", "mail"], "retry": ["pay", "mail", "pay", "mail"]}
changed = False
for how in ("node", "function"):
    for again, known in expected.items():
        found = ran(how, again)
        print(f"{how}, {again}: {found}")
        changed = changed or found != known
raise SystemExit("the behaviour has changed" if changed else 0)
PY
"$folder/venv/bin/python" "$folder/retried.py"
