"""Makes the bars of a thread: activations, calls, questions and discarded attempts.

A step of a lane runs from one checkpoint to the next, so the steps of an address in a turn are its
activation. An enclosing bar (of a loop, an iteration, the item of an `each`) lasts from its first to
its last inner bar.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from inspect import isroutine
from math import inf

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall, ToolMessage

from agentgraph.agents.approvals import requests_in, tools_asked_about
from agentgraph.events.events import Interrupt
from agentgraph.events.translation import question_of
from agentgraph.graph.paired_calls import calls_of, decision_in
from agentgraph.graph.stamps import address_of, event_order, time_in
from agentgraph.journal.outcomes import outcome_of
from agentgraph.journal.saved import Saved, Written
from agentgraph.journal.states import BAR_STATE, BarState
from agentgraph.journal.step_runs import QuestionSpan, StepRuns
from agentgraph.journal.steps import AgentStep, last_start, used_in
from agentgraph.journal.story import Story
from agentgraph.reports.activation_calls import call_begins, calls_start
from agentgraph.reports.bars import (
    LONGEST,
    Bar,
    BarKind,
    BarPart,
    Span,
    depths,
    in_order,
    last_text,
)
from agentgraph.reports.leaf_items import leaf_items
from agentgraph.safe_repr import as_json, cut
from agentgraph.tree.addresses import Cursor, address, iteration, number_of_item
from agentgraph.tree.places import Place

_LABEL = 60
"""Maximum number of characters in the label of a question."""


def bars_in(story: Story, since: str = "") -> tuple[list[Bar], list[Span]]:
    """Return the bars and the pauses of a story, each in the order of their start.

    Args:
        story: The story.
        since: The id of the root's first checkpoint whose step is requested; older ones only help to
            find tool calls.
    """
    return _Chart(story, since).bars()


def _before_rewinds(roots: Iterable[Saved], bars: Sequence[Bar]) -> Iterator[Span]:
    """Yield the times before steps that a rewind runs again, without the results that it kept."""
    for saved in roots:
        if saved.first_time < saved.time:
            ended = (each.ended for each in bars if each.began >= saved.first_time)
            kept = [each for each in ended if each is not None and each <= saved.time]
            yield Span(max([saved.first_time, *kept]), saved.time)


class _Chart:
    def __init__(self, story: Story, since: str) -> None:
        self._story, self._tree, self._since = story, story.tree, since
        self._bars: dict[str, Bar] = {}
        self._parts: dict[str, list[BarPart]] = {}
        self._places: dict[str, Place] = {}
        self._calls: dict[tuple[int, str, int], str] = {}
        self._has_failed: dict[int, bool] = {}
        self._began: dict[tuple[int, str], float] = {}
        self._pauses: list[Span] = []

    def bars(self) -> tuple[list[Bar], list[Span]]:
        """Return all bars, and all pauses."""
        agent_steps = [each for each in self._story.steps if each.root.root_id >= self._since]
        for agent_step in [*agent_steps, *self._open_items(agent_steps)]:
            self._add(agent_step)
        roots = {each.root.root_id: each.root for each in agent_steps}.values()
        for saved in roots:
            runs = self._story.runs_of(saved)
            turn = saved.clock[0]
            self._has_failed[turn] = runs.has_failed
            for asked in runs.questions:
                self._add_question(turn, asked, runs)
            for each in runs.resumptions:
                reached = saved.time if each.time >= saved.time else saved.first_time
                self._pauses.append(Span(max(each.ended, reached), each.time))
        bars = in_order(self._finished())
        return bars, sorted([*self._pauses, *_before_rewinds(roots, bars)])

    def _open_items(self, agent_steps: Sequence[AgentStep]) -> list[AgentStep]:
        known = {(agent_step.visit.turn, agent_step.visit.address) for agent_step in agent_steps}
        waiting: list[AgentStep] = []
        for agent_step in agent_steps:
            if agent_step.place.kind.is_parallel and agent_step.task is None:
                items = leaf_items(self._tree, agent_step, self._story.runs_of(agent_step.root))
                self._began |= {(agent_step.visit.turn, at): time for at, time in items.began.items()}
                waiting += items.open
        return [each for each in waiting if (each.visit.turn, each.visit.address) not in known]

    def _add(self, agent_step: AgentStep) -> None:
        visit, place = agent_step.visit, agent_step.place
        own = self._activation(visit.turn, place, agent_step.cursor, agent_step)
        runs = self._story.runs_of(agent_step.root)
        part, kind = self._part(agent_step), _kind_of(agent_step)
        said = self._messages(agent_step, visit.address)
        if kind in ("agent", "model") and not _runs_others(agent_step):
            part = self._split(agent_step, runs, part, own, kind)
        text = part.text or next((str(each.text) for each in reversed(said) if each.text), "")
        part = part._replace(text=cut(text, LONGEST))
        self._parts[own.id].append(part)
        used = used_in(said)
        tokens_in, tokens_out = used["input_tokens"], used["output_tokens"]
        if kind == "agent":
            if tokens_in or tokens_out:
                more = own.tokens_in + tokens_in, own.tokens_out + tokens_out
                self._bars[own.id] = replace(own, tokens_in=more[0], tokens_out=more[1])
        elif kind == "tool":
            self._add_tool_calls(agent_step, part, own)
        elif kind != "question":
            number = visit.step if agent_step.task is None else f"{own.id} model"
            is_model = kind == "model"
            label = _model_label(place, said) if is_model else visit.node[len(place.node) + 1 :]
            bar = self._part_of(own, number, kind, label, agent_step, part)
            self._bars[number] = replace(bar, tokens_in=tokens_in, tokens_out=tokens_out)

    def _part_of(
        self, own: Bar, bar_id: str, kind: BarKind, label: str, agent_step: AgentStep, part: BarPart
    ) -> Bar:
        return replace(
            own,
            id=bar_id,
            kind=kind,
            label=label,
            node=agent_step.visit.node,
            step=agent_step.visit.step,
            began=part.began,
            ended=part.ended,
            state=part.state,
            tokens_in=0,
            tokens_out=0,
            text=cut(part.text, LONGEST),
            inside=own.id,
        )

    def _part(self, agent_step: AgentStep) -> BarPart:
        known = self._began.get((agent_step.visit.turn, agent_step.visit.address), 0.0)
        came = outcome_of(self._story, agent_step, known)
        runs = self._story.runs_of(agent_step.root)
        is_again = agent_step.task is not None and any(
            each.time < came.began for each in runs.resumptions
        )
        began = came.began
        if is_again:  # an attempt before may have failed; a copied result is older than its step
            began = min(began, agent_step.saved.time)
        return BarPart(began, came.ended, BAR_STATE[came.state], came.error)

    def _split(
        self, agent_step: AgentStep, runs: StepRuns, part: BarPart, own: Bar, kind: BarKind
    ) -> BarPart:
        """Return the last attempt of a step, and add bars of its discarded attempts.

        A step with a question is one bar, because its answers stay: the attempts are inside.
        """
        at, began = agent_step.visit.address, part.began
        has_asked = runs.asks(at, began, inf)
        inside = own.inside if kind == "agent" and not has_asked else own.id
        for number, each in enumerate(runs.resumptions):
            is_in_it = began < each.time and (part.ended is None or each.time < part.ended)
            if not is_in_it:
                continue
            failed = runs.failure(at, began, each.time)
            # a task without a trace may not have started before the run ended
            was_cut = each.before != "at rest" and agent_step.task is None
            if failed is not None or (was_cut and not runs.asks(at, began, each.time)):
                ended = max(time_in(failed) if failed else each.ended, began)
                attempt = BarPart(began, ended, "void", str(failed.data) if failed else "")
                self._add_discarded(agent_step, own, kind, number, attempt, inside)
            began = each.time
        if agent_step.task is None and agent_step.after is not None:
            began = max(began, last_start(agent_step.saved, agent_step.after))
        return part if has_asked else part._replace(began=max(began, agent_step.visit.time))

    def _add_discarded(
        self,
        agent_step: AgentStep,
        own: Bar,
        kind: BarKind,
        number: int,
        part: BarPart,
        inside: str | None,
    ) -> None:
        label = own.label if kind == "agent" else _model_label(agent_step.place, ())
        step = own.id if agent_step.task is not None else agent_step.visit.step
        bar_id = f"{step} attempt {number}"
        bar = self._part_of(own, bar_id, kind, label, agent_step, part)
        self._bars[bar_id] = replace(bar, inside=inside)

    def _messages(self, agent_step: AgentStep, at: str) -> list[BaseMessage]:
        if agent_step.task is not None:
            written: Iterable[Written] = [agent_step.saved.results.get(agent_step.task, {})]
        else:
            written = agent_step.saved.writes.values()
        said: dict[str | None, BaseMessage] = {}
        for each in written:
            for message in each.get("messages") or ():
                if isinstance(message, BaseMessage) and address_of(message) == at:
                    said[message.id] = message
        return [*said.values()]

    def _add_tool_calls(self, agent_step: AgentStep, part: BarPart, own: Bar) -> None:
        calls, before, decided = self._called(agent_step)
        results: dict[str, ToolMessage] = {}
        began = call_begins(agent_step.saved)
        for where in (*agent_step.saved.results.values(), *agent_step.saved.writes.values()):
            for each in where.get("messages") or ():
                if isinstance(each, ToolMessage) and address_of(each) == own.address:
                    results.setdefault(each.tool_call_id, each)
        names = {call["id"] or "": str(call["name"]) for call in calls}
        for number, call_id in enumerate(dict.fromkeys([*names, *results])):
            this, name, result = part, names.get(call_id, ""), results.get(call_id)
            if call_id in decided or (result is not None and decision_in(result)):
                continue  # a person rejected or answered it, so the tool did not run
            if result is not None:
                order, failed = event_order(result), result.status == "error"
                begin = max(part.began, began.get(result.id, calls_start(agent_step)))
                ended = max(order.time, begin) if order else part.ended
                if part.ended is not None and ended is not None:
                    ended = min(ended, part.ended)
                this = BarPart(begin, ended, "failed" if failed else "done", str(result.text))
                name = name or str(result.name or "")
            bar_id = f"{agent_step.visit.step} call {number}"
            self._calls[(own.turn, own.address, before + number)] = bar_id
            self._bars[bar_id] = self._part_of(own, bar_id, "tool", name, agent_step, this)

    def _called(
        self, agent_step: AgentStep
    ) -> tuple[Sequence[ToolCall | InvalidToolCall], int, set[str]]:
        """Return the calls of a step, their first number, and the ids of those decided before."""
        position = agent_step.saved.position
        progress = position.get("chat") if position else None
        before = progress.get("tool_calls", 0) if progress else 0
        decided = set[str]()
        at: Saved | None = agent_step.saved
        namespace = agent_step.saved.namespace
        while at is not None and (at := self._story.by_key.get((namespace, at.parent_id))) is not None:
            for writes in at.writes.values():
                for each in reversed(writes.get("messages") or ()):
                    if isinstance(each, ToolMessage) and decision_in(each):
                        decided.add(each.tool_call_id)
                    if (
                        isinstance(each, AIMessage)
                        and address_of(each) == agent_step.visit.address
                        and calls_of(each)
                    ):
                        return calls_of(each), before, decided
        return (), before, decided

    def _add_question(self, turn: int, asked: QuestionSpan, runs: StepRuns) -> None:
        note, own = asked.note, self._bars.get(f"{turn}:{asked.note.address}")
        if own is None or note.order is None:
            return
        ended: float | None = asked.ended
        state: BarState = "void" if asked.is_dropped else "done"
        if ended is None and runs.is_over:
            ended = max(runs.last_sign, asked.began)
        elif ended is None:
            state = "asks"
        value = note.data["value"]
        text = _question_text(question_of(self._tree, note))
        about = ", ".join(tools_asked_about(value))
        label = f"approve {about}?" if about else " ".join(text.split())
        bar_id = f"{note.id} {asked.number}"
        self._bars[bar_id] = replace(
            own,
            id=bar_id,
            kind="question",
            label=cut(label, _LABEL) + " (not answered in time)" * asked.is_late,
            node=note.order.step.partition(":")[2],
            step=note.order.step,
            began=asked.began,
            ended=ended,
            state=state,
            tokens_in=0,
            tokens_out=0,
            text=cut(text, LONGEST),
            inside=own.id,
        )

    def _activation(self, turn: int, place: Place, cursor: Cursor, agent_step: AgentStep) -> Bar:
        """Return the bar of a step's activation; make it and its enclosing bars if missing."""
        inside = self._enclosing(turn, place, cursor, agent_step)
        at = address(place, _own(place, cursor))
        return self._named(turn, at, place, iteration(place, cursor), inside, agent_step)

    def _named(
        self,
        turn: int,
        at: str,
        place: Place,
        round_: int | None,
        inside: str | None,
        agent_step: AgentStep,
    ) -> Bar:
        """Return the bar of an activation; make it if missing. Its times are set at the end."""
        bar_id = f"{turn}:{at}"
        if (known := self._bars.get(bar_id)) is None:
            known = self._bars[bar_id] = Bar(
                id=bar_id,
                turn=turn,
                address=at,
                agent_name=place.home.name,
                kind="agent",
                label=place.name,
                node=place.node if place.is_node else "",
                step=agent_step.visit.step,
                iteration=round_,
                began=agent_step.visit.time,
                ended=None,
                state="running",
                inside=inside,
            )
            self._parts[bar_id], self._places[bar_id] = [], place
        return known

    def _enclosing(self, turn: int, place: Place, cursor: Cursor, agent_step: AgentStep) -> str | None:
        """Return the id of the enclosing bar of a place; make the bar of one without a node."""
        parent = place.parent
        if parent is None:
            return None
        around = cursor[: len(parent.counts)]
        at = address(parent, _own(parent, around))
        if place.is_tool:
            number = number_of_item(cursor[len(parent.counts_inside)])
            return self._calls.get((turn, at, number), f"{turn}:{at}")
        if parent.chat is not None:  # it has transferred there, and ended
            return self._enclosing(turn, parent, cursor, agent_step)
        outer = self._enclosing(turn, parent, around, agent_step)
        made = self._named(turn, at, parent, iteration(parent, around), outer, agent_step)
        if parent.kind.loops:
            number = cursor[len(around)]
            made = self._named(turn, f"{at}[{number}]", parent, number, made.id, agent_step)
        return made.id

    def _finished(self) -> Iterator[Bar]:
        """Yield all bars; an enclosing bar lasts from its first to its last inner bar."""
        inside: dict[str | None, list[Bar]] = defaultdict(list)
        for bar_id in sorted(self._bars, key=depths(self._bars).__getitem__, reverse=True):
            bar = self._bars[bar_id]
            within = inside.pop(bar_id, [])
            if bar_id in self._parts:
                bar = self._whole(bar, within)
            elif within:
                bar = self._around(bar, within)
            inside[bar.inside].append(bar)
            yield bar

    def _whole(self, bar: Bar, within: Sequence[Bar]) -> Bar:
        place, parts = self._places[bar.id], self._parts[bar.id]
        inside = [BarPart(each.began, each.ended, each.state, each.text) for each in within]
        in_order = sorted(inside, key=lambda each: each.began)
        last = parts[-1] if parts and not place.kind.chooses else [*parts, *in_order][-1]
        state = self._state(last.state, bar, within) if parts else last.state
        every = [*parts, *inside]
        ends = [each.ended for each in every if each.ended is not None]
        is_active = last.ended is None and state != "failed"  # a failure inside ends it, too
        is_open = is_active or any(each.ended is None for each in inside)
        text = last.text or last_text(every)
        return replace(
            bar,
            began=min(each.began for each in every),
            ended=None if is_open else max(ends, default=None),
            state=state,
            text=text,
        )

    def _around(self, bar: Bar, within: Sequence[Bar]) -> Bar:
        ends = [each.ended for each in within if each.ended is not None]
        is_open = bar.ended is None or any(each.ended is None for each in within)
        return replace(
            bar,
            began=min(bar.began, *(each.began for each in within)),
            ended=None if is_open else max([bar.ended or 0.0, *ends]),
            state=self._state(bar.state, bar, within),
        )

    def _state(self, state: BarState, bar: Bar, within: Sequence[Bar]) -> BarState:
        """Return the state of an enclosing bar; without an active run, that of the bars inside."""
        if state != "stopped":
            return state
        states = {each.state for each in within if each.ended is None or each.kind == "agent"}
        if "failed" in states and self._has_failed[bar.turn]:
            return "failed"
        return "asks" if "asks" in states else state


