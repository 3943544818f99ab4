"""Plans: parsed from a planner's reply, checked, executed, and stored as values of the run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from agentgraph.agents.dependencies import dependency_faults, in_order
from agentgraph.agents.entries import Item
from agentgraph.agents.schemas import read_json
from agentgraph.agents.signals import Ask, CheckResult, Kept, KeptValues, SetValues, Values
from agentgraph.safe_repr import error_text, shown

if TYPE_CHECKING:
    from agentgraph.agents.context import Context, KeepingContext

Data = dict[str, Any]
"""A JSON object."""

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
        task: The task.
        depends_on: The names of the steps that must finish first.
    """

    name: str
    task: str
    depends_on: tuple[str, ...] = ()

    def as_data(self) -> Data:
        """Return the step as plain data."""
        return {"name": self.name, "task": self.task, "depends_on": list(self.depends_on)}


def read_plan(plan: object, done: Sequence[str] = ()) -> list[PlanStep]:
    r"""Parse a plan from text or plain data to its steps, each after its dependencies.

    A plan is JSON, a list of steps or `{"steps": [...]}`, or a numbered list in plain text. A step is a
    text, or `{"name": ..., "task": ..., "depends_on": [...]}`; it may depend on steps that are `done`.

    >>> [step.task for step in read_plan("1. Find sources\n2. Write")]
    ['Find sources', 'Write']

    Raises:
        ValueError: It is not a valid plan; the message has the reason.
    """
    items = _items(plan)
    taken = {*done, *(str(name) for item in items if (name := _name(item)) is not None)}
    free = (str(number) for number in count(len(done) + 1) if str(number) not in taken)
    steps = [_step(item, number, free) for number, item in enumerate(items, start=1)]
    if again := [step.name for step in steps if step.name in done]:
        raise ValueError(f"the step {again[0]!r} is done already; name only steps that are left")
    pending = {step.name: [name for name in step.depends_on if name not in done] for step in steps}
    if faults := list(dependency_faults([step.name for step in steps], pending)):
        raise ValueError("; ".join(faults))
    by_name = {step.name: step for step in steps}
    return [by_name[name] for name in in_order(pending)]


def read_reply(reply: object, done: Sequence[str]) -> str | list[PlanStep]:
    """Return the content of a replanner's reply: the answer, or the remaining steps.

    A text that is neither JSON nor a numbered list is the answer itself.

    Raises:
        ValueError: The reply looks like a plan, but is not a valid one.
    """
    try:
        data = read_json(reply) if isinstance(reply, str) else reply
    except ValueError:
        return read_plan(reply, done) if _lines(str(reply)) else str(reply)
    if isinstance(data, Mapping) and (answer := _first(data, _ANSWER)) is not None:
        return str(answer)
    if isinstance(data, list) or (isinstance(data, Mapping) and _first(data, _STEPS) is not None):
        return read_plan(data, done)
    return str(reply)


def as_values(steps: Sequence[PlanStep]) -> list[object]:
    """Return steps in a form that `read_plan` reads: texts, or data if any step has dependencies."""
    if any(step.depends_on for step in steps):
        return [step.as_data() for step in steps]
    return [step.task for step in steps]


def from_data(steps: Sequence[Values]) -> list[PlanStep]:
    """Return the steps for the results of `PlanStep.as_data`."""
    return [PlanStep(each["name"], each["task"], tuple(each["depends_on"])) for each in steps]


def _items(plan: object) -> list[object]:
    data = plan
    if isinstance(plan, str):
        try:
            data = read_json(plan)
        except ValueError:
            data = _lines(plan)
    if isinstance(data, Mapping):
        data = _first(data, _STEPS)
    if not isinstance(data, list):
        raise ValueError('it is not a plan; a plan is JSON such as {"steps": ["...", "..."]}')
    return data


def _lines(text: str) -> list[str] | None:
    """Return the items of a numbered list, or None if any line is not an item."""
    matches = [_LINE.fullmatch(line) for line in text.splitlines() if line.strip()]
    tasks = [match["task"] for match in matches if match]
    return tasks if tasks and len(tasks) == len(matches) else None


def _step(item: object, number: int, free: Iterator[str]) -> PlanStep:
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


def _name(item: object) -> object:
    return _first(item, _NAME) if isinstance(item, Mapping) else None


def _first(data: Values, keys: Sequence[str]) -> object:
    return next((data[key] for key in keys if data.get(key) is not None), None)


ATTEMPTS = 3
"""The maximum number of attempts of a planner to make a valid plan."""


PLAN_VALUES = ("question", "plan", "step", "past_steps", "answer")
"""The names of the values that templates have once there is a plan."""
WORK, RESULTS = "work", "results"
"""The keys of the data of a `plan_execute`: its `Work`, and the results of the parallel steps."""
_LAST_PLAN = "plan"
"""The key of the last plan of any `plan_execute`, shared by all of them: if the value `plan` differs,
an agent wrote it."""


