"""Random trees whose threads are forked at random checkpoints: events are of the line to the head.

The reference knows nothing of how events are found. It takes LangGraph's own history of the root: what
was said in steps that ended is in the messages of the head. What a run gave of a step that it left
under way is of the line if the parents of the head lead to that step, unless it ended in another line.
"""

import operator
from collections.abc import Callable, Sequence
from itertools import count
from typing import Annotated, Any, NamedTuple

import pytest
from helpers import Async, Drive, Sync, unvoided
from helpers.forked import FORKS, Counted, Thread
from hypothesis import event, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt
from test_spine import share

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls
from agentgraph.threads.turns import UNFINISHED

DEPTH = 2
NUMBERS = st.integers(0, 2**16)
ACTS = st.lists(
    st.tuples(st.sampled_from(("answer", "answer", "turn", "edit", *FORKS, *FORKS)), NUMBERS),
    min_size=2,
    max_size=6,
)


class Stop(NamedTuple):
    """Where a run stopped, and what it gave of the step after that checkpoint."""

    checkpoint_id: str
    texts: set[str]
    questions: set[str]


class Rounds(MessagesState):
    """The state of a graph: how often its first node has run."""

    rounds: Annotated[int, operator.add]


class _Growing:
    """A tree that is being drawn; all that it ever says is said once."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self._draw, self._says, self._names, self._calls = draw, Counted(), count(), count()

    def agent(self, depth: int, *, says_once: bool = False) -> ag.Agent:
        kinds = ["say", "ask"] if says_once else ["say", "ask", "graph"]
        kinds += ["sequential", "sequential", "parallel", "parallel", "loop", "caller"] if depth else []
        match self._pick(*kinds):
            case "say":
                return self._says(self._name("say"))
            case "ask":
                return ag.human(self._name("ask"), "Well?")
            case "graph":
                return self._graph()
            case "caller":
                return self._caller()
            case "loop":
                return ag.loop(self._name("loop"), self._several(depth), max_iterations=2)
            case "parallel":
                return ag.parallel(self._name("parallel"), self._several(depth))
        return ag.sequential(self._name("sequential"), self._several(depth))

    def _several(self, depth: int) -> list[ag.Agent]:
        return [self.agent(depth - 1) for _ in range(self._pick(2, 2, 3))]

    def _caller(self) -> ag.Agent:
        """Return a chat agent that calls agents, at once, and then says something.

        Of what an agent says as a tool only the last text is in the history of the root.
        """
        several = range(self._pick(1, 2))
        name, helpers = self._name("caller"), [self.agent(0, says_once=True) for _ in several]

        def reply(sent: Sequence[BaseMessage]) -> AIMessage:
            if sent[-1].type == "tool":
                return AIMessage(f"{name} is done {next(self._calls)}")
            return calls(*(call(h.name, str(next(self._calls)), request="Help.") for h in helpers))

        model = ScriptedChatModel(responses=[reply] * 1000)
        return ag.chat_agent(
            name, model, tools=[ag.agent_tool(h, description="Helps.") for h in helpers]
        )

    def _graph(self) -> ag.Agent:
        """Return a graph laid flat that says something, asks, and says something again."""
        name = self._name("graph")

        def say(state: Rounds) -> Any:
            return {"rounds": 1, "messages": [AIMessage(f"{name}{next(self._calls)}")]}

        def ask(state: Rounds) -> Any:
            return {"messages": [AIMessage(f"{name}{interrupt('Well?')}")]}

        builder = StateGraph(Rounds).add_node("say", say).add_node("ask", ask)
        builder.add_edge(START, "say").add_edge("ask", "say")
        builder.add_conditional_edges("say", lambda state: "ask" if state["rounds"] < 2 else END)
        return ag.graph_agent(name, builder.compile(), flat=True)

    def _name(self, kind: str) -> str:
        return f"{kind}_{next(self._names)}_"

    def _pick(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))


@st.composite
def trees(draw: Callable[..., Any]) -> ag.Agent:
    growing = _Growing(draw)
    return ag.sequential("root", [growing.agent(DEPTH) for _ in range(draw(st.integers(1, 3)))])


class Forked:
    """A thread that is forked, with what each of its runs left under way."""

    def __init__(self, drive: Drive, tree: ag.Agent) -> None:
        self.thread, self.stops, self._answers = Thread(drive, tree), list[Stop](), count()
        self._dropped: set[str] = set()
        self.is_forked = False

    def act(self, act: str, number: int) -> None:
        before = set(self.thread.told)
        began = len(self.thread.heard)
        match act:
            case "turn":
                self.thread.run("And again.", drop_pending=True)
            case "answer":
                self._answer(number)
            case _:
                self._fork(act, number)
        self._stopped([each for key, each in self.thread.told.items() if key not in before])
        self._drop(self.thread.heard[began:])

    def check(self) -> None:
        """Check what the thread gives and asks against what leads to its head."""
        head = self.thread.state()
        led = [stop for stop in self.stops if stop.checkpoint_id in self._under_way(head)]
        said = set(_texts(head.values.get("messages", ())))
        events = self.thread.events()
        assert {each.text for each in events if each.text} == said.union(*(stop.texts for stop in led))
        asked = {each.id for each in events if each.kind == "interrupted"}
        assert asked >= set().union(*(stop.questions for stop in led)) - self._dropped
        waiting = {each.id for each in head.interrupts}
        assert waiting <= asked
        assert self.is_forked or events == unvoided(self.thread.heard)
        if waiting or head.metadata["source"] == "loop":
            assert {question.id for question in self.thread.pending()} == waiting
        event(f"{min(len(self.stops) - len(led), 4)} stops of other lines")

    def _answer(self, number: int) -> None:
        waiting = self.thread.state().interrupts
        chosen = [each for i, each in enumerate(waiting) if number >> i & 1]
        self.thread.resume(
            *([{each.id: f"yes {next(self._answers)}" for each in chosen}] if chosen else ())
        )

    def _fork(self, act: str, number: int) -> None:
        self.is_forked = True
        history = self.thread.history()
        at = history[number % len(history)]
        begins = not _has_begun(at, history)
        runs_again = at is history[0] and at.metadata["source"] != "loop"
        if act == "edit" and not begins:
            self.thread.edit(at.config)
        elif (act == "invoked" or begins) and not runs_again:
            self.thread.fork("invoked", at.config)
        elif not begins:
            self.thread.fork("edited and resumed" if act == "invoked" else act, at.config)

    def _drop(self, heard: Sequence[ag.AgentEvent]) -> None:
        """Note which questions a turn dropped, until they are asked again."""
        for each in heard:
            if each.kind == "discarded" and each.action:
                self._dropped.update(each.action.discarded)
            self._dropped.discard(each.id)

    def _stopped(self, told: Sequence[ag.AgentEvent]) -> None:
        head = self.thread.state()
        ended = set(_texts(head.values.get("messages", ())))
        questions = {each.id for each in told if each.kind == "interrupted"}
        texts = {each.text for each in told if each.text} - ended
        self.stops.append(Stop(_id(head.config), texts, questions))

    def _under_way(self, head: Any) -> set[str]:
        """Return the checkpoints that lead to the head, without those whose step is of other lines."""
        history = {_id(state.config): state for state in self.thread.history()}
        ended = {_id(s.parent_config) for s in history.values() if s.metadata["source"] == "loop"}
        found = {_id(head.config)}
        at = history[_id(head.config)]
        while at.parent_config is not None:
            parent = _id(at.parent_config)
            if at.metadata["source"] == "loop" or parent not in ended:
                found.add(parent)
            at = history[parent]
        return found


def _texts(messages: Sequence[BaseMessage]) -> list[str]:
    """Return what agents said of some messages, and what tools gave."""
    said = [message.text for message in messages if "agentgraph" in message.response_metadata]
    return [text for text in said if text and text != UNFINISHED]


def _has_begun(at: Any, history: Sequence[Any]) -> bool:
    """Return whether a node has run before a checkpoint: without one LangGraph edits nothing."""
    by_id = {_id(state.config): state for state in history}
    while at is not None and at.metadata["source"] != "loop":
        at = by_id.get(_id(at.parent_config))
    return at is not None


def _id(config: Any) -> str:
    return str(config["configurable"]["checkpoint_id"]) if config else ""


@pytest.mark.parametrize("drive", [Sync, Async])
@share(0.15)
@given(tree=trees(), acts=ACTS)
def test_a_forked_thread_gives_what_leads_to_its_head(
    drive: Drive, tree: ag.Agent, acts: list[tuple[str, int]]
) -> None:
    forked = Forked(drive, tree)
    for act, number in [("turn", 0), *acts]:
        forked.act(act, number)
        forked.check()