def _own(place: Place, cursor: Cursor) -> Cursor:
    """Return the counters of an activation; a swarm is one activation over all its transfers."""
    return (*cursor[:-1], ()) if place.kind.is_swarm else cursor


def _kind_of(agent_step: AgentStep) -> BarKind:
    place, node = agent_step.place, agent_step.visit.node
    if node in (place.nodes.approve, place.nodes.question):
        return "question"
    if place.chat is None:
        return "agent"
    if node == place.node:
        return "model"
    return "tool" if node == place.nodes.tools else "hook"


def _runs_others(agent_step: AgentStep) -> bool:
    place = agent_step.place
    if agent_step.task is not None:
        return False
    return place.kind.is_parallel or place.kind.runs_agents or _kind_of(agent_step) == "tool"


def _question_text(question: Interrupt) -> str:
    """Return the text of a question, such as "Print it?", or 'pay {"usd": 5}' for an approval."""
    requests = requests_in(question.value, question.response_schema)
    if requests:
        return "; ".join(f"{each.name} {as_json(each.args)}" for each in requests)
    return question.value if isinstance(question.value, str) else as_json(question.value)


def _model_label(place: Place, said: Iterable[BaseMessage]) -> str:
    """Return the name of a model: as it names itself, or as the tree does."""
    names = (each.response_metadata.get("model_name") for each in said)
    model = place.chat.model if place.chat else None
    own = model if isinstance(model, str) else getattr(model, "model_name", None)
    name = next((str(each) for each in names if each), own)
    return str(name or ("model" if isroutine(model) else type(model).__name__))
