"""Signals, and what a return annotation allows of them."""

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

StrOrExit = str | Exit


def annotated(annotation: object):
    """Return a function with this return annotation."""

    def fn(ctx):
        return None

    fn.__annotations__ = {"return": annotation}
    return fn


@pytest.mark.parametrize(
    ("annotation", "capabilities"),
    [
        (str, Capabilities()),
        (None, Capabilities()),
        (AIMessage, Capabilities()),
        (BaseMessage | str | None, Capabilities()),
        (Custom, Capabilities()),
        (SetValues | Custom, Capabilities()),
        (Exit, Capabilities(go_on=False, exit=True)),
        (BreakLoop, Capabilities(go_on=False, break_loop=True)),
        (Ask, Capabilities(go_on=False, ask=True)),
        (Exit | BreakLoop, Capabilities(go_on=False, exit=True, break_loop=True)),
        (Exit | BreakLoop | Ask, Capabilities(go_on=False, exit=True, break_loop=True, ask=True)),
        (str | Exit, Capabilities(exit=True)),
        (BreakLoop | None, Capabilities(break_loop=True)),
        (Optional[Exit], Capabilities(exit=True)),  # noqa: UP045
        (Union[str, Ask], Capabilities(ask=True)),  # noqa: UP007
        (Union[str, Union[Exit, None]], Capabilities(exit=True)),  # noqa: UP007
        (Annotated[str | Exit, "a note"], Capabilities(exit=True)),
        (StrOrExit, Capabilities(exit=True)),
        (str | Exit | BreakLoop | TransferTo | Ask, EVERYTHING),
    ],
)
def test_a_function_may_do_what_its_annotation_names(annotation, capabilities):
    assert allowed(annotated(annotation)) == capabilities


@pytest.mark.parametrize(
    ("annotation", "capabilities"),
    [
        (Iterator[str], Capabilities()),
        (Iterable[str | Exit], Capabilities(exit=True)),
        (Iterator[str | Ask], Capabilities(ask=True)),
        (Iterator[Optional[BreakLoop]], Capabilities(break_loop=True)),  # noqa: UP045
        (Generator[str | Exit, None, None], Capabilities(exit=True)),
        (Generator[str | Ask], Capabilities(ask=True)),
        (AsyncIterator[str | Exit], Capabilities(exit=True)),
        (AsyncIterable[str | BreakLoop], Capabilities(break_loop=True)),
        (AsyncGenerator[str | Ask, None], Capabilities(ask=True)),
        (typing.Iterator[str | Exit], Capabilities(exit=True)),
        (typing.AsyncGenerator[Union[str, Ask], None], Capabilities(ask=True)),  # noqa: UP007
        (Iterator[str | Exit] | None, Capabilities(exit=True)),
    ],
)
def test_a_generator_may_do_what_it_yields(annotation, capabilities):
    assert allowed(annotated(annotation)) == capabilities


@pytest.mark.parametrize("annotation", [Generator[str, None, Exit], Generator[str, None, Exit | None]])
def test_a_generator_may_do_what_it_returns(annotation):
    assert allowed(annotated(annotation)).exit


@pytest.mark.parametrize("annotation", [Iterator[Exit], AsyncIterator[BreakLoop], Generator[Ask]])
def test_a_generator_may_end_without_a_signal_though_it_yields_nothing_else(annotation):
    assert allowed(annotated(annotation)).go_on


@pytest.mark.parametrize(
    ("annotation", "capabilities"),
    [
        (Awaitable[str | Exit], Capabilities(exit=True)),
        (Coroutine[Any, Any, str | Ask], Capabilities(ask=True)),
        (Awaitable[Exit], Capabilities(go_on=False, exit=True)),
    ],
)
def test_a_function_that_returns_an_awaitable_may_do_what_that_gives(annotation, capabilities):
    assert allowed(annotated(annotation)) == capabilities


@pytest.mark.parametrize(
    "annotation",
    [
        Any,
        object,
        str | Any,
        Iterator[Any],
        AsyncIterator[Any],
        Iterator,
        Generator,
        AsyncIterator,
        typing.Iterator,
        typing.AsyncGenerator,
        "NoSuchName",
        "Iterator[NoSuchName]",
        "str |",
    ],
)
def test_an_annotation_that_says_nothing_allows_everything(annotation):
    assert allowed(annotated(annotation)) == EVERYTHING


@pytest.mark.parametrize(
    ("annotation", "capabilities"),
    [
        (list[str], Capabilities()),
        (list[str | Exit], Capabilities(exit=True)),
        (list[ToolMessage | BreakLoop | SetValues], Capabilities(break_loop=True)),
        (list[Exit], Capabilities(exit=True)),
        (str | list[TransferTo | Custom], Capabilities(transfer=True)),
        (tuple[str, Exit], Capabilities(exit=True)),
        (list[list[int]], Capabilities()),
        (dict[str, Exit], Capabilities()),
        (list[Any], EVERYTHING),
        (list, EVERYTHING),
        (Awaitable[list[str | Exit]], Capabilities(exit=True)),
    ],
)
def test_a_function_and_a_tool_may_do_what_is_in_the_list_that_they_return(annotation, capabilities):
    assert allowed(annotated(annotation)) == capabilities


