"""The middleware of a chat agent in the reference: hooks between its steps, wraps around them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import acts
import scripts
import specs
from calling import Result
from forks import collect
from hypothesis import reject
from lanes import Here, Kept, Lane, Seen, place


class _FailedError(Exception):
    """What a node fails with."""


class ChatEnding(NamedTuple):
    """How an activation ends: with which signal, and if what it said last is kept as its value."""

    signal: str | None = None
    keeps: bool = True


class Stack:
    """The middleware of one activation."""

    def __init__(self, spec: specs.Chat, here: Here, lane: Lane) -> None:
        self.spec, self.here, self.lane = spec, here, lane
        self.begin = lane.begin(here)
        self.kept = lane.kept.setdefault(place(here.address), Kept())
        if spec.history in ("last", "input", "entries"):
            self.kept.added, self.kept.replaced = {}, {}

    def hooks(self, where: specs.Place) -> ChatEnding | None:
        """Run the hooks of a place; return how one of them ends the activation, if one does."""
        for each in self.spec.stack(where):
            if self._hook(each):
                return ChatEnding(keeps=not acts.are_open(self.seen()))
        return None

    def _hook(self, each: specs.Middleware) -> bool:
        lane, here, counts = self.lane, self.here, self.kept.counts
        visible = lane.visible(self.spec, here, self.begin, is_open=True)
        context = lane.context(self.spec, here, self.begin, is_open=True)
        seen, count, answer = [message for _, message in context], counts.get(each.name, 0), None
        if acts.is_due(each, count):
            for _ in range(each.fails if each.does == "fail" else 0):
                self._fail(acts.fails(each))
            if each.does == "ask":
                lane.emit(here, "interrupted", acts.asks(each))
                answer = scripts.answer(here.address, acts.asks(each))
        given = acts.hook(each, count, seen, answer)
        lane.noted[acts.note(each, counts, seen)] += 1
        self._count(each)
        if given.added or given.rewritten:
            self.kept.forget_but(visible)
        if given.added and given.added[0] == "human":
            self._remind(given.added, visible)
        elif given.added:
            lane.say(self.spec.name, here, ("ai", given.added[1], self.spec.name))
        if given.rewritten:
            self._rewrite(context[-1][0], given.rewritten)
        return given.ends

    def _remind(self, message: specs.Rendered, visible: Sequence[Seen]) -> None:
        """Add a message after the last one that is seen of the history."""
        last = visible[-1][0] if visible else None
        self.kept.added.setdefault(last, []).append((object(), message))

    def _rewrite(self, key: Any, message: specs.Rendered) -> None:
        """Replace a message of the agent's own: in the history if it was said in this lane."""
        lane = self.lane
        written = [i for i, said in enumerate(lane.history) if said.key is key and i >= lane.start]
        if not written:
            if any(said.key is key for said in lane.history):
                reject()  # lanes side by side may each replace what their agent said before the fork
            self.kept.replaced[key] = message
            return
        said = lane.history[written[0]]
        if said.event is not None:
            lane.events[said.event] = replace(lane.events[said.event], kept=False)
        lane.emit(self.here, "discarded", None, kept=False)
        lane.emit(self.here._replace(address=said.address, path=said.path), "message", message)
        lane.history[written[0]] = replace(said, message=message, event=len(lane.events) - 1)

    def reply(self, *, is_last: bool) -> specs.Rendered:
        """Return what the model says, with the wraps around it."""
        sight = self.lane.sight(self.spec, self.here, (), self.begin)
        failed: Counter[str] = Counter()
        while True:
            counted: list[specs.Middleware] = []
            try:
                said = self._asked(self.spec.stack("wrap_model_call"), sight, is_last, failed, counted)
            except _FailedError as error:
                self._fail(str(error))
                continue
            for each in counted:
                self._count(each)
            return said

    def _asked(
        self,
        wraps: Sequence[specs.Middleware],
        sight: specs.Sight,
        is_last: bool,
        failed: Counter[str],
        counted: list[specs.Middleware],
    ) -> specs.Rendered:
        if not wraps:
            return self._model(sight, is_last, failed)
        each, *inner = wraps
        seen = [message for message in sight.messages if message[0] != "system"]
        is_due = acts.is_due_for(each, seen)
        if is_due:
            _try(each, failed)
        if is_due and each.does == "answer":
            said = ("ai", acts.answers(each), self.spec.name)
        else:
            sent = sight
            if is_due and each.does == "remind":
                sent = replace(sight, messages=[*sight.messages, acts.reminder(each)])
            said = self._asked(inner, sent, is_last, failed, counted)
        if is_due and each.does == "rewrite":
            said = acts.rewritten(each, said)
        self.lane.noted[acts.note(each, self.kept.counts, seen)] += 1
        counted.append(each)
        return said

    def _model(self, sight: specs.Sight, is_last: bool, failed: Counter[str]) -> specs.Rendered:
        lane, here, spec = self.lane, self.here, self.spec
        lane.saw[here.address].append(sight)
        failed[""] += 1
        if failed[""] <= spec.fails:
            raise _FailedError(spec.name)
        said = scripts.reply(spec, here.address, sight.messages)
        return said[:3] if is_last else said

    def tool(
        self, asked: specs.Asked, lane: Lane, run: Callable[[], Result], counted: list[specs.Middleware]
    ) -> Result:
        """Run a tool call, with the wraps around it; those that ended before it are counted."""
        counts = dict(self.kept.counts)
        for each in counted if not self.spec.parallel_tools else ():
            _add(each, counts)
        call = _Call(self, asked, lane, run, counts)
        while True:
            call.ended = []
            try:
                result = call.wrapped(self.spec.stack("wrap_tool_call"))
            except _FailedError as error:
                if self.spec.on_tool_error == "return":
                    text = scripts.FAILED.format(error=error)
                    return Result(("tool", text, asked[0], asked[2], "error"))
                lane.emit(self.here, "error", str(error), kept=False)
                continue
            counted += call.ended
            return result

    def count(self, several: Sequence[specs.Middleware]) -> None:
        """Count calls of middleware in its state."""
        for each in several:
            self._count(each)

    def _count(self, each: specs.Middleware) -> None:
        _add(each, self.kept.counts)

    def seen(self) -> list[specs.Rendered]:
        context = self.lane.context(self.spec, self.here, self.begin, is_open=True)
        return [message for _, message in context]

    def _fail(self, text: str) -> None:
        if scripts.is_collected(self.here.address):
            collect(self.spec, self.here, self.lane, text)
        self.lane.emit(self.here, "error", text, kept=False)


