import json
from collections.abc import Sequence

from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


def as_agent(span: ReadableSpan) -> ReadableSpan:
    """Return the span of an agent as one of the kind AGENT, and any other as it is."""
    metadata = json.loads(span.attributes.get("metadata", "{}"))
    if metadata.get("agent_name") != span.name:
        return span
    own = {
        "openinference.span.kind": "AGENT",
        "agent.name": metadata["agent_name"],
        "graph.node.id": metadata["agent_address"],
    }
    return ReadableSpan(
        span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes={**span.attributes, **own},
        events=span.events,
        links=span.links,
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


class AgentSpans(SpanExporter):
    """Hands spans to another exporter, those of agents as spans of the kind AGENT."""

    def __init__(self, exporter: SpanExporter) -> None:
        self.exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self.exporter.export([as_agent(span) for span in spans])

    def shutdown(self) -> None:
        self.exporter.shutdown()


memory, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(AgentSpans(memory)))
LangChainInstrumentor().instrument(tracer_provider=provider)


def price(article: str) -> str:
    """Look up the price of an article."""
    return "4 euros"


model = ScriptedChatModel(responses=[calls(call("price", article="Tea")), "Tea is 4 euros."])
clerk = ag.chat_agent("clerk", model, tools=[price])
ag.Runner(ag.loop("desk", [clerk], max_iterations=1)).invoke("Go.", thread_id="monday")

for span in sorted(memory.get_finished_spans(), key=lambda span: span.start_time):
    known = span.attributes
    where = known.get("graph.node.id", "-")
    print(known["openinference.span.kind"], span.name, where, known["session.id"])
