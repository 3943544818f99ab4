#!/usr/bin/env bash
# Package: langchain-openai 1.7.4 (with langchain-core 1.8.3, openai 3.57.0), use_responses_api=True.
#
# Behaviour: the chunks of one streamed reply have two ids. The first chunk, which is empty, has the
# provider's id of the response; all others have the id of LangChain's run. Their sum, which is the
# message that enters a graph's state, has the first one.
#
# Output seen (the stream is from a server in this script, in OpenAI's form):
#   resp_1 ''
#   lc_run ''
#   lc_run 'Bees '
#   lc_run 'hum.'
#   lc_run ''
#   lc_run ''
#   sum: resp_1 'Bees hum.'
#
# Why a good guess is wrong: with the Chat Completions API all chunks have one id, and front ends join
# chunks to messages by it, also those of LangGraph's stream mode "messages". Here the words are under
# an id that no message ever has, and the message that comes has the id of an empty piece: a client
# shows the text twice, or waits for an end of the first one.
#
# Exits with 1 if the behaviour changes. Opens a port on the loopback address only.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  langchain-openai==1.7.4 langchain-core==1.8.3 openai==3.57.0
cat > "$folder/stream.py" <<'PY'
import json
import threading
from collections.abc import Iterator
from functools import reduce
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import add
from typing import Any

from langchain_openai import ChatOpenAI

RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "gpt-5",
    "status": "in_progress",
    "output": [],
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
}
ITEM = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
USAGE = {
    "input_tokens": 1,
    "output_tokens": 2,
    "total_tokens": 3,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


def events() -> Iterator[dict[str, Any]]:
    """Yield the events of one response, as OpenAI streams them."""
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    yield {"type": "response.created", "response": RESPONSE}
    yield {"type": "response.output_item.added", "output_index": 0, "item": ITEM}
    yield {"type": "response.content_part.added", **at, "part": part}
    for delta in ("Bees ", "hum."):
        yield {"type": "response.output_text.delta", **at, "delta": delta, "logprobs": []}
    yield {"type": "response.output_text.done", **at, "text": "Bees hum.", "logprobs": []}
    item = {**ITEM, "status": "completed", "content": [{**part, "text": "Bees hum."}]}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    ended = {**RESPONSE, "status": "completed", "output": [item], "usage": USAGE}
    yield {"type": "response.completed", "response": ended}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for number, event in enumerate(events()):
            data = json.dumps({**event, "sequence_number": number})
            self.wfile.write(f"event: {event['type']}\ndata: {data}\n\n".encode())

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"
model = ChatOpenAI(model="gpt-5", base_url=url, api_key="none", use_responses_api=True)
chunks = list(model.stream("What do bees do?"))
server.shutdown()
shown = [(str(each.id).partition("--")[0], each.text) for each in chunks]
for chunk_id, text in shown:
    print(chunk_id, repr(text))
whole = reduce(add, chunks)
print(f"sum: {whole.id} {whole.text!r}")
is_same = (
    [each.id for each in chunks if each.text] == [chunks[-1].id] * 2
    and shown[0] == ("resp_1", "")
    and shown[-1][0] == "lc_run"
    and whole.id == "resp_1"
)
raise SystemExit(0 if is_same else "the behaviour has changed")
PY
"$folder/venv/bin/python" "$folder/stream.py"
