"""What LangGraph's v3 streams must contain, so that `translate` can make events of them."""

from typing import Any

from langgraph.stream import StreamTransformer


class EventParts(StreamTransformer):
    """Makes LangGraph stream the parts of which events are made; changes nothing."""

    required_stream_modes = ("updates", "custom", "messages")

    def init(self) -> dict[str, Any]:
        """Return no projections."""
        return {}

    def process(self, event: Any) -> bool:
        """Keep the part."""
        return True
