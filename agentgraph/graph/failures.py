"""Writes on an exception where it arose, and which questions were asked at the same time.

So it can be reported at its address when it leaves the graph, through whatever nodes and lanes.

A saver cannot save exceptions, so a failure is saved as plain data and rebuilt with its class, its
arguments and its attributes, which is what handlers look at. If its class is not loaded in this
process, no handler here can name it, and its nearest loaded base replaces it.
"""

import sys
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple, NoReturn, TypedDict

from agentgraph.agents.habits.values import note_on
from agentgraph.agents.schemas import plain
from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import error_text, shown_error

_KEY = "agentgraph_failures"
_ASKED = "agentgraph_asked"
_AT_BOUNDARY = "agentgraph_at_border"
_OF_RUN = "agentgraph_of_run"
_ANSWERS = "agentgraph_answers"
_AFTER_NAME = "/#[{("
"""The characters that may follow a name in an address."""


class Failure(NamedTuple):
    """Where an exception arose.

    Attributes:
        address: The address of the agent.
        shown: The text of the exception.
        step: The name of the step.
    """

    address: str
    shown: str
    step: str = ""


def mark_failure(error: BaseException, address: str, agent_name: str, step: str = "") -> BaseException:
    """Write on `error` where it arose, unless an agent inside this one did, and return it.

    Marks of another place are replaced: one exception may be raised again, by another agent or run, or
    by a compiled tree inside a graph agent, whose addresses mean nothing outside.

    Nothing is written on a `KeyboardInterrupt`. LangGraph adds notes to an exception and saves its
    `repr`. If an `Exception` does not allow that, an `AgentGraphError` is returned in its place, with
    the exception as its cause: else only the failure to add or save would be reported.
    """
    if _arose_inside(error, address, step) or isinstance(error, KeyboardInterrupt):
        return error
    _attributes_dict(error).pop(_AT_BOUNDARY, None)
    marked = error
    if isinstance(error, Exception) and not _can_travel(error):
        marked = _savable_error(error, address)
    _attributes_dict(marked)[_KEY] = [Failure(address, shown_error(marked), step)]
    add_note(marked, f"This happened in the agent {agent_name!r}, at {address}.")
    if (note := note_on(error)) is not None:
        add_note(marked, note)
    return marked


def _arose_inside(error: BaseException, address: str, step: str) -> bool:
    """Return whether the failures of `error` are of this step of an agent, or of agents inside it."""
    marks = failures(error)
    return bool(marks) and all(
        not step or each.step in ("", step)
        if each.address == address
        else is_within(each.address, address)
        for each in marks
    )


def is_within(address: str, outer: str) -> bool:
    """Return whether an address is inside another one, of which it may have more counters."""
    return address.startswith(outer) and address[len(outer)] in _AFTER_NAME


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an exception, also to one that takes no attributes."""
    _attributes_dict(error).setdefault("__notes__", []).append(note)


def mark_boundary(error: BaseException) -> None:
    """Write on `error` that its agent had ended before: to run the agent again would not help."""
    _attributes_dict(error)[_AT_BOUNDARY] = True


def arose_at_boundary(error: BaseException) -> bool:
    """Return whether `error` arose after its agent had ended."""
    return getattr(error, _AT_BOUNDARY, False)


def join_failures(error: BaseException, errors: Sequence[BaseException]) -> None:
    """Write the failures of several errors, in order, on the one that is raised for all."""
    _attributes_dict(error)[_KEY] = [failure for each in errors for failure in failures(each)]


def attach_failures(error: BaseException, marks: Sequence[Failure]) -> None:
    """Write failures on `error`, for `failures` to return."""
    _attributes_dict(error)[_KEY] = list(marks)


def failures(error: BaseException) -> list[Failure]:
    """Return the failures that `error` is raised for."""
    marks: list[Failure] = _attributes_dict(error).get(_KEY, [])
    return marks


def is_fatal(error: BaseException) -> bool:
    """Return whether a failure ends the run whatever `on_error` says, retries and handlers included.

    It is not an `Exception`, or it belongs to the run and is not attributed to an agent; or it is that
    of an agent around who could handle it.
    """
    return not isinstance(error, Exception) or bool(_attributes_dict(error).get(_OF_RUN))


def mark_of_limited(error: BaseException, inside: frozenset[str] | None) -> None:
    """Write on `error` which agent has reached its limit: none if it is a limit of the run.

    Args:
        error: The error.
        inside: The names of the agent with the limits and of all below it; None for the run.
    """
    _attributes_dict(error)[_OF_RUN] = inside or True


def attach_answer(error: BaseException, asked: object, *, answer: bool) -> None:
    """Write on `error` what was answered about it."""
    _attributes_dict(error).setdefault(_ANSWERS, {})[id(asked)] = answer


def take_answer(error: BaseException, asked: object) -> bool | None:
    """Return the answer about `error`, once; None if there is none."""
    answers: dict[int, bool] = _attributes_dict(error).get(_ANSWERS, {})
    answer = answers.pop(id(asked), None)
    if not answers:
        _attributes_dict(error).pop(_ANSWERS, None)
    return answer


def mark_of_run(error: BaseException) -> None:
    """Write on `error` that it is the run's, so that nothing in the tree handles it."""
    _attributes_dict(error)[_OF_RUN] = True


