"""What `stream_events(version="v3")` must ask LangGraph for, so that `translate` can make events of it."""

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