@dataclass(frozen=True, slots=True)
class Work:
    """The progress of a `plan_execute`.

    Attributes:
        question: The user's question.
        left: The remaining steps, each after its dependencies.
        done: The finished steps, each with its result.
        answer: The answer, or None so far.
        rounds: The number of rounds of execution.
    """

    question: str
    left: tuple[PlanStep, ...] = ()
    done: tuple[tuple[PlanStep, str], ...] = ()
    answer: str | None = None
    rounds: int = 0

    @property
    def done_names(self) -> list[str]:
        """The names of the finished steps."""
        return [step.name for step, _ in self.done]

    def best(self) -> str:
        """Return the answer, or else the last result."""
        return self.answer or (self.done[-1][1] if self.done else "")

    def values(self) -> Data:
        """Return the values for templates."""
        plan = as_values(self.left)
        past = [{"step": step.task, "result": result} for step, result in self.done]
        step = self.left[0].task if self.left else ""
        values = {"question": self.question, "plan": plan, "step": step, "past_steps": past}
        return {**values, "answer": self.best()}

    def kept(self, name: str) -> Kept:
        """Return the data of the `plan_execute` with this name, and the shared data."""
        return {name: {WORK: self._as_data()}, "": {_LAST_PLAN: as_values(self.left)}}

    def _as_data(self) -> Data:
        return {
            "question": self.question,
            "left": [step.as_data() for step in self.left],
            "done": [[step.as_data(), result] for step, result in self.done],
            "answer": self.answer,
            "rounds": self.rounds,
        }


def work_of(name: str, ctx: "Context") -> Work:
    """Return the progress of the enclosing `plan_execute` with this name."""
    return work_in(kept_in(ctx, name))


def kept_in(ctx: "Context", name: str) -> Values:
    """Return the data of the enclosing agent with this name; for "" the shared data."""
    return cast("KeepingContext", ctx).kept(name)


def work_in(kept: Values) -> Work:
    """Return the progress of a `plan_execute` from its data."""
    data = kept[WORK]
    done = tuple((from_data([step])[0], result) for step, result in data["done"])
    steps = tuple(from_data(data["left"]))
    return Work(data["question"], steps, done, data["answer"], data["rounds"])


@dataclass(frozen=True, slots=True)
class Planned:
    """Stores the plan when the planner has ended, or runs the planner again with the faults."""

    name: str
    may_be_empty: bool

    def __call__(self, ctx: "Context", messages: Sequence[BaseMessage], attempt: int) -> CheckResult:
        """Store the plan."""
        try:
            given = _text(messages) or _written(ctx)
            steps = read_plan("" if given is None else given)
            if not steps and not self.may_be_empty:
                raise ValueError("it has no steps")
        except ValueError as error:
            return _retry_check(ctx, attempt, error)
        work = Work(_question(ctx), tuple(steps))
        return CheckResult(values=work.values(), kept=work.kept(self.name))


@dataclass(frozen=True, slots=True)
class Executed:
    """Stores the result of the step when the executor has ended."""

    name: str

    def __call__(self, ctx: "Context", messages: Sequence[BaseMessage], attempt: int) -> CheckResult:
        """Store the result."""
        work = work_of(self.name, ctx)
        done = (*work.done, (work.left[0], _text(messages)))
        work = replace(work, left=work.left[1:], done=done, rounds=work.rounds + 1)
        return CheckResult(values=work.values(), kept=work.kept(self.name))


@dataclass(frozen=True, slots=True)
class ExecutedAll:
    """Stores the results of all parallel steps when they are done."""

    name: str

    def __call__(self, ctx: "Context", messages: Sequence[BaseMessage], attempt: int) -> CheckResult:
        """Store the results."""
        work = work_of(self.name, ctx)
        results = kept_in(ctx, self.name)[RESULTS]
        done = (*work.done, *((step, results[step.name]) for step in work.left))
        work = replace(work, left=(), done=done, rounds=work.rounds + 1)
        return CheckResult(values=work.values(), kept=work.kept(self.name))


@dataclass(frozen=True, slots=True)
class Replanned:
    """Stores the answer, or the remaining steps, when the replanner has ended."""

    name: str

    def __call__(self, ctx: "Context", messages: Sequence[BaseMessage], attempt: int) -> CheckResult:
        """Store the answer or the steps; without a message of the replanner, the plan continues."""
        work = work_of(self.name, ctx)
        given = _text(messages) or _written(ctx)
        if given is None:
            return CheckResult()
        try:
            reply = read_reply(given, work.done_names)
        except ValueError as error:
            return _retry_check(ctx, attempt, error)
        if isinstance(reply, str):
            work = replace(work, answer=reply)
        else:
            work = replace(work, left=tuple(reply))
        return CheckResult(values=work.values(), kept=work.kept(self.name))


