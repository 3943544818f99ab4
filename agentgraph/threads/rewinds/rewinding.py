"""Checks a rewind, and puts the new line of the thread in the saver.

Nothing is written before the first event of the run is asked for. Then the copies are put (see
`new_line.py`), the root's last: that is the commit. A note at it, `REWOUND`, names the events that are
gone. A run that continues there discards them first, also after a kill; so a rewind runs as a resume
does.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from math import inf
from typing import Any, NamedTuple, cast, get_args

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import Checkpoint
from langgraph.constants import START

from agentgraph.errors import (
    AgentGraphError,
    LangGraphChangedError,
    ThreadError,
    UnknownAddressError,
    UnknownInterruptError,
)
from agentgraph.events.translation import question_note, question_of
from agentgraph.graph.internals import INTERRUPT, RESUME
from agentgraph.graph.nodes.emitter import Clock
from agentgraph.graph.nodes.tasks import written
from agentgraph.graph.stamps import Entry, asker_of, number_of
from agentgraph.graph.values import Write, check_mapping
from agentgraph.journal.answers import UNANSWERED, answers_by_id, names_of
from agentgraph.journal.changed_trees import check_tree, is_of
from agentgraph.journal.continuation import Replay, new_note, next_replay
from agentgraph.journal.entries import entries_of
from agentgraph.journal.lines import is_foreign, known_thread, leading_checkpoints, root_line
from agentgraph.journal.saved import Saved, keeps_state
from agentgraph.journal.schema import RECEIVED, RESUMED, REWOUND, Rewound, StateCopy
from agentgraph.journal.steps import AgentStep, Visit
from agentgraph.journal.story import Story
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.reports.visits import FoundVisit, VisitQuery, find, is_step
from agentgraph.safe_repr import shown
from agentgraph.threads.rewinds.copied_steps import Answer
from agentgraph.threads.rewinds.edits import Edits, edits_of, has_edits
from agentgraph.threads.rewinds.kept_states import (
    GraphStates,
    graph_states,
    put_missing_states,
    put_states,
    state_copies,
    with_ancestors,
)
from agentgraph.threads.rewinds.new_line import NewLine
from agentgraph.threads.rewinds.siblings import Siblings
from agentgraph.threads.turns import Input, as_input
from agentgraph.tree.addresses import keyed_as_known, parse_address, root_address
from agentgraph.tree.places import Tree


class RewindArguments(NamedTuple):
    """Where a rewind goes back to, and what it changes there.

    Attributes:
        at: The address of an activation, or the name of a step.
        turn: The turn of the address; None for the last one in which it was visited.
        siblings: The treatment of concurrent work.
        values: Values that are written before it begins.
        messages: Messages of the user that are added before it begins, or take the place of others.
        answers: The new answer to its question.
    """

    at: str
    turn: int | None = None
    siblings: Siblings = "keep"
    values: Mapping[str, object] | None = None
    messages: Input = ()
    answers: object = UNANSWERED

    def check(self) -> None:
        """Refuse arguments that make no sense.

        Raises:
            AgentGraphError: One does not.
        """
        if not isinstance(self.at, str) or not self.at:
            raise AgentGraphError(
                f"at={shown(self.at)} is neither an address nor a step; visits() lists both"
            )
        if self.siblings not in get_args(Siblings):
            raise AgentGraphError(
                f"siblings={shown(self.siblings)} is neither 'keep' nor 'rerun'; with 'keep' what ran "
                "concurrently with the visit stays, with 'rerun' it runs again"
            )
        if self.turn is not None and is_step(self.at):
            raise AgentGraphError(f"a step is in one turn: leave turn={shown(self.turn)} out")
        check_mapping(self.values)


class TurnStart(NamedTuple):
    """The start of a turn, to which a rewind goes back: all of the turn runs again.

    Attributes:
        turn: The turn.
        messages: The messages that replace a part of its input; None to keep all of it.
        since: The id of the first message of its input that they replace.
        values: Values that are written with the input.
    """

    turn: int
    messages: Input | None = None
    since: str = ""
    values: Mapping[str, object] | None = None

    @property
    def at(self) -> str:
        """The target of the rewind, for the log."""
        return f"the start of turn {self.turn}"


class Prepared(NamedTuple):
    """The data that is put to begin a line.

    Attributes:
        copies: The checkpoints, the root's last.
        later: The answers to questions that are asked later, by address.
        states: The states of graphs that follow them.
    """

    copies: list[Saved]
    later: Mapping[str, object]
    states: Sequence[StateCopy] = ()


class _Planned(NamedTuple):
    """The parts of a rewind.

    Attributes:
        head: The head of the thread.
        target: Where it goes back to.
        line: The copied line.
        states: The states that graphs keep.
        later: The answers to questions that are asked later, by address.
        changed: The treatment of the messages that are passed.
    """

    head: Saved
    target: FoundVisit
    line: NewLine
    states: GraphStates
    later: Mapping[str, object]
    changed: Edits


async def new_line(saver: ThreadSaver, back: RewindArguments | TurnStart) -> Prepared:
    """Check a rewind, and return what is put for it.

    Raises:
        UnknownThreadError: The saver has no such thread.
        UnknownAddressError: The thread has not visited the address.
        TreeChangedError: A tree of another shape ran the thread.
        UnknownInterruptError: There are answers, but nothing was asked there.
        InvalidAnswerError: An answer does not fit.
        AgentGraphError: Another argument makes no sense, or cannot be saved.
    """
    saver.require("rewind")
    if isinstance(back, TurnStart):
        planned = await _planned_start(saver, back)
    else:
        planned = await _planned(saver, back, has_new_ids=True)
    head, target, line, kept, later, changed = planned
    states = state_copies(line, kept)
    divided = await _compared(saver, target, line)
    was, now = (entries_of(saver.tree, each) for each in divided)
    gone = _gone(was, now, await next_replay(saver, head), changed)
    gone["at"], gone["states"] = target.agent_step.visit.address, states
    if (again := gone["again"]) is not None:
        gone["since"] = await _first_with(saver, target, again)
    last = max(map(number_of, [*was, *now, *head.notes, *line.root.notes]), default=0)
    clock = Clock(line.root.clock[0], max(last, head.clock[1]))
    received = clock.last
    note = partial(new_note, clock, root_address(saver.tree))
    answered = [note(RESUMED, line.answered)] if line.answered else []
    line.add_notes([*answered, note(RECEIVED, received), note(REWOUND, gone)])
    _check_newest(saver, head, line.copies[-1])
    return Prepared(line.copies, later, states)


def _check_newest(saver: ThreadSaver, head: Saved, root: Saved) -> None:
    """Refuse a commit that would not be the newest checkpoint: savers sort them by their times.

    Raises:
        ThreadError: The clock is earlier than that of the process that ran the thread.
    """
    if root.id <= head.id:
        raise ThreadError(
            f"thread {shown(saver.thread_id)} was last saved at {head.checkpoint['ts']}, which this "
            "machine's clock has not reached; set the clock, or go back later",
            saver.thread_id,
        )


async def line_to_copy(saver: ThreadSaver, back: RewindArguments) -> Prepared:
    """Return the data to put on another thread for the line up to a visit, under the same ids.

    Raises:
        AgentGraphError: As in `new_line`.
    """
    _, target, line, states, later, changed = await _planned(saver, back, has_new_ids=False)
    began = str(line.root.id)
    every = await _whole_line(saver, target)
    before = [each for each in reversed(every) if each.root_id < began]
    before = [each for each in before if not keeps_state(each.namespace)]
    before += with_ancestors(states.of(line), states.every)
    before.sort(key=lambda each: not each.namespace)  # the root's last
    numbers = [number_of(note) for each in [*before, line.root] for note in each.notes]
    turn, last = line.root.clock
    if (
        changed.first_number is not None
    ):  # a replacement is emitted, with the event that discards the old message
        numbers = [*(n for n in numbers if n < changed.first_number - 1), changed.first_number - 3]
    clock = Clock(turn, max([last, *numbers], default=0))
    note = partial(new_note, clock, root_address(saver.tree))
    answered = [note(RESUMED, line.answered)] if line.answered else []
    line.add_notes([*answered, note(RECEIVED, clock.next())])
    return Prepared([*before, *line.copies], later)


async def _planned(saver: ThreadSaver, back: RewindArguments, *, has_new_ids: bool) -> _Planned:
    """Return the parts of a rewind; the states of graphs are not part of its copies."""
    back.check()
    head = await known_thread(saver)
    await put_missing_states(saver, head)
    asks = _asks if back.answers is not UNANSWERED else None
    target = await find(saver, VisitQuery(saver.tree, back.at, back.turn, asks))
    version = saver.saver.get_next_version(None, None)
    states = await graph_states(saver, target)
    own = saver.tree, target.story.every, target.agent_step, back.siblings, version, states.on_line
    line = NewLine(*own, has_new_ids=has_new_ids)
    answers, later = _answers(saver, target.agent_step, back.answers)
    edits, began = _edits(saver, target.agent_step, back), str(target.agent_step.saved.id)
    changed = await _messages(saver, head, target, line, back)
    edits += [("messages", [*changed.added])] if changed.added else []
    try:
        line.plan(edits, answers, changed.placed)
    except LangGraphChangedError:  # or a lane that the tree does not have any more
        await _check_tree(saver, target, line, _may_stay(target), began)
        raise
    await _check_tree(saver, target, line, line.copies[::-1], line.new_id(began))
    return _Planned(head, target, line, states, later, changed)


async def _planned_start(saver: ThreadSaver, back: TurnStart) -> _Planned:
    """Return the parts of a rewind to the start of a turn: a copy of the checkpoint with its input.

    Raises:
        UnknownAddressError: The thread has no such turn.
    """
    head = await known_thread(saver)
    await put_missing_states(saver, head)
    story = Story(saver.tree, await leading_checkpoints(saver))
    starts = (each for each in story.roots.values() if each.begins_turn and each.clock[0] == back.turn)
    begun = max(starts, key=lambda each: each.id, default=None)
    if begun is None or begun.turn_input is None:
        raise UnknownAddressError(
            f"thread {shown(saver.thread_id)} has no turn {back.turn}", saver.thread_id
        )
    at = root_address(saver.tree)
    visit = Visit(at, saver.tree.root.name, "", back.turn, None, begun.step, begun.time, None, 0)
    agent_step = AgentStep(visit, saver.tree.root, (), begun, begun)
    target = FoundVisit(agent_step, story, story)
    states = await graph_states(saver, target)
    version = saver.saver.get_next_version(None, None)
    line = NewLine(saver.tree, story.every, agent_step, "rerun", version, states.on_line)
    line.plan()
    line.copies[-1] = _with_input(saver, line.copies[-1], begun.turn_input, back)
    await _check_tree(saver, target, line, line.copies[::-1], line.new_id(begun.id))
    return _Planned(head, target, line, states, {}, Edits())


def _with_input(
    saver: ThreadSaver, copy: Saved, turn_input: Mapping[str, Any], back: TurnStart
) -> Saved:
    """Return a checkpoint before which a turn begins with other input; nothing has read that yet."""
    given = as_input(back.messages or (), back.values)
    before: list[BaseMessage] = turn_input["messages"]
    if back.messages is not None:
        before = [*takewhile(lambda each: each.id != back.since, before)]
    messages = [*before, *saver.saved_messages(given["messages"])]
    begun = {**turn_input, "messages": messages}
    if values := saver.saved_values(given.get("values")):
        begun["values"] = [*turn_input["values"], values]
    elif not turn_input["values"]:
        begun.pop("values", None)
    channels = {**copy.checkpoint["channel_values"], START: begun}
    checkpoint = cast(Checkpoint, {**copy.checkpoint, "channel_values": channels})
    return copy._replace(checkpoint=checkpoint, pending_writes=[])


async def _messages(
    saver: ThreadSaver, head: Saved, target: FoundVisit, line: NewLine, back: RewindArguments
) -> Edits:
    """Return the treatment of the messages of a rewind.

    Raises:
        AgentGraphError: One can neither be added nor take the place of another.
    """
    given = saver.saved_messages(as_input(back.messages, None)["messages"])
    heads = [head, line.root]
    numbers = [number_of(note) for each in heads for note in each.notes]
    last = max([*numbers, *(each.clock[1] for each in heads)])
    return await edits_of(saver, target, line, last, given)


async def _check_tree(
    saver: ThreadSaver, target: FoundVisit, line: NewLine, inside: Sequence[Saved], own: str
) -> None:
    """Check that the thread can continue on a new line with the runner's tree: later agents are free.

    Args:
        saver: The thread.
        target: The visit.
        line: The new line.
        inside: The checkpoints that stay of the root's step that has the visit, newest first.
        own: The id of the one among them from which it continues.

    Raises:
        TreeChangedError: A tree of another shape ran the thread.
    """
    position, agent_step, tree = target.agent_step.saved.position, target.agent_step, saver.tree
    if position is None or (position["tree"] == tree.fingerprint and is_of(tree, line.root)):
        return
    began = str(line.root.id)
    whole = await _whole_line(saver, target)
    every = [*inside, *(each for each in whole if each.root_id < began)]
    here = [] if agent_step.task is None else [agent_step.visit.node]
    check_tree(saver, every, line.root, position["tree"], "" if here else own, here)


def _may_stay(target: FoundVisit) -> list[Saved]:
    """Return the checkpoints of the root's step that has a visit, without what came after it."""
    saved = target.agent_step.saved
    lane, own = saved.namespace, saved.id
    inside = (each for each in target.story.every if each.root_id == saved.root_id)
    return [each for each in inside if each.namespace != lane or each.id <= own]


