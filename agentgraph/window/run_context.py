"""The runtime context of a runner as data of the page, which shows a form for it."""

from contextlib import suppress

from pydantic import TypeAdapter

from agentgraph.events.json_forms import JsonObject
from agentgraph.threads.runner import Runner


def context_data(runner: Runner) -> JsonObject | None:
    """Return the JSON schema and the values of a runner's context; None without a schema.

    The schema is empty if its types have none. The values are None if runs have no context, or one
    that JSON cannot represent.
    """
    if (declared := runner.graph.context_schema) is None:
        return None
    schema: JsonObject = {}
    values = None
    with suppress(Exception):  # pydantic's, or one of a property or serializer of the context
        adapter = TypeAdapter(declared)
        if runner.engine.context is not None:
            values = adapter.dump_python(runner.engine.context, mode="json")
        schema = adapter.json_schema()
    return {"schema": schema, "values": values}