@dataclass(frozen=True, slots=True)
class Finished:
    """Ends a `plan_execute` with the answer as last message, and an event if steps are left."""

    name: str
    max_iterations: int | None

    def __call__(self, ctx: "Context", messages: Sequence[BaseMessage], attempt: int) -> CheckResult:
        """Emit the best answer, unless the last message is already that answer."""
        work = work_of(self.name, ctx)
        best = work.best()
        answer = (AIMessage(best),) if best and _text(messages) != best else ()
        stopped = work.answer is None and work.left and work.rounds == self.max_iterations
        left = [step.task for step in work.left]
        stop = {"plan_execute": self.name, "ended": "max_iterations", "left": left}
        custom = (stop,) if stopped else ()
        return CheckResult(answer, custom, work.values(), work.kept(self.name))


@dataclass(frozen=True, slots=True)
class IsDone:
    """Ends the loop when an answer exists, or no step is left."""

    name: str

    def __call__(self, ctx: "Context") -> bool:
        """Return whether the loop ends."""
        work = work_of(self.name, ctx)
        return work.answer is not None or not work.left


@dataclass(frozen=True, slots=True)
class Approval:
    """Asks a person to approve the plan: `true` accepts it, a list of steps replaces it."""

    name: str

    def __call__(self, ctx: "Context") -> Ask | SetValues | None:
        """Ask, and ask again if the steps of the answer are not a valid plan."""
        work = work_of(self.name, ctx)
        if not ctx.answered:
            return self._ask(work)
        if ctx.answer is True:
            return None
        try:
            work = replace(work, left=tuple(read_plan(ctx.answer)))
        except ValueError as error:
            return self._ask(work, fault=error_text(error))
        return KeptValues(work.values(), work.kept(self.name))

    def _ask(self, work: Work, **more: str) -> Ask:
        plan = [step.as_data() for step in work.left]
        schema = {"anyOf": [{"const": True}, {"type": "array", "minItems": 1}]}
        return Ask({"question": work.question, "plan": plan, **more}, schema)


@dataclass(frozen=True, slots=True)
class TasksLeft:
    """Returns the items of the parallel steps: the remaining tasks, by the names of their steps."""

    name: str

    def __call__(self, ctx: "Context") -> dict[str, str]:
        """Return the tasks of the remaining steps, by name."""
        return {step.name: step.task for step in work_of(self.name, ctx).left}


@dataclass(frozen=True, slots=True)
class Needs:
    """Returns the remaining dependencies of the step of an item."""

    name: str

    def __call__(self, ctx: "Context") -> list[str]:
        """Return the names of the remaining steps on which the step of an item depends."""
        work = work_of(self.name, ctx)
        return [each for each in _step_of(work, ctx).depends_on if each not in work.done_names]


@dataclass(frozen=True, slots=True)
class Request:
    """Makes the request for the step of an item: its task, and the results of its dependencies."""

    name: str

    def __call__(self, ctx: "Context") -> str:
        """Return the request for the step of an item."""
        work, item = work_of(self.name, ctx), cast(Item, ctx.item)
        step = _step_of(work, ctx)
        done = {each.name: result for each, result in work.done}
        earlier = [f"{each}: {done[each]}" for each in step.depends_on if each in done]
        now = [f"{each}: {item.results[each]}" for each in step.depends_on if each in item.results]
        return "\n\n".join([step.task, *earlier, *now])


def _step_of(work: Work, ctx: "Context") -> PlanStep:
    key = cast(Item, ctx.item).key
    return next(step for step in work.left if step.name == key)


def _written(ctx: "Context") -> object:
    plan = ctx.values.get("plan")
    return None if plan == kept_in(ctx, "").get(_LAST_PLAN) else plan


def _text(messages: Sequence[BaseMessage]) -> str:
    return str(messages[-1].text) if messages else ""


def _question(ctx: "Context") -> str:
    """Return the user's last input: the last consecutive messages that no agent said."""
    texts: list[str] = []
    for entry in reversed(ctx.entries):
        if entry.agent_name is None:
            texts.append(str(entry.message.text))
        elif texts:
            break
    return "\n".join(reversed(texts))


def _retry_check(ctx: "Context", attempt: int, error: ValueError) -> CheckResult:
    failed = f"{ctx.address}: none of its {attempt + 1} plans can be used; the last fault: {error}"
    text = f"This plan cannot be used: {error}. Give the whole plan again, with that put right."
    is_last = attempt + 1 >= ATTEMPTS
    return CheckResult(messages=(HumanMessage(text),), repeats=True, failed=failed if is_last else None)
