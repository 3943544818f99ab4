"""Records the answers of models and tools in a run, and plays them in later runs.

The problem: an answer must be found again in any process and among any concurrent calls, so the order
of arrival has no meaning. Middleware must run as before: it may choose another model, retry, or change
the request.

The rule: an answer is stored under the place of its call (turn, address, and the number of the model
call or tool call in that activation, which is in the thread's state), with a hash of the input. The
wraps of the middleware only select the recorder. The recorder records the model and the tool
themselves, inside all middleware.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt, interrupt
from pydantic import ValidationError

from agentgraph.errors import CassetteError
from agentgraph.events.json_forms import as_json, from_json
from agentgraph.graph.chat.agent import steers
from agentgraph.graph.chat.model_call import Asking, message_of
from agentgraph.graph.chat.models import ainvoke, invoke
from agentgraph.graph.chat.tool_call import RUNNING, RunningCall
from agentgraph.graph.failures import as_data, from_data, mark_of_limited
from agentgraph.graph.internals import SCRATCHPAD
from agentgraph.graph.sync_async import Call
from agentgraph.safe_repr import reason
from agentgraph.testing.cassette_files import Entry, Question
from agentgraph.testing.cassettes import Cassette, Mode, Place, checked_mode, is_complete, place_of
from agentgraph.testing.questions import model_question, secrets_of, tool_question
from agentgraph.testing.recorded_replies import (
    ReceivedChunks,
    ReplayedModel,
    chunk_as_json,
    chunk_from_json,
    compact,
    reply_from_json,
)
from agentgraph.testing.tool_results import (
    UnrecordableError,
    is_of_run,
    returned_as_json,
    returned_from_json,
)

T = TypeVar("T")
R = TypeVar("R")

_SHORTEST_SECRET = 12
"""Minimum number of characters of a secret; shorter ones could be words of a reply."""


class Recorded(AgentMiddleware[Any, Any, Any]):
    """LangChain middleware that records or plays the answers of models and tools; see `recorded`."""

    plays_models = True
    """Whether models may be played, which then need no key."""

    def __init__(self, path: str | PathLike[str], cassette_at: "CassetteAt") -> None:
        super().__init__()
        self._path, self._recorder = str(path), Recorder(cassette_at)

    @property
    def name(self) -> str:
        """The name, different from that of any other middleware."""
        return "agentgraph.recorded"

    def wrap_model_call(self, request: T, handler: Callable[[T], R]) -> R:
        """Have the model of the call recorded or played."""
        self._current(Asking.current()).recorder = self._recorder
        return handler(request)

    async def awrap_model_call(self, request: T, handler: Callable[[T], Awaitable[R]]) -> R:
        """Have the model of the call recorded or played."""
        self._current(Asking.current()).recorder = self._recorder
        return await handler(request)

    def wrap_tool_call(self, request: T, handler: Callable[[T], R]) -> R:
        """Have the tool of the call recorded or played."""
        self._current(RUNNING.get(None)).recorder = self._recorder
        return handler(request)

    async def awrap_tool_call(self, request: T, handler: Callable[[T], Awaitable[R]]) -> R:
        """Have the tool of the call recorded or played."""
        self._current(RUNNING.get(None)).recorder = self._recorder
        return await handler(request)

    def with_recorded_decisions(self, middleware: T) -> T:
        """Return other middleware of the same agent, with its decisions recorded or played."""
        if "langchain_core.decisions.base" not in sys.modules:
            return middleware  # then there is no decision model
        from agentgraph.testing.decisions import with_recorded_decisions

        return with_recorded_decisions(middleware, self._recorder)

    def _current(self, call: T | None) -> T:
        """Return the current call; agents outside of trees have no address for a record."""
        if call is None:
            raise CassetteError(
                "recorded() needs the chat agents of a tree; pass it to Runner(middleware=[...]) or "
                "compile_agent(middleware=[...])",
                self._path,
            )
        return call


CassetteAt = Callable[[Place], Cassette]
"""Returns the cassette for a call at a place."""


class Recorder:
    """Calls models and tools and stores their answers, or plays stored answers.

    Attributes:
        cassette_at: Returns the stored answers for a call.
    """

    def __init__(self, cassette_at: CassetteAt) -> None:
        self.cassette_at = cassette_at

    async def model(
        self, asking: Asking, model: object, messages: Sequence[BaseMessage], config: RunnableConfig
    ) -> object:
        """Call a model, or return its recorded reply or raise its recorded exception."""
        number = asking.activation.view.progress.get("model_calls", 0) + asking.replies
        place = place_of(asking.activation, f"model call {number}")
        question, received = model_question(model, messages), ReceivedChunks()
        with _fatal_in(asking):
            is_retry = asking.activation.is_resumed
            entry = self.cassette_at(place).find(place, question, is_retry=is_retry)
        if entry is not None:
            with _fatal_in(asking), self._reading(place):
                played = _replayed(entry)
            self.cassette_at(place).use(place, question)
            return await Call(invoke, ainvoke, (played, messages, config))
        config = {**config, "callbacks": received.added_to(config.get("callbacks"))}
        reply: AIMessage | Exception
        outcome: dict[str, object]
        try:
            replied = await Call(invoke, ainvoke, (model, messages, config))
            reply = message_of(asking.activation, replied)
            outcome = {"reply": compact(reply)}
        except Exception as error:
            if steers(error):
                raise
            reply, outcome = error, {"raised": _raised_as_json(error)}
        if received.chunks:
            outcome["chunks"] = [chunk_as_json(each) for each in received.chunks]
        with _fatal_in(asking):
            await self._record(place, question, _without(outcome, secrets_of(model)))
        return _outcome_or_raise(reply)

    async def tool(
        self, running: RunningCall, tool: BaseTool, call: Any, config: RunnableConfig
    ) -> object:
        """Call a tool, or return its recorded result or raise its recorded exception."""
        place = place_of(running.activation, f"tool call {running.opened.number}")
        question = tool_question(running.tool, running.arguments)
        with _fatal_in(running):
            entry = self.cassette_at(place).find(place, question)
        if entry is not None and "called" not in entry:
            return self._play(running, tool, call, place, question, entry)
        outcome: dict[str, object] = {"call": call["id"]}
        try:
            returned = await Call(tool.invoke, tool.ainvoke, (call, config))
        except GraphInterrupt as paused:
            asked = _number_of_ask(), _ask(paused.args[0][0])
            with _fatal_in(running):
                await _in_thread(self.cassette_at(place).keep_ask, place, question, *asked)
            raise
        except Exception as error:
            if steers(error):
                raise
            returned, outcome["raised"] = error, _raised_as_json(error)
        if entry is not None:
            return _outcome_or_raise(returned)
        with _fatal_in(running):
            if "raised" not in outcome:
                outcome |= self._outcome(place, running, returned)
            await self._record(place, question, outcome)
        return _outcome_or_raise(returned)

    async def decision(
        self, place: Place, question: Question, ask: Call, model: object
    ) -> dict[str, object]:
        """Ask a decision model, or return its recorded answer or raise its recorded exception."""
        with _ending():
            entry = self.cassette_at(place).find(place, question)
        if entry is not None:
            with _ending(), self._reading(place):
                outcome = from_data(from_json(entry["raised"])) if "raised" in entry else None
                answer: dict[str, object] = entry.get("returned", {})
            self.cassette_at(place).use(place, question)
            if outcome is not None:
                raise outcome
            return answer
        try:
            response = await ask
        except Exception as error:
            if not steers(error):
                raised = _without({"raised": _raised_as_json(error)}, secrets_of(model))
                await self._record(place, question, raised)
            raise
        answer = response.model_dump(mode="json")
        with _ending():
            await self._record(place, question, {"returned": answer})
        return answer

    def _record(self, place: Place, question: Question, outcome: dict[str, object]) -> Call:
        return _in_thread(self.cassette_at(place).keep, place, question, outcome)

    def _outcome(self, place: Place, running: RunningCall, returned: object) -> dict[str, object]:
        if is_of_run(returned, running.state):
            return {"called": True}
        try:
            return {"returned": returned_as_json(returned)}
        except UnrecordableError as error:
            raise CassetteError(
                f"{place.address}: the tool {running.tool!r} returned {error}, which a cassette cannot "
                "store; return plain data, for example from model_dump()",
                self.cassette_at(place).path,
                place.address,
            ) from None

    def _play(
        self,
        running: RunningCall,
        tool: Any,
        call: Any,
        place: Place,
        question: Question,
        entry: Entry,
    ) -> object:
        with _fatal_in(running), self._reading(place):
            asks = [{**each, "value": from_json(each["value"])} for each in entry.get("asks", ())]
        for asked in asks:
            interrupt(**asked)
        with _fatal_in(running), self._reading(place):
            if not is_complete(entry):
                raise self.cassette_at(place).missing(place, (), question)
            outcome = _outcome(entry, call["id"])
        self.cassette_at(place).use(place, question)
        if isinstance(outcome, Exception) and type(outcome).__name__ == ValidationError.__name__:
            tool.get_input_schema().model_validate(call["args"])  # LangGraph words it for the model
        return _outcome_or_raise(outcome)

    @contextmanager
    def _reading(self, place: Place) -> Iterator[None]:
        """Convert the exceptions of an entry in a damaged file to an error that names the entry."""
        try:
            yield
        except CassetteError:
            raise
        except Exception as error:
            path = self.cassette_at(place).path
            raise CassetteError(
                f"{place.address}: {path} is damaged at {place.key!r} ({reason(error)}); "
                "fix or delete that entry",
                path,
                place.address,
            ) from error


def recorded(path: str | PathLike[str], mode: Mode = "auto") -> Recorded:
    """Return middleware that records the answers of models and tools, and plays them in later runs.

    It works on all chat agents of a tree. In playback no model and no tool is called: the run takes no
    time, costs nothing, and yields the same events each time. An answer is stored under its turn, the
    address of its agent and the number of the model call or tool call there, with a hash of the input.
    Therefore concurrent calls are not confused, another process may resume a thread, and a rewound
    thread or an edited tree plays every call that did not change. The file has replies with their
    chunks, results of tools (including signals and `Command` objects), their questions to a person, and
    exceptions. An exception is raised as often as it was recorded; on a further retry, "auto" calls.

    The input of a model consists of the messages (without ids), the tools and the schema of the answer.
    Agents as tools are not recorded, but the calls inside them are. Decision models that middleware
    holds (LangChain's auto mode, model router) are recorded. Other models that functions, middleware
    hooks or summaries call are not. Playback still calls a tool that transfers with a
    `Command` or changes messages of the run. Models must be created as usual, but in playback their key
    may be any text. The file has no keys, headers or settings of models, but it has all messages.

    >>> import tempfile
    >>> from agentgraph.testing import ScriptedChatModel
    >>> path = f"{tempfile.mkdtemp()}/bees.json"
    >>> model = ScriptedChatModel(responses=["Bees hum."])
    >>> tree = chat_agent("writer", model)
    >>> Runner(tree, middleware=[recorded(path)]).invoke("Go.").text
    'Bees hum.'
    >>> Runner(tree, middleware=[recorded(path, mode="play")]).invoke("Go.").text, len(model.inputs)
    ('Bees hum.', 1)

    Args:
        path: The file, JSON for a repository; its folder is created. Runs and threads may share it.
        mode: "auto" makes a real call if the file has no answer to this input, and stores the answer.
            "play" makes no real calls: the run ends with a `CassetteError`, which names the address
            and shows the message that differs. "record" makes all calls, and replaces all answers.

    Returns:
        The middleware: for `Runner(tree, middleware=[...])` or `compile_agent(tree, middleware=[...])`.

    Raises:
        CassetteError: The file cannot be read or is not a cassette, or the mode is unknown.
    """
    cassette = Cassette(path, checked_mode(mode, path))
    return Recorded(path, lambda place: cassette)


def recorded_by_thread(folder: str | PathLike[str], files: Mapping[str, str], mode: Mode) -> Recorded:
    """Return middleware that records the answers of each thread in its own file, and plays them.

    Args:
        folder: The folder of the files.
        files: The file of each thread, relative to the folder.
        mode: As in `recorded`.
    """
    known, lock = dict[str, Cassette](), Lock()

    def cassette_at(place: Place) -> Cassette:
        file = files[str(place.thread)]
        with lock:
            if file not in known:
                known[file] = Cassette(Path(folder, file), mode)
            return known[file]

    return Recorded(folder, cassette_at)


@contextmanager
def _ending() -> Iterator[None]:
    """Make an error of the cassette end the run."""
    try:
        yield
    except CassetteError as error:
        mark_of_limited(error, None)
        raise


@contextmanager
def _fatal_in(call: Asking | RunningCall) -> Iterator[None]:
    """Make an error of the cassette end the run: no agent retries it, collects it or reads it."""
    try:
        yield
    except CassetteError as error:
        mark_of_limited(error, None)
        call.fatal = error
        raise


def _in_thread(function: Callable[..., None], *arguments: object) -> Call:
    """Run a function that writes a file in a thread, because it would block the event loop."""
    return Call(function, partial(asyncio.to_thread, function), arguments)


def _outcome_or_raise(outcome: object) -> object:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _replayed(entry: Entry) -> ReplayedModel:
    chunks = [chunk_from_json(each) for each in entry.get("chunks", ())]
    if "raised" in entry:
        return ReplayedModel(raised=from_data(from_json(entry["raised"])), chunks=chunks)
    return ReplayedModel(reply=reply_from_json(entry["reply"]), chunks=chunks)


def _outcome(entry: Entry, call_id: str) -> object:
    if "returned" in entry:
        return returned_from_json(_with_call(entry, call_id))
    return from_data(from_json(entry["raised"]))


def _raised_as_json(error: Exception) -> object:
    return as_json({**as_data(error), "failures": []})


def _without(outcome: dict[str, object], secrets: Iterable[str]) -> dict[str, object]:
    """Remove secrets from an outcome, because texts of errors may repeat them."""
    text = json.dumps(outcome)
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(json.dumps(secret)[1:-1], "***")
    cleaned: dict[str, object] = json.loads(text)
    return cleaned


def _number_of_ask() -> int:
    return len(get_config()["configurable"][SCRATCHPAD].resume)


def _ask(question: Interrupt) -> dict[str, object]:
    schema = getattr(question, "response_schema", None)
    kept = {"response_schema": schema} if isinstance(schema, dict) else {}
    return {"value": as_json(question.value), **kept}


def _with_call(entry: Entry, call_id: str) -> object:
    """Return a recorded result for a call with another id, because models may leave ids random."""
    if entry["call"] == call_id:
        return entry["returned"]
    return _answering(entry["returned"], entry["call"], call_id)


def _answering(form: Any, was: object, call_id: str) -> Any:
    if isinstance(form, list):
        return [_answering(each, was, call_id) for each in form]
    if not isinstance(form, dict):
        return form
    named = {key: _answering(each, was, call_id) for key, each in form.items()}
    return {**named, "tool_call_id": call_id} if form.get("tool_call_id") == was else named
