"""Two lines of a thread, or two threads of one tree, compared activation by activation.

Activations are aligned by turn, address and occurrence. Messages, calls, values, questions and ends are
compared by content, because ids and times always differ. Each side is read once.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentgraph.errors import AgentGraphError
from agentgraph.graph.paired_calls import calls_of
from agentgraph.graph.stamps import Note, event_order, is_steered, speaker_at
from agentgraph.graph.values import is_same, maps_in
from agentgraph.journal.activations import Activation, ActivationKey
from agentgraph.journal.changed_trees import read_thread
from agentgraph.journal.lines import known_line, leading
from agentgraph.journal.saved import Saved
from agentgraph.journal.steps import AgentStep
from agentgraph.journal.story import Story
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.reports.activation_calls import questions_in
from agentgraph.reports.activations import signal_in
from agentgraph.safe_repr import cut, shown
from agentgraph.tree.places import Tree

Where = Literal["both", "left", "right"]
Differs = Literal["said", "called", "values", "signal", "asked", "answered", "error"]
_LONGEST = 200
"""Maximum number of characters of a text."""
_IDS = frozenset({"id", "tool_call_id", "call_id", "tool_use_id"})
"""The keys of content blocks that name a call."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a compared activation.

    Attributes:
        text: Its last text, cut to 200 characters; empty without texts.
        values: The values that it wrote and the other side did not write, or wrote differently.
        signal: Its signal at the end: "exit", "break_loop", "transfer_to NAME", "chosen NAME".
        error: The text of its error; None without an error.
        tokens: The tokens that its models reported.
        seconds: Duration of its steps; None if a step has not ended.
        step: Its first step, for `Runner.rewind` and `Runner.activation`.
        answers: The saved answers to its questions, in order; None for a question without one.
    """

    text: str
    values: Mapping[str, object]
    signal: str | None
    error: str | None
    tokens: int
    seconds: float | None
    step: str
    answers: Sequence[object] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """An activation of one side or of both, compared.

    Attributes:
        address: Its address.
        agent_name: The agent.
        turn: The turn, from 0.
        where: The sides that have the activation: "both", "left" or "right".
        same: Whether both sides have the activation, and did the same.
        differs: The differences of the two sides: "said", "called" (tools, their arguments or results),
            "values", "signal", "asked", "answered", "error".
        left: The left side; None if it has no such activation.
        right: The right side; None if it has no such activation.
    """

    address: str
    agent_name: str
    turn: int
    where: Where
    same: bool
    differs: tuple[Differs, ...]
    left: Side | None
    right: Side | None


class Lines(NamedTuple):
    """The two sides of a comparison.

    Attributes:
        other: The other thread; None for another line of the same thread.
        line: The latest checkpoint of the left history line; None for the current line.
        other_line: The latest checkpoint of the right history line; None for the current line.
    """

    other: str | None = None
    line: str | None = None
    other_line: str | None = None


class _Done:
    def __init__(self, tree: Tree, activation: Activation) -> None:
        self._tree = tree
        self.agent_steps, self.entries = activation.agent_steps, activation.entries

    @property
    def messages(self) -> list[BaseMessage]:
        return [e for e in self.entries if isinstance(e, BaseMessage) and not is_steered(e)]

    def notes(self, *kinds: str) -> list[Note]:
        return [e for e in self.entries if isinstance(e, Note) and e.kind in kinds]

    @property
    def step(self) -> str:
        order = event_order(self.entries[0]) if self.entries else None
        return self.agent_steps[0].visit.step if self.agent_steps else order.step if order else ""

    @cached_property
    def values(self) -> dict[str, object]:
        written = [each for agent_step in self.agent_steps for each in _written(agent_step)]
        return {name: value for each in written for name, value in each.items()}

    @property
    def signal(self) -> str | None:
        return signal_in(self.entries)

    @property
    def error(self) -> str | None:
        errors = self.notes("error")
        return str(errors[-1].data) if errors else None

    @cached_property
    def answers(self) -> list[object]:
        return [e.answer for e in questions_in(self._tree, self.entries, lambda: self.agent_steps)]

    def side(self, other: "_Done | None") -> Side:
        """Return the activation as one side of a difference."""
        texts = [str(each.text) for each in self.messages if each.type != "tool" and each.text]
        is_shared = other is not None and _is_shared(self, other)
        known = {} if is_shared or other is None else other.values
        durations = [each.visit.duration for each in self.agent_steps]
        seconds = [each for each in durations if each is not None]
        return Side(
            text=cut(texts[-1], _LONGEST) if texts else "",
            values={
                name: value
                for name, value in ({} if is_shared else self.values).items()
                if name not in known or not _is_alike(value, known[name])
            },
            signal=self.signal,
            error=self.error,
            tokens=sum(each.visit.tokens for each in self.agent_steps),
            seconds=sum(seconds) if len(seconds) == len(durations) else None,
            step=self.step,
            answers=self.answers,
        )


async def compared(saver: ThreadSaver, lines: Lines) -> list[Difference]:
    """Compare two history lines, or two threads, activation by activation.

    The activations are in the order of the left side. An activation of the right side alone follows its
    predecessor on the right.

    Raises:
        UnknownThreadError: The saver has no such thread.
        ThreadError: A thread has no such line; or as `read_thread` does.
        AgentGraphError: Both sides are the same.
    """
    other, line, other_line = lines
    if other in (None, saver.thread_id) and line == other_line:
        raise AgentGraphError(
            f"thread {shown(saver.thread_id)}: compare(line={shown(line)}) compares a line with "
            "itself; pass another thread, or a line of thread(thread_id).lines"
        )
    await read_thread(saver)
    every = await saver.lean().checkpoints()
    left = _line(saver, every, line)
    there = saver
    if other not in (None, saver.thread_id):
        there = saver.of(str(other))
        await read_thread(there)
        every = await there.lean().checkpoints()
    right = _line(there, every, other_line)
    return [*_differences(_done(left), _done(right))]


def _line(saver: ThreadSaver, every: Sequence[Saved], head: str | None) -> Story:
    return Story(saver.tree, leading(every) if head is None else known_line(saver, head, every))


def _done(story: Story) -> dict[ActivationKey, _Done]:
    return {key: _Done(story.tree, each) for key, each in story.activations.items()}


def _written(agent_step: AgentStep) -> list[Mapping[str, object]]:
    """Return the values that an agent wrote in a step, without the values of its lanes."""
    if agent_step.place.kind.is_parallel:
        return []
    by_task = agent_step.saved.results if agent_step.task is not None else agent_step.saved.writes
    written = by_task.get(
        agent_step.saved.task if agent_step.task is None else agent_step.task, {}
    ).get("values")
    return [*maps_in(written)]


def _differences(
    left: Mapping[ActivationKey, _Done], right: Mapping[ActivationKey, _Done]
) -> Iterator[Difference]:
    after: dict[ActivationKey | None, list[ActivationKey]] = defaultdict(list)
    last: ActivationKey | None = None
    for key in right:
        if key in left:
            last = key
        else:
            after[last].append(key)
    order = [*after[None]]
    for key in left:
        order += [key, *after[key]]
    for key in order:
        yield _difference(key, left.get(key), right.get(key))


def _difference(key: ActivationKey, left: _Done | None, right: _Done | None) -> Difference:
    turn, at, _ = key
    differs: tuple[Differs, ...] = ()
    if left is not None and right is not None and not _is_shared(left, right):
        differs = tuple(_differing(left, right))
    where: Where = "right" if left is None else "left" if right is None else "both"
    return Difference(
        address=at,
        agent_name=speaker_at(at),
        turn=turn,
        where=where,
        same=where == "both" and not differs,
        differs=differs,
        left=None if left is None else left.side(right),
        right=None if right is None else right.side(left),
    )


def _is_shared(left: _Done, right: _Done) -> bool:
    steps = [[each.visit.step for each in side.agent_steps] for side in (left, right)]
    ids = [[each.id for each in side.entries] for side in (left, right)]
    is_one_run = bool(steps[0]) and steps[0] == steps[1] and ids[0] == ids[1]
    return is_one_run and _is_alike(left.answers, right.answers)


def _differing(left: _Done, right: _Done) -> Iterator[Differs]:
    if _contents(left.messages) != _contents(right.messages):
        yield "said"
    if not _is_alike(_called(left.messages), _called(right.messages)):
        yield "called"
    if not _is_alike(left.values, right.values):
        yield "values"
    if left.signal != right.signal:
        yield "signal"
    asked = [[each.data["value"] for each in side.notes("interrupted")] for side in (left, right)]
    if not _is_alike(*asked):
        yield "asked"
    if not _is_alike(left.answers, right.answers):
        yield "answered"
    if left.error != right.error:
        yield "error"


def _contents(messages: Iterable[BaseMessage]) -> list[object]:
    return [(m.type, _content(m)) for m in messages if not isinstance(m, ToolMessage) and m.content]


def _called(messages: Sequence[BaseMessage]) -> list[object]:
    called: list[object] = [
        (call["name"], call["args"])
        for each in messages
        if isinstance(each, AIMessage)
        for call in calls_of(each)
    ]
    results = [each for each in messages if isinstance(each, ToolMessage)]
    return [*called, *((each.name, each.status, _content(each)) for each in results)]


def _content(message: BaseMessage) -> object:
    return _plain(message.content)


def _plain(value: object) -> object:
    match value:
        case BaseMessage():
            return value.type, value.name, _plain(value.content), _called([value])
        case Mapping():
            return {key: _plain(each) for key, each in value.items() if key not in _IDS}
        case list() | tuple():
            return [_plain(each) for each in value]
    return value


def _is_alike(one: object, other: object) -> bool:
    return is_same(_plain_values(one), _plain_values(other))


def _plain_values(value: object) -> object:
    """Return a value with messages without ids; the `id` of other data is kept, because it counts."""
    match value:
        case BaseMessage():
            return _plain(value)
        case dict():
            return {key: _plain_values(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain_values(each) for each in value]
    return value
