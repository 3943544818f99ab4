"""The web application over HTTP, without a browser: errors, and the events for a reader."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from helpers.pages import free_port

import agentgraph as ag
from examples.web.app import make_app, newsletter

JSON = {"Content-Type": "application/json"}
talk = ag.sequential(
    "talk",
    [
        ag.function_agent("ann", lambda ctx: "Hi."),
        ag.human("bob", "And you?", response_schema={"type": "integer"}),
        ag.function_agent("cat", lambda ctx: "Bye."),
    ],
)


@asynccontextmanager
async def served(tree: ag.Agent, path: Path) -> AsyncIterator[httpx.AsyncClient]:
    port = free_port()
    config = uvicorn.Config(make_app(tree, path), port=port, ws="none", log_level="warning")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    params = {"thread": "t"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", params=params) as client:
        yield client
    server.should_exit = True
    await serving


async def told(client: httpx.AsyncClient, after: str | None = None) -> list[tuple[str, str, Any]]:
    """Return the events that are streamed: names, ids, and the data."""
    reply = await client.get("/events", headers={"Last-Event-ID": after} if after else {})
    assert (reply.status_code, reply.headers["content-type"].partition(";")[0]) == (
        200,
        "text/event-stream",
    )
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in _blocks(reply.text)]
    assert blocks[0] == {"retry": "1000"}
    return [(each["event"], each.get("id", ""), json.loads(each["data"])) for each in blocks[1:]]


def _blocks(text: str) -> list[str]:
    return [block for block in text.split("\n\n") if block]


def over_http(test: Callable[[httpx.AsyncClient], Awaitable[None]], tree: ag.Agent, path: Path) -> None:
    async def main() -> None:
        async with served(tree, path) as client:
            await test(client)

    asyncio.run(main())


def test_what_is_refused_has_its_status_and_its_text(tmp_path: Path) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        async def refused(path: str, **how: Any) -> tuple[int, str]:
            reply = await client.post(path, **how)
            assert reply.json()["detail"]
            return reply.status_code, reply.json()["error"]

        for path in ("/stop", "/resume", "/answers"):
            assert await refused(path, json={}) == (404, "UnknownThreadError")
        assert await refused("/steer", json={"text": "x"}) == (404, "UnknownThreadError")
        assert (await client.get("/events")).status_code == 404
        assert (await client.get("/thread")).json()["status"] == "new"
        assert (await client.post("/messages", json={"text": "bees"})).status_code == 202
        assert [kind for kind, *_ in await told(client)] == ["interrupted", "end"]
        (question,) = (await client.get("/thread")).json()["pending"]
        assert await refused("/messages", json={"text": "more"}) == (409, "PendingInterruptError")
        odd = {"text": "more", "while_running": "perhaps"}
        assert await refused("/messages", json=odd) == (422, "AgentGraphError")
        assert await refused("/answers", json={question: {"tone": "odd"}}) == (
            422,
            "InvalidAnswerError",
        )
        assert await refused("/answers", json={"0" * 32: 1}) == (409, "UnknownInterruptError")
        assert await refused("/messages", json={"text": " "}) == (422, "HTTPException")
        assert await refused("/stop", json=[]) == (400, "HTTPException")
        assert await refused("/stop", content="{", headers=JSON) == (400, "HTTPException")
        assert await refused("/stop", content="{}") == (415, "HTTPException")
        assert (await client.get("/", headers={"Host": "bees.example"})).status_code == 400

    over_http(test, newsletter, tmp_path / "web.db")


def test_a_turn_runs_again_with_another_text_or_the_same_one(tmp_path: Path) -> None:
    heard: list[str] = []

    def answers(ctx: ag.Context) -> str:
        heard.append(ctx.messages[-1].text)
        return f"{len(heard)} on {heard[-1]}"

    tree = ag.sequential("talk", [ag.function_agent("ann", answers), ag.function_agent("bob", answers)])

    async def test(client: httpx.AsyncClient) -> None:
        async def texts(**body: Any) -> tuple[int, list[list[str]]]:
            reply = await client.post("/messages", json=body)
            await told(client)
            return reply.status_code, (await client.get("/thread")).json()["turns"]

        await texts(text="bees")
        await texts(text="ants")
        assert await texts(text="ants", turn=1) == (202, [["bees"], ["ants"]])
        assert heard[2:] == ["ants", "[ann] said: 3 on ants", "ants", "[ann] said: 5 on ants"]
        assert await texts(text="wasps", turn=0) == (202, [["wasps"]])
        assert heard[-2:] == ["wasps", "[ann] said: 7 on wasps"]
        for odd in (7, "0", [0]):
            assert (await texts(text="wasps", turn=odd))[0] == 422

    over_http(test, tree, tmp_path / "web.db")


def test_a_turn_does_not_run_again_while_a_question_is_open(tmp_path: Path) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await client.post("/messages", json={"text": "bees"})
        await told(client)
        reply = await client.post("/messages", json={"text": "ants", "turn": 0})
        assert (reply.status_code, reply.json()["error"]) == (409, "HTTPException")

    over_http(test, talk, tmp_path / "web.db")


def test_a_reader_gets_the_events_after_the_last_one_that_it_has(tmp_path: Path) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await client.post("/messages", json={"text": "Go."})
        first = await told(client)
        assert [data.get("address") for *_, data in first] == ["talk/ann", "talk/bob", None]
        assert first[-1][2] == {"thread_id": "t", "status": "paused", "error": None}
        ids = [cursor for _, cursor, _ in first[:-1]]
        await client.post("/answers", json={first[1][2]["id"]: 7})
        rest = await told(client, ids[-1])
        assert [data.get("address") for *_, data in rest] == ["talk/bob", "talk/cat", None]
        assert await told(client) == [*first[:-1], *rest]
        assert await told(client, ids[0]) == [first[1], *rest]
        found = (await client.get("/thread")).json()
        assert found == {"status": "done", "turns": [["Go."]], "queued": [], "pending": []}

    over_http(test, talk, tmp_path / "web.db")


@pytest.mark.parametrize("name", ["", "page.css", "page.js", "forms.js", "elements.js"])
def test_the_page_runs_its_own_scripts_only(tmp_path: Path, name: str) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        reply = await client.get(f"/{name}")
        assert reply.status_code == 200
        assert "default-src 'self'" in reply.headers["content-security-policy"]
        assert "unsafe" not in reply.headers["content-security-policy"]
        names = ("http-equiv", "http://www.w3.org/2000/svg")  # nothing is fetched from there
        text = re.sub("|".join(names), "", reply.text)
        assert "http" not in text
        assert "innerHTML" not in reply.text

    over_http(test, talk, tmp_path / "web.db")
