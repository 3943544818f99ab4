"""Signals, and what the return annotation of a function allows of them."""

import functools
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
)
from dataclasses import FrozenInstanceError, dataclass
from typing import Annotated, Any, Optional, Union

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentgraph import Ask, BreakLoop, Custom, Exit, SetValues, TransferTo
from agentgraph.agents.functions import allowed, is_async, yields
from agentgraph.agents.signals import EVERYTHING, Capabilities

ALL = "proceed exit break_loop transfer ask"


def may(fn: Any) -> str:
    """Return the capabilities of a function, in words."""
    capabilities = allowed(fn)
    return " ".join(name for name in Capabilities.__slots__ if getattr(capabilities, name))


def annotated(annotation: object) -> Any:
    """Return a function with this return annotation."""

    def fn(ctx):
        return None

    fn.__annotations__ = {"return": annotation}
    return fn


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (str, "proceed"),
        (None, "proceed"),
        (AIMessage, "proceed"),
        (BaseMessage | str | None, "proceed"),
        (SetValues | Custom, "proceed"),
        (Exit, "exit"),
        (BreakLoop, "break_loop"),
        (Ask, "ask"),
        (TransferTo, "transfer"),
        (Exit | BreakLoop | Ask, "exit break_loop ask"),
        (str | Exit, "proceed exit"),
        (BreakLoop | None, "proceed break_loop"),
        (Optional[Exit], "proceed exit"),  # noqa: UP045
        (Union[str, Union[Exit, None]], "proceed exit"),  # noqa: UP007
        (Annotated[str | Exit, "a note"], "proceed exit"),
        (str | Exit | BreakLoop | TransferTo | Ask, ALL),
        # what a generator yields; it may also end without it
        (Iterator[str], "proceed"),
        (Iterable[str | Exit], "proceed exit"),
        (Iterator[Optional[BreakLoop]], "proceed break_loop"),  # noqa: UP045
        (Generator[str | Ask], "proceed ask"),
        (AsyncIterator[str | Exit], "proceed exit"),
        (AsyncIterable[str | BreakLoop], "proceed break_loop"),
        (AsyncGenerator[str | Ask, None], "proceed ask"),
        (typing.Iterator[str | Exit], "proceed exit"),
        (typing.AsyncGenerator[Union[str, Ask], None], "proceed ask"),  # noqa: UP007
        (Iterator[str | Exit] | None, "proceed exit"),
        (Iterator[Exit], "proceed exit"),
        (Generator[Ask], "proceed ask"),
        # what a generator returns
        (Generator[str, None, Exit | None], "proceed exit"),
        # what is awaited
        (Awaitable[str | Exit], "proceed exit"),
        (Coroutine[Any, Any, str | Ask], "proceed ask"),
        (Awaitable[Exit], "exit"),
        (Awaitable[list[str | Exit]], "proceed exit"),
        # what is in a list
        (list[ToolMessage | BreakLoop | SetValues], "proceed break_loop"),
        (list[Exit], "proceed exit"),
        (str | list[TransferTo | Custom], "proceed transfer"),
        (tuple[str, Exit], "proceed exit"),
        (list[list[int]], "proceed"),
        (dict[str, Exit], "proceed"),
        # annotations that say nothing
        *((each, ALL) for each in (Any, object, str | Any, list, list[Any], Iterator, Iterator[Any])),
        *((each, ALL) for each in (Generator, AsyncIterator, AsyncIterator[Any], Awaitable)),
        *((each, ALL) for each in (typing.Iterator, typing.AsyncGenerator)),
        *((each, ALL) for each in ("NoSuchName", "Iterator[NoSuchName]", "str |")),
    ],
)
def test_a_function_may_do_what_its_return_annotation_names(annotation: Any, words: str) -> None:
    assert may(annotated(annotation)) == words


def inside(ctx) -> str | Exit:
    return "said"


async def awaited(ctx) -> str | Exit:
    return "said"


def in_text(ctx: "Any") -> "Iterator[str | Ask]":
    yield "said"


@dataclass
class Speaker:
    words: int = 3

    def __call__(self, ctx) -> str | Exit:
        return "said"

    def speak(self, ctx) -> str | Ask:
        return "said"


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda ctx: "said", ALL),
        (awaited, "proceed exit"),
        (in_text, "proceed ask"),
        (Speaker(), "proceed exit"),
        (Speaker().speak, "proceed ask"),
        (functools.wraps(inside)(lambda *args: inside(*args)), "proceed exit"),
        (functools.partial(inside, ctx=None), "proceed exit"),
    ],
    ids=["no annotation", "async", "as text", "an object", "a method", "wrapped", "partial"],
)
def test_callables_of_every_kind_are_read_by_their_annotation(fn: Any, words: str) -> None:
    assert may(fn) == words


def test_everything_is_all_that_there_is() -> None:
    assert Capabilities(**dict.fromkeys(Capabilities.__slots__, True)) == EVERYTHING


class Kinds:
    def plain(self, ctx):
        return "said"

    def stream(self, ctx):
        yield "said"

    async def aplain(self, ctx):
        return "said"

    async def astream(self, ctx):
        yield "said"


@pytest.mark.parametrize("kind", ["plain", "stream", "aplain", "astream"])
def test_functions_differ_in_whether_they_wait_and_whether_they_stream(kind: str) -> None:
    method = getattr(Kinds(), kind)
    called = type("Called", (), {"__call__": getattr(Kinds, kind)})()
    for fn in (method, functools.partial(method), called):
        assert (is_async(fn), yields(fn)) == (kind.startswith("a"), kind.endswith("stream"))


def test_a_function_streams_if_the_one_inside_does_or_its_annotation_says_so() -> None:
    stream = Kinds().stream
    assert yields(functools.wraps(stream)(lambda ctx: stream(ctx)))
    assert yields(annotated(Iterator[str | Ask]))
    assert yields(annotated(AsyncIterator[str] | None))
    assert not yields(annotated(list[str]))


def test_signals_show_as_they_are_written_and_are_equal_by_value() -> None:
    texts = [
        "Exit()",
        "BreakLoop()",
        "TransferTo(agent_name='writer')",
        "Ask(value='ok?', response_schema=<class 'bool'>)",
        "Ask(value='ok?', response_schema=None)",
        "Custom(data={'done': 3})",
        "SetValues(topic='bees', n=2)",
        "SetValues()",
    ]
    signals = [eval(text.replace("<class 'bool'>", "bool")) for text in texts]
    again = [eval(text.replace("<class 'bool'>", "bool")) for text in texts]
    assert [repr(signal) for signal in signals] == texts
    for number, signal in enumerate(signals):
        assert [signal == each for each in again] == [number == n for n in range(len(again))]
    assert SetValues(a=1, b=2) == SetValues(b=2, a=1)
    assert Ask("ok?") == signals[4]


@pytest.mark.parametrize(
    ("signal", "attribute"), [(Ask("ok?"), "value"), (Custom(1), "data"), (Capabilities(), "exit")]
)
def test_signals_cannot_be_changed(signal: Any, attribute: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(signal, attribute, "other")


@pytest.mark.parametrize("name", ["topic", "values", "self", "größe"])
def test_a_value_of_any_name_can_be_set(name: str) -> None:
    assert SetValues(**{name: 1}).values == {name: 1}