def _try(each: specs.Middleware, failed: Counter[str]) -> None:
    failed[each.name] += 1
    if each.does == "fail" and failed[each.name] <= each.fails:
        raise _FailedError(acts.fails(each))


def _add(each: specs.Middleware, counts: dict[str, int]) -> None:
    if each.counts:
        counts[each.name] = counts.get(each.name, 0) + 1


class _Call:
    """A tool call with the wraps around it, which may be tried several times.

    Attributes:
        ended: The wraps that ended, this time.
    """

    def __init__(
        self,
        stack: Stack,
        asked: specs.Asked,
        lane: Lane,
        run: Callable[[], Result],
        counts: dict[str, int],
    ) -> None:
        self.stack, self.asked, self.lane, self.run, self.counts = stack, asked, lane, run, counts
        self.seen, self.failed = stack.seen(), Counter[str]()
        self.answered: set[str] = set()
        self.ended: list[specs.Middleware] = []

    def wrapped(self, wraps: Sequence[specs.Middleware]) -> Result:
        """Run the call with some wraps around it."""
        if not wraps:
            return self.run()
        each, *inner = wraps
        if is_due := acts.is_due_for(each, self.asked):
            _try(each, self.failed)
            self._ask(each)
        if is_due and each.does == "answer":
            result = Result(("tool", acts.answers(each), self.asked[0], self.asked[2], "success"))
        else:
            result = self.wrapped(inner)
        if result.failed:
            return result
        if is_due and each.does == "rewrite":
            result = result._replace(message=acts.rewritten(each, result.message))
        self.lane.noted[acts.note(each, self.counts, self.seen, self.asked)] += 1
        self.ended.append(each)
        return result

    def _ask(self, each: specs.Middleware) -> None:
        """Ask, unless it was answered before something failed."""
        if each.does == "ask" and acts.may_ask(self.asked[1]) and each.name not in self.answered:
            self.answered.add(each.name)
            self.lane.emit(self.stack.here, "interrupted", acts.asks(each, self.asked))
