#!/usr/bin/env bash
# Package: langgraph-prebuilt 1.1.3 (with langgraph 1.2.24, langchain-core 1.8.3).
#
# Behaviour: a handoff tool returns Command(goto=..., graph=Command.PARENT, update={...}). Its update
# reaches the parent graph if goto is a name, a list of names, or one Send. If goto is a list of Sends,
# as LangGraph's guide to multi-agent handoffs writes it, ToolNode makes a new command of the Sends of
# all calls and drops the update: the result of the call and the values in it are lost, without a word.
#
# Output seen:
#   'bob': ['human: Go.', 'tool: Handed over.', 'ai: Bob.'] ticket 42
#   Send: ['human: Go.', 'tool: Handed over.', 'ai: Bob.'] ticket 42
#   [Send]: ['human: Go.', 'ai: Bob.'] ticket None
#
# Why a good guess is wrong: the brackets look like a matter of style. Command documents update and goto
# as independent, and StateGraph itself takes Send and [Send] alike; only ToolNode treats them apart.
# What is missing shows much later: a model that sees its call without a result is refused by providers.
#
# Exits with 1 if the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  langgraph==1.2.24 langgraph-prebuilt==1.1.3 langgraph-checkpoint==4.3.2 langchain-core==1.8.3
cat > "$folder/handoff.py" <<'PY'
from typing import Annotated, Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send


class State(MessagesState):
    ticket: str


def handoff(goto: Any) -> Any:
    @tool
    def delegate(call: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Hand over to bob."""
        done = ToolMessage("Handed over.", tool_call_id=call)
        update = {"messages": [done], "ticket": "42"}
        return Command(goto=goto, graph=Command.PARENT, update=update)

    return delegate


def state_after(goto: Any) -> tuple[list[str], str | None]:
    """Return the parent's messages and ticket after a desk handed over to bob."""
    call = {"name": "delegate", "args": {}, "id": "1", "type": "tool_call"}
    desk = StateGraph(State)
    desk.add_node("model", lambda state: {"messages": [AIMessage("", tool_calls=[call])]})
    desk.add_node("tools", ToolNode([handoff(goto)]))
    desk.add_edge(START, "model")
    desk.add_edge("model", "tools")
    team = StateGraph(State)
    team.add_node("desk", desk.compile())
    team.add_node("bob", lambda state: {"messages": [AIMessage("Bob.")]})
    team.add_edge(START, "desk")
    state = team.compile().invoke({"messages": [HumanMessage("Go.")]})
    return [f"{each.type}: {each.text}" for each in state["messages"]], state.get("ticket")


task = {"messages": [HumanMessage("Sum up.")]}
whole = ["human: Go.", "tool: Handed over.", "ai: Bob."], "42"
expected = {
    "'bob'": ("bob", whole),
    "Send": (Send("bob", task), whole),
    "[Send]": ([Send("bob", task)], (["human: Go.", "ai: Bob."], None)),
}
changed = False
for name, (goto, known) in expected.items():
    found = state_after(goto)
    print(f"{name}: {found[0]} ticket {found[1]}")
    changed = changed or found != known
raise SystemExit("the behaviour has changed" if changed else 0)
PY
"$folder/venv/bin/python" "$folder/handoff.py"
