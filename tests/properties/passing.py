"""What a run or resume is given beside its input, and what functions and callbacks saw of it."""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from uuid import UUID

import specs
from langchain_core.callbacks import BaseCallbackHandler
from langgraph.errors import GraphInterrupt
from langgraph.store.base import BaseStore

import agentgraph as ag

BY_RUNNER: Any = {"tags": ["all"], "metadata": {"job": -1}, "configurable": {"call": -1}}
"""The config of a runner, with which that of a call is merged."""
LEAVES = (specs.Chat, specs.Function)


@dataclass(frozen=True)
class Tenant:
    """The runtime context of a call; that of a runner has the number -1."""

    number: int


Caller = Literal["function", "model", "tool", "hook", "inner", "wrap", "border"]
"""What was called, such as a `model_input`, an inner node of a graph, or at a border an `until`."""


ALONE = ("function", "tool", "hook", "inner")
"""What is in a run of its own."""


class Visit(NamedTuple):
    """A call of a function: what it is, and the run of the trace that it was in."""

    caller: Caller
    run: UUID | None


class Run(NamedTuple):
    """A run of the trace: what began, in which other one, and what is known of it."""

    kind: Literal["chain", "model", "tool"]
    name: str
    parent: UUID | None
    tags: list[str]
    metadata: dict[str, Any]

    @property
    def address(self) -> str:
        """The address of the agent."""
        return str(self.metadata.get("agent_address"))

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return str(self.metadata.get("agent_name"))

    @property
    def is_node(self) -> bool:
        """Whether it is that of an agent with a node; the root may be one too."""
        return self.kind == "chain" and any(tag.startswith("graph:step:") for tag in self.tags)

    @property
    def is_hook(self) -> bool:
        """Whether it is that of a hook of middleware."""
        return self.kind == "chain" and ".middleware" in self.name


def around(address: str, chats: Collection[str] = ()) -> str:
    """Return the address of the span around that of an address: of the agent that encloses it.

    A chat agent that has transferred to one of its sub-agents has ended, and is around none.

    Args:
        address: The address.
        chats: The names of the chat agents.

    >>> around("report/refine[1]/critic"), around("report/desk[2]"), around("report/files/read(1)")
    ('report/refine', 'report/desk', 'report/files')
    >>> around("report/desk[2]/files(0)")  # an agent that is called is in the activation that called it
    'report/desk[2]'
    >>> around("report{1}")  # the root's run is the first attempt
    'report'
    >>> around("desk[2]/clerk/files", ["desk", "clerk"])
    'desk'
    """
    outer, _, last = address.rpartition("/")
    if "(" in last and not last.endswith("]"):
        return outer
    outer = address if last.endswith("]") else outer
    names = "|".join(map(re.escape, chats))
    outer = re.sub(rf"(?<![^/])({names})\[\d+\](/({names}))+$", r"\1", outer)
    return re.sub(r"\[\d+\]$", "", outer) or re.sub(r"\{\d+\}$", "", address)