async def _whole_line(saver: ThreadSaver, target: FoundVisit) -> Sequence[Saved]:
    if target.present is target.story:
        return await leading_checkpoints(saver)
    return target.story.every


def _edits(
    saver: ThreadSaver, agent_step: AgentStep, back: RewindArguments
) -> list[tuple[str, object]]:
    given = as_input((), back.values)
    edits: list[tuple[str, object]] = []
    if values := saver.saved_values(given.get("values")):
        is_inner = bool(agent_step.saved.namespace) or agent_step.task is not None
        write = Write(by="", values=dict(values))
        edits.append(("values", [write] if is_inner else values))
        position = agent_step.saved.position
        if agent_step.task is None and position is not None and (tasks := position.get("tasks")):
            edited = [written(task, [write], saver.reducers) for task in tasks]
            rest = {name: each for name, each in position.items() if name != "told"}
            edits += [("position", {**rest, "tasks": edited})] if edited != tasks else []
    return edits


def _answers(
    saver: ThreadSaver, agent_step: AgentStep, answers: object
) -> tuple[list[Answer], dict[str, object]]:
    """Return the new answers to the questions of a visit, and those to questions that come later.

    Raises:
        UnknownInterruptError: Nothing was asked there, or something else.
        InvalidAnswerError: An answer does not fit.
    """
    if answers is UNANSWERED:
        return [], {}
    asked = _asked_at(agent_step)
    questions = [question_of(saver.tree, question_note(each.question)) for each in asked]
    names = {name for each in questions for name in names_of(each)}
    given = keyed_as_known(saver.tree, answers) if isinstance(answers, Mapping) else {}
    later = {
        key: answer
        for key, answer in given.items()
        if isinstance(key, str) and key not in names and parse_address(saver.tree, key)
    }
    if later:
        answers = {key: answer for key, answer in given.items() if key not in later}
    if not asked and (answers or not later):
        raise UnknownInterruptError(
            f"thread {shown(saver.thread_id)}: nothing was asked at {agent_step.visit.address}; leave "
            "answers= out, or go back to where it was",
            saver.thread_id,
        )
    by_id = answers_by_id(saver, questions, answers) if asked and (answers or not later) else {}
    chosen = [each for each in asked if each.question.id in by_id]
    return [each._replace(answer=by_id[each.question.id]) for each in chosen], later


