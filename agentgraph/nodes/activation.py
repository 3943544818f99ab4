"""One activation of a leaf: what it enters with, what it says and does, and what it writes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import BaseMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.runtime import get_runtime
from langgraph.types import interrupt

from agentgraph.agents import HistoryPolicy, ParallelAgent
from agentgraph.context import Context
from agentgraph.failures import mark_failure
from agentgraph.places import Place, Tree
from agentgraph.position import Cursor, Next, RunPaths, address, advance, cursor_at
from agentgraph.schemas import addressed, answer_fault, asker
from agentgraph.signals import Signal
from agentgraph.state import STAMP, LaneState, Position, Question, Update, stamped

SURROUNDINGS = "__agentgraph_surroundings"
"""Where a lane finds in `config["configurable"]` what is around it.

Savers keep what is configurable with each checkpoint, but for keys that begin like this one.
"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a lane sees of the lanes around it, by reference."""

    messages: Sequence[BaseMessage]
    values: dict[str, Any]

    def with_new(self, messages: Sequence[BaseMessage], values: dict[str, Any]) -> "Surroundings":
        """Return these with what is new behind and over them."""
        return Surroundings([*self.messages, *messages], {**self.values, **values})


class Site:
    """A place of a tree as its node knows it: the same for all activations."""

    def __init__(self, tree: Tree, place: Place, paths: RunPaths) -> None:
        self.tree, self.place, self.paths = tree, place, paths
        self._in_branch = _in_branch(place)

    def arrived(self, position: Position | None) -> Position:
        """Return the position of an activation here, also where someone jumped here without one."""
        position = position or Position(next=None, cursor=[], tree=self.tree.fingerprint)
        left = self.tree.by_node.get(position["next"] or "")
        if left is self.place:
            return position
        cursor = cursor_at(self.place, left, tuple(position["cursor"]))
        return self.position(Next(self.place, cursor))

    def surroundings(self, state: LaneState, config: RunnableConfig) -> Surroundings:
        """Return all that is visible here: what is around the lane, and the lane's own."""
        if not self._in_branch:
            return Surroundings(state["messages"], state["values"])
        around: Surroundings = config["configurable"][SURROUNDINGS]
        return around.with_new(state["messages"], state["values"])

    def behind(
        self, cursor: Cursor, signal: Signal | None, seen: Callable[[], Surroundings]
    ) -> Position:
        """Return what to write where this place has ended; `seen` is for the loops that ask."""

        def until(loop: Place, cursor: Cursor) -> bool:
            now = seen()
            context = Context(loop, cursor, self.paths, messages=now.messages, values=now.values)
            return bool(cast(Any, loop.agent).until(context))

        return self.position(advance(self.tree, self.place, cursor, signal, until))

    def position(self, comes: Next) -> Position:
        """Return what to write where `comes` is what comes next."""
        position = Position(
            next=comes.place.node if comes.place else None,
            cursor=list(comes.cursor),
            tree=self.tree.fingerprint,
        )
        if comes.signal:
            position["signal"] = comes.signal
        return position


class Activation:
    """One activation of a leaf."""

    def __init__(self, site: Site, state: LaneState, config: RunnableConfig) -> None:
        position = site.arrived(state.get("position"))
        self.site, self.config = site, config
        self.cursor = tuple(position["cursor"])
        self.address = address(site.place, self.cursor)
        self.asked = position.get("ask")
        self._answer = position.get("answer", [])
        self._seen = site.surroundings(state, config)
        self._said: list[BaseMessage] = []
        self._told: list[Any] = []
        self._live = 0
        self._values: dict[str, Any] = {}
        self._signal: Signal | None = None
        self._question: Question | None = None
        self._answered: list[Any] | None = None

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.site.place.name

    @property
    def values(self) -> Mapping[str, Any]:
        """The values that this activation found."""
        return self._seen.values

    def context(self, history: HistoryPolicy) -> Context:
        """Return what the agent is to know."""
        return Context(
            self.site.place,
            self.cursor,
            self.site.paths,
            messages=self._seen.messages,
            values=self._seen.values,
            history=history,
            answer=self._answer,
        )

    def say(self, message: BaseMessage, *, live: bool = False) -> None:
        """Say a message; told at once if `live`, else when the node has ended."""
        if isinstance(message, RemoveMessage):
            self._said.append(message)
            return
        said = stamped(message, self.address)
        self._said.append(said)
        if live:
            self._tell_live(said)

    def tell(self, kind: str, data: Any = None) -> None:
        """Tell something that is no message: `custom` data, or a signal.

        It is told at once, too, for a server's stream leaves the position out. A function that
        does not yield gives one thing only, so this does not overtake a message.
        """
        told = [str(uuid4()), kind, data]
        self._told.append([len(self._said), *told])
        self._tell_live(told)

    def signal(self, signal: Signal) -> None:
        """End with a signal."""
        self._signal = signal
        self.tell(signal)

    def set_values(self, values: Mapping[str, Any]) -> None:
        """Write values of the run."""
        self._values.update(values)

    def put(self, question: Question) -> None:
        """End with a question, for the question node to ask."""
        self._question = question

    def ask(self, question: Question) -> Any:
        """Pause until a person has answered, and again until the answer fits the schema."""
        schema = question["response_schema"]
        while True:
            answer = interrupt(question["value"], response_schema=addressed(schema, self.address))
            if answer_fault(schema, answer) is None:
                return answer

    def hand_back(self, answer: Any) -> None:
        """End with an answer, for the function that asked."""
        self._answered = [answer]

    def last_text(self) -> str | None:
        """Return the text of the last message said, or None."""
        said = [m for m in self._said if not isinstance(m, RemoveMessage)]
        return str(said[-1].text) if said else None

    def update(self) -> Update:
        """Return what the node writes, with where the lane goes on."""
        position = self._position()
        position["at"] = self.address
        if self._told:
            position["told"] = self._told
        update = Update(position=position)
        if self._said:
            update["messages"] = self._said
        if self._values:
            update["values"] = self._values
        return update

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Write on questions and failures from inside at what address they arose."""
        try:
            yield
        except GraphInterrupt as paused:
            for asked in paused.args[0]:
                if asker(asked.response_schema) is None:
                    asked.response_schema = addressed(asked.response_schema, self.address)
            raise
        except GraphBubbleUp:
            raise
        except Exception as error:
            mark_failure(error, self.address)
            error.add_note(f"This happened in the agent {self.name!r}, at {self.address}.")
            raise

    def _position(self) -> Position:
        if self._question is not None:
            position = self._here(self.site.place.question_node)
            position["ask"] = self._question
            return position
        if self._answered is not None:
            position = self._here(self.site.place.node)
            position["answer"] = self._answered
            return position
        return self.site.behind(
            self.cursor, self._signal, lambda: self._seen.with_new(self._said, self._values)
        )

    def _here(self, node: str) -> Position:
        return Position(next=node, cursor=list(self.cursor), tree=self.site.tree.fingerprint)

    def _tell_live(self, entry: Any) -> None:
        told = {"at": self.address, "n": self._live, "entry": entry}
        get_runtime().stream_writer({STAMP: told})
        self._live += 1


def _in_branch(place: Place) -> bool:
    around = place.parent
    while around is not None:
        if isinstance(around.agent, ParallelAgent):
            return True
        around = around.parent
    return False
