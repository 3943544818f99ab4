"""Finds the recorded answer to a question, and replaces answers with new ones.

Several answers to one question at one place come from retried calls. They are played in order, once
each, and then the last one every time: a rewound thread gets the answer that counted.
"""

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Literal, NamedTuple, cast, get_args

from agentgraph.errors import CassetteError
from agentgraph.graph.nodes.activation import Activation
from agentgraph.safe_repr import shown
from agentgraph.testing.cassette_files import OUTCOMES, CassetteFile, Entry, Question
from agentgraph.testing.questions import difference

Mode = Literal["auto", "play", "record"]
MODE = "AGENTGRAPH_CASSETTES"
"""The environment variable of the mode, for the fixture and for evaluations."""


def mode_of_environment(path: str | PathLike[str]) -> Mode:
    """Return the mode that the environment sets: "play" if only `CI` is set, else "auto".

    Raises:
        CassetteError: The environment sets another one.
    """
    mode = os.environ.get(MODE) or ("play" if os.environ.get("CI") else "auto")
    return checked_mode(mode, path, MODE)


def checked_mode(mode: object, path: str | PathLike[str], option: str = "mode") -> Mode:
    """Return a mode after a check.

    Raises:
        CassetteError: It is unknown.
    """
    if mode not in get_args(Mode):
        modes = ", ".join(map(repr, get_args(Mode)))
        raise CassetteError(
            f"{option}={shown(mode)} is not a mode of a cassette; choose one of: {modes}", str(path)
        )
    return cast(Mode, mode)


class Place(NamedTuple):
    """The place of a call.

    Attributes:
        thread: The id of the thread; it distinguishes runs in one process, and is not stored.
        turn: The turn.
        address: The address of the agent.
        call: The kind and number of the call, such as "model call 0".
    """

    thread: object
    turn: int
    address: str
    call: str

    @property
    def key(self) -> str:
        """The key in the file."""
        return f"{self.turn} {self.address} {self.call}"


def place_of(activation: Activation, call: str) -> Place:
    """Return the place of a call of an activation."""
    thread = activation.config["configurable"].get("thread_id")
    return Place(thread, activation.view.state.clock.turn, activation.address, call)


class Cassette:
    """Finds and stores answers; threads and runs may share it.

    Attributes:
        path: Its file.
    """

    def __init__(self, path: str | PathLike[str], mode: Mode) -> None:
        self.path = str(path)
        self._file, self._mode = CassetteFile(path), mode
        self._lock = threading.Lock()
        self._begun: set[str] = set()
        self._used: dict[tuple[Place, str], int] = {}

    def find(self, place: Place, question: Question, *, is_retry: bool = False) -> Entry | None:
        """Return the recorded answer, or None if a real call is needed.

        Args:
            place: The place of the call.
            question: The input of the call.
            is_retry: Whether the last recorded exception failed the run, which is now resumed.

        Raises:
            CassetteError: The answer is missing, and the mode allows no real call.
        """
        if self._mode == "record":
            return None
        with self._lock:
            known = self._file.answers.get(place.key, [])
            complete, pending = _complete(known, question), _pending(known, question)
            used = self._used.get((place, question.mark), 0)
            is_last = used >= len(complete) - 1
            is_over = used >= len(complete) or is_retry
            is_asked = self._mode == "auto" and is_last and is_over
            if complete and not (is_asked and "raised" in complete[-1]):
                return complete[min(used, len(complete) - 1)]
            if self._mode == "auto":
                return None
            if pending:
                return pending
            raise self.missing(place, known, question)

    def use(self, place: Place, question: Question) -> None:
        """Record that an answer was played: a retry gets the next one."""
        with self._lock:
            key = place, question.mark
            self._used[key] = self._used.get(key, 0) + 1

    def keep(self, place: Place, question: Question, outcome: Mapping[str, object]) -> None:
        """Store an answer, after earlier ones to the same question.

        Raises:
            CassetteError: The file cannot be written.
        """
        with self._lock:
            entries = self._before(place, question)
            pending = _pending(entries, question)
            asks = {"asks": pending.get("asks", [])} if pending else {}
            entry = {"asked": dict(question.asked), "mark": question.mark, **asks, **outcome}
            entries = [*(each for each in entries if each is not pending), entry]
            self._file.put(place.key, entries, question.parts)
            self._used[place, question.mark] = len(_complete(entries, question))

    def keep_ask(self, place: Place, question: Question, number: int, asked: object) -> None:
        """Store a tool's question to a person, by the number of its earlier questions."""
        with self._lock:
            pending = _pending(self._file.answers.get(place.key, []), question)
        before = pending.get("asks", [])[:number] if pending else []
        self.keep(place, question, {"asks": [*before, asked]})

    def _before(self, place: Place, question: Question) -> list[Entry]:
        """Return the entries that stay; mode "record" drops entries of earlier processes."""
        entries = list(self._file.answers.get(place.key, []))
        if self._mode != "record":
            return entries
        if place.key not in self._begun:
            self._begun.add(place.key)
            return [each for each in entries if not is_complete(each)]
        if (place, question.mark) in self._used:
            return entries
        return [each for each in entries if each["mark"] != question.mark or not is_complete(each)]

    def missing(self, place: Place, known: Sequence[Entry], question: Question) -> CassetteError:
        """Make the error for a question without an answer; `known` are the entries of its place."""
        path = self.path
        where = f"{place.address}: {place.call} of turn {place.turn}"
        if known:
            parts = self._file.parts
            text = f"{where} is not what {path} has: {difference(known, parts, question)}\n"
        else:
            text = f"{where} is not in {path}; "
        text += 'record what differs with recorded(path, mode="auto"), or everything with mode="record"'
        text += f"; for the fixture and evaluations, set {MODE}=auto or {MODE}=record"
        return CassetteError(text, path, place.address)


def is_complete(entry: Entry) -> bool:
    """Return whether an entry has an outcome; a tool that waits for a person has none yet."""
    return any(key in entry for key in OUTCOMES)


def _complete(entries: Iterable[Entry], question: Question) -> list[Entry]:
    return [each for each in entries if each["mark"] == question.mark and is_complete(each)]


def _pending(entries: Iterable[Entry], question: Question) -> Entry | None:
    same = (each for each in entries if each["mark"] == question.mark and not is_complete(each))
    return next(same, None)