def _asks(agent_step: AgentStep) -> bool:
    return bool(_asked_at(agent_step))


def _asked_at(agent_step: AgentStep) -> list[Answer]:
    asked: dict[str, Answer] = {}
    if agent_step.task is None:
        own, by_task = agent_step.saved.task, agent_step.saved.writes
        for task in sorted(by_task, key=lambda each: each != own):  # those of its tasks last
            given = by_task[task].get(RESUME, ())
            for question in by_task[task].get(INTERRUPT, ()):
                if asker_of(question.response_schema).address == agent_step.visit.address:
                    asked[question.id] = Answer(task, question, given)
    return [*asked.values()]


def _divided(tree: Tree, target: FoundVisit, line: NewLine) -> list[list[Saved]]:
    """Return the checkpoints that are on the old line alone, and those on the new line alone.

    Events of LangGraph graphs are left out, which may be compiled trees with separate events.
    """
    began = str(line.root.id)
    old = {each.root_id for each in target.present.every}
    new = {each.root_id for each in target.story.every if each.root_id < began}
    before = [each for each in target.present.every if each.root_id not in new]
    after = [*(each for each in target.story.every if each.root_id in new - old), *line.copies]
    return [[each for each in several if not is_foreign(tree, each)] for several in (before, after)]


async def _compared(saver: ThreadSaver, target: FoundVisit, line: NewLine) -> Sequence[Sequence[Saved]]:
    """Return the checkpoints whose events differ before and after: the whole lines if that is unknown.

    An edit on the old line discarded an event that both have; it comes back if the edit is gone.
    """
    was, now = _divided(saver.tree, target, line)
    if not has_edits(was):
        return was, now
    old = await leading_checkpoints(saver)
    began = str(line.root.id)
    new = [each for each in await _whole_line(saver, target) if each.root_id < began]
    every = old, [*new, *line.copies]
    return [[each for each in several if not is_foreign(saver.tree, each)] for several in every]


