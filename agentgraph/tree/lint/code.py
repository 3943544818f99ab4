"""The values that users' functions read and write, by their source.

Only what the source says is known. A function that hands its context on to code that cannot be read, or
that names a value by an unknown expression, counts as one that reads and writes everything.
"""

import ast
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from types import FunctionType, MethodType
from typing import Any, Literal, get_origin, get_type_hints

from agentgraph.agents.context import Context
from agentgraph.agents.signals import BreakLoop, Exit, SetValues, TransferTo
from agentgraph.tree.lint.constants import dict_keys, texts
from agentgraph.tree.lint.results import returns_of
from agentgraph.tree.lint.source import Source, called_with, source_of

Certainty = Literal["always", "sometimes", "optional"]
"""Whether a function reads a value on each call, on some, or copes without it."""
_RANK: tuple[Certainty, ...] = ("optional", "always", "sometimes")
"""The certainties: the first of several reads of one name wins."""
_MOST_CALLS = 6
"""Maximum depth of calls that are followed."""
_COUNTERS = ("iteration", "answered", "asked", "answer", "address", "run_path", "entries")
"""The parts of a context by which a function may tell how far the run is."""
_MOST_ITEMS = 100
"""Maximum number of items of a collection that are looked at."""
_COLLECTIONS = (list, tuple, dict, set, frozenset)
_ENDS = {Exit: "exit", BreakLoop: "break_loop", TransferTo: "transfer"}


@dataclass
class Code:
    """The effects of a function.

    Attributes:
        reads: The values that it reads.
        writes: The values that it may write.
        reads_all: Whether it may read any value.
        writes_all: Whether it may write any value.
        is_known: Whether its source is known.
        counts: Whether it may tell how far the run is, such as by the iteration.
        signals: The words of the signals that it names: "exit", "break_loop" and "transfer".
        targets: The agents to which it transfers.
        targets_all: Whether it may transfer to any agent.
        runs: The names of the agents that it runs.
        runs_all: Whether it may run any agent.
        proceeds: Whether it may return something else than a signal.
    """

    reads: dict[str, Certainty] = field(default_factory=dict)
    writes: set[str] = field(default_factory=set)
    reads_all: bool = False
    writes_all: bool = False
    is_known: bool = True
    counts: bool = False
    signals: set[str] = field(default_factory=set)
    targets: set[str] = field(default_factory=set)
    targets_all: bool = False
    runs: set[str] = field(default_factory=set)
    runs_all: bool = False
    proceeds: bool = True

    def read(self, name: str, certainty: Certainty) -> None:
        """Add a read of a value."""
        before = self.reads.get(name, certainty)
        self.reads[name] = min(before, certainty, key=_RANK.index)

    def add(self, other: "Code", *, is_certain: bool) -> None:
        """Add the effects of a function that is called."""
        for name, certainty in other.reads.items():
            is_maybe = certainty == "always" and not is_certain
            self.read(name, "sometimes" if is_maybe else certainty)
        for name in ("writes", "signals", "targets", "runs"):
            getattr(self, name).update(getattr(other, name))
        for name in ("reads_all", "writes_all", "counts", "targets_all", "runs_all"):
            setattr(self, name, getattr(self, name) or getattr(other, name))
        self.is_known = self.is_known and other.is_known


def unknown() -> Code:
    """Return the effects of a function that cannot be read."""
    code = Code(is_known=False, signals={*_ENDS.values()})
    code.reads_all = code.writes_all = code.counts = code.targets_all = code.runs_all = True
    return code


def code_of(fn: object, *, takes_context: bool = True, takes_reply: bool = False) -> Code:
    """Return the effects of a user's function.

    Args:
        fn: The function, or an object that is called.
        takes_context: Whether its first argument is a `Context`; if not, only annotated parameters are.
        takes_reply: Whether its first argument is a `Reply`, which has values too.
    """
    source = source_of(fn)
    if source is None:
        return unknown()
    parameters = _Parameters(source, takes_context=takes_context)
    if takes_reply:
        parameters.runtimes = {each.arg for each in source.parameters[:1]}
    reader = _Reader(source, parameters.contexts, parameters, ())
    reader.code.proceeds = not _always_signals(source)
    for name in parameters.fields:
        reader.code.read(name, "always")
    if not (takes_reply or parameters.give_values):  # its `values` are other ones
        reader.code.reads.clear()
        reader.code.reads_all = False
    return reader.code


