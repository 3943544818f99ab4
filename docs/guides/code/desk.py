from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


def price(article: str) -> str:
    """Look up the price of an article."""
    return "4 euros"


model = ScriptedChatModel(responses=[calls(call("price", article="Tea")), "Tea is 4 euros."])
clerk = ag.chat_agent("clerk", model, tools=[price])
desk = ag.loop("desk", [clerk], max_iterations=1)

memory, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(memory))


def show(*keys: str) -> None:
    """Print the finished spans, each inside its parent, with some of their attributes."""
    depths: dict[int, int] = {}
    for span in sorted(memory.get_finished_spans(), key=lambda span: span.start_time):
        depth = depths.get(span.parent.span_id, 0) if span.parent else 0
        depths[span.context.span_id] = depth + 1
        known = [str(span.attributes[key]).strip('"') for key in keys if key in span.attributes]
        print("  " * depth + " ".join([span.name, *known]))