def _gone(was: Sequence[Entry], now: Sequence[Entry], replay: Replay, changed: Edits) -> Rewound:
    """Return the events that are gone between two lines, with those that a resume discards.

    If more is gone than the last ones, or an event comes back before others, all from there on is
    replayed.
    """
    before, after = ([(each.id or "", number_of(each)) for each in line] for line in (was, now))
    stays, had = {*after}, {*before}
    left = [pair for pair in before if pair not in stays]
    again = [number_of(each) for each in replay.entries]
    common, new = (
        [e for e in after if e in had],
        [number for e, number in after if (e, number) not in had],
    )
    is_last = min(new, default=inf) > max((number for _, number in common), default=0)
    if is_last and {each for each, _ in common}.isdisjoint(each for each, _ in left):
        again += new[:1]
    else:
        pairs = enumerate(zip(before, after, strict=False))
        shorter = min(len(before), len(after))
        same = next((n for n, (one, other) in pairs if one != other), shorter)
        left = before[same:]
        again += [number for _, number in after[same:][:1]]
    ids = dict.fromkeys([*replay.discarded, *(each for each, _ in left), *changed.discarded])
    return Rewound(ids=[*ids], again=min(again, default=None), since="", at="", states=[])


async def _first_with(saver: ThreadSaver, target: FoundVisit, number: int) -> str:
    """Return the id of the root's checkpoint in whose step the event with a number was emitted."""

    def is_before(saved: Saved) -> bool:
        return saved.clock[1] < number

    line = [saved for saved in target.story.every if not saved.namespace and is_before(saved)]
    if not line:
        line = [*(await root_line(saver, is_before)).line[-1:]]
    return max(str(saved.id) for saved in line)


async def commit(saver: ThreadSaver, copies: Sequence[Saved], states: Sequence[StateCopy] = ()) -> None:
    """Put the checkpoints of a new line, with their writes: the last one is the commit."""
    for saved in copies:
        await saver.put_copy(saved)
    await put_states(saver, copies[-1], states)
