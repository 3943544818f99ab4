"""Cases: the inputs of an evaluation, from Python or from a file with a JSON object on each line."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from agentgraph.errors import AgentGraphError
from agentgraph.events.events import AgentEvent, Interrupt
from agentgraph.events.json_forms import JsonObject, as_json, from_json
from agentgraph.journal.data_digests import data_digest
from agentgraph.journal.turn_records import input_digest
from agentgraph.safe_repr import reason, shown
from agentgraph.threads.turns import Input, as_input
from agentgraph.tree.addresses import without_counters

_ID = re.compile(r"\w(?:[\w .-]*[\w-])?")
"""The form of an id, which is a part of the id of a thread and of the path of a cassette."""

Answers = Mapping[str, object] | Sequence[tuple[str, object]]
"""Answers by the address or the name of the agent that asks, as a mapping or as pairs in order."""


class CaseTurn(NamedTuple):
    """One turn of a case.

    Attributes:
        input: Its input.
        values: The values to write before it.
        answers: The answers to its questions.
    """

    input: Input
    values: Mapping[str, object] | None = None
    answers: Sequence[tuple[str, object]] = ()

    @property
    def digest(self) -> str:
        """A digest of the turn, the same in each process."""
        messages = as_input(self.input, self.values)["messages"]
        return data_digest([input_digest(messages, self.values), [*self.answers]])

    def answers_to(
        self, pending: Sequence[Interrupt], events: Sequence[AgentEvent]
    ) -> dict[str, object]:
        """Return the answers to open questions, by their ids; those without one are left out.

        The second question of an activation takes the second answer, so no answer counts twice.

        Args:
            pending: The open questions, in the order of the tree.
            events: The events of the turn so far.
        """
        asked = Counter(
            each.action.interrupted.address
            for each in events
            if each.action and each.action.interrupted
        )
        answered = asked - Counter(each.address for each in pending)
        found: dict[str, object] = {}
        for question in pending:
            address = question.address
            names = (address, without_counters(address), question.agent_name)
            answers = [answer for key, answer in self.answers if key in names]
            if len(answers) > answered[address]:
                found[question.id] = answers[answered[address]]
            answered[address] += 1
        return found


@dataclass(frozen=True, slots=True)
class Case:
    """One case of an evaluation: an input, and the data that its checks need.

    >>> Case("bees", "Write on bees.", answers={"report/boss": "yes"}).id
    'bees'

    Attributes:
        id: Its name, unique in an evaluation: letters, digits, spaces and `_ - .`.
        input: The input of its turn, as `Runner.run` takes it: a text, a message, or a list of
            messages.
        values: Values to write before the turn.
        answers: Answers to questions of the turn, by the address of the agent that asks, with
            iterations or without, or by its name. The second question of an activation needs a second
            answer: pass pairs of address and answer in order. A question without one pauses the case.
        expected: Data for checks, such as a text; it does not change the run.
        before: Earlier turns on the same thread: their inputs, or dicts with the keys "input", "values"
            and "answers".
        turns: All turns: the earlier ones, then its own.

    Raises:
        AgentGraphError: A field is invalid.
    """

    id: str
    input: Input
    values: Mapping[str, object] | None = None
    answers: Answers = ()
    expected: Any = None
    before: Sequence[Input | Mapping[str, Any]] = ()
    turns: tuple[CaseTurn, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise AgentGraphError(
                f"case {shown(self.id)}: not a valid id; use letters, digits, spaces and _ - ."
            )
        try:
            several = isinstance(self.before, Sequence) and not isinstance(self.before, str)
            if not several:
                raise AgentGraphError(f"before={shown(self.before)} is not a list of inputs; pass one")
            own = {"input": self.input, "values": self.values, "answers": self.answers}
            object.__setattr__(self, "turns", tuple(map(_turn, (*self.before, own))))
        except AgentGraphError as error:
            raise AgentGraphError(f"case {shown(self.id)}: {error}") from error

    @property
    def digest(self) -> str:
        """A digest of the parts that decide the run, the same in each process."""
        return data_digest([turn.digest for turn in self.turns])


def _turn(given: Any) -> CaseTurn:
    """Make a turn of a case.

    Raises:
        AgentGraphError: The input, the values or the answers are invalid.
    """
    fields = given if isinstance(given, Mapping) and "input" in given else {"input": given}
    if unknown := [name for name in fields if name not in CaseTurn._fields]:
        raise AgentGraphError(
            f"{shown(unknown[0])} is not a field of a turn; choose from: {', '.join(CaseTurn._fields)}"
        )
    turn = CaseTurn(**{**fields, "answers": _pairs(fields.get("answers"))})
    as_input(turn.input, turn.values)
    return turn


def _pairs(answers: object) -> list[tuple[str, object]]:
    """Return answers as pairs of an address and an answer.

    Raises:
        AgentGraphError: They are neither a mapping nor pairs.
    """
    match answers:
        case None:
            return []
        case Mapping():
            pairs: list[Any] = [*answers.items()]
        case list() | tuple():
            pairs = [*answers]
        case _:
            pairs = [answers]
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs) or not all(
        isinstance(key, str) for key, _ in pairs
    ):
        raise AgentGraphError(
            f'answers={shown(answers)}: pass a dict by address, such as {{"report/boss": "yes"}}, or '
            "pairs of address and answer"
        )
    return [(key, answer) for key, answer in pairs]


Cases = str | PathLike[str] | Iterable[Case | Mapping[str, Any] | str]
"""The path of a file of JSON lines, or cases: each a `Case`, a dict of its fields, or an input."""


def read_cases(cases: Cases) -> list[Case]:
    """Return the cases of an evaluation.

    Args:
        cases: The path of a file of JSON lines, or cases. A mapping has the fields of a case; a text is
            the input of a case whose id is its number, from 1.

    Raises:
        AgentGraphError: The file cannot be read, a case is invalid, two have one id, or there is none.
    """
    if isinstance(cases, str | PathLike):
        several = _lines(Path(cases))
    elif isinstance(cases, Iterable) and not isinstance(cases, Mapping):
        several = [_case(each, number) for number, each in enumerate(cases, 1)]
    else:
        raise AgentGraphError(
            f"cases={shown(cases)}: pass the path of a file, or a list of cases, such as "
            '[Case("bees", "Write on bees.")]'
        )
    counts = Counter(each.id for each in several)
    if twice := [case_id for case_id, count in counts.items() if count > 1]:
        raise AgentGraphError(f"cases: two have the id {shown(twice[0])}; rename one")
    if not several:
        raise AgentGraphError("cases: there is none; pass at least one")
    return several


def _case(given: object, number: int) -> Case:
    match given:
        case Case():
            return given
        case str():
            return Case(str(number), given)
        case Mapping():
            return case_from_dict(given)
    raise AgentGraphError(
        f"cases: item {number} is {shown(given)}; use a Case, a dict of its fields, or an input as text"
    )


def _lines(path: Path) -> list[Case]:
    try:
        lines = path.read_text("utf-8").split("\n")  # texts may have the other ends of lines
    except (OSError, UnicodeDecodeError) as error:
        raise AgentGraphError(
            f"the cases {path} cannot be read ({file_fault(error)}); name a file of JSON lines"
        ) from error
    cases = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                cases.append(case_from_dict(json.loads(line)))
            except (AgentGraphError, ValueError, RecursionError) as error:
                raise AgentGraphError(f"{path}, line {number}: {reason(error)}") from error
    return cases


def file_fault(error: Exception) -> str:
    """Return the reason of an error of a file, without its path."""
    return getattr(error, "strerror", None) or reason(error)


_FIELDS = ("id", "input", "values", "answers", "expected", "before")


def case_from_dict(data: object) -> Case:
    """Make a case from its fields as JSON data.

    Raises:
        AgentGraphError: A field is missing, unknown or invalid.
    """
    if not isinstance(data, Mapping):
        raise AgentGraphError(f"{shown(data)} is not a case; write an object with id and input")
    if missing := [name for name in ("id", "input") if name not in data]:
        raise AgentGraphError(f"a case without {missing[0]}: {shown(data)}; add it")
    if unknown := [name for name in data if name not in _FIELDS]:
        raise AgentGraphError(
            f"{shown(unknown[0])} is not a field of a case; choose from: {', '.join(_FIELDS)}"
        )
    return Case(**{name: from_json(each) for name, each in data.items()})


def case_to_dict(case: Case) -> JsonObject:
    """Return the fields of a case as JSON data, for `case_from_dict`."""
    data: JsonObject = {"id": case.id, **_turn_to_dict(case.turns[-1])}
    if case.expected is not None:
        data["expected"] = as_json(case.expected)
    if len(case.turns) > 1:
        earlier = map(_turn_to_dict, case.turns[:-1])
        data["before"] = [each["input"] if len(each) == 1 else each for each in earlier]
    return data


def _turn_to_dict(turn: CaseTurn) -> JsonObject:
    data: JsonObject = {"input": as_json(turn.input)}
    if turn.values:
        data["values"] = as_json(dict(turn.values))
    if turn.answers:
        by_address = dict(turn.answers)
        is_unique = len(by_address) == len(turn.answers)
        data["answers"] = as_json(by_address if is_unique else [[*each] for each in turn.answers])
    return data