def unmark_run(error: BaseException) -> None:
    """Remove that mark where `error` leaves its run: it may fail an agent of another run."""
    _attributes_dict(error).pop(_OF_RUN, None)


def clear_limit_mark(error: BaseException, outer: str) -> None:
    """Remove that mark where `error` leaves the agent with the limits: from here on it is a failure.

    Args:
        error: The error, as it leaves a lane.
        outer: The name of the agent that runs the lane.
    """
    inside = _attributes_dict(error).get(_OF_RUN)
    if isinstance(inside, frozenset) and outer not in inside:
        unmark_run(error)


def _attributes_dict(error: BaseException) -> dict[str, Any]:
    attributes: dict[str, object] = object.__getattribute__(error, "__dict__")
    return attributes


def _can_travel(error: Exception) -> bool:
    try:
        repr(error).encode()
        error.__traceback__ = error.__traceback__
        error.__notes__ = getattr(error, "__notes__", [])
    except Exception:
        return False
    return True


def _savable_error(error: Exception, address: str) -> AgentGraphError:
    stand_in = AgentGraphError(
        f"{address}: {shown_error(error)} was raised, which cannot be saved; raise an "
        "exception that has a repr and takes attributes"
    )
    stand_in.__cause__ = error
    return stand_in


def each_once(asked: Iterable[Any]) -> list[Any]:
    """Return questions, each once: every enclosing node reports them again."""
    return list({one.id: one for one in asked}.values())


def add_concurrent_questions(error: BaseException, asked: Sequence[object]) -> None:
    """Write on `error` the questions asked at the same time, which nothing else reports."""
    _attributes_dict(error)[_ASKED] = list(asked)


def concurrent_questions(error: BaseException) -> list[object]:
    """Return the questions that were asked at the same time as the failure."""
    questions: list[object] = _attributes_dict(error).get(_ASKED, [])
    return questions


def raise_together(failed: Sequence[BaseException], questions: Sequence[object]) -> NoReturn:
    """Raise the first of several errors for all, with the questions asked at the same time."""
    join_failures(failed[0], failed)
    beside = [asked for error in failed for asked in concurrent_questions(error)]
    add_concurrent_questions(failed[0], each_once([*beside, *questions]))
    raise failed[0]


class ErrorData(TypedDict):
    """An exception as plain data."""

    classes: list[list[str]]
    """The module and the name of its class, and of each base that is an `Exception`."""
    args: list[object]
    attributes: dict[str, object]
    said: str
    """Its text."""
    failures: list[list[str]]
    """The `Failure`s that it is raised for."""


def as_data(error: Exception) -> ErrorData:
    """Return an exception as plain data: its classes, arguments, attributes and where it was raised."""
    classes = [each for each in type(error).__mro__ if issubclass(each, Exception)]
    attributes = {name: value for name, value in _attributes(error) if _is_plain(value)}
    return {
        "classes": [[each.__module__, each.__qualname__] for each in classes],
        "args": list(error.args) if all(map(_is_plain, error.args)) else [error_text(error)],
        "attributes": attributes,
        "said": error_text(error),
        "failures": [list(each) for each in failures(error)],
    }


def from_data(data: ErrorData) -> Exception:
    """Rebuild an exception from what `as_data` returned.

    >>> error = from_data(as_data(ConnectionError("down")))
    >>> isinstance(error, OSError), error
    (True, ConnectionError('down'))
    """
    error = _rebuilt(data)
    for name, value in data["attributes"].items():
        object.__getattribute__(error, "__dict__")[name] = value
    attach_failures(error, [Failure(*each) for each in data["failures"]])
    return error


def _rebuilt(data: ErrorData) -> Exception:
    kind = _kind(data["classes"])
    try:
        error = kind.__new__(kind, *data["args"])
        error.args = tuple(data["args"])
        str(error)
    except Exception:  # its constructor takes other arguments than `args`
        error = _named(data["classes"][0], Exception)(data["said"])
    return error


def _kind(classes: list[list[str]]) -> type[Exception]:
    base = next(filter(None, (_loaded(*each) for each in classes)), Exception)
    module, name = classes[0]
    is_first = [base.__module__, base.__qualname__] == [module, name]
    return base if is_first else _named(classes[0], base)


def _named(first: list[str], base: type[Exception]) -> type[Exception]:
    module, name = first
    return type(name.rpartition(".")[2], (base,), {"__module__": module, "__qualname__": name})


def _loaded(module: str, name: str) -> type[Exception] | None:
    try:
        kind = reduce(getattr, name.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        return None
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else None


def _attributes(error: Exception) -> list[tuple[str, object]]:
    attributes = object.__getattribute__(error, "__dict__")
    return [
        (name, value) for name, value in attributes.items() if not name.startswith(("_", "agentgraph_"))
    ]


def _is_plain(value: object) -> bool:
    try:
        return bool(plain(value) == value)
    except (AgentGraphError, RecursionError, UnicodeError):
        return False