class Passed(BaseCallbackHandler):
    """The context and the config of one call, with a handler that keeps the trace of it.

    Attributes:
        number: The number of the call on its thread.
        runs: The runs of the trace.
        visits: The calls of functions.
        wrong: What functions saw that they should not.
    """

    run_inline = True

    def __init__(self, number: int = 0, store: BaseStore | None = None) -> None:
        self.number, self.store = number, store
        self.runs: dict[UUID, Run] = {}
        self.visits: list[Visit] = []
        self._open: dict[UUID, Run] = {}
        self._cut: set[UUID] = set()
        self.wrong: list[Any] = []

    @property
    def options(self) -> Any:
        """The options of the call."""
        config = {
            "callbacks": [self],
            "tags": [f"call {self.number}"],
            "metadata": {"job": self.number},
            "configurable": {"call": self.number},
        }
        return {"context": Tenant(self.number), "config": config}

    def look(self, caller: Caller, ctx: ag.Context) -> None:
        """Note what a function sees by its context, and where in the trace it is called."""
        run = self.see(caller, ctx.context, ctx.store, ctx.config)
        if run is None:
            return
        if caller == "border":
            fits = run.address.startswith(ctx.address)
        else:
            known = (run.agent, run.address, *map(run.metadata.get, ("run_path", "iteration")))
            fits = known == (ctx.name, ctx.address, str(ctx.run_path), ctx.iteration)
        self.wrong += [] if fits else [(caller, ctx.address, run)]

    def see(self, caller: Caller, context: Any, store: Any, config: Any) -> Run | None:
        """Note what a function sees, and return the run of the trace in which it is called."""
        tags = {tag for tag in config.get("tags", ()) if tag.startswith("call")}
        job = config.get("metadata", {}).get("job")
        seen = (context, tags, job, config["configurable"].get("call"))
        own = (Tenant(self.number), {f"call {self.number}"}, self.number, self.number)
        if seen != own or store is not self.store:
            self.wrong.append((caller, seen, store))
        at = getattr(config["callbacks"], "parent_run_id", None)
        self.visits.append(Visit(caller, at))
        if at not in self.runs:
            self.wrong.append((caller, "is called in no run of the trace"))
        return self.runs.get(at) if at else None

    def check(
        self,
        tree: specs.Spec,
        *,
        cut: bool = False,
        is_answered: bool = False,
        was_killed: bool = False,
    ) -> None:
        """Check that functions saw what was passed, and that the trace has what they did.

        Args:
            tree: The tree.
            cut: Whether the call may have been left, so that nodes began that came to nothing.
            is_answered: Whether questions may have been answered while it ran: then a node runs again
                that waited.
            was_killed: Whether an earlier call may have been killed after results were saved, which a
                node then only collects.
        """
        assert self.wrong == []
        assert sum(run.parent is None for run in self.runs.values()) <= 1
        for run in self.runs.values():
            assert run.parent is None or run.parent in self.runs
            assert (f"call {self.number}" in run.tags, run.metadata["job"]) == (True, self.number)
        alone = [visit.run for visit in self.visits if visit.caller in ALONE]
        assert len(alone) == len(set(alone))
        if not cut:
            once = self._check_runs({spec.name: spec for spec in specs.walk(tree)}, was_killed)
            assert is_answered or set(once.values()) <= {1}

    def _check_runs(self, by_name: dict[str, specs.Spec], was_killed: bool) -> Counter[str]:
        """Check that each run has its visits, that it is in that of the agent around, and has ended.

        Returns:
            How often there is a run of an activation or a composite.
        """
        assert list(self._open.values()) == []
        models = Counter(run.parent for run in self.runs.values() if run.kind == "model")
        assert models == Counter(visit.run for visit in self.visits if visit.caller == "model")
        tools = {key for key, run in self.runs.items() if run.name in ("say", "act")}
        assert tools == {visit.run for visit in self.visits if visit.caller == "tool"}
        visited, once = {visit.run for visit in self.visits}, Counter[str]()
        visited |= {run.parent for run in self.runs.values()}
        chats = [name for name, spec in by_name.items() if isinstance(spec, specs.Chat)]
        called = {run.address for key, run in self.runs.items() if key in visited}
        for key, run in self.runs.items():
            if run.kind != "chain" or run.agent not in by_name or self._is_in_graph(run):
                continue
            if not run.is_hook:
                once[run.address] += 1
            if run.parent is None:
                continue
            assert self.runs[run.parent].address == (
                run.address if run.is_hook else around(run.address, chats)
            )
            spec = by_name[run.agent]
            goes_on = getattr(spec, "sticky", False)  # at a sub-agent
            if isinstance(spec, LEAVES) and key not in self._cut and not (goes_on or was_killed):
                assert key in visited or run.address in called, run
        return once

    def _is_in_graph(self, run: Run) -> bool:
        """Return whether it is a run of LangGraph's inside a graph, which has the agent's address."""
        outer = self.runs[run.parent] if run.parent else None
        return outer is not None and outer.address == run.address and not run.is_hook

    def on_chain_start(self, serialized: Any, inputs: Any, **run: Any) -> None:
        self._begin("chain", run["name"], run)

    def on_chat_model_start(self, serialized: Any, messages: Any, **run: Any) -> None:
        self._begin("model", "", run)

    def on_tool_start(self, serialized: Any, input_str: str, **run: Any) -> None:
        self._begin("tool", serialized["name"], run)

    def _begin(self, kind: Any, name: str, run: Any) -> None:
        made = Run(kind, name, run["parent_run_id"], run["tags"] or [], run["metadata"])
        self.runs[run["run_id"]] = self._open[run["run_id"]] = made

    def _end(self, result: Any, *, run_id: UUID, **_: Any) -> None:
        if self._open.pop(run_id, None) is None:
            self.wrong.append((self.runs.get(run_id), "ends again"))
        waits = isinstance(result, dict) and (not result or "__interrupt__" in result)  # or is stopped
        if waits or (isinstance(result, BaseException) and not isinstance(result, GraphInterrupt)):
            self._cut.add(run_id)

    on_chain_end = on_chain_error = on_llm_end = on_llm_error = on_tool_end = on_tool_error = _end
