"""Every error that agentgraph raises: each text names the place, the fault and the remedy."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from agentgraph.safe_repr import nearest, shown


class AgentGraphError(Exception):
    """The root of all errors of this library; each can be pickled, with its data."""

    @property
    def http_status(self) -> int:
        """The HTTP status for a web handler that answers a call with this error.

        404 if a thread or an address is unknown, 409 if the thread is in another state, 422 if an
        argument does not fit, 500 if the tree has faults, 503 if the database fails.
        """
        return next((status for kind, status in _STATUSES.items() if isinstance(self, kind)), 422)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(
    kind: type[AgentGraphError], args: tuple[object, ...], data: dict[str, object]
) -> AgentGraphError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(data)
    return error


def pip_install(extra: str) -> str:
    """Return the command that installs an extra of this library.

    >>> pip_install("cli")
    "pip install 'langgraph-agentgraph[cli]'"
    """
    return f"pip install 'langgraph-agentgraph[{extra}]'"


class InvalidAgentError(AgentGraphError):
    """A tree of agents that cannot be compiled, or run; raised before anything runs.

    ```
    report/refine: a loop needs at least one sub-agent
    ```

    A tree compiles without the keys and packages of the models that its agents name. A run raises this
    error if LangChain cannot create one of these models.

    Attributes:
        faults: Every fault of the tree, each as `where: what is wrong and what to do`.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(_listed(self.faults))