class _Parameters:
    """The parameters of a function that provide the values of a run.

    Attributes:
        contexts: The names of those that get a `Context`.
        states: The names of those in which LangGraph injects the whole state.
        runtimes: The names of those that get LangGraph's `ToolRuntime`.
        fields: The names of the values that LangGraph injects.
    """

    def __init__(self, source: Source, *, takes_context: bool) -> None:
        self.contexts = {each.arg for each in source.parameters[:1]} if takes_context else set[str]()
        self.states, self.runtimes, self.fields = set[str](), set[str](), set[str]()
        for name, hint in _hints(source.function).items():
            kind = get_origin(hint) or hint
            if isinstance(kind, type) and issubclass(kind, Context):
                self.contexts.add(name)
            if getattr(kind, "__name__", "") == "ToolRuntime":
                self.runtimes.add(name)
            for each in getattr(hint, "__metadata__", ()):
                if getattr(each, "__name__", type(each).__name__) == "InjectedState":
                    injected = getattr(each, "field", None)
                    self.fields.update([injected] if isinstance(injected, str) else [])
                    self.states.update([] if isinstance(injected, str) else [name])

    @property
    def give_values(self) -> bool:
        """Whether any of them provides values of the run."""
        return bool(self.contexts or self.states or self.runtimes or self.fields)


def _hints(function: FunctionType) -> dict[str, Any]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception:  # an annotation that cannot be resolved
        hints = {**getattr(function, "__annotations__", {})}
    return {name: hint for name, hint in hints.items() if name != "return"}


