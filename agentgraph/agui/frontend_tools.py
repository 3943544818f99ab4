"""The tools of a front end, as tools of chat agents.

The browser runs them, so a call of one is a question: it pauses the run, and the next request has the
result. A run may pause for days, be killed, and continue with a client that offers other tools.
Therefore the message with the call records in its metadata that the front end runs it, and is saved
with the thread.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ag_ui.core import ContentPart, RunAgentInput
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse, ToolCallRequest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.types import Command, interrupt
from pydantic import TypeAdapter, ValidationError

from agentgraph.agents.agents import Middleware
from agentgraph.agui.inputs import blocks
from agentgraph.agui.questions import frontend_question
from agentgraph.safe_repr import as_json

RUN_INPUT = "ag_ui"
"""The key of the run's input in `config["configurable"]`."""
_CALLS = "ag_ui_calls"
"""The key in the `response_metadata` of a message for the names of the front end's tools that it calls;
in threads of earlier versions, for the ids of the calls."""
_PARTS: TypeAdapter[list[ContentPart]] = TypeAdapter(list[ContentPart])

_Request = ModelRequest[Any]
_Response = ModelResponse[Any] | AIMessage | ExtendedModelResponse[Any]
_Returned = ToolMessage | Command[Any]
_Tool = dict[str, Any]


class FrontendTools(AgentMiddleware[Any, Any, Any]):
    """The middleware that `frontend_tools` returns."""

    @property
    def name(self) -> str:
        """The name, different from that of any user's middleware."""
        return "agentgraph.frontend_tools"

    def wrap_model_call(self, request: _Request, handler: Callable[[_Request], _Response]) -> _Response:
        """Offer the front end's tools to the model."""
        tools = _offered(request)
        return _marked(handler(_with(request, tools)), tools) if tools else handler(request)

    async def awrap_model_call(
        self, request: _Request, handler: Callable[[_Request], Awaitable[_Response]]
    ) -> _Response:
        """Offer the front end's tools to the model."""
        tools = _offered(request)
        return _marked(await handler(_with(request, tools)), tools) if tools else await handler(request)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], _Returned]
    ) -> _Returned:
        """Wait for the result of a call of a tool in the front end."""
        return _result(request) if _is_of_frontend(request) else handler(request)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[_Returned]],
    ) -> _Returned:
        """Wait for the result of a call of a tool in the front end."""
        return _result(request) if _is_of_frontend(request) else await handler(request)


def frontend_tools() -> Middleware:
    """Return the middleware with which chat agents may call the tools of the front end.

    In `middleware=` of a chat agent it is for that agent; of a `Runner`, for all. Without it no agent
    gets the tools that a client offers. The tools are those of the current request, after the agent's
    own tools, which take precedence over equal names.

    A call of one pauses the run, and ends AG-UI's run: as a success, whose `pending_tool_call_ids` name
    the call. The client's next request has the result, and the run continues with it. A call
    permanently belongs to the front end, even after a crash, or if the next request no longer offers
    the tool. A next request with a user's message in place of the result abandons the turn.

    ```
    chat = ag.chat_agent("chat", "openai:gpt-5", middleware=[agui.frontend_tools()])
    ```

    Without a client, `runner.resume(thread_id, "the result")` answers it.
    """
    return FrontendTools()


def _offered(request: _Request) -> list[_Tool]:
    """Return the tools of the run's input in OpenAI's form, without tools that the agent has."""
    run_input = get_config().get("configurable", {}).get(RUN_INPUT)
    if not isinstance(run_input, RunAgentInput):
        return []
    own = {_name_of(tool) for tool in request.tools}
    offered = {tool.name: tool for tool in run_input.tools or () if tool.name not in own}
    none = {"type": "object", "properties": {}}
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters or none,
            },
        }
        for tool in offered.values()
    ]


def _name_of(tool: BaseTool | _Tool) -> object:
    return tool.get("function", tool).get("name") if isinstance(tool, dict) else tool.name


def _with(request: _Request, tools: Sequence[_Tool]) -> _Request:
    return request.override(tools=[*request.tools, *tools])


def _marked(response: _Response, tools: Sequence[_Tool]) -> _Response:
    names = {tool["function"]["name"] for tool in tools}
    match response:
        case ExtendedModelResponse():
            _mark(response.model_response.result, names)
        case AIMessage():
            _mark([response], names)
        case _:
            _mark(response.result, names)
    return response


def _mark(messages: Sequence[object], names: set[str]) -> None:
    for message in messages:
        if isinstance(message, AIMessage):
            called = {call["name"] for call in message.tool_calls if call["name"] in names}
            if called:
                message.response_metadata = {**message.response_metadata, _CALLS: sorted(called)}


def _is_of_frontend(request: ToolCallRequest) -> bool:
    name, called = request.tool_call["name"], request.tool_call["id"]
    for message in reversed(request.state["messages"]):
        if isinstance(message, AIMessage) and any(each["id"] == called for each in message.tool_calls):
            known = message.response_metadata.get(_CALLS, ())
            return name in known or called in known
    return False


def _result(request: ToolCallRequest) -> ToolMessage:
    call = request.tool_call
    answer = interrupt(frontend_question(call))
    known = answer if isinstance(answer, dict) and "content" in answer else {"content": answer}
    failed = known.get("error")
    content = _content(known["content"])
    return ToolMessage(
        content=content or str(failed or ""),
        tool_call_id=call["id"],
        name=call["name"],
        id=known.get("id"),
        status="error" if failed else "success",
    )


def _content(content: object) -> str | list[str | dict[str, str]]:
    """Convert the content of a result: AG-UI's parts to LangChain's blocks, other data to JSON."""
    if isinstance(content, str):
        return content
    try:
        return [*blocks(_PARTS.validate_python(content))]
    except ValidationError:
        return as_json(content)