class InvalidSkillError(AgentGraphError):
    """A skill file that cannot be loaded; raised by `load`.

    Attributes:
        faults: Every fault of the file, each as `skill.yaml:12: what is wrong and what to do`.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(_listed(self.faults))


def _listed(faults: tuple[str, ...]) -> str:
    if len(faults) == 1:
        return faults[0]
    return f"{len(faults)} faults:" + "".join(f"\n- {fault}" for fault in faults)


class InvalidOutputError(AgentGraphError):
    """An agent, its model, or one of its tools returned something that it must not return.

    - A function or a tool returned a value that is neither a message nor a signal, or a signal that its
      return annotation does not name.
    - A model returned something other than a message, or only replies that do not fit `output_schema`.
    - A summarizing model returned no text, or `model_input` something other than a list of messages.
    - A model called an unknown tool, with `unknown_tool="raise"`.
    - A LangGraph graph that runs in an agent ended with a `Command` for its parent graph.
    """


class MissingValueError(AgentGraphError, KeyError):
    """A template, `ctx.values[...]` or an option names a value that the run does not have.

    A template is filled before a model or a person is asked. `resume(thread_id, values={...})`
    continues with the value.

    Attributes:
        agent_name: The agent whose template or function it is.
        placeholder: The name of the missing value; in a template, the name in braces.
        available: The names of the values that the run has, sorted.
        address: The address of the activation; empty for a template.
    """

    def __init__(
        self,
        agent_name: str,
        placeholder: str,
        available: Iterable[str],
        address: str = "",
        option: str = "",
    ) -> None:
        self.agent_name, self.placeholder, self.address = agent_name, placeholder, address
        self.available = tuple(sorted(available))
        near = nearest(placeholder, self.available)
        meant = f"; did you mean {near!r}?" if near else ""
        there = f"(available: {', '.join(self.available) or 'none'}{meant})"
        if option:
            super().__init__(
                f"{address}: {option} names the value {placeholder!r}, which is not in the run "
                f"{there}; pass it with values=, or let an earlier agent write it"
            )
        elif address:
            super().__init__(
                f"{address}: ctx.values has no {placeholder!r} {there}; pass it with values=, or read "
                f"it with ctx.values.get({placeholder!r}) if it may be missing"
            )
        else:
            super().__init__(
                f"{agent_name}: the template names {{{placeholder}}}, but the run has no value of that "
                f"name {there}; pass it with values=, or write {{{placeholder}?}} if it may be missing"
            )

    __str__ = Exception.__str__  # a `KeyError` shows the `repr` of its text


class MaxIterationsError(AgentGraphError):
    """A chat agent reached its `max_iterations`, the limit of its model calls in one activation.

    A loop that reaches its `max_iterations` ends without an error.
    """


class SeveralWaysError(AgentGraphError):
    """A flattened graph continued at several nodes in parallel.

    Attributes:
        agent_name: The graph agent.
        nodes: The nodes at which the graph continued.
    """

    def __init__(self, agent_name: str, address: str, nodes: Sequence[str]) -> None:
        there = " and ".join(map(repr, nodes))
        super().__init__(
            f"{address}: the graph continues at {there} in parallel, which a flattened graph cannot "
            f"do; pass flat=False to graph_agent({agent_name!r}, ...)"
        )
        self.agent_name, self.nodes = agent_name, tuple(nodes)


class LimitError(AgentGraphError):
    """A turn, or an agent in it, reached one of its `Limits`; raised before the limit is exceeded.

    `resume` with higher limits continues there, and nothing runs again.

    Attributes:
        agent_name: The agent that reached it.
        address: The address of that agent.
        limit: The name of the limit, such as "transfers".
        value: The limit, with the amounts by which a person extended it; of a cost a `Decimal`.
        limited: The name of the agent whose `limits=` it is; None for a limit of the run.
    """

    def __init__(
        self,
        agent_name: str,
        address: str,
        limit: str,
        value: float | Decimal,
        limited: str | None = None,
    ) -> None:
        self.agent_name, self.address = agent_name, address
        self.limit, self.value, self.limited = limit, value, limited
        twice = _number(2 * value)
        higher = (
            f"Limits({limit}=Decimal({twice!r}))" if limit == "cost" else f"Limits({limit}={twice})"
        )
        instead = f"limits={higher} of {limited!r}" if limited else f"higher limits, such as {higher}"
        super().__init__(f"{address}: {self.reached}; if that is not enough, resume with {instead}")

    @property
    def reached(self) -> str:
        """The limit that was reached, and the agent that reached it, as a sentence."""
        whose = f" of {self.limited!r}" if self.limited else ""
        which = f"Limits.{self.limit}{whose}, which is {_number(self.value)} for a turn"
        return f"the agent {self.agent_name!r} reached {which}"


def _number(value: float | Decimal) -> str:
    if value == int(value):
        return str(int(value))
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


class CheckFailedError(AgentGraphError):
    """The output of an agent did not pass its check in any of its attempts.

    The check belongs to `validated`, or to the plan of a `plan_execute`. A resume runs the check again;
    if the output still does not pass, the agent has one more attempt.
    """


class StepFailedError(AgentGraphError):
    """A step of a workflow failed, and so did the workflow; the message has the step's error.

    If any step has a `compensate`, the failure is final, and every resume raises it again. Otherwise
    the exception of the step is the `__cause__`, and a resume runs the step again.

    Attributes:
        workflow: The address of the workflow.
        step: The name of the step.
        undone: The names of the steps that were undone, in the order of undoing.
        not_undone: The error of each step that could not be undone, by the step's name.
    """

    def __init__(
        self,
        workflow: str,
        step: str,
        error: str,
        *,
        undone: Sequence[str] | None = None,
        not_undone: Mapping[str, str] | None = None,
    ) -> None:
        self.workflow, self.step = workflow, step
        self.undone, self.not_undone = tuple(undone or ()), dict(not_undone or {})
        parts = [f"{workflow}: the step {shown(step)} failed: {error}"]
        if undone is None:
            parts.append("resume the thread to retry it; finished steps do not run again")
        else:
            parts.append(f"undone: {', '.join(self.undone) or 'nothing'}")
        for name, why in self.not_undone.items():
            parts.append(f"undoing {shown(name)} failed: {why}; resume the thread to retry that")
        super().__init__("; ".join(parts))


class NoneAcceptedError(AgentGraphError):
    """A parallel agent with `accept=` accepted no reply of a branch.

    A resume runs only the branches that failed again; a rewind to the agent runs all of them.

    Attributes:
        address: The address of the parallel agent.
        replies: The `Reply` of each branch that was not accepted, by its name.
        errors: The error of each branch that failed, by its name.
    """

    def __init__(self, address: str, replies: Mapping[str, str], errors: Mapping[str, str]) -> None:
        self.address, self.replies, self.errors = address, dict(replies), dict(errors)
        parts = [f"{name} replied {shown(str(reply))}" for name, reply in replies.items()]
        parts += [f"{name} failed: {error}" for name, error in errors.items()]
        again = "resume to run what failed again, or rewind" if errors else "rewind"
        super().__init__(
            f"{address}: accept= accepted no reply ({', '.join(parts)}); change accept= or the "
            f"branches, then {again} to {shown(address)}"
        )


class QuestionTimeoutError(AgentGraphError):
    """A question with a `timeout` and without a `default` was not answered in time.

    It is a failure of the agent that asked: retries and `on_error` apply, and a resume asks again, with
    a new deadline.

    Attributes:
        address: The address of the agent.
        deadline: When the time was over, in seconds since 1970.
    """

    def __init__(self, address: str, timeout: float, deadline: float, date: str) -> None:
        self.address, self.deadline = address, deadline
        seconds = f"{_number(timeout)} second{'s' * (timeout != 1)}"
        super().__init__(
            f"{address}: the question was not answered within {seconds}, by {date}; resume the thread "
            "to ask again, or give the question a default="
        )


class ValueConflictError(AgentGraphError):
    """Two agents that ran concurrently wrote different values under one name without a reducer.

    Two LangGraph `Overwrite`s under a name with a reducer conflict in the same manner. The agent that
    joins the two raises the error when all have ended. Nothing runs again: the thread continues with a
    runner that declares the name, or with `resume(thread_id, values={name: ...})`.

    Attributes:
        where: The address of the agent that joins them.
        name: The name of the value.
        writers: The addresses of the two agents that wrote it.
        values: The two values, each as a short `repr`.
        names: All names with such a conflict, this one first.
    """

    def __init__(
        self,
        where: str,
        names: Sequence[str],
        written: Sequence[tuple[str, str]],
        labels: Sequence[str] = ("", ""),
        has_reducer: bool = False,
        reducer: str = "list, operator.add",
    ) -> None:
        self.where, self.name, self.names = where, names[0], tuple(names)
        self.writers = tuple(by for by, _ in written)
        self.values = tuple(shown for _, shown in written)
        one, other = (
            f"{by} {label and f'({label}) '}wrote {shown}"
            for (by, shown), label in zip(written, labels, strict=True)
        )
        more = ", ".join(map(repr, self.names[1:]))
        advice = (
            "let only one of them write an Overwrite, and the others values that its reducer accepts"
            if has_reducer
            else "declare a reducer for it and pass values=Values, as in class Values(TypedDict): "
            f"{self.name}: Annotated[{reducer}]"
        )
        super().__init__(
            f"{where}: {one} and {other} as the value {self.name!r} while they ran concurrently"
            f"{f' (the same holds for {more})' if more else ''}; {advice}; or choose a value with "
            f"resume(thread_id, values={{{self.name!r}: ...}})"
        )


class ReducerError(AgentGraphError):
    """A reducer that `values=` declares failed on a new value; nothing of that write is saved.

    Attributes:
        name: The name of the value.
        value: The value that was written, as a short `repr`.
        error: The exception of the reducer, as a short `repr`.
        where: The address of the agent that wrote it; empty if no agent did.
    """

    def __init__(self, name: str, value: str, error: str, where: str = "") -> None:
        self.name, self.value, self.error, self.where = name, value, error, where
        super().__init__(
            f"{where and f'{where}: '}the reducer of the value {name!r} failed on {value}: {error}; "
            "write a value that it accepts, or declare another reducer"
        )


class LangChainChangedError(AgentGraphError):
    """The installed LangChain builds its agents in a form that this library does not know.

    Attributes:
        version: The version of langchain that is installed.
        part: The part that is missing from LangChain's agent, or differs there.
    """

    def __init__(self, version: str, part: str) -> None:
        self.version, self.part = version, part
        super().__init__(
            f"langchain {version}: its agents have no {part}, or another kind of it; install "
            "langchain>=1.4.7,<1.5, or a newer agentgraph"
        )


class LangGraphChangedError(AgentGraphError):
    """The installed LangGraph identifies the tasks of a step in a form unknown to this library.

    A thread cannot go back to a task inside that step, but it can go back to the step itself.

    Attributes:
        version: The version of langgraph that is installed.
        node: The node of the step.
    """

    def __init__(self, version: str, node: str) -> None:
        self.version, self.node = version, node
        super().__init__(
            f"langgraph {version}: the tasks of {node} have ids that this agentgraph cannot compute; "
            "go back to an address outside of it, or install langgraph>=1.2.20,<1.3"
        )


class RemoteRunError(AgentGraphError):
    """A run on a LangGraph server failed; raised by `translate` and `atranslate`.

    Attributes:
        error: The server's report: the type of the error under "error", its text under "message".
    """

    def __init__(self, error: dict[str, Any]) -> None:
        self.error = error
        name, message = error.get("error", "error"), error.get("message", "")
        super().__init__(
            f"the run failed on the server with {name}: {message}; see the log of the server, then "
            "resume the thread"
        )


class CassetteError(AgentGraphError):
    """A cassette cannot be read or written, or has no answer to a call; see `testing.recorded`.

    An error that ends a run is not attributed to an agent: no agent collects it, retries it, or shows
    it to a model. A resume makes the call again.

    Attributes:
        path: The file.
        address: The address of the call, such as `report/refine[1]/critic`; None if the file itself
            is at fault.
    """

    def __init__(self, message: str, path: str, address: str | None = None) -> None:
        self.path, self.address = path, address
        super().__init__(message)


class SaverError(AgentGraphError):
    """The checkpointer failed: a file cannot be opened, read or written, or a database is unreachable.

    It is also raised by a run that has lost its lock on a thread in PostgreSQL and must not save more.

    Earlier checkpoints are unchanged. The checkpointer's own error is the `__cause__`. A run in which
    the checkpointer fails ends with this error. The error is not attributed to an agent: it causes no
    event, compensation or retry, and no agent collects it or shows it to a model. A resume continues as
    after a kill.

    Attributes:
        thread_id: The thread that was read or run, if there was one.
        path: The file of the checkpointer, if it is known.
    """

    def __init__(self, message: str, *, thread_id: str | None = None, path: str | None = None) -> None:
        self.thread_id, self.path = thread_id, path
        super().__init__(message)


class UnfitSaverError(SaverError):
    """The checkpointer does not keep what runs rely on: questions, or the results of branches.

    It is raised when a `Runner` is made, if the version of the checkpointer is known to lose them, and
    otherwise by the first run whose question or result does not come back. See
    `agentgraph.testing.check_saver`. `Runner(..., unfit="warn")` continues with a warning.

    Attributes:
        saver: The full name of the class.
        package: The name of its package, and the version; None if it is in none.
        missing: The names of what it loses.
        works: The names of what still works.
    """

    def __init__(
        self,
        message: str,
        *,
        saver: str,
        package: tuple[str, str] | None = None,
        missing: "Sequence[str]" = (),
        works: "Sequence[str]" = (),
    ) -> None:
        self.saver, self.package = saver, package
        self.missing, self.works = list(missing), list(works)
        super().__init__(message)


class ThreadError(AgentGraphError):
    """The state of a thread does not allow the call; raised before anything runs.

    Attributes:
        thread_id: The thread.
    """

    def __init__(self, message: str, thread_id: str) -> None:
        self.thread_id = thread_id
        super().__init__(message)


class UnknownThreadError(ThreadError):
    """The checkpointer does not have the thread: another file, another name, or it never ran."""


class ThreadBusyError(ThreadError):
    """Another run is active on the thread, perhaps in another process that shares the database."""


class PendingInterruptError(ThreadError):
    """New input for a thread that waits for answers; answer them, or pass `drop_pending=True`."""


class TurnOpenError(ThreadError):
    """`advance` with a new turn, and the last turn of the thread has stopped or failed."""


class TurnFailedError(ThreadError):
    """The last run of a turn failed, and this call did not run it: `advance` waited for that run.

    Attributes:
        address: The address of the agent that failed.
        error: Its exception, as a short `repr`.
    """

    def __init__(self, thread_id: str, address: str, error: str) -> None:
        self.address, self.error = address, error
        super().__init__(
            f"thread {shown(thread_id)}: {address} failed: {error}; call advance() once more to run it "
            "again, or resume()",
            thread_id,
        )


class UnknownInterruptError(ThreadError):
    """An answer to a question that is not pending, or one that names no question of several."""


class InvalidAnswerError(ThreadError):
    """An answer that does not fit the question's response schema; the question stays pending."""


class UnknownAddressError(ThreadError):
    """A thread cannot go back to an address, or to a step, that it has not reached."""


class TreeChangedError(ThreadError):
    """The thread last ran with a tree of another shape, and cannot continue with this one.

    Attributes:
        difference: The outlines of the two trees as a unified diff.
    """

    def __init__(self, message: str, thread_id: str, difference: str) -> None:
        self.difference = difference
        super().__init__(f"{message}\n{difference}", thread_id)


_STATUSES: dict[type[AgentGraphError], int] = {
    UnknownThreadError: 404,
    UnknownAddressError: 404,
    InvalidAnswerError: 422,
    ThreadError: 409,
    SaverError: 503,
    InvalidAgentError: 500,
    InvalidSkillError: 500,
}
"""The HTTP statuses of errors, by class: the first class that fits counts."""
