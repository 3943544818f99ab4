"""Plans: parsed from a planner's reply, checked, and converted to values of the run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from agentgraph.agents.dependencies import dependency_faults, in_order
from agentgraph.agents.schemas import read_json
from agentgraph.safe_repr import shown

_LINE = re.compile(r"\s*(?:\d+[.)]|[-*•])\s+(?P<task>\S.*)")
_STEPS = ("steps", "plan")
_ANSWER = ("answer", "response", "final_answer")
_TASK = ("task", "step", "description")
_NAME = ("name", "id")
_DEPENDS_ON = ("depends_on", "dependencies")


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A step of a plan.

    Attributes:
        name: The name that other steps depend on; by default a number.
        task: What to do.
        depends_on: The names of the steps that must finish first.
    """

    name: str
    task: str
    depends_on: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return the step as plain data."""
        return {"name": self.name, "task": self.task, "depends_on": list(self.depends_on)}


def read_plan(given: Any, done: Sequence[str] = ()) -> list[PlanStep]:
    r"""Return the steps of a plan given as text or plain data, each after its dependencies.

    A plan is JSON, a list of steps or `{"steps": [...]}`, or a numbered list in plain text. A step is a
    text, or `{"name": ..., "task": ..., "depends_on": [...]}`; it may depend on steps that are `done`.

    >>> [step.task for step in read_plan("1. Find sources\n2. Write")]
    ['Find sources', 'Write']

    Raises:
        ValueError: It is not a valid plan; the message says why.
    """
    items = _items(given)
    taken = {*done, *(str(name) for item in items if (name := _name(item)) is not None)}
    free = (str(number) for number in count(len(done) + 1) if str(number) not in taken)
    steps = [_step(item, number, free) for number, item in enumerate(items, start=1)]
    if again := [step.name for step in steps if step.name in done]:
        raise ValueError(f"the step {again[0]!r} is done already; name only steps that are left")
    left = {step.name: [name for name in step.depends_on if name not in done] for step in steps}
    if faults := list(dependency_faults([step.name for step in steps], left)):
        raise ValueError("; ".join(faults))
    by_name = {step.name: step for step in steps}
    return [by_name[name] for name in in_order(left)]


def read_reply(given: Any, done: Sequence[str]) -> str | list[PlanStep]:
    """Return the content of a replanner's reply: the answer, or the remaining steps.

    A text that is neither JSON nor a numbered list is the answer itself.

    Raises:
        ValueError: The reply looks like a plan, but is not a valid one.
    """
    try:
        data = read_json(given) if isinstance(given, str) else given
    except ValueError:
        return read_plan(given, done) if _lines(given) else str(given)
    if isinstance(data, Mapping) and (answer := _first(data, _ANSWER)) is not None:
        return str(answer)
    if isinstance(data, list) or (isinstance(data, Mapping) and _first(data, _STEPS) is not None):
        return read_plan(data, done)
    return str(given)


def as_values(steps: Sequence[PlanStep]) -> list[Any]:
    """Return steps in a form that `read_plan` reads: texts, or data if any step has dependencies."""
    if any(step.depends_on for step in steps):
        return [step.as_data() for step in steps]
    return [step.task for step in steps]


def from_data(steps: Sequence[Mapping[str, Any]]) -> list[PlanStep]:
    """Return the steps for the results of `PlanStep.as_data`."""
    return [PlanStep(each["name"], each["task"], tuple(each["depends_on"])) for each in steps]


def _items(given: Any) -> list[Any]:
    data = given
    if isinstance(given, str):
        try:
            data = read_json(given)
        except ValueError:
            data = _lines(given)
    if isinstance(data, Mapping):
        data = _first(data, _STEPS)
    if not isinstance(data, list):
        raise ValueError('it is not a plan; a plan is JSON such as {"steps": ["...", "..."]}')
    return data


def _lines(text: str) -> list[str] | None:
    """Return the items of a numbered list, or None if any line is not an item."""
    matches = [_LINE.fullmatch(line) for line in text.splitlines() if line.strip()]
    found = [match["task"] for match in matches if match]
    return found if found and len(found) == len(matches) else None


def _step(item: Any, number: int, free: Iterator[str]) -> PlanStep:
    """Return the step of an item; a step without a name gets an unused number."""
    if isinstance(item, Mapping):
        task, name, before = _first(item, _TASK), _name(item), _first(item, _DEPENDS_ON)
        if task and (before is None or isinstance(before, list)):
            depends_on = tuple(map(str, before or ()))
            return PlanStep(next(free) if name is None else str(name), str(task), depends_on)
    elif isinstance(item, str) and item.strip():
        return PlanStep(next(free), item)
    raise ValueError(
        f"step {number} is {shown(item)}; a step is a text, or "
        '{"name": ..., "task": ..., "depends_on": [...]}'
    )


def _name(item: Any) -> Any:
    return _first(item, _NAME) if isinstance(item, Mapping) else None


def _first(data: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((data[key] for key in keys if data.get(key) is not None), None)
