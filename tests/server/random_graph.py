"""A tree that the client of a server describes in the config of its runs, compiled there for each."""

import base64
import pickle
from collections import defaultdict
from dataclasses import fields, is_dataclass, replace
from typing import Any

import specs
from building import build, declared
from langchain_core.runnables import RunnableConfig
from passing import Passed, Run, Tenant
from record import Record

import agentgraph as ag

NOTHING = specs.Function("nothing", "function", ((specs.Call(),),))
RECORDS: dict[str, Record] = defaultdict(Record)
"""What the leaves saw, by the case: the next run of a case goes on with it."""


class Strict(Passed):
    """Fails a function that sees something else than what was passed: a client cannot look."""

    def look(self, caller: Any, ctx: ag.Context) -> None:
        super().look(caller, ctx)
        assert self.wrong == []

    def see(self, caller: Any, context: Any, store: Any, config: Any) -> Run | None:
        run = super().see(caller, context, self.store, config)
        assert self.wrong == []
        return run


def described(spec: specs.Spec) -> str:
    """Return a tree as a text that a config can hold."""
    return base64.b64encode(pickle.dumps(spec)).decode()


def random_graph(config: RunnableConfig) -> Any:
    """Return the graph of the tree that a config describes."""
    given = config.get("configurable", {})
    spec = pickle.loads(base64.b64decode(given.get("tree", described(NOTHING))))
    record = RECORDS[given.get("case", "")]
    passed = record.passed = Strict(given.get("number", -1))
    graph = ag.compile_agent(build(spec, record), values=declared(spec), context_schema=Tenant)
    return graph.with_config(callbacks=[passed])


def hasty(spec: Any) -> Any:
    """Return a tree whose functions do not sleep: a server lets no coroutine block its loop."""
    if isinstance(spec, tuple):
        return tuple(map(hasty, spec))
    if not is_dataclass(spec) or isinstance(spec, type):
        return spec
    own = {field.name: hasty(getattr(spec, field.name)) for field in fields(spec)}
    return replace(spec, **{**own, **({"seconds": 0.0} if "seconds" in own else {})})
