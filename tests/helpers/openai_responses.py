"""OpenAI's Responses protocol for `openai_server`: models that search the web on the server.

A chat model that is given a tool of OpenAI's own, such as `{"type": "web_search"}`, posts to
`/v1/responses`. Each answer here has a search and then a text that cites what it found.
"""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

Body = dict[str, Any]

PATH = "/v1/responses"
KNOWN = {"input", "model", "parallel_tool_calls", "stream", "tool_choice", "tools"}
_PARTS = {"input_text", "input_image", "output_text", "refusal"}
_ITEMS = {"message", "function_call", "function_call_output", "web_search_call"}


def fault(body: Body) -> str | None:
    """Return the fault of a request."""
    if unknown := sorted(body.keys() - KNOWN):
        return f"this server does not know {', '.join(unknown)}; it knows {', '.join(sorted(KNOWN))}"
    for item in body["input"]:
        if item.get("type", "message") not in _ITEMS:
            return f"the item {item!r} of the input is of no known type"
        content = item.get("content", "")
        if isinstance(content, list) and any(part.get("type") not in _PARTS for part in content):
            return f"the content of {item!r} has parts of no known type"
    return None


def response(body: Body, text: str) -> Body:
    """Return the whole response: a search, and a text with a citation."""
    search = {
        "id": f"ws_{uuid4().hex}",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "bees"},
    }
    message = {
        "id": f"msg_{uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": [_citation(text)]}],
    }
    return {**_begun(body), "status": "completed", "output": [search, message], "usage": _usage(text)}


def events(body: Body, text: str) -> Iterator[Body]:
    """Yield the events of the streamed response."""
    whole = response(body, text)
    search, message = whole["output"]
    yield {"type": "response.created", "response": {**_begun(body), "id": whole["id"]}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": search}
    yield {"type": "response.output_item.done", "output_index": 0, "item": search}
    empty = {**message, "status": "in_progress", "content": []}
    yield {"type": "response.output_item.added", "output_index": 1, "item": empty}
    at = {"item_id": message["id"], "output_index": 1, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    yield {"type": "response.content_part.added", **at, "part": part}
    for piece in text.splitlines(keepends=True):
        yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
    yield {
        "type": "response.output_text.annotation.added",
        **at,
        "annotation_index": 0,
        "annotation": _citation(text),
    }
    yield {"type": "response.output_text.done", **at, "text": text, "logprobs": []}
    yield {"type": "response.output_item.done", "output_index": 1, "item": message}
    yield {"type": "response.completed", "response": whole}


def _begun(body: Body) -> Body:
    return {
        "id": f"resp_{uuid4().hex}",
        "object": "response",
        "created_at": 0,
        "status": "in_progress",
        "model": body["model"],
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body["tools"],
    }


def _citation(text: str) -> Body:
    where = {"start_index": 0, "end_index": len(text)}
    return {"type": "url_citation", "url": "https://bees.example", "title": "Bees", **where}


def _usage(text: str) -> Body:
    new = len(text.split())
    return {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": new,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 1 + new,
    }
