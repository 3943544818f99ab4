"""Docstrings are right and whole: examples give what they show, nothing is left out."""

import ast
import builtins
import doctest
import importlib
import inspect
import pkgutil
import re
import textwrap
import typing
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import pytest

import agentgraph
from agentgraph import AgentGraphError, agui, testing
from agentgraph.agents.agents import AgentTool, Step
from agentgraph.agents.budgets import Summarized, Trimmed
from agentgraph.show import drawing, lines

MODULES = [
    info.name
    for info in pkgutil.walk_packages(agentgraph.__path__, "agentgraph.")
    if not info.name.endswith("__main__")
]
SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):$", re.MULTILINE)
ENTRY = re.compile(r"^    (\*{0,2}\w+): \S", re.MULTILINE)
OPTIONS_OF = re.compile(
    r"^(?:Its fields are the|The other options are) (?:those|options) of `(\w+)`", re.MULTILINE
)
TWIN = re.compile(r"\bas `(\w+)` does\b")
OF_THE_PACKAGE = {name: getattr(agentgraph, name) for name in dir(agentgraph)}
STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_give_what_they_show(name: str) -> None:
    module = importlib.import_module(name)
    names = {**OF_THE_PACKAGE, **vars(module)}
    assert doctest.testmod(module, extraglobs=names).failed == 0


def the_public() -> Iterator[tuple[str, Any]]:
    """Yield what users import: all in `agentgraph`, and in the modules that are public as such."""
    for name in agentgraph.__all__:
        thing = getattr(agentgraph, name)
        members = [each for each in typing.get_args(thing) if inspect.isclass(each)]
        yield from [(each.__name__, each) for each in members] or [(name, thing)]
    for given in (AgentTool, Step, Summarized, Trimmed):
        yield given.__name__, given
    for name in agui.__all__:
        yield name, getattr(agui, name)
    for module in (testing, drawing, lines):
        for name, thing in vars(module).items():
            if getattr(thing, "__module__", "") == module.__name__ and not name.startswith("_"):
                yield name, thing