def test_a_function_without_annotation_may_do_everything():
    def fn(ctx):
        return None

    def half(ctx: Any, more: int = 0):
        return None

    assert allowed(fn) == allowed(half) == allowed(lambda ctx: "said") == EVERYTHING


def test_everything_is_all_that_there_is():
    assert Capabilities(go_on=True, exit=True, break_loop=True, transfer=True, ask=True) == EVERYTHING


def test_annotations_may_be_written_as_text():
    def fn(ctx: "Any") -> "str | Exit":
        return ""

    def stream(ctx) -> "Iterator[str | Ask]":
        yield ""

    assert allowed(fn) == Capabilities(exit=True)
    assert allowed(stream) == Capabilities(ask=True)


def test_an_async_function_is_read_as_a_plain_one():
    async def fn(ctx) -> str | Exit:
        return ""

    async def stream(ctx) -> AsyncIterator[str | BreakLoop]:
        yield ""

    assert allowed(fn) == Capabilities(exit=True)
    assert allowed(stream) == Capabilities(break_loop=True)


def test_a_callable_object_is_read_by_its_call():
    class Speaker:
        def __call__(self, ctx) -> str:
            return "said"

    class Anything:
        def __call__(self, ctx):
            return None

    assert allowed(Speaker()) == Capabilities()
    assert allowed(Anything()) == EVERYTHING


def test_a_callable_object_with_annotated_fields_is_read_by_its_call():
    @dataclass
    class Speaker:
        words: int

        def __call__(self, ctx) -> str | Exit:
            return "said"

    assert allowed(Speaker(words=3)) == Capabilities(exit=True)


def test_methods_are_read_as_functions():
    class Speaker:
        def bound(self, ctx) -> str | Ask:
            return "said"

        @classmethod
        def of_class(cls, ctx) -> str | Exit:
            return "said"

        @staticmethod
        def static(ctx) -> str:
            return "said"

    assert allowed(Speaker().bound) == Capabilities(ask=True)
    assert allowed(Speaker.of_class) == Capabilities(exit=True)
    assert allowed(Speaker.static) == Capabilities()


def test_a_wrapped_function_is_read_as_the_one_inside():
    def fn(ctx) -> str | Exit:
        return "said"

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    assert allowed(wrapper) == Capabilities(exit=True)


def test_a_partial_may_do_at_least_what_its_function_may():
    def fn(ctx, words: int) -> str | Exit:
        return "said"

    assert allowed(functools.partial(fn, words=3)) in (Capabilities(exit=True), EVERYTHING)


class Speaker:
    def plain(self, ctx):
        return "said"

    def stream(self, ctx):
        yield "said"

    async def aplain(self, ctx):
        return "said"

    async def astream(self, ctx):
        yield "said"


@pytest.mark.parametrize(
    ("kind", "waits", "streams"),
    [
        ("plain", False, False),
        ("stream", False, True),
        ("aplain", True, False),
        ("astream", True, True),
    ],
)
def test_functions_are_told_apart_by_whether_they_wait_and_whether_they_stream(kind, waits, streams):
    method = getattr(Speaker(), kind)
    called = type("Called", (), {"__call__": getattr(Speaker, kind)})()
    assert [(is_async(fn), yields(fn)) for fn in (method, functools.partial(method), called)] == [
        (waits, streams)
    ] * 3


def test_a_decorated_generator_streams_as_the_one_inside_does():
    def stream(ctx):
        yield "said"

    @functools.wraps(stream)
    def wrapper(ctx):
        return stream(ctx)

    assert yields(wrapper)


def test_a_function_that_says_that_it_hands_on_a_generator_streams():
    assert yields(annotated(Iterator[str | Ask]))
    assert yields(annotated(AsyncIterator[str]))


def test_signals_show_as_they_are_written():
    assert repr(Exit()) == "Exit()"
    assert repr(BreakLoop()) == "BreakLoop()"
    assert repr(Ask("ok?", bool)) == "Ask(value='ok?', response_schema=<class 'bool'>)"
    assert repr(Custom({"done": 3})) == "Custom(data={'done': 3})"
    assert repr(SetValues(topic="bees", n=2)) == "SetValues(topic='bees', n=2)"
    assert repr(SetValues()) == "SetValues()"


def test_signals_are_equal_by_value():
    assert Exit() == Exit()
    assert BreakLoop() == BreakLoop() != Exit()
    assert Ask("ok?") == Ask("ok?", None) != Ask("why?")
    assert Custom([1]) == Custom([1]) != Custom([2])
    assert SetValues(a=1, b=2) == SetValues(b=2, a=1) != SetValues(a=1)


@pytest.mark.parametrize(
    ("signal", "attribute"), [(Ask("ok?"), "value"), (Custom(1), "data"), (Capabilities(), "exit")]
)
def test_signals_cannot_be_changed(signal, attribute):
    with pytest.raises(FrozenInstanceError):
        setattr(signal, attribute, "other")


@pytest.mark.parametrize("name", ["topic", "values", "self", "größe"])
def test_a_value_of_any_name_can_be_set(name):
    assert SetValues(**{name: 1}).values == {name: 1}
