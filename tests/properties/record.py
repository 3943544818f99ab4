"""What the leaves of a tree see and run, recorded while they do what their scripts say."""

import asyncio
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import scripts
import specs
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from passing import Passed

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel


class FailedError(Exception):
    """What a leaf fails with; its `repr` is its text."""

    __repr__ = Exception.__str__


@dataclass
class Record:
    """What was seen by address, which tool calls have ended, and the models by agent.

    `cut` counts the calls of functions that were cancelled or closed before their end. `passed` is what
    the run or resume is given that is under way. `patience` is how many seconds questions wait that
    have a deadline.
    """

    saw: dict[str, list[specs.Sight]] = field(default_factory=lambda: defaultdict(list))
    ran: Counter[str] = field(default_factory=Counter)
    entered: dict[str, specs.Sight] = field(default_factory=dict)
    tried: Counter[str] = field(default_factory=Counter)
    cut: Counter[str] = field(default_factory=Counter)
    noted: Counter[str] = field(default_factory=Counter)
    models: dict[str, ScriptedChatModel] = field(default_factory=dict)
    passed: Passed = field(default_factory=Passed)
    patience: float = 3600.0
    lock: Any = field(default_factory=threading.Lock)

    def call(self, leaf: specs.Function, ctx: ag.Context) -> specs.Call:
        """Record a call of a function, and return what it is to give."""
        self.passed.look("function", ctx)
        sight = _sight(ctx)
        script = scripts.calls(leaf, ctx.address, sight)
        with self.lock:
            self.saw[ctx.address].append(sight)
            return script[(len(self.saw[ctx.address]) - 1) % len(script)]

    def enters(self, leaf: specs.Function, ctx: ag.Context) -> tuple[specs.Call, ...]:
        """Note with what a graph is entered, also when it is resumed, and return its script."""
        self.passed.look("function", ctx)
        sight = self.entered[ctx.address] = _sight(ctx)
        return scripts.calls(leaf, ctx.address, sight)

    def begins(self, address: str) -> None:
        """Record that the first node of a graph runs."""
        with self.lock:
            self.saw[address].append(self.entered[address])

    @contextmanager
    def calling(self, leaf: specs.Function, ctx: ag.Context) -> Iterator[Iterator[specs.Item]]:
        """Give what a call of a function is to give; one that is cut short does not count as a call."""
        items = self.call(leaf, ctx).items
        left = iter(items)
        try:
            yield left
        except (GeneratorExit, asyncio.CancelledError):
            signal = items and items[-1][0] in ("interrupted", "exit", "break_loop")
            if not (signal and next(left, None) is None):
                with self.lock:
                    self.saw[ctx.address].pop()
                    self.cut[ctx.address] += 1
                    if not self.saw[ctx.address]:
                        del self.saw[ctx.address]
            raise

    def until(self, loop: specs.Loop, ctx: ag.Context) -> bool:
        """Record that the `until` of a loop is asked, and return what it is to say."""
        self.passed.look("border", ctx)
        sight = _sight(ctx)
        with self.lock:
            self.saw[ctx.address].append(sight)
        return scripts.stops(loop.until, sight)

    def chooses(self, switch: specs.Switch, ctx: ag.Context) -> int:
        """Record that a switch chooses, and fail, or return the number of its way."""
        self.passed.look("border", ctx)
        sight = _sight(ctx)
        with self.lock:
            self.saw[ctx.address].append(sight)
            again = len(self.saw[ctx.address]) % (switch.fails + 1) != 0
        if switch.fails and (again or scripts.is_collected(ctx.address)):
            raise FailedError(scripts.fails_to_choose(ctx.address))
        return scripts.way(switch, sight)

    def lists(self, each: specs.Each, ctx: ag.Context) -> Any:
        """Record that an each looks for its items, and fail, or return them."""
        self.passed.look("border", ctx)
        sight = _sight(ctx)
        with self.lock:
            self.saw[ctx.address].append(sight)
            again = len(self.saw[ctx.address]) % (each.fails + 1) != 0
        if each.fails and (again or scripts.is_collected(ctx.address)):
            raise FailedError(scripts.fails_to_list(ctx.address))
        return scripts.items(each, sight)

    def asks(self, chat: specs.Chat, ctx: ag.Context, sent: list[BaseMessage]) -> list[BaseMessage]:
        """Record what a model is about to be sent, and mark it with what the model is to know."""
        self.passed.look("model", ctx)
        with self.lock:
            self.saw[ctx.address].append(_sight(ctx, sent))
            again = len(self.saw[ctx.address]) % (chat.fails + 1) != 0
        fails = bool(chat.fails) and (again or scripts.is_collected(ctx.address))
        mark = {"at": ctx.address, "fails": fails}
        return [*sent[:-1], sent[-1].model_copy(update={"additional_kwargs": mark})]

    def model(self, chat: specs.Chat) -> ScriptedChatModel:
        """Return the model of a chat agent: the same one, however often the tree is built."""

        def response(sent: list[BaseMessage]) -> AIMessage | FailedError:
            mark = sent[-1].additional_kwargs
            if mark["fails"]:
                return FailedError(chat.name)
            return _message(scripts.reply(chat, mark["at"], rendered(sent)))

        return self.models.setdefault(chat.name, ScriptedChatModel(responses=[response] * 1000))

    def notes(self, what: str) -> None:
        """Record a call of a middleware that has ended."""
        with self.lock:
            self.noted[what] += 1

    def tries(self, step: str) -> int:
        """Record that a step of a middleware or graph may fail, and return how often it was tried."""
        with self.lock:
            self.tried[step] += 1
            return self.tried[step]

    def may_fail(self, step: str, errors: Sequence[str]) -> None:
        """Fail when a step of a graph is tried, with one error after the other; then it is done."""
        again = (self.tries(step) - 1) % (len(errors) + 1)
        if errors and scripts.is_collected(step):
            raise FailedError(errors[0])
        if again < len(errors):
            raise FailedError(errors[again])

    def ends(self, args: Mapping[str, Any]) -> None:
        """Record that a tool call has ended."""
        with self.lock:
            self.ran[scripts.key(args)] += 1

    def is_first(self, args: Mapping[str, Any]) -> bool:
        """Record that a tool call may fail, and return whether it is to."""
        with self.lock:
            self.tried[scripts.key(args)] += 1
            return self.tried[scripts.key(args)] % 2 == 1