class _Reader:
    """Collects the effects of one function; its statements are visited in their order."""

    def __init__(
        self,
        source: Source,
        contexts: set[str],
        parameters: _Parameters | None = None,
        around: tuple[object, ...] = (),
    ) -> None:
        self.source, self.contexts = source, contexts
        self.states = parameters.states if parameters else set[str]()
        self.runtimes = parameters.runtimes if parameters else set[str]()
        self.around = (*around, source.function.__code__)
        self.code = Code()
        self.values: set[str] = set()
        self._find_aliases()
        self.block(source.body, is_certain=True)

    def _find_aliases(self) -> None:
        for name, several in self.source.assigned.items():
            if any(self.is_context(each) for each in several):
                self.contexts = {*self.contexts, name}
            if any(self._is_values_attribute(each) for each in several):
                self.values.add(name)

    def is_context(self, node: ast.expr) -> bool:
        """Return whether an expression is a context."""
        return isinstance(node, ast.Name) and node.id in self.contexts

    def _is_given(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in {*self.contexts, *self.runtimes}

    def _is_values_attribute(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Attribute):
            return False
        of_runtime = isinstance(node.value, ast.Name) and node.value.id in self.runtimes
        return node.attr == "values" or (node.attr == "state" and of_runtime)

    def is_values(self, node: ast.AST) -> bool:
        """Return whether an expression is the values of a run, or may be."""
        is_alias = isinstance(node, ast.Name) and node.id in (*self.values, *self.states)
        return is_alias or self._is_values_attribute(node)

    def _are_of_run(self, node: ast.expr) -> bool:
        """Return whether values are those of the context, and not of a reply."""
        return self._is_given(node.value) if isinstance(node, ast.Attribute) else True

    def block(self, statements: list[ast.stmt], *, is_certain: bool) -> None:
        """Visit statements in their order; after one that may leave the function, none is certain."""
        for each in statements:
            self.visit(each, is_certain)
            is_certain = is_certain and not (_branches(each) and _may_leave(each))

    def visit(self, node: ast.AST, is_certain: bool) -> None:
        """Visit a part of the function."""
        if self._visit_statement(node, is_certain) or self._visit_access(node, is_certain):
            return
        match node:
            case ast.Call():
                self._call(node, is_certain)
            case ast.Name() | ast.Attribute():
                self._named(node, is_certain)
            case ast.IfExp(test=test):
                self.visit(test, is_certain)
                self._each((node.body, node.orelse), is_certain=False)
            case ast.BoolOp(values=[first, *rest]):
                self.visit(first, is_certain)
                self._each(rest, is_certain=False)
            case ast.Lambda(body=body):
                self.visit(body, False)
            case ast.GeneratorExp() | ast.ListComp() | ast.SetComp() | ast.DictComp():
                first_items = node.generators[0].iter
                self.visit(first_items, is_certain)
                self._each(_without(node, first_items), is_certain=False)
            case _:
                self._each(ast.iter_child_nodes(node), is_certain=is_certain)

    def _each(self, nodes: Iterable[ast.AST], *, is_certain: bool) -> None:
        for each in nodes:
            self.visit(each, is_certain)

    def _visit_statement(self, node: ast.AST, is_certain: bool) -> bool:
        match node:
            case (
                ast.If(test=test, body=body, orelse=rest) | ast.While(test=test, body=body, orelse=rest)
            ):
                self.visit(test, is_certain)
                self.block([*body], is_certain=False)
                self.block([*rest], is_certain=False)
            case ast.For() | ast.AsyncFor():
                self.visit(node.iter, is_certain)
                self.block([*node.body, *node.orelse], is_certain=False)
            case ast.With() | ast.AsyncWith():
                self._each([each.context_expr for each in node.items], is_certain=is_certain)
                self.block(node.body, is_certain=is_certain)
            case ast.Try() if node.handlers:
                self._guarded(node.body)
                rest = [line for each in node.handlers for line in each.body]
                self.block([*rest, *node.orelse, *node.finalbody], is_certain=False)
            case ast.Match():
                self.visit(node.subject, is_certain)
                for case in node.cases:
                    self.block(case.body, is_certain=False)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.block(node.body, is_certain=False)
            case ast.AnnAssign(value=value):
                self._each([value] if value else [], is_certain=is_certain)
            case ast.Assign(targets=[ast.Name()], value=value) if self._is_alias(value):
                pass
            case ast.NamedExpr(value=value) if self._is_alias(value):
                pass
            case _:
                return False
        return True

    def _is_alias(self, value: ast.expr) -> bool:
        return self.is_context(value) or self._is_values_attribute(value)

    def _guarded(self, body: list[ast.stmt]) -> None:
        """Visit statements whose errors are handled: a missing value is none."""
        code, self.code = self.code, Code()
        self.block(body, is_certain=False)
        for name in self.code.reads:
            self.code.read(name, "optional")
        code.add(self.code, is_certain=False)
        self.code = code

    def _visit_access(self, node: ast.AST, is_certain: bool) -> bool:
        """Visit an access to the values of the run; return whether it is one."""
        certainty: Certainty = "always" if is_certain else "sometimes"
        match node:
            case ast.Subscript(value=values, slice=key) if self.is_values(values):
                self._read(key, certainty if self._are_of_run(values) else "optional")
            case ast.Call(func=ast.Attribute(value=values, attr="get"), args=[key, *rest]) if (
                self.is_values(values)
            ):
                self._read(key, "optional")
                self._each(rest, is_certain=is_certain)
            case ast.Call(func=ast.Attribute(attr="values") as method, args=[]):
                self.visit(method.value, is_certain)  # a method of a dict
            case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[values]) if (
                self.is_values(values)
            ):
                self._read(key, "optional")
            case _:
                return False
        return True

    def _read(self, key: ast.expr, certainty: Certainty) -> None:
        names = texts(self.source, key)
        if names is None:
            if not isinstance(key, ast.Constant | ast.Slice | ast.UnaryOp):  # an index of a sequence
                self.code.reads_all = True
                self.visit(key, False)
            return
        for name in names:
            self.code.read(
                name, certainty if len(names) == 1 or certainty == "optional" else "sometimes"
            )

    def _named(self, node: ast.Name | ast.Attribute, is_certain: bool) -> None:
        if self.is_context(node):
            self._escapes()
        elif self.is_values(node) or (isinstance(node, ast.Name) and node.id in self.runtimes):
            self.code.reads_all = True
        elif isinstance(node, ast.Attribute) and self._is_given(node.value):
            self.code.counts = self.code.counts or node.attr in _COUNTERS
        else:
            self._signal(self.source.resolved(node))
            if isinstance(node, ast.Attribute):
                self.visit(node.value, is_certain)

    def _escapes(self) -> None:
        self.code.add(unknown(), is_certain=False)

    def _signal(self, thing: object) -> None:
        """Note what a name means: a signal, its class, or a collection of signals."""
        if type(thing) in _COLLECTIONS:
            items = thing.values() if isinstance(thing, dict) else thing
            for each in islice(items, _MOST_ITEMS):  # type: ignore[call-overload]
                self._signal(each)
        for kind, word in _ENDS.items():
            if thing is kind or type(thing) is kind:
                self.code.signals.add(word)
        if type(thing) is SetValues:
            self.code.writes.update(thing.values)
        if type(thing) is TransferTo:
            self.code.targets.add(str(thing.agent_name))
        if thing is SetValues or thing is TransferTo:  # it is called elsewhere
            self.code.writes_all = self.code.writes_all or thing is SetValues
            self.code.targets_all = self.code.targets_all or thing is TransferTo

    def _call(self, call: ast.Call, is_certain: bool) -> None:
        called = self.source.resolved(call.func)
        if called is SetValues:
            self._set_values(call.keywords)
        elif called is TransferTo:
            self.code.signals.add("transfer")
            targets = [texts(self.source, each) for each in [*call.args, *_values_of(call.keywords)]]
            self.code.targets_all = self.code.targets_all or not targets or None in targets
            self.code.targets.update(name for each in targets for name in each or ())
        elif getattr(called, "__name__", None) == "Command":
            self._command(call, is_certain)
            return
        elif isinstance(call.func, ast.Attribute) and self.is_context(call.func.value):
            self._method(call, call.func.attr)
        else:
            self._function(call, called, is_certain)
            return
        self._each([*call.args, *_values_of(call.keywords)], is_certain=is_certain)

    def _method(self, call: ast.Call, name: str) -> None:
        self.code.counts = self.code.counts or name in _COUNTERS
        if name == "run":
            names = texts(self.source, call.args[0]) if call.args else None
            self.code.runs.update(names or ())
            self.code.runs_all = self.code.runs_all or names is None

    def _set_values(self, keywords: list[ast.keyword]) -> None:
        for each in keywords:
            names = {each.arg} if each.arg is not None else dict_keys(self.source, each.value)
            self.code.writes_all = self.code.writes_all or names is None
            self.code.writes.update(names or ())

    def _command(self, call: ast.Call, is_certain: bool) -> None:
        """Visit a `Command` of LangGraph: its update writes values."""
        for each in call.keywords:
            if each.arg == "update":
                names = dict_keys(self.source, each.value)
                self.code.writes_all = self.code.writes_all or names is None or "values" in names
                self.code.writes.update((names or set()) - {"messages", "values"})
            elif each.arg in ("goto", "graph"):
                self.code.targets_all = True
                self.code.signals.add("transfer")
            self.visit(each.value, is_certain)
        self.code.writes_all = self.code.writes_all or bool(call.args)

    def _function(self, call: ast.Call, called: Any, is_certain: bool) -> None:
        """Visit a call of another function, and follow it if its source is known."""
        arguments = [*call.args, *_values_of(call.keywords)]
        takes_context = any(self.is_context(each) for each in arguments)
        takes_values = any(self.is_values(each) for each in arguments)
        if takes_values:
            self.code.reads_all = True
        self._each([each for each in arguments if not self._is_alias(each)], is_certain=is_certain)
        self.visit(call.func, is_certain)
        function: Any = called.__func__ if isinstance(called, MethodType) else called
        is_function = isinstance(function, FunctionType)
        if is_function and function.__code__ in self.around:
            return  # its effects are those that are being collected
        is_followed = is_function and (takes_context or not _is_of_library(function))
        source = source_of(called) if is_followed and len(self.around) < _MOST_CALLS else None
        contexts = None if source is None else called_with(source, call, self.is_context)
        if source is not None and contexts is not None:
            inner = _Reader(source, contexts, around=self.around)
            self.code.add(inner.code, is_certain=is_certain)
        elif takes_context or is_followed or isinstance(call.func, ast.Subscript | ast.Call):
            self._escapes()


@cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(paths[each] for each in ("stdlib", "platstdlib", "purelib", "platlib"))


def _is_of_library(function: FunctionType) -> bool:
    """Return whether a function is of an installed package, whose functions return no signals."""
    file = function.__code__.co_filename
    return _is_ours(function) or file.startswith(("<frozen", *_library_folders()))


def _is_ours(function: FunctionType) -> bool:
    return str(function.__module__).partition(".")[0] == __name__.partition(".")[0]


def _values_of(keywords: list[ast.keyword]) -> list[ast.expr]:
    return [each.value for each in keywords]


def _branches(statement: ast.stmt) -> bool:
    kinds = ast.If | ast.For | ast.AsyncFor | ast.While | ast.Try | ast.Match | ast.With | ast.AsyncWith
    return isinstance(statement, kinds)


def _may_leave(statement: ast.stmt) -> bool:
    inside = ast.walk(statement)
    return any(isinstance(each, ast.Return | ast.Raise | ast.Break | ast.Continue) for each in inside)


def _always_signals(source: Source) -> bool:
    """Return whether a function returns signals alone, which end its agent."""
    returns = returns_of(source)
    return returns is not None and all(
        each is not None and _is_signal(source, each) for each in returns
    )


def _is_signal(source: Source, node: ast.expr) -> bool:
    if isinstance(node, ast.List | ast.Tuple):
        return any(_is_signal(source, each) for each in node.elts)
    if isinstance(node, ast.IfExp):
        return _is_signal(source, node.body) and _is_signal(source, node.orelse)
    thing = source.resolved(node.func if isinstance(node, ast.Call) else node)
    is_class = isinstance(node, ast.Call) and thing in (*_ENDS,)
    return is_class or type(thing) in _ENDS


def _without(node: ast.AST, part: ast.AST) -> list[ast.AST]:
    """Return the parts of a comprehension, without its first iterable."""
    parts: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.comprehension):
            parts += [each for each in (child.iter, *child.ifs) if each is not part]
        else:
            parts.append(child)
    return parts
