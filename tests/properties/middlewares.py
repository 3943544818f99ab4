"""Specs of middleware built as LangChain's, which note what they are called with."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

import acts
import specs
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelResponse,
    hook_config,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.config import get_config
from langgraph.types import Command, interrupt
from passing import Caller
from record import FailedError, Record, rendered


def _summed(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(old) + Counter(new))


class Counts(AgentState[Any]):
    """The state that the middleware of an agent shares: how often each was called."""

    counts: NotRequired[Annotated[dict[str, int], _summed]]


class Small(AgentMiddleware[Any, Any, Any]):
    """Does what its spec says."""

    state_schema = Counts

    def __init__(self, spec: specs.Middleware, record: Record) -> None:
        super().__init__()
        self.spec, self.record = spec, record

    @property
    def name(self) -> str:
        return self.spec.name

    def hook(self, state: Any, runtime: Any) -> dict[str, Any]:
        self.look("hook", runtime)
        counts, seen = state.get("counts", {}), rendered(state["messages"])
        count, answer = counts.get(self.name, 0), None
        if acts.is_due(self.spec, count):
            self.fail()
            if self.spec.does == "ask":
                answer = interrupt(acts.asks(self.spec))
        given = acts.hook(self.spec, count, seen, answer)
        update: dict[str, Any] = {"counts": {self.name: 1}} if self.spec.counts else {}
        if given.added:
            kind = HumanMessage if given.added[0] == "human" else AIMessage
            update["messages"] = [kind(given.added[1])]
        if given.rewritten:
            update["messages"] = [_with_text(state["messages"][-1], given.rewritten[1])]
        if given.ends:
            update["jump_to"] = "end"
        self.note(counts, seen)
        return update

    def request(self, request: Any) -> Any:
        """Return the request to the model that is made; None where it is answered."""
        self.look("wrap", request.runtime)
        if not self.is_due(request.messages):
            return request
        self.fail()
        if self.spec.does == "answer":
            return None
        if self.spec.does != "remind":
            return request
        reminder = HumanMessage(acts.reminder(self.spec)[1])
        return request.override(messages=[*request.messages, reminder])

    def response(self, request: Any, response: Any) -> Any:
        counts, seen = request.state.get("counts", {}), rendered(request.messages)
        if response is None:
            response = AIMessage(acts.answers(self.spec))
        elif self.spec.does == "rewrite" and self.is_due(request.messages):
            reply = response.result[0]
            new = _with_text(reply, acts.rewritten(self.spec, ("ai", reply.text))[1])
            response.result = [new]
        self.note(counts, seen)
        if not self.spec.counts:
            return response
        if isinstance(response, AIMessage):
            response = ModelResponse([response])
        return ExtendedModelResponse(response, Command(update={"counts": {self.name: 1}}))

    def answer(self, request: Any) -> ToolMessage | None:
        """Return what is given in the place of a tool's result, if anything."""
        self.look("wrap", request.runtime)
        call = _called(request)
        if not acts.is_due_for(self.spec, call):
            return None
        self.fail(call[2])
        if self.spec.does == "ask" and acts.may_ask(call[1]):
            interrupt(acts.asks(self.spec, call))
        if self.spec.does != "answer":
            return None
        return ToolMessage(acts.answers(self.spec), tool_call_id=call[2], name=call[0])

    def result(self, request: Any, given: Any) -> Any:
        """Return the result of a call, after middleware inside, which may have counted."""
        call, state, update = _called(request), request.state, {}
        if isinstance(given, Command):
            update = given.update
            [given] = update["messages"]
        if self.spec.does == "rewrite" and acts.is_due_for(self.spec, call):
            given = _with_text(given, f"{given.text} {acts.by(self.spec)}")
        self.note(state.get("counts", {}), rendered(state["messages"]), call)
        counts = {**update.get("counts", {}), **({self.name: 1} if self.spec.counts else {})}
        return Command(update={"messages": [given], "counts": counts}) if counts else given

    def is_due(self, messages: Any) -> bool:
        return acts.is_due_for(self.spec, rendered(messages))

    def fail(self, more: str = "") -> None:
        """Fail some times in a row where one step is tried again."""
        step = f"{self.name} {get_config()['configurable']['checkpoint_ns']} {more}"
        if self.spec.does == "fail" and self.record.tries(step) <= self.spec.fails:
            raise FailedError(acts.fails(self.spec))

    def look(self, caller: Caller, runtime: Any) -> None:
        self.record.passed.see(caller, runtime.context, runtime.store, get_config())

    def note(self, counts: Mapping[str, int], seen: Any, *more: Any) -> None:
        self.record.notes(acts.note(self.spec, counts, seen, *more))


def middleware(spec: specs.Middleware, record: Record) -> Small:
    """Return a middleware that has its one method, and an async twin where an async run needs it."""
    if spec.place == "wrap_model_call":
        methods: dict[str, Any] = {spec.place: _wrap_model_call, f"a{spec.place}": _awrap_model_call}
    elif spec.place == "wrap_tool_call":
        methods = {spec.place: _wrap_tool_call, f"a{spec.place}": _awrap_tool_call}
    else:
        jumps = hook_config(can_jump_to=["end"] if spec.does == "end" else [])
        twin = {f"a{spec.place}": jumps(_ahook())} if spec.is_async else {}
        methods = {spec.place: jumps(_hook()), **twin}
    return type("Made", (Small,), methods)(spec, record)


def _hook() -> Any:
    def hook(self: Small, state: Any, runtime: Any) -> Any:
        return self.hook(state, runtime)

    return hook


def _ahook() -> Any:
    async def hook(self: Small, state: Any, runtime: Any) -> Any:
        return self.hook(state, runtime)

    return hook


def _wrap_model_call(self: Small, request: Any, handler: Any) -> Any:
    made = self.request(request)
    return self.response(request, None if made is None else handler(made))


async def _awrap_model_call(self: Small, request: Any, handler: Any) -> Any:
    made = self.request(request)
    return self.response(request, None if made is None else await handler(made))


def _wrap_tool_call(self: Small, request: Any, handler: Any) -> Any:
    return self.result(request, self.answer(request) or handler(request))


async def _awrap_tool_call(self: Small, request: Any, handler: Any) -> Any:
    return self.result(request, self.answer(request) or await handler(request))


def _called(request: Any) -> specs.Asked:
    call = request.tool_call
    return call["name"], json.dumps(call["args"]), call["id"]


def _with_text(message: BaseMessage, text: str) -> BaseMessage:
    return message.model_copy(update={"content": text})