def members_of(name: str, cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the methods and properties of a class; a constructor with a docstring is for users."""
    for key, found in vars(cls).items():
        member = getattr(found, "__func__", found)
        if inspect.isfunction(member) and member.__module__ != cls.__module__:
            continue  # pydantic has added it
        if (key in ("__init__", "__new__") and member.__doc__) or not key.startswith("_"):
            yield f"{name}.{key}", member


CLASSES = {name: thing for name, thing in the_public() if inspect.isclass(thing)}
MEMBERS = dict(member for name, cls in CLASSES.items() for member in members_of(name, cls))
EVERYTHING = {**dict(the_public()), **MEMBERS}
FUNCTIONS = {name: thing for name, thing in EVERYTHING.items() if inspect.isfunction(thing)}
PROPERTIES = {
    name: each for name, each in MEMBERS.items() if isinstance(each, property | cached_property)
}
DOCUMENTED = {**CLASSES, **FUNCTIONS, **PROPERTIES}
OTHERS = [name for name in agentgraph.__all__ if name not in DOCUMENTED]
"""Constants and unions: their docstrings are in the source only."""


def test_the_public_things_are_found() -> None:
    assert {"ChatAgent", "Runner", "Step", "ScriptedChatModel", "UnknownThreadError"} <= set(CLASSES)
    assert {"chat_agent", "Runner.__init__", "AgentEvent.from_dict", "mermaid"} <= set(FUNCTIONS)
    assert {"AgentEvent.text", "Context.entries", "ScriptedChatModel.inputs"} <= set(PROPERTIES)
    assert OTHERS == ["DELETE", "LOCAL", "SKIP", "STREAM_MODES"]


@pytest.mark.parametrize("name", [*DOCUMENTED, *OTHERS])
def test_a_docstring_begins_with_a_sentence(name: str) -> None:
    if name in DOCUMENTED:
        text = doc_of(DOCUMENTED[name])
    else:
        (text,) = [each[name].replace("\n", " ") for each in assigned() if name in each]
    assert [*sentence_faults(text)] == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_describes_its_parameters_its_result_and_its_errors(name: str) -> None:
    assert [*function_faults(FUNCTIONS[name], twin_of(name))] == []


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_describes_its_attributes(name: str) -> None:
    assert [*class_faults(CLASSES[name])] == []


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) & set(agentgraph.__all__)))
def test_a_function_of_the_namespace_shows_an_example(name: str) -> None:
    text = doc_of(FUNCTIONS[name]) + doc_of(twin_of(name))
    assert ">>> " in text or "```" in text


def doc_of(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "")


def sections(text: str) -> dict[str, str]:
    _, *rest = SECTION.split(text)
    return dict(zip(rest[::2], rest[1::2], strict=True))


def entries(text: str, section: str) -> list[str]:
    return ENTRY.findall(sections(text).get(section, ""))


def twin_of(name: str) -> Callable[..., Any] | None:
    """Return the function that a docstring refers to, in the same class: as `run` does."""
    named = TWIN.search(doc_of(FUNCTIONS[name]))
    return named and FUNCTIONS[".".join([*name.split(".")[:-1], named[1]])]


def described_by_builder(thing: Any) -> list[str]:
    """Return the options that a docstring leaves to a builder, those of the builder's own included."""
    named = OPTIONS_OF.search(doc_of(thing))
    builder = named and FUNCTIONS[named[1]]
    return [*entries(doc_of(builder), "Args"), *described_by_builder(builder)] if builder else []


def sentence_faults(text: str) -> Iterator[str]:
    first = text.partition("\n")[0]
    if not re.fullmatch(r"[A-Z`].*\.", first):
        yield f"{first!r} is not a sentence"


def function_faults(fn: Callable[..., Any], twin: Callable[..., Any] | None = None) -> Iterator[str]:
    text, elsewhere = doc_of(fn), doc_of(twin)
    parameters, there = parameters_of(fn), parameters_of(twin) if twin else []
    named, raised = entries(text, "Args"), entries(text, "Raises")
    known = [*named, *there, *described_by_builder(fn)]
    yield from (f"Args: lacks {each}" for each in parameters if each not in known)
    yield from (f"Args: {each} is not a parameter" for each in named if each not in parameters)
    gives = {"Returns", "Yields"} & {*sections(text), *sections(elsewhere)}
    if returns(fn) and not gives and not text.startswith(("Return ", "Yield ")):
        yield "it does not say what it returns"
    yield from (f"Raises: {each} is not an error" for each in raised if not is_error(fn, each))
    known = [*raised, *entries(elsewhere, "Raises")]
    yield from (f"Raises: lacks {each}" for each in own_errors(fn) if each not in known)


def class_faults(cls: type) -> Iterator[str]:
    own, named = attributes_in(source_of(cls).body[0]), entries(doc_of(cls), "Attributes")
    of_builder = described_by_builder(cls)
    for key, described in own.items():
        if described:
            yield from (f"{key}: {fault}" for fault in sentence_faults(described.replace("\n", " ")))
        elif key not in [*named, *of_builder]:
            yield f"Attributes: lacks {key}"
    yield from (f"Attributes: {each} is not there" for each in named if each not in own)


def parameters_of(fn: Callable[..., Any]) -> list[str]:
    given = [p for p in inspect.signature(fn).parameters.values() if p.name not in ("self", "cls")]
    return [STARS.get(each.kind, "") + each.name for each in given]


def returns(fn: Callable[..., Any]) -> bool:
    given = inspect.signature(fn).return_annotation
    return given not in (None, inspect.Signature.empty) and fn.__name__ != "__new__"


def is_error(fn: Callable[..., Any], name: str) -> bool:
    """Return whether a name is that of an error which the module of a function, or Python, knows."""
    known = {**vars(builtins), **OF_THE_PACKAGE, **fn.__globals__}.get(name)
    return inspect.isclass(known) and issubclass(known, Exception)


def own_errors(fn: Callable[..., Any]) -> Iterator[str]:
    """Yield the errors of ours that the body of a function itself raises."""
    for node in ast.walk(source_of(fn)):
        match node:
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name))):
                known = fn.__globals__.get(name)
                if inspect.isclass(known) and issubclass(known, AgentGraphError):
                    yield name


def attributes_in(source: Any) -> dict[str, str]:
    """Return what a module or a class assigns, or its constructor sets, with the docstrings there."""
    found: dict[str, str] = {}
    for node, after in pairwise([*source.body, ast.Pass()]):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                found[name] = inspect.cleandoc(str(after.value.value)) if is_text else ""
            case ast.FunctionDef(name="__init__"):
                found.update(dict.fromkeys(set_in(node), ""))
    return {name: text for name, text in found.items() if not name.startswith("_")}


@cache
def assigned() -> list[dict[str, str]]:
    """Return what each module assigns, with the docstrings there."""
    return [attributes_in(source_of(importlib.import_module(each))) for each in MODULES]


def set_in(constructor: ast.AST) -> Iterator[str]:
    for node in ast.walk(constructor):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def source_of(thing: Any) -> Any:
    return ast.parse(textwrap.dedent(inspect.getsource(thing)))


def a_faulty_function(topic: str, *, loud: bool = False) -> str:
    """says a topic

    Args:
        subject: What is said.

    Raises:
        TopicError: There is no such error.
    """
    if not topic:
        raise AgentGraphError("there is no topic")
    return topic.upper() if loud else topic


class AFaultyClass:
    """What has two attributes.

    Attributes:
        loudness: How loud it is.
    """

    topic: str

    def __init__(self) -> None:
        self.loud = False


def test_what_a_docstring_lacks_is_named() -> None:
    assert [*sentence_faults(doc_of(a_faulty_function)), *function_faults(a_faulty_function)] == [
        "'says a topic' is not a sentence",
        "Args: lacks topic",
        "Args: lacks loud",
        "Args: subject is not a parameter",
        "it does not say what it returns",
        "Raises: TopicError is not an error",
        "Raises: lacks AgentGraphError",
    ]
    assert list(class_faults(AFaultyClass)) == [
        "Attributes: lacks topic",
        "Attributes: lacks loud",
        "Attributes: loudness is not there",
    ]