def rendered(messages: Sequence[BaseMessage]) -> list[specs.Rendered]:
    """Return messages as plain values."""
    return [(message.type, str(message.text), message.name, *_more(message)) for message in messages]


def steps(path: ag.RunPath) -> specs.Path:
    """Return a run path as plain values."""
    return tuple((step.agent_name, step.iteration) for step in path)


def _more(message: BaseMessage) -> tuple[Any, ...]:
    match message:
        case ToolMessage():
            return message.tool_call_id, message.status
        case AIMessage(tool_calls=[_, *_] as calls):
            return (tuple((call["name"], json.dumps(call["args"]), call["id"]) for call in calls),)
    return ()


def _message(said: specs.Rendered) -> AIMessage:
    calls = [{"name": name, "args": json.loads(args), "id": at} for name, args, at in sum(said[3:], ())]
    return AIMessage(said[1], tool_calls=calls)


def _sight(ctx: ag.Context, messages: Sequence[BaseMessage] | None = None) -> specs.Sight:
    answer = (ctx.answer,) if ctx.answered else ()
    path, seen = steps(ctx.run_path), rendered(ctx.messages if messages is None else messages)
    item = (ctx.item.number, ctx.item.key, ctx.item.value) if ctx.item else ()
    return specs.Sight(path, ctx.iteration, seen, dict(ctx.values), answer, item)
